"""A broker for asyncio: aio-pika publishes through its port, and a plain ``async for`` consumes with no socket."""

import asyncio

from triomq import AMQP, AsyncioBroker, open_asyncio_broker

try:
    import aio_pika
except ImportError:
    raise SystemExit("this example also speaks to the broker as a client would: pip install aio-pika") from None


async def sell(port: int) -> None:
    """Publish as any other program would, by the wire."""
    async with await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{port}") as connection:
        channel = await connection.channel()
        shop = await channel.get_exchange("shop")
        for number in range(3):
            await shop.publish(aio_pika.Message(str(number).encode()), routing_key="order.new")


async def ship(broker: AsyncioBroker) -> None:
    """Consume in the same process."""
    async with broker.queue("orders").open_feed(prefetch=100) as feed:
        async for delivery in feed:
            with delivery:  # accepts it; requeues it if this block fails or is cancelled
                print("shipping order", delivery.body.decode())


async def main() -> None:
    async with open_asyncio_broker(AMQP(port=0)) as broker:
        orders = await broker.declare_queue("orders")
        shop = await broker.declare_sink("shop", "topic")
        await shop.bind(orders, "order.*")

        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            shipping = tasks.create_task(ship(broker))
            await sell(broker.listening[0].port)
            await broker.publish("shop", "order.new", b"by hand")
            await broker.wait_idle()  # all that was sold is shipped
            shipping.cancel()


asyncio.run(main())
