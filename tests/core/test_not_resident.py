from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from triomq.actors import Backoff
from triomq.core import Browse, Get, NotResident, Purge, QueueState, QueueStopped, QueueUnreadable
from triomq.errors import StoreCorrupt
from triomq.store import Damaged, Reading

from .durable import PERSISTENT, DurableHarness, get, open_durable_harness
from .harness import publish


@asynccontextmanager
async def durable_messages(backoff: Backoff | None = None) -> AsyncIterator[tuple[DurableHarness, QueueState]]:
    """A harness whose queue has two messages, both on disk alone."""
    async with open_durable_harness() as before:
        publish(before.harness.queue(), b"1", b"2", head=PERSISTENT)
        before.disk.work()
    async with open_durable_harness(before.disk.store, backoff=backoff) as durable:
        yield durable, durable.harness.directory.queues["q"]


def refused(queue: QueueState, request: Get | Browse | None = None) -> NotResident:
    with pytest.raises(NotResident, match="ask again") as found:
        queue.ref.ask_nowait(request or Get())
    return found.value


async def waits_until(durable: DurableHarness, queue: QueueState, happens: str) -> None:
    """Wait until messages are at hand, which is over when something happens."""
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(refused(queue).wait_over)
            await trio.testing.wait_all_tasks_blocked()
            assert nursery.child_tasks
            match happens:
                case "read":
                    durable.disk.work()
                case "purge":
                    queue.ref.ask_nowait(Purge())
                case "delete":
                    durable.harness.delete("q")
                case "restart":
                    await durable.harness.crash(queue)
                case "end":
                    await durable.harness.crash_for_good(queue)


async def test_waiting_is_over_when_the_messages_are_read() -> None:
    async with durable_messages() as (durable, queue):
        await waits_until(durable, queue, "read")
        assert get(queue, durable.disk) == (b"1", False)


async def test_waiting_is_over_when_the_messages_are_purged() -> None:
    async with durable_messages() as (durable, queue):
        await waits_until(durable, queue, "purge")
        assert queue.ref.ask_nowait(Get()) is None


async def test_waiting_is_over_when_the_queue_is_deleted() -> None:
    async with durable_messages() as (durable, queue):
        await waits_until(durable, queue, "delete")
        durable.disk.work()


@pytest.mark.usefixtures("quiet_crashes")
async def test_waiting_is_over_when_the_queue_begins_anew() -> None:
    async with durable_messages() as (durable, queue):
        await waits_until(durable, queue, "restart")
        refused(queue)
        durable.disk.work()
        assert get(queue, durable.disk) == (b"1", False)


@pytest.mark.usefixtures("quiet_crashes")
async def test_waiting_is_over_when_the_queue_has_crashed_for_good() -> None:
    async with open_durable_harness() as before:
        publish(before.harness.queue(), b"1", head=PERSISTENT)
        before.disk.work()
    async with open_durable_harness(before.disk.store, max_restarts=1) as durable:
        await waits_until(durable, durable.harness.directory.queues["q"], "end")
        with pytest.raises(QueueStopped):
            durable.harness.directory.queue("q", durable.harness.session)


@pytest.mark.usefixtures("quiet_crashes")
async def test_messages_read_while_the_queue_restarted_are_read_again(autojump_clock: MockClock) -> None:
    async with durable_messages(Backoff(initial=5)) as (durable, queue):
        refused(queue)
        durable.disk.read()
        durable.harness.crash_domain_nowait()
        await trio.testing.wait_all_tasks_blocked()
        durable.disk.answer_fetches()
        await durable.harness.domain.wait_running()
        assert get(queue, durable.disk) == (b"1", False)


async def test_request_for_unreadable_messages_is_refused() -> None:
    async with durable_messages() as (durable, queue):
        refused(queue)
        for fetch in durable.disk.journal.take_fetches():
            durable.disk.journal.fetched(fetch.request.number, StoreCorrupt("it is torn"))
        with pytest.raises(QueueUnreadable, match="store check"):
            queue.ref.ask_nowait(Get())
        assert queue.statistics().ready == 2
        assert queue.ref.ask_nowait(Purge()) == 2
        publish(queue, b"3", head=PERSISTENT)
        assert get(queue, durable.disk) == (b"3", False)


async def test_whole_messages_behind_damaged_ones_are_given(caplog: pytest.LogCaptureFixture) -> None:
    async with durable_messages() as (durable, queue):
        refused(queue)
        for fetch in durable.disk.journal.take_fetches():
            damaged = Damaged(1, 1, b"", "the disk has changed them")
            durable.disk.journal.fetched(fetch.request.number, Reading([], 2, [damaged]))
        assert get(queue, durable.disk) == (b"2", False)
        assert queue.statistics().ready == 0
        assert queue.ref.ask_nowait(Get()) is None
    (record,) = [record for record in caplog.records if "set aside" in record.message]
    assert record.fields == {"queue": "q", "messages": 1, "first": 1, "reason": "the disk has changed them"}  # type: ignore[attr-defined]
