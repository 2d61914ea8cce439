"""A broker as one more service of a Trio program that exists already; threads and asyncio reach it too."""

import asyncio

import trio

from triomq import AsyncioBroker, BlockingBroker, Broker, open_broker, open_portal


async def run_broker(*, task_status: trio.TaskStatus[Broker]) -> None:
    """Run a broker until it is cancelled; ready when ``nursery.start`` returns it."""
    async with open_broker() as broker:
        task_status.started(broker)
        await trio.sleep_forever()


def sell_in_a_thread(broker: BlockingBroker) -> None:
    broker.publish("", "orders", b"from a thread")


async def sell_in_asyncio(broker: AsyncioBroker) -> None:
    await broker.publish("", "orders", b"from asyncio")


async def main() -> None:
    async with trio.open_nursery() as nursery:
        broker = await nursery.start(run_broker)
        orders = await broker.declare_queue("orders")

        async with open_portal(broker) as portal:
            await trio.to_thread.run_sync(sell_in_a_thread, BlockingBroker(portal))

            async def in_asyncio() -> None:
                await sell_in_asyncio(AsyncioBroker(portal))  # made in the loop that it belongs to

            await trio.to_thread.run_sync(lambda: asyncio.run(in_asyncio()))

        await broker.publish("", "orders", b"from Trio")
        with trio.fail_after(10):
            async with orders.open_feed() as feed:
                for _ in range(3):
                    with await anext(feed) as delivery:
                        print("shipping order", delivery.body.decode())

        nursery.cancel_scope.cancel()


trio.run(main)
