"""When the memory alarm begins and ends, and what is counted."""

import logging

import pytest
import trio
from trio.testing import MockClock

from core.harness import HEAD, Harness, open_harness, publish, settle
from triomq.core import (
    EVERYTHING,
    CachedRoute,
    Get,
    Head,
    MemoryAlarm,
    Publish,
    Publisher,
    PublishingPaused,
    Purge,
    QueueOptions,
    QueueState,
)
from triomq.core.memory import MESSAGE_OVERHEAD, bytes_in

MIB = 1024 * 1024


def held(queue: QueueState) -> int:
    """What a queue holds beside the overhead of its messages."""
    backlog, delayed = queue.backlog, queue.delayed
    count = backlog.ready + backlog.unsettled + (delayed.count if delayed is not None else 0)
    return bytes_in(queue) - count * MESSAGE_OVERHEAD


async def test_messages_count_wherever_they_are(harness: Harness, autojump_clock: MockClock) -> None:
    queue = harness.queue()
    publish(queue, b"x" * 100, b"y" * 200, b"z" * 400)
    assert held(queue) == 700
    harness.feed(queue, harness.consumer())
    assert (queue.backlog.unsettled, held(queue)) == (3, 700)
    (batch,) = queue.backlog.outstanding()
    settle(batch, positions=[0])
    assert held(queue) == 600
    settle(batch)
    assert bytes_in(queue) == 0


async def test_messages_that_were_got_count_too(harness: Harness, autojump_clock: MockClock) -> None:
    queue = harness.queue(options=QueueOptions(max_priority=3))
    publish(queue, b"x" * 100)
    batch = queue.ref.ask_nowait(Get())
    assert batch is not None
    assert held(queue) == 100
    settle(batch)
    assert bytes_in(queue) == 0


async def test_delayed_messages_count_too(harness: Harness, autojump_clock: MockClock) -> None:
    queue = harness.queue()
    queue.ref.tell_nowait(Publish(HEAD, [b"x" * 100], 100, delay=5))
    assert held(queue) == 100
    await trio.sleep(6)
    assert (queue.backlog.ready, held(queue)) == (1, 100)
    queue.ref.tell_nowait(Publish(HEAD, [b"x" * 100], 100, delay=5))
    queue.ref.ask_nowait(Purge())
    assert bytes_in(queue) == 0


def alarm(harness: Harness, mark: int) -> MemoryAlarm:
    memory = harness.directory.memory
    memory.mark = mark
    return memory


async def test_sum_is_taken_before_the_next_publish_when_enough_has_come(
    harness: Harness, autojump_clock: MockClock
) -> None:
    memory, route = alarm(harness, 4 * MIB), CachedRoute("", harness.queue().name)
    publisher = Publisher(harness.directory, EVERYTHING, harness.system.turn)
    for _ in range(8):
        assert harness.turn(lambda: publisher.publish(route, Head(), [b"x" * MIB], MIB)) == 1
        assert not memory.on
    with pytest.raises(PublishingPaused):
        harness.turn(lambda: publisher.publish(route, Head(), [b"x"], 1))
    assert memory.held == 8 * (MIB + MESSAGE_OVERHEAD)


async def test_routes_are_looked_for_anew_when_it_begins_and_when_it_ends(
    harness: Harness, autojump_clock: MockClock
) -> None:
    memory, queue = alarm(harness, 1000), harness.queue()
    publish(queue, b"x" * 2000)
    before = harness.directory.version
    memory.measure()
    during = harness.directory.version
    memory.measure()
    assert (memory.on, during - before, harness.directory.version) == (True, 1, during)
    queue.ref.ask_nowait(Purge())
    memory.measure()
    assert (memory.on, harness.directory.version - during) == (False, 1)


async def test_alarm_ends_somewhat_below_the_mark(harness: Harness, autojump_clock: MockClock) -> None:
    memory, queue = alarm(harness, 10_000), harness.queue()
    publish(queue, *[b"x" * (1000 - MESSAGE_OVERHEAD)] * 11)
    memory.measure()
    for left, on in ((11, True), (10, True), (9, False), (10, False), (11, True)):
        queue.ref.ask_nowait(Purge())
        publish(queue, *[b"x" * (1000 - MESSAGE_OVERHEAD)] * left)
        memory.measure()
        assert memory.on == on, left


async def test_alarm_measures_twice_a_second_until_it_is_over(autojump_clock: MockClock) -> None:
    async with open_harness() as harness, trio.open_nursery() as nursery:
        memory, queue = alarm(harness, 1000), harness.queue()
        nursery.start_soon(memory.run)
        for _ in range(2):
            publish(queue, b"x" * 2000)
            memory.measure()
            queue.ref.ask_nowait(Purge())
            began, over = trio.current_time(), trio.Event()
            memory.when_over(over.set)
            await over.wait()
            assert not memory.on
            assert trio.current_time() - began == 0.5
        nursery.cancel_scope.cancel()


