"""Publishers that are tasks, and the store: what they wait for, and what they are told. Room is in tests/app."""

from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from core.durable import DurableHarness, open_durable_harness
from triomq.core import (
    EVERYTHING,
    CachedRoute,
    Head,
    Pressure,
    Publisher,
    PublishingPaused,
    RoutedRun,
    WaitingPublisher,
    traits_of,
)

LARGE = bytes(17 << 20)


class PublisherHarness:
    """A durable queue, and who publishes to it."""

    def __init__(self, durable: DurableHarness) -> None:
        self.durable, self.disk = durable, durable.disk
        self.queue = durable.harness.queue("q")
        directory, turn = durable.harness.directory, durable.harness.system.turn
        self.publisher = WaitingPublisher(Publisher(directory, EVERYTHING, turn), directory, turn)

    @property
    def ready(self) -> int:
        return self.queue.statistics().ready

    def run(self, content: bytes) -> RoutedRun:
        return RoutedRun(CachedRoute("", "q"), Head(traits=traits_of(persistent=True)), [content], len(content))

    async def publish(self, content: bytes) -> None:
        await self.publisher.publish(self.run(content))


@pytest.fixture
async def publishing(autojump_clock: MockClock) -> AsyncIterator[PublisherHarness]:
    async with open_durable_harness() as durable:
        yield PublisherHarness(durable)


async def test_publish_returns_when_the_message_is_on_disk(publishing: PublisherHarness, nursery: trio.Nursery) -> None:
    done = trio.Event()

    async def publish() -> None:
        await publishing.publish(b"x")
        done.set()

    nursery.start_soon(publish)
    await trio.testing.wait_all_tasks_blocked()
    assert (publishing.ready, done.is_set()) == (1, False)
    publishing.disk.work()
    await done.wait()


async def test_publish_waits_for_a_store_that_is_behind(publishing: PublisherHarness, nursery: trio.Nursery) -> None:
    publishing.publisher.publish_nowait(publishing.run(LARGE))
    with pytest.raises(trio.WouldBlock):
        publishing.publisher.publish_nowait(publishing.run(b"now"))
    nursery.start_soon(publishing.publish, b"1")
    with trio.move_on_after(1) as waited:
        await publishing.publish(b"never")
    assert waited.cancelled_caught
    assert publishing.ready == 1
    while publishing.durable.persistence.behind:
        publishing.disk.work()
    await trio.testing.wait_all_tasks_blocked()
    assert publishing.ready == 2
    publishing.disk.work()


async def test_publish_does_not_wait_for_a_disk_that_cannot_be_written(publishing: PublisherHarness) -> None:
    publishing.disk.take()
    publishing.disk.fail()
    with pytest.raises(PublishingPaused) as paused:
        await publishing.publish(b"x")
    assert paused.value.pressure is Pressure.DISK
    assert publishing.ready == 0
