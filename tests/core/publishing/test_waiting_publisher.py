"""Publishers that are tasks, and the store: what they wait for, and what they are told. Room is in tests/app."""

from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from core.kept import DurableHarness, open_durable_harness
from triomq.core import (
    EVERYTHING,
    CachedRoute,
    Head,
    Pressure,
    Publisher,
    PublishingPaused,
    RoutedRun,
    WaitingPublisher,
)

LARGE = bytes(17 << 20)


class Cast:
    """A durable queue, and who publishes to it."""

    def __init__(self, kept: DurableHarness) -> None:
        self.kept, self.disk = kept, kept.disk
        self.queue = kept.harness.queue("q")
        directory, turn = kept.harness.directory, kept.harness.system.turn
        self.publisher = WaitingPublisher(Publisher(directory, EVERYTHING, turn), directory, turn)

    @property
    def ready(self) -> int:
        return self.queue.statistics().ready

    def run(self, content: bytes) -> RoutedRun:
        return RoutedRun(CachedRoute("", "q"), Head(persistent=True), [content], len(content))

    async def publish(self, content: bytes) -> None:
        await self.publisher.publish(self.run(content))


@pytest.fixture
async def cast(autojump_clock: trio.testing.MockClock) -> AsyncIterator[Cast]:
    async with open_durable_harness() as kept:
        yield Cast(kept)


async def test_publish_returns_when_the_message_is_on_disk(cast: Cast, nursery: trio.Nursery) -> None:
    done = trio.Event()

    async def publish() -> None:
        await cast.publish(b"x")
        done.set()

    nursery.start_soon(publish)
    await trio.testing.wait_all_tasks_blocked()
    assert (cast.ready, done.is_set()) == (1, False)
    cast.disk.work()
    await done.wait()


async def test_publish_waits_for_a_store_that_is_behind(cast: Cast, nursery: trio.Nursery) -> None:
    cast.publisher.publish_nowait(cast.run(LARGE))
    with pytest.raises(trio.WouldBlock):
        cast.publisher.publish_nowait(cast.run(b"now"))
    nursery.start_soon(cast.publish, b"1")
    with trio.move_on_after(1) as waited:
        await cast.publish(b"never")
    assert waited.cancelled_caught
    assert cast.ready == 1
    while cast.kept.persistence.behind:
        cast.disk.work()
    await trio.testing.wait_all_tasks_blocked()
    assert cast.ready == 2
    cast.disk.work()


async def test_publish_does_not_wait_for_a_disk_that_cannot_be_written(cast: Cast) -> None:
    cast.disk.take()
    cast.disk.fail()
    with pytest.raises(PublishingPaused) as paused:
        await cast.publish(b"x")
    assert paused.value.pressure is Pressure.DISK
    assert cast.ready == 0
