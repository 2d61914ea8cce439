"""A consumer that its supervisor starts again when it fails; the order over which it failed comes later, marked."""

import logging
import sys

import trio

from triomq import Broker, QueueHandle, open_broker
from triomq.actors import InPlaceActor

ORDERS = [b"41", b"42", b"43"]


class Post:
    """The post office; its counter is closed at first."""

    def __init__(self) -> None:
        self.attempts = 0
        self.shipped: list[bytes] = []
        self.done = trio.Event()

    async def ship(self, order: bytes) -> None:
        self.attempts += 1
        if self.attempts == 2:
            raise ConnectionError("the counter is closed")
        await trio.sleep(0.001)
        self.shipped.append(order)
        if len(self.shipped) == len(ORDERS):
            self.done.set()


class Shipper(InPlaceActor):
    """Takes orders one by one; what must survive its crashes, the post and the queue, is not its own."""

    def __init__(self, orders: QueueHandle, post: Post) -> None:
        self.orders = orders
        self.post = post

    async def run(self) -> None:  # an exception here ends this incarnation, and the supervisor makes another
        async with self.orders.open_feed(prefetch=1) as feed:
            async for delivery in feed:
                with delivery:  # puts the order back when the block fails, a second later
                    again = "again, " if delivery.redelivered else ""
                    print(f"incarnation {self.epoch}: {again}order {delivery.body.decode()}")
                    await self.post.ship(delivery.body)


async def publish(broker: Broker) -> None:
    for order in ORDERS:
        await broker.publish("", "orders", order)


async def main() -> None:
    post = Post()
    async with open_broker() as broker:
        orders = await broker.declare_queue("orders")
        await broker.system.start(lambda: Shipper(orders, post), name="shipper", restart="permanent")
        await publish(broker)
        with trio.fail_after(10):
            await post.done.wait()
        print("shipped", b" ".join(post.shipped).decode())


logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s", level=logging.CRITICAL)
trio.run(main)
