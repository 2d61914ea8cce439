"""A direct connection into a broker with a store: what it publishes while the store cannot be written."""

from pathlib import Path

import trio.testing

from endpoints.conftest import endpoint_of
from endpoints.direct import Direct, open_sink
from endpoints.faults import unwritable
from endpoints.restarts import PERSISTENT, TRANSIENT, Home, at_home
from triomq.protocols import BasicProperties, encode_properties


async def ready(home: Home, name: str) -> int:
    return (await home.broker.queue(name).statistics()).ready


def persistent(header: str) -> bytes:
    return encode_properties(BasicProperties(delivery_mode=2, headers={header: 1}))


async def arrived(home: Home, sink: Direct) -> None:
    """See that a direct connection has worked off all that it was sent, or waits."""
    await trio.testing.wait_all_tasks_blocked(0.01)


async def test_run_routed_by_headers_is_published_once_though_it_had_to_wait_for_the_store(tmp_path: Path) -> None:
    async with at_home(tmp_path) as home:
        broker = home.broker
        sink = await broker.declare_sink("h", "headers")
        await sink.bind(await broker.declare_queue("transient", durable=False), arguments={"a": 1})
        await sink.bind(await broker.declare_queue("durable"), arguments={"b": 1})
        direct = await open_sink(endpoint_of(broker), home.client, "h")
        with unwritable(broker):
            for header in "ab":
                direct.engine.send_message("", "", persistent(header), b"x")
            await direct.flush()
            await arrived(home, direct)
            assert await ready(home, "transient") == 0
        await arrived(home, direct)
        assert [await ready(home, name) for name in ("transient", "durable")] == [1, 1]


async def test_run_of_both_modes_is_published_once_though_it_had_to_wait_for_the_store(tmp_path: Path) -> None:
    async with at_home(tmp_path) as home:
        broker = home.broker
        await broker.declare_queue("q")
        direct = await open_sink(endpoint_of(broker), home.client, "")
        with unwritable(broker):
            for properties in (TRANSIENT, PERSISTENT, TRANSIENT):
                direct.engine.send_message("", "q", properties, b"x")
            await direct.flush()
            await arrived(home, direct)
            assert await ready(home, "q") == 0
        await arrived(home, direct)
        assert await ready(home, "q") == 3
