"""A broker with a data directory: what was published before the program ended is there when it runs again."""

import tempfile
from pathlib import Path

import trio

from triomq import Broker, QueueHandle, open_broker


async def declare(broker: Broker) -> QueueHandle:
    """Declare what this program needs; an existing queue stays as it is, with its messages."""
    orders = await broker.declare_queue("orders")
    shop = await broker.declare_sink("shop", "topic")
    await shop.bind(orders, "order.*")
    return orders


async def sell(data: Path) -> None:
    async with open_broker(data_dir=data) as broker:
        await declare(broker)
        for number in range(3):
            await broker.publish("shop", "order.new", str(number).encode())  # on disk when this returns


async def ship(data: Path, backup: Path) -> None:
    async with open_broker(data_dir=data) as broker:
        orders = await declare(broker)
        await broker.back_up(backup)
        async with orders.open_feed() as feed:
            async for delivery in feed:
                with delivery:
                    print("shipping order", delivery.body.decode())
                if delivery.body == b"2":
                    break


with tempfile.TemporaryDirectory() as directory:
    data, restored = Path(directory, "data"), Path(directory, "restored")
    trio.run(sell, data)
    trio.run(ship, data, restored)
    trio.run(ship, restored, Path(directory, "another"))  # the backup is a data directory, and still has all three
