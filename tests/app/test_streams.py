from pathlib import Path

import pytest
import trio
import trio.testing

from triomq import Broker, Properties, StreamHandle, StreamReader, open_broker
from triomq.core import Inequivalent, NoSuchQueue


async def fill(broker: Broker, *bodies: bytes, name: str = "s") -> None:
    for body in bodies:
        await broker.publish("", name, body)


async def bodies(stream: StreamHandle, **arguments: object) -> list[bytes]:
    return [record.body async for record in stream.read(wait=False, **arguments)]  # type: ignore[arg-type]


async def take(reader: StreamReader, count: int) -> list[bytes]:
    found = []
    while len(found) < count:
        found.append((await anext(reader)).body)
    return found


async def test_stream_is_read_again_and_again(broker: Broker) -> None:
    stream = await broker.declare_stream("s")
    await fill(broker, b"0", b"1", b"2")
    assert await bodies(stream) == await bodies(stream) == [b"0", b"1", b"2"]
    assert await bodies(stream, from_offset=1) == [b"1", b"2"]
    assert await bodies(stream, from_offset="next") == []
    assert await bodies(stream, since=4e9) == []
    assert repr(stream) == "<StreamHandle 's'>"


async def test_record_has_what_was_published(broker: Broker) -> None:
    stream = await broker.declare_stream("s")
    await broker.publish("", "s", b"body", Properties(type="t", headers={"h": 1}))
    [record] = [record async for record in stream.read(wait=False)]
    assert (record.offset, record.sink, record.key, record.body) == (0, "", "s", b"body")
    assert (record.properties.type, record.properties.headers) == ("t", {"h": 1})
    assert record.time > 1.6e9
    assert repr(record) == "<Record 0 '' 's' 4 bytes>"


async def test_reader_waits_at_the_end(broker: Broker) -> None:
    stream = await broker.declare_stream("s")
    reader = stream.read()
    await fill(broker, b"0")
    assert await take(reader, 1) == [b"0"]
    found: list[bytes] = []

    async def read_on() -> None:
        found.extend(await take(reader, 2))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read_on)
        await trio.testing.wait_all_tasks_blocked()
        await fill(broker, b"1", b"2")
    assert found == [b"1", b"2"]


async def test_iteration_ends_with_the_stream(broker: Broker) -> None:
    stream = await broker.declare_stream("s")
    await fill(broker, b"0")
    found: list[bytes] = []

    async def read_all() -> None:
        found.extend([record.body async for record in stream.read()])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read_all)
        await trio.testing.wait_all_tasks_blocked()
        await stream.delete()
    assert found == [b"0"]
    with pytest.raises(NoSuchQueue):
        await bodies(stream)
    with pytest.raises(NoSuchQueue):
        broker.stream("s")


async def test_group_goes_on_where_it_was(broker: Broker) -> None:
    stream = await broker.declare_stream("s")
    await fill(broker, b"0", b"1")
    assert await bodies(stream, group="g") == [b"0", b"1"]
    await fill(broker, b"2")
    assert await bodies(stream, group="g") == [b"2"]
    assert await bodies(stream, group="other") == [b"0", b"1", b"2"]
    await stream.set_position("g", 1)
    assert (await stream.statistics()).stream.lags == {"g": 2, "other": 0}  # type: ignore[union-attr]
    assert await bodies(stream, group="g") == [b"1", b"2"]
    assert await stream.forget_group("g")
    assert not await stream.forget_group("g")


async def test_reader_that_is_too_slow_counts_what_it_has_missed(broker: Broker) -> None:
    stream = await broker.declare_stream("s", max_length=100)
    await fill(broker, b"x")
    reader = stream.read(wait=False)
    await anext(reader)
    for _ in range(1_000):
        await fill(broker, b"x")
    bounds = await stream.bounds()
    assert bounds.first > 1
    record = await anext(reader)
    assert record.offset == bounds.first
    assert reader.missed == bounds.first - 1


async def test_partitions_are_read_each(broker: Broker) -> None:
    stream = await broker.declare_stream("orders", partitions=3)
    for number in range(30):
        await broker.publish("orders", f"key-{number}", b"%d" % number)
    with pytest.raises(ValueError, match="has partitions"):
        stream.read()
    parts = [await bodies(part) for part in stream.partitions]
    assert sorted(int(body) for part in parts for body in part) == list(range(30))
    with pytest.raises(Inequivalent, match="partitions"):
        await broker.declare_stream("orders", partitions=2)
    await broker.stream("orders").delete()
    assert "orders" not in broker.directory.sinks


@pytest.mark.parametrize("wrong", [-1, "begin", None, True, 1.5])
async def test_place_that_is_none_is_refused(broker: Broker, wrong: object) -> None:
    stream = await broker.declare_stream("s")
    with pytest.raises((ValueError, TypeError), match="from_offset"):
        stream.read(from_offset=wrong)  # type: ignore[arg-type]


async def test_stream_and_group_outlive_a_restart(tmp_path: Path) -> None:
    async with open_broker(data_dir=tmp_path, store_host="thread") as broker:
        stream = await broker.declare_stream("s")
        await fill(broker, b"0", b"1", b"2")
        await stream.set_position("g", 1)
        identity = (await stream.bounds()).identity
    async with open_broker(data_dir=tmp_path, store_host="thread") as broker:
        stream = broker.stream("s")
        assert (await stream.bounds()).identity == identity
        assert await bodies(stream) == [b"0", b"1", b"2"]
        assert await bodies(stream, group="g") == [b"1", b"2"]


async def test_queue_is_no_stream(broker: Broker) -> None:
    await broker.declare_queue("q")
    with pytest.raises(NoSuchQueue):
        broker.stream("q")
