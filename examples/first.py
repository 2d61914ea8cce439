"""A broker inside your program: publish, and consume with a plain ``async for``."""

import trio

from triomq import AMQP, open_broker


async def main() -> None:
    async with open_broker(AMQP(port=0)) as broker:
        orders = await broker.declare_queue("orders")
        shop = await broker.declare_sink("shop", "topic")
        await shop.bind(orders, "order.*")

        await broker.publish("shop", "order.new", b"42")

        async with orders.open_feed(prefetch=100) as feed:
            async for delivery in feed:
                with delivery:  # accepts it; requeues it if this block fails or is cancelled
                    print("shipping order", delivery.body.decode())
                break


trio.run(main)
