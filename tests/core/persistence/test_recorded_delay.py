import pytest
import trio
from trio.testing import MockClock

from core.durable import PERSISTENT, TRANSIENT, DurableHarness, open_durable_harness
from core.harness import publish, ready
from core.machine.stepped_harness import WALL_CLOCK
from core.simulated_disk import SimulatedDisk
from memory_store import MemoryStore
from triomq.actors import Backoff
from triomq.core import Enlist, Head, Publish, QueueOptions, QueueState
from triomq.errors import StoreCorrupt
from triomq.store import MessagesDelayed

LATER = 60.0


@pytest.fixture(autouse=True)
def no_time_passes_on_the_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    WALL_CLOCK.begin()
    for module in ("persistence.recorded_delay", "queue.timekeeper"):
        monkeypatch.setattr(f"triomq.core.{module}.time", WALL_CLOCK)


def put_off(queue: QueueState, *contents: bytes, delay: float = LATER, head: Head = PERSISTENT) -> None:
    queue.ref.tell_nowait(Publish(head, list(contents), sum(map(len, contents)), None, None, delay))


def count(queue: QueueState) -> int:
    return queue.ref.ask_nowait(Enlist()).delayed


async def kept_for_later(*contents: bytes) -> MemoryStore:
    """A store in which a life of the broker has left messages that were put off."""
    async with open_durable_harness() as durable:
        queue = durable.harness.queue()
        for content in contents:
            put_off(queue, content)
        durable.disk.work()
    return durable.disk.store


def delayed_on(store: MemoryStore) -> int:
    recovered = SimulatedDisk(store).journal.recovered
    assert recovered is not None
    return sum(each.count for queue in recovered.queues.values() for each in queue.delayed)


async def test_only_persistent_messages_are_delayed_in_the_store(durable: DurableHarness) -> None:
    queue, other = durable.harness.queue("d"), durable.harness.queue("t", QueueOptions(durable=False))
    put_off(queue, b"1")
    put_off(queue, b"2", head=TRANSIENT)
    put_off(other, b"3")
    durable.disk.work()
    assert delayed_on(durable.disk.store) == 1
    assert [count(queue), count(other)] == [2, 1]


async def test_messages_wait_in_another_life_for_as_long_as_is_left(autojump_clock: MockClock) -> None:
    store = await kept_for_later(b"1")
    WALL_CLOCK.pass_time(20)
    async with open_durable_harness(store) as durable:
        queue = durable.harness.directory.queues["q"]
        assert count(queue) == 1
        durable.disk.work()
        assert count(queue) == 1
        await trio.sleep(39)
        assert ready(queue) == []
        await trio.sleep(2)
        assert ready(queue) == [b"1"]
        assert count(queue) == 0
        assert delayed_on(store) == 1
        durable.disk.work()
        assert delayed_on(store) == 0
        assert list(durable.disk.contents(1, spilled=False).values()) == [b"1"]


async def test_due_messages_become_ready_and_leave_the_delayed_ones_in_one_batch(
    durable: DurableHarness, autojump_clock: MockClock
) -> None:
    queue = durable.harness.queue()
    put_off(queue, b"1")
    durable.disk.work()
    await trio.sleep(LATER + 1)
    assert ready(queue) == [b"1"]
    durable.disk.take()
    durable.disk.write()
    assert delayed_on(durable.disk.store) == 0
    assert list(durable.disk.contents(1, spilled=False).values()) == [b"1"]
    assert durable.disk.take() is None


async def test_message_delayed_before_the_rest_is_read_gets_a_number_of_its_own(autojump_clock: MockClock) -> None:
    store = await kept_for_later(b"1", b"2")
    async with open_durable_harness(store) as durable:
        queue = durable.harness.directory.queues["q"]
        put_off(queue, b"3")
        durable.disk.work()
        assert delayed_on(store) == count(queue) == 3
        await trio.sleep(LATER + 1)
        assert sorted(ready(queue)) == [b"1", b"2", b"3"]


async def test_messages_are_read_again_if_nobody_was_there_to_be_told(
    quiet_crashes: None, autojump_clock: MockClock
) -> None:
    store = await kept_for_later(b"1")
    async with open_durable_harness(store, backoff=Backoff(initial=5)) as durable:
        durable.disk.read()
        durable.harness.crash_domain_nowait()
        await trio.testing.wait_all_tasks_blocked()
        durable.disk.answer_fetches()
        await durable.harness.domain.wait_running()
        queue = durable.harness.directory.queues["q"]
        durable.disk.work()
        assert queue.delayed is not None
        assert not queue.delayed.expected
        await trio.sleep(LATER + 1)
        assert ready(queue) == [b"1"]


async def test_delayed_messages_that_cannot_be_read_stay_in_the_store(caplog: pytest.LogCaptureFixture) -> None:
    store = await kept_for_later(b"1")
    async with open_durable_harness(store) as durable:
        queue = durable.harness.directory.queues["q"]
        for fetch in durable.disk.journal.take_fetches():
            durable.disk.journal.fetched(fetch.request.number, StoreCorrupt("it is torn"))
        assert "delayed messages cannot be read" in caplog.text
        publish(queue, b"now")
        assert ready(queue) == [b"now"]
        assert (count(queue), delayed_on(store)) == (1, 1)


async def test_delayed_messages_that_the_store_lacks_are_not_waited_for() -> None:
    store = await kept_for_later(b"1")
    async with open_durable_harness(store) as durable:
        queue = durable.harness.directory.queues["q"]
        for fetch in durable.disk.journal.take_fetches():
            durable.disk.journal.fetched(fetch.request.number, [None])
        assert count(queue) == 0


async def test_many_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triomq.core.persistence.recorded_delay._AT_ONCE", 2)
    store = await kept_for_later(*[b"%d" % number for number in range(5)])
    async with open_durable_harness(store) as durable:
        durable.disk.collect_fetches()
        assert len(durable.disk.fetches) == 3
        durable.disk.work()
        queue = durable.harness.directory.queues["q"]
        assert count(queue) == 5
        assert queue.delayed is not None
        assert queue.delayed.last_number == 5
        put_off(queue, b"next")
        batch = durable.disk.journal.take()
        assert batch is not None
        assert [each.number for each in batch.operations if isinstance(each, MessagesDelayed)] == [6]
