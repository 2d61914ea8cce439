"""Ledgers: what a group has leased from a queue is there, or in the queue, and never in both."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest
import trio
import trio.testing

from core.durable import PERSISTENT, DurableHarness, backlog_of, open_durable_directory, open_durable_harness
from core.harness import Harness, publish, ready
from core.streams.test_stream import declare
from memory_store import MemoryStore
from triomq.chunks import Columns
from triomq.core import (
    AskBounds,
    Get,
    GroupLedger,
    Head,
    InExclusiveUse,
    Leased,
    LeaseMessages,
    Ledgers,
    NotForStreams,
    NotResident,
    Overflow,
    Properties,
    QueueLocked,
    QueueOptions,
    decode_core,
    encode_core,
    ledgers_of,
    read_records,
    traits_of,
)
from triomq.core.topology.shares import LEDGERS
from triomq.errors import LimitExceeded, NotFound, OutOfRange, Refused

HOUR = 3600.0


def lease(harness: Harness, most: int = 100, *, queue: str = "q", group: str = "g", size: int = 1 << 20) -> Leased:
    return harness.domain.ask_nowait(LeaseMessages(queue, group, harness.session, most, size))


def ledger_of(harness: Harness, queue: str = "q", group: str = "g") -> GroupLedger:
    found = ledgers_of(harness.directory).find(queue, group, harness.session.user)
    assert found is not None
    return found


async def records(ledger: GroupLedger, first: int | None = None) -> list[bytes]:
    """Return the bodies of the records from an offset on."""
    first = ledger.log.base if first is None else first
    values: list[bytes] = []
    while first < ledger.log.stop:
        found = await read_records(ledger.state, first, most_records=1000, most_bytes=1 << 20)
        for chunk in found.chunks:
            columns = Columns(bytes(chunk))
            values += list(columns.values.each())[first - columns.head.first :]
            first = columns.head.stop
    return values


def acknowledge(harness: Harness, offset: int) -> None:
    harness.turn(lambda: ledgers_of(harness.directory).acknowledge(ledger_of(harness), offset))


@contextmanager
def walled(ledgers: Ledgers) -> Iterator[list[float]]:
    """Let a test set the time of day."""
    time = [1_000_000.0]
    ledgers.wall = lambda: time[0]
    yield time


async def let_hand_back(harness: Harness, time: list[float], seconds: float = HOUR) -> None:
    """Let time pass on both clocks, and wait for what comes of it."""
    time[0] += seconds
    await trio.sleep(seconds + 0.01)


def numbers(first: int, stop: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, stop)]


# Leasing


async def test_leased_messages_are_records_and_leave_the_queue(harness: Harness) -> None:
    queue = harness.queue()
    publish(queue, *numbers(0, 5))
    leased = lease(harness, 3)
    assert (leased.bounds.first, leased.bounds.stop, leased.ready) == (0, 3, 2)
    assert lease(harness).bounds.stop == 5
    ledger = ledger_of(harness)
    assert await records(ledger) == numbers(0, 5)
    assert await records(ledger, 2) == numbers(2, 5)
    assert (queue.backlog.ready, queue.backlog.unsettled) == (0, 0)
    assert lease(harness).bounds.identity == leased.bounds.identity


async def test_lease_of_an_empty_queue_only_makes_the_ledger(harness: Harness) -> None:
    harness.queue()
    assert (leased := lease(harness)).bounds.stop == 0
    assert (leased.ready, len(ledger_of(harness).leases)) == (0, 0)
    publish(harness.queue(), b"0")
    assert lease(harness, 0).ready == 1


async def test_names_of_queues_and_groups_cannot_be_mistaken_for_others(harness: Harness) -> None:
    for queue, group in (("a", "b, leased by c"), ("a, leased by b", "c"), ("a.b", "c"), ("a", "b.c"), ("1.a", "b")):
        harness.queue(queue)
        lease(harness, queue=queue, group=group)
    assert len(ledgers_of(harness.directory)) == 5


async def test_what_is_acknowledged_soon_counts_no_longer(harness: Harness) -> None:
    queue = harness.queue()
    publish(queue, b"outstanding")
    lease(harness)
    for _ in range(100):
        publish(queue, bytes(200_000))
        acknowledge(harness, lease(harness).bounds.stop - 1)
    assert ledger_of(harness).log.segments.size < 10_000_000


async def test_one_message_is_leased_however_few_bytes_are_wanted(harness: Harness) -> None:
    publish(harness.queue(), b"zero", b"one")
    assert lease(harness, size=0).bounds.stop == 1


async def test_each_group_has_a_ledger_of_its_own(harness: Harness) -> None:
    publish(harness.queue(), *numbers(0, 4))
    first, second = lease(harness, 1, group="a"), lease(harness, 3, group="b")
    assert first.bounds.identity != second.bounds.identity
    assert await records(ledger_of(harness, group="b")) == numbers(1, 4)


async def test_lease_ends_at_its_bytes(harness: Harness) -> None:
    publish(harness.queue(), *[bytes(1000)] * 10)
    assert lease(harness, size=2500).bounds.stop == 2
    assert lease(harness, size=1).bounds.stop == 3, "one message is leased, however large"


async def test_large_lease_is_in_chunks_of_some_size(harness: Harness) -> None:
    publish(harness.queue(), *[bytes(1000)] * 500)
    lease(harness, 500)
    ledger = ledger_of(harness)
    found = await read_records(ledger.state, 0, most_records=500, most_bytes=1 << 20)
    assert max(len(chunk) for chunk in found.chunks) < 128 * 1024


async def test_properties_keys_and_priorities_pass_untouched(harness: Harness, autojump_clock: object) -> None:
    own = encode_core(Properties(priority=3, expiration=60.0, headers={"x-death": "once"}))
    head = Head("sink", "key", 0, len(own), len(own), flags=5, traits=traits_of(has_expiration=True, has_priority=True))
    queue = harness.queue(options=QueueOptions(max_priority=5))
    publish(queue, own + b"body", head=head)
    with walled(ledgers_of(harness.directory)) as time:
        lease(harness)
        (chunk,) = (await read_records(ledger_of(harness).state, 0, most_records=9, most_bytes=9)).chunks
        ((_, run),) = Columns(bytes(chunk)).runs()
        assert (run.sink, run.key, run.properties, run.mark & 0xFF) == (b"sink", [b"key"], [own], 5)
        await let_hand_back(harness, time)
    batch = queue.ref.ask_nowait(Get())
    assert batch is not None
    back = batch.message(0)
    assert (back.head.exchange, back.head.routing_key, back.head.flags, back.body) == ("sink", "key", 5, b"body")
    assert (batch.redelivered, batch.level) == (True, 3)
    assert decode_core(back.properties).headers == {"x-death": "once"}


async def test_consumers_are_served_before_a_lease(harness: Harness) -> None:
    queue, consumer = harness.queue(), harness.consumer()
    harness.feed(queue, consumer, messages=2)
    publish(queue, *numbers(0, 4))
    assert lease(harness).bounds.stop == 2
    assert consumer.take() == numbers(0, 2)


async def test_expired_messages_are_not_leased(harness: Harness, autojump_clock: object) -> None:
    queue = harness.queue(options=QueueOptions(message_ttl=10.0))
    publish(queue, b"0")
    await trio.sleep(11)
    publish(queue, b"1")
    lease(harness)
    assert await records(ledger_of(harness)) == [b"1"]


async def test_what_cannot_be_leased_is_refused(harness: Harness) -> None:
    declare(harness, "log")
    harness.queue("private", QueueOptions(exclusive=True), harness.new_session())
    with pytest.raises(NotForStreams, match="lease is not for stream 'log'"):
        lease(harness, queue="log")
    with pytest.raises(QueueLocked):
        lease(harness, queue="private")
    with pytest.raises(NotFound):
        lease(harness, queue="nowhere")
    assert len(ledgers_of(harness.directory)) == 0
    harness.feed(harness.queue(), harness.consumer(), exclusive=True)
    with pytest.raises(InExclusiveUse):
        lease(harness)


async def test_group_that_acknowledges_nothing_is_refused_more(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triomq.core.streams.ledgers.MOST_OUTSTANDING", 3)
    publish(harness.queue(), *numbers(0, 5))
    assert lease(harness).bounds.stop == 3
    with pytest.raises(LimitExceeded, match="acknowledge them"):
        lease(harness)
    assert lease(harness, 0).ready == 2
    acknowledge(harness, 1)
    assert lease(harness).bounds.stop == 4


async def test_ledger_is_in_no_directory(harness: Harness) -> None:
    publish(harness.queue(), b"0")
    lease(harness)
    assert list(harness.directory.queues) == ["q"]
    assert harness.directory.idle


async def test_empty_ledger_gives_way_when_there_are_too_many(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triomq.core.streams.ledgers.LEDGERS", msgspec.structs.replace(LEDGERS, most=2))
    publish(harness.queue(), *numbers(0, 9))
    lease(harness, 1, group="a")
    lease(harness, 0, group="b")
    before = ledger_of(harness, group="b").log.identity
    lease(harness, 1, group="c")
    with pytest.raises(LimitExceeded, match="not acknowledged all"):
        lease(harness, 1, group="b")
    acknowledge_all = ledger_of(harness, group="c")
    harness.turn(lambda: ledgers_of(harness.directory).acknowledge(acknowledge_all, 1))
    assert lease(harness, 1, group="b").bounds.identity != before


async def test_ledger_goes_with_its_queue(harness: Harness) -> None:
    publish(harness.queue(), b"0")
    lease(harness)
    ledger = ledger_of(harness)
    harness.delete("q")
    assert len(ledgers_of(harness.directory)) == 0
    assert ledger.state.ref.state == "stopped"
    publish(harness.queue(), b"1")
    assert lease(harness).bounds.identity != ledger.log.identity


# Acknowledging


async def test_acknowledged_records_are_gone(harness: Harness) -> None:
    publish(harness.queue(), *numbers(0, 5))
    lease(harness, 2)
    lease(harness, 3)
    ledger = ledger_of(harness)
    acknowledge(harness, 3)
    bounds = ledger.state.ref.ask_nowait(AskBounds())
    assert (bounds.first, bounds.stop, len(ledger.leases)) == (3, 5, 1)
    assert await records(ledger) == numbers(3, 5)
    with pytest.raises(OutOfRange):
        await read_records(ledger.state, 2, most_records=1, most_bytes=1)
    acknowledge(harness, 1)  # late, and nothing happens
    assert ledger.log.base == 3
    acknowledge(harness, 5)
    assert (ledger.log.segments.size, len(ledger.leases)) == (0, 0)
    with pytest.raises(Refused, match=r"no record 5 .* will be 5"):
        acknowledge(harness, 6)
    publish(harness.queue(), b"5")
    lease(harness)
    assert await records(ledger) == [b"5"]


# What comes back


async def test_what_is_not_acknowledged_comes_back_behind_all(harness: Harness, autojump_clock: object) -> None:
    queue = harness.queue()
    publish(queue, *numbers(0, 4))
    with walled(ledgers_of(harness.directory)) as time:
        lease(harness, 2)
        await let_hand_back(harness, time, 60)
        lease(harness, 1)
        acknowledge(harness, 1)
        await let_hand_back(harness, time, HOUR - 60)
        ledger = ledger_of(harness)
        assert (ledger.log.base, ledger.log.stop) == (2, 3)
        found = [queue.ref.ask_nowait(Get()), queue.ref.ask_nowait(Get())]
        assert [(batch.contents, batch.redelivered) for batch in found if batch] == [([b"3"], False), ([b"1"], True)]
        await let_hand_back(harness, time, 60)
        assert (ready(queue), ledger.log.base) == ([b"2"], 3)


async def test_leases_of_a_moment_are_one(harness: Harness) -> None:
    publish(harness.queue(), *numbers(0, 9))
    with walled(ledgers_of(harness.directory)) as time:
        for _ in range(4):
            lease(harness, 1)
            time[0] += 4
        ledger = ledger_of(harness)
        assert [(each.stop, each.deadline - 1_000_000) for each in ledger.leases] == [(1, 3600), (3, 3610), (4, 3620)]
        time[0] -= 1000
        lease(harness, 1)
        assert ledger.leases[-1].stop == 5
        assert len(ledger.leases) == 3


async def test_lease_while_others_go_back_is_left_alone(harness: Harness, autojump_clock: object) -> None:
    queue = harness.queue()
    publish(queue, *[bytes(1000)] * 900)
    with walled(ledgers_of(harness.directory)) as time:
        lease(harness, 800, size=1 << 22)
        time[0] += HOUR
        ledger = ledger_of(harness)
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ledger.hand_back, harness.system.turn)
            await trio.testing.wait_all_tasks_blocked()
            lease(harness, 10)
        assert (ledger.log.base, ledger.log.stop) == (800, 810)
        assert queue.backlog.ready == 890


async def test_full_queue_takes_back_what_it_gave(harness: Harness, autojump_clock: object) -> None:
    queue = harness.queue(options=QueueOptions(max_length=2, overflow=Overflow.REJECT_PUBLISH))
    publish(queue, *numbers(0, 2))
    with walled(ledgers_of(harness.directory)) as time:
        lease(harness)
        publish(queue, *numbers(2, 4))
        await let_hand_back(harness, time)
    assert ready(queue) == [b"2", b"3", b"0", b"1"]


# With a store


async def test_ledger_is_the_same_after_a_restart() -> None:
    store = MemoryStore()
    async with open_durable_harness(store) as durable:
        harness = durable.harness
        queue = harness.queue(options=QueueOptions(durable=True))
        publish(queue, *numbers(0, 6), head=PERSISTENT)
        lease(harness, 4)
        durable.disk.work()
        acknowledge(harness, 2)
        before = ledger_of(harness)
        durable.disk.work()
    async with open_durable_harness(store) as durable:
        harness = durable.harness
        ledger = ledger_of(harness)
        assert (ledger.log.identity, ledger.log.base, ledger.log.stop) == (before.log.identity, 2, 4)
        assert list(ledger.leases) == list(before.leases)
        assert await read_with(durable, ledger) == numbers(2, 4)
        assert backlog_of(harness.directory.queues["q"]).ready == 2
        acknowledge(harness, 4)
        harness.delete("q")
        durable.disk.work()
    _, directory = open_durable_directory(store, 1 << 20)
    assert directory.ledgers is None or len(directory.ledgers) == 0
    assert not directory.queues


async def read_with(durable: DurableHarness, ledger: GroupLedger) -> list[bytes]:
    """Read records while the disk works."""
    found: list[bytes] = []

    async def read() -> None:
        found.extend(await records(ledger))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        for _ in range(5):
            await trio.testing.wait_all_tasks_blocked()
            durable.disk.work()
    return found


@pytest.mark.parametrize("written", [0, 1, 2, 3])
async def test_message_is_in_one_place_whatever_reaches_the_disk(written: int) -> None:
    store = MemoryStore()
    async with open_durable_harness(store) as durable:
        harness = durable.harness
        queue = harness.queue(options=QueueOptions(durable=True))
        publish(queue, *numbers(0, 4), head=PERSISTENT)
        durable.disk.work()
        steps = (lambda: lease(harness, 2), lambda: lease(harness, 1), lambda: acknowledge(harness, 1))
        for step in steps[:written]:
            step()
            durable.disk.work()
        for step in steps[written : written + 1]:
            step()
            durable.disk.take()  # and it is killed before that is written
    _, directory = open_durable_directory(store, 1 << 20)
    ledger = None if directory.ledgers is None else directory.ledgers.find("q", "g", "")
    leased = 0 if ledger is None else ledger.log.stop - ledger.log.base
    queue_has = directory.queues["q"].backlog.ready
    assert (leased, queue_has) == [(0, 4), (2, 2), (3, 1), (2, 1)][written]


async def test_what_comes_back_is_in_the_queue_or_the_ledger_after_a_crash(autojump_clock: object) -> None:
    store = MemoryStore()
    async with open_durable_harness(store) as durable:
        harness = durable.harness
        queue = harness.queue(options=QueueOptions(durable=True))
        publish(queue, *numbers(0, 3), head=PERSISTENT)
        with walled(ledgers_of(harness.directory)) as time:
            lease(harness, 2)
            durable.disk.work()
            await let_hand_back(harness, time)
            assert queue.backlog.ready == 3
    _, directory = open_durable_directory(store, 1 << 20)  # nothing of that was written
    assert directory.ledgers is not None
    assert [ledger.log.stop for ledger in directory.ledgers] == [2]
    assert directory.queues["q"].backlog.ready == 1


async def test_lease_waits_for_messages_that_are_being_read() -> None:
    async with open_durable_harness(queue_memory=1) as durable:
        harness = durable.harness
        queue = harness.queue(options=QueueOptions(durable=True))
        publish(queue, *numbers(0, 3), head=PERSISTENT)
        durable.disk.work()
        lease(harness, 1)
        stop, most = 1, 10
        while stop < 3 and most:
            try:
                stop = lease(harness).bounds.stop
            except NotResident:
                durable.disk.work()
            most -= 1
        durable.disk.work()
        assert await read_with(durable, ledger_of(harness)) == numbers(0, 3)


async def test_domain_that_crashes_comes_back_with_its_ledgers(harness: Harness) -> None:
    publish(harness.queue(), *numbers(0, 2))
    lease(harness)
    ledger = ledger_of(harness)
    harness.crash_domain_nowait()
    await harness.domain.wait_running()
    assert await records(ledger) == numbers(0, 2)
