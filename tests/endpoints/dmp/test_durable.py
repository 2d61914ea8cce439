"""A direct connection into a broker with a store: what it publishes while the store cannot be written."""

from pathlib import Path

import trio.testing

from endpoints.conftest import endpoint_of
from endpoints.direct import Direct, open_sink
from endpoints.faults import unwritable
from endpoints.restarts import PERSISTENT, TRANSIENT, Home, at_home


async def ready(home: Home, name: str) -> int:
    return (await home.broker.queue(name).statistics()).ready


async def arrived(home: Home, sink: Direct) -> None:
    """See that a direct connection has worked off all that it was sent, or waits."""
    await trio.testing.wait_all_tasks_blocked(0.01)


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