async def test_callback_is_called_once_unless_it_was_withdrawn(harness: Harness, autojump_clock: MockClock) -> None:
    memory, queue = alarm(harness, 1000), harness.queue()
    told: list[str] = []
    ours, others = (lambda: told.append("ours")), (lambda: told.append("others"))
    memory.when_over(ours)
    memory.when_over(others)
    memory.forget(others)
    for _ in range(2):
        publish(queue, b"x" * 2000)
        memory.measure()
        queue.ref.ask_nowait(Purge())
        memory.measure()
    assert told == ["ours"]


async def test_as_long_as_the_process_is_small_nobody_cares(harness: Harness, autojump_clock: MockClock) -> None:
    resident = 500
    memory = MemoryAlarm(1000, lambda: resident)
    memory.watch(harness.directory)
    publish(harness.queue(), b"x" * 2000)
    memory.measure()
    assert (memory.on, memory.held) == (False, 500)
    resident = 1500
    memory.measure()
    assert (memory.on, memory.held) == (True, 1500)


async def test_another_mark_holds_at_once_and_none_ends_it(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_harness() as harness:
        memory = harness.directory.memory
        publish(harness.queue(), b"x" * 2000)
        memory.measure()
        assert not memory.on
        memory.set_mark(1000)
        assert memory.on
        memory.set_mark(5000)
        assert not memory.on
        memory.set_mark(1000)
        memory.set_mark(0)
        assert not memory.on
    said = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert said == ["memory alarm", "memory alarm is over"] * 2


class Machine:
    """A process of a hundred MiB at most, by its figures; gives back only what is over ``stays``."""

    limit = 100 * MIB

    def __init__(self) -> None:
        self.has = self.stays = 10 * MIB
        self.collected = 0

    def anonymous(self) -> int:
        return self.has

    def give_back(self) -> None:
        self.collected += 1
        self.has = min(self.has, self.stays)


def watched(harness: Harness, mark: int) -> tuple[MemoryAlarm, Machine]:
    memory, machine = alarm(harness, mark), Machine()
    memory.watch_process(machine)
    return memory, machine


async def test_large_process_starts_the_alarm_and_a_small_one_ends_it(autojump_clock: MockClock) -> None:
    async with open_harness() as harness, trio.open_nursery() as nursery:
        memory, machine = watched(harness, 1000)
        publish(harness.queue(), b"x" * 500)  # more than half the mark
        nursery.start_soon(memory.run)
        for has, on in [(60, False), (61, True), (55, True), (54, False), (60, False), (61, True)]:
            machine.has = has * MIB
            await trio.sleep(0.6)
            assert memory.on == on, has
        assert not machine.collected
        nursery.cancel_scope.cancel()


async def test_little_in_queues_ends_the_alarm_once_all_was_given_back(
    harness: Harness, autojump_clock: MockClock
) -> None:
    memory, machine = watched(harness, 1000)
    queue = harness.queue()
    publish(queue, b"x" * 500)
    machine.has, machine.stays = 80 * MIB, 70 * MIB
    memory.measure()
    memory.measure()
    assert (memory.on, machine.collected) == (True, 0)
    queue.ref.ask_nowait(Purge())
    memory.measure()
    assert (memory.on, machine.collected, machine.has) == (False, 1, 70 * MIB)


async def test_only_growth_above_what_stayed_starts_it_again(harness: Harness, autojump_clock: MockClock) -> None:
    memory, machine = watched(harness, 1000)
    machine.has = machine.stays = 70 * MIB
    memory.measure()
    assert memory.on
    memory.measure()
    assert not memory.on
    machine.has = 77 * MIB
    memory.measure()
    assert not memory.on
    machine.has = 78 * MIB
    memory.measure()
    assert memory.on
    machine.has = 50 * MIB  # what had stayed is gone: as at first
    memory.measure()
    assert not memory.on
    machine.has = 61 * MIB
    memory.measure()
    assert memory.on


async def test_reason_is_what_there_is_too_much_of(harness: Harness, autojump_clock: MockClock) -> None:
    memory, machine = watched(harness, 1000)
    machine.has = 70 * MIB
    memory.measure()
    assert memory.reason == "the process has 73400320 bytes of memory, more than it should (62914560)"
    publish(harness.queue(), b"x" * 2000)
    memory.measure()
    assert memory.reason == "queues hold 2128 bytes, more than memory_high_watermark allows (1000)"


async def test_full_queues_keep_it_on_whatever_the_process_has(harness: Harness, autojump_clock: MockClock) -> None:
    memory, machine = watched(harness, 1000)
    publish(harness.queue(), b"x" * 2000)
    for has in (10, 70, 10):
        machine.has = has * MIB
        memory.measure()
        assert memory.on
    memory.set_mark(0)
    assert not memory.on


async def test_without_a_mark_the_process_may_be_as_large_as_it_likes(
    harness: Harness, autojump_clock: MockClock
) -> None:
    memory, machine = watched(harness, 0)
    machine.has = 99 * MIB
    memory.measure()
    assert not memory.on
