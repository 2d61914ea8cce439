"""Streams on disk: what may be read, what DONE promises, and ranges that come from the store."""

from pathlib import Path

import pytest
import trio
import trio.testing

from endpoints.faults import frozen
from endpoints.tap.client import append, declare_stream, dial, open_tap_broker, values
from triomq.protocols.tap import DoneAnswered, GroupPosition


async def test_nothing_is_read_or_promised_before_it_is_on_disk(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with open_tap_broker(data_dir=tmp_path, store_host="process") as broker:
            declare_stream(broker, durable=True)
            await append(broker, b"before")
            tap = await dial(broker).open()
            with frozen(broker):
                broker.publish_nowait("", "orders", b"after")
                assert values(await tap.ask(tap.fetch(0))) == [b"before"]
                number = tap.engine.ack("orders", "g", {0: GroupPosition(None, 1)})
                with trio.move_on_after(0.2) as waited:
                    await tap.ask(number)
                assert waited.cancelled_caught
                waiting = tap.fetch(1, wait=60_000)
                await tap.flush()
            assert isinstance(await tap.next(), DoneAnswered)
            assert values(await tap.ask(waiting)) == [b"after"]


async def test_stream_is_the_same_after_a_restart(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with open_tap_broker(data_dir=tmp_path) as broker:
            declare_stream(broker, durable=True)
            await append(broker, b"a", b"b")
            tap = await dial(broker).open()
            await tap.ask(tap.engine.ack("orders", "g", {0: GroupPosition(None, 1)}))
            (before,) = await tap.bounds(group="g")
        async with open_tap_broker(data_dir=tmp_path) as broker:
            tap = await dial(broker).open()
            assert await tap.bounds(group="g") == (before,)
            assert values(await tap.ask(tap.fetch(0, identity=before.identity))) == [b"a", b"b"]


async def test_time_is_found_in_memory_and_in_the_store(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with open_tap_broker(data_dir=tmp_path) as broker:
            declare_stream(broker, durable=True)
            for second in range(10):
                await append(broker, b"x", at=1000 + second)
        async with open_tap_broker(data_dir=tmp_path) as broker:
            tap = await dial(broker).open()
            await append(broker, b"x", at=1010)
            times = [0, 1003_000_000, 1003_000_001, 1009_000_000, 1009_500_000, 1010_000_001]
            found = [(await tap.bounds(since=time))[0].position for time in times]
            assert found == [0, 3, 4, 9, 10, 11]


@pytest.mark.parametrize("ahead", [1, 5])
async def test_ranges_come_from_the_store_in_the_order_of_requests(tmp_path: Path, ahead: int) -> None:
    body = bytes(100_000)
    with trio.fail_after(60):
        async with open_tap_broker(data_dir=tmp_path) as broker:
            declare_stream(broker, durable=True)
            await append(broker, *[body] * 60)
        async with open_tap_broker(data_dir=tmp_path) as broker:  # which has none of them in memory
            tap = await dial(broker).open()
            got = 0
            while got < 60:
                numbers = [tap.fetch(got, most_bytes=1_000_000) for _ in range(ahead)]
                ping = tap.engine.ping()
                found = [len(values(await tap.ask(number))) for number in numbers]
                await tap.ask(ping)
                assert len(set(found)) == 1
                assert found[0]
                got += found[0]


async def test_waiting_for_the_store_ends_with_the_client(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with open_tap_broker(data_dir=tmp_path, store_host="process") as broker:
            declare_stream(broker, durable=True)
            await append(broker, *[bytes(100_000)] * 40)
        async with open_tap_broker(data_dir=tmp_path, store_host="process") as broker:
            tap = await dial(broker).open()
            with frozen(broker):
                tap.fetch(0)
                await tap.flush()
                await trio.sleep(0.1)
                await tap.stream.aclose()
                await trio.sleep(0.1)
            other = await dial(broker).open()
            assert values(await other.ask(other.fetch(0)))[0] == bytes(100_000)
