"""Streams from plain threads and from asyncio."""

import asyncio

import pytest

from app.portal.conftest import PATIENCE
from triomq.app.portal import AsyncioBroker, BlockingBroker, open_asyncio_broker


def test_threads_read_a_stream(broker: BlockingBroker) -> None:
    stream = broker.declare_stream("s", timeout=PATIENCE)
    for number in range(5):
        broker.publish("", "s", b"%d" % number)
    assert repr(stream) == repr(broker.stream("s")) == "<BlockingStream 's'>"
    assert [record.body for record in stream.read(wait=False)] == [b"0", b"1", b"2", b"3", b"4"]
    assert [record.offset for record in stream.read(from_offset=3, wait=False, group="g")] == [3, 4]
    stream.set_position("g", 1)
    assert stream.statistics().stream.lags == {"g": 4}  # type: ignore[union-attr]
    assert stream.forget_group("g")
    with pytest.raises(TimeoutError):
        next(stream.read(from_offset="next", timeout=0.01))  # type: ignore[call-overload]
    parts = broker.declare_stream("orders", partitions=2).partitions
    assert [part.name for part in parts] == ["orders-0", "orders-1"]
    stream.delete()
    assert list(broker.declare_stream("s").read(wait=False)) == []


async def read_in_asyncio(broker: AsyncioBroker) -> None:
    stream = await broker.declare_stream("s")
    for number in range(5):
        await broker.publish("", "s", b"%d" % number)
    assert repr(stream) == repr(broker.stream("s")) == "<AsyncioStream 's'>"
    assert [record.body async for record in stream.read(wait=False)] == [b"0", b"1", b"2", b"3", b"4"]
    assert [record.offset async for record in stream.read(from_offset=3, wait=False, group="g")] == [3, 4]
    await stream.set_position("g", 1)
    assert (await stream.statistics()).stream.lags == {"g": 4}  # type: ignore[union-attr]
    assert await stream.forget_group("g")
    assert [part.name for part in stream.partitions] == ["s"]
    await stream.delete()


def test_tasks_of_asyncio_read_a_stream() -> None:
    async def main() -> None:
        async with open_asyncio_broker() as broker:
            await read_in_asyncio(broker)

    asyncio.run(main())
