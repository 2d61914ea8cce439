"""An order over which its consumer always fails ends up in a queue of its own; all others are shipped."""

import logging
import sys

import trio

from triomq import QueueHandle, open_broker
from triomq.actors import InPlaceActor


class Shipper(InPlaceActor):
    """Ships orders; one that is no number makes it fail."""

    def __init__(self, orders: QueueHandle) -> None:
        self.orders = orders

    async def run(self) -> None:
        async with self.orders.open_feed(prefetch=1) as feed:
            async for delivery in feed:
                with delivery:
                    print("shipped", int(delivery.body))


async def main() -> None:
    async with open_broker() as broker:
        failed = await broker.declare_queue("failed-orders")
        letters = await broker.declare_sink("dead-letters", "fanout")
        await letters.bind(failed)
        orders = await broker.declare_queue("orders", dead_letter_sink="dead-letters", delivery_limit=1)

        for order in (b"41", b"forty-two", b"43"):
            await broker.publish("", "orders", order)
        await broker.system.start(lambda: Shipper(orders), name="shipper")

        async with failed.open_feed() as feed:
            with await anext(feed) as letter:
                headers = letter.properties.headers or {}
                print("given up", letter.body.decode(), "because of", headers["x-first-death-reason"])


logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s", level=logging.CRITICAL)
trio.run(main)
