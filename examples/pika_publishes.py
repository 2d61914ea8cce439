"""Another program publishes with pika; this one owns the broker and consumes with a plain ``async for``.

Here the "other program" is a thread, so that the example runs by itself.
"""

import pika
import trio

from triomq import AMQP, open_broker


def publish(url: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for number in range(3):
            channel.basic_publish(exchange="shop", routing_key="order.new", body=str(number).encode())


async def main() -> None:
    async with open_broker() as broker:
        orders = await broker.declare_queue("orders")
        shop = await broker.declare_sink("shop", "topic")
        await shop.bind(orders, "order.*")

        listening = await broker.listen(AMQP(port=0))  # 0: any free port
        url = f"amqp://guest:guest@127.0.0.1:{listening.port}"

        async with trio.open_nursery() as nursery, orders.open_feed(prefetch=100) as feed:
            nursery.start_soon(trio.to_thread.run_sync, publish, url)
            left = 3
            async for delivery in feed:
                with delivery:
                    print("order", delivery.body.decode(), "came by", delivery.key)
                left -= 1
                if not left:
                    break


trio.run(main)
