"""A stream: what was read stays, so each reader goes through all of it, and a group goes on where it was."""

import trio

from triomq import Broker, StreamHandle, open_broker


async def trade(broker: Broker) -> StreamHandle:
    orders = await broker.declare_stream("orders", partitions=2, max_age=7 * 24 * 3600)
    for number in range(6):
        await broker.publish("orders", f"customer-{number % 3}", f"order {number}".encode())
    return orders


async def audit(orders: StreamHandle) -> None:
    for partition in orders.partitions:
        async for record in partition.read(group="audit", wait=False):
            print(partition.name, record.offset, record.key, record.body.decode())


async def main() -> None:
    async with open_broker() as broker:
        orders = await trade(broker)
        await audit(orders)
        await broker.publish("orders", "customer-0", b"one more")
        await audit(orders)  # this one alone


trio.run(main)
