"""Credit: who pauses for a queue, until when, and how a queue's allowance grows and shrinks."""

import pytest
import trio
from trio.testing import MockClock

from core.durable import DurableHarness
from core.harness import HEAD, Consumer, Harness, publish, settle
from triomq.core import (
    EVERYTHING,
    CachedRoute,
    Feed,
    Head,
    Outcome,
    Publisher,
    Purge,
    QueueOptions,
    QueueState,
    RoutedRun,
    SinkKind,
    WaitingPublisher,
    bytes_ready,
)
from triomq.core.memory import MESSAGE_OVERHEAD
from triomq.core.publishing.credit import ALLOWANCE, LONGEST_PAUSE

PIECE = bytes(256 * 1024 - MESSAGE_OVERHEAD)
"""A sixteenth of the least allowance."""


class Client:
    """A client that publishes, and counts by how many queues it is held back.

    Args:
        harness: Where.
        waits: Whether it can wait.
    """

    def __init__(self, harness: Harness, route: CachedRoute | None = None, *, waits: bool = True) -> None:
        self.held_by = 0
        self._harness = harness
        self._waits = waits
        self._route = route or CachedRoute("", "q")
        self.publisher = Publisher(harness.directory, EVERYTHING, harness.system.turn)
        self.publisher.source = self

    def hold_back(self) -> bool:
        self.held_by += self._waits
        return self._waits

    def go_ahead(self, *, in_vain: bool) -> None:
        self.held_by -= 1

    def publish(self, pieces: int, head: Head = HEAD) -> None:
        """Publish in one turn."""
        run = RoutedRun(self._route, head, [PIECE] * pieces, pieces * len(PIECE))
        self._harness.turn(lambda: self.publisher.publish(*run))


class Worker:
    """A consumer that has one message at a time."""

    def __init__(self, harness: Harness, queue: QueueState) -> None:
        self._consumer: Consumer = harness.consumer()
        self.feed: Feed = harness.feed(queue, self._consumer, messages=1)

    def work(self, pieces: int = 1, outcome: Outcome = Outcome.ACCEPT) -> None:
        """Settle so many messages, each in a turn of its own, and have the next one."""
        for _ in range(pieces):
            [batch], self._consumer.batches = self._consumer.batches, []
            settle(batch, outcome)


def pieces(queue: QueueState) -> float:
    """How many messages are ready."""
    return bytes_ready(queue) / (len(PIECE) + MESSAGE_OVERHEAD)


def allowance(queue: QueueState) -> int:
    return ALLOWANCE if queue.allowance is None else queue.allowance.bytes


@pytest.fixture
def queue(harness: Harness) -> QueueState:
    return harness.queue()


@pytest.fixture
def client(harness: Harness) -> Client:
    return Client(harness)


@pytest.fixture
def worker(harness: Harness, queue: QueueState, client: Client) -> Worker:
    """One that has a message, beside a queue that is just above its allowance."""
    worker = Worker(harness, queue)
    client.publish(18)
    assert (pieces(queue), client.held_by) == (17, 0)
    return worker


# Who pauses, and for which queues


async def test_publisher_pauses_while_consumers_catch_up_until_half_of_the_allowance_is_left(
    queue: QueueState, client: Client, worker: Worker
) -> None:
    worker.work()
    client.publish(1)
    assert client.held_by == 1
    worker.work(8)
    assert (pieces(queue), client.held_by) == (9, 1)
    worker.work()
    assert (pieces(queue), client.held_by) == (8, 0)
    assert allowance(queue) == ALLOWANCE


async def test_publisher_below_the_allowance_never_pauses(harness: Harness, queue: QueueState, client: Client) -> None:
    worker = Worker(harness, queue)
    client.publish(16)
    for _ in range(50):
        worker.work()
        client.publish(1)
        assert client.held_by == 0
    assert queue.allowance is None


async def test_publisher_does_not_pause_for_consumers_that_take_nothing(
    queue: QueueState, client: Client, worker: Worker
) -> None:
    for _ in range(10):
        client.publish(4)
        assert client.held_by == 0


async def test_publisher_does_not_pause_for_a_queue_without_consumers(
    harness: Harness, queue: QueueState, client: Client, worker: Worker, autojump_clock: MockClock
) -> None:
    worker.work()
    harness.session.close_feed(worker.feed)
    client.publish(1)
    assert client.held_by == 1  # it still had one
    await trio.sleep(1)
    other = Client(harness)
    other.publish(40)
    other.publish(40)
    assert other.held_by == 0


async def test_queue_without_consumers_has_no_pause_when_it_was_never_read(queue: QueueState, client: Client) -> None:
    for _ in range(20):
        client.publish(10)
    assert (client.held_by, pieces(queue)) == (0, 200)


async def test_client_that_cannot_wait_is_left_alone(
    harness: Harness, queue: QueueState, worker: Worker, autojump_clock: MockClock
) -> None:
    other = Client(harness, waits=False)
    for _ in range(10):
        worker.work()
        other.publish(4)
    await trio.sleep(1)
    assert (other.held_by, allowance(queue)) == (0, ALLOWANCE)  # there was no pause that time could end


async def test_publisher_of_this_program_is_left_alone(harness: Harness, queue: QueueState, worker: Worker) -> None:
    program = Client(harness)
    program.publisher.source = None
    for _ in range(10):
        worker.work()
        program.publish(4)
    assert program.held_by == 0


async def test_turn_without_a_publish_holds_nobody_back(
    harness: Harness, queue: QueueState, client: Client, worker: Worker
) -> None:
    for _ in range(20):
        worker.work(outcome=Outcome.REQUEUE)
        publish(queue, PIECE)
    assert client.held_by == 0


async def test_all_who_publish_to_a_queue_pause_and_go_on(
    harness: Harness, queue: QueueState, client: Client, worker: Worker
) -> None:
    other = Client(harness)
    worker.work()
    client.publish(1)
    other.publish(1)
    assert (client.held_by, other.held_by) == (1, 1)
    worker.work(11)
    assert (client.held_by, other.held_by) == (0, 0)


async def test_publisher_that_goes_on_nevertheless_is_held_back_once(
    client: Client, worker: Worker, autojump_clock: MockClock
) -> None:
    worker.work()
    for _ in range(5):
        client.publish(1)
    assert client.held_by == 1
    await trio.sleep(1)
    assert client.held_by == 0


async def test_publisher_to_two_queues_waits_for_both(harness: Harness) -> None:
    harness.sink("both", SinkKind.FANOUT)
    queues = [harness.queue(name) for name in "ab"]
    for queue in queues:
        harness.bind("both", queue.name)
    workers = [Worker(harness, queue) for queue in queues]
    client = Client(harness, CachedRoute("both", ""))
    client.publish(18)
    for worker in workers:
        worker.work()
    client.publish(1)
    assert client.held_by == 2
    workers[0].work(9)
    assert client.held_by == 1
    workers[1].work(9)
    assert client.held_by == 0


async def test_paged_queue_counts_as_a_whole(durable: DurableHarness) -> None:
    harness = durable.harness
    queue, client = harness.queue(), Client(harness)
    worker = Worker(harness, queue)
    for _ in range(18):
        client.publish(1)
    assert queue.backlog.resident_bytes < ALLOWANCE / 2
    worker.work()
    client.publish(1)
    assert client.held_by == 1


# Time, and the allowance


async def test_pause_ends_by_time_and_the_allowance_doubles(
    queue: QueueState, client: Client, worker: Worker, autojump_clock: MockClock
) -> None:
    worker.work()
    client.publish(1)
    await trio.sleep(LONGEST_PAUSE * 0.9)
    assert (client.held_by, allowance(queue)) == (1, ALLOWANCE)
    await trio.sleep(LONGEST_PAUSE * 0.2)
    assert (client.held_by, allowance(queue)) == (0, 2 * ALLOWANCE)
    worker.work()
    client.publish(14)
    assert client.held_by == 0  # below 8 MiB


async def test_queue_that_held_much_before_its_consumers_came_costs_one_pause(
    harness: Harness, queue: QueueState, client: Client, autojump_clock: MockClock
) -> None:
    client.publish(1000)
    worker = Worker(harness, queue)
    client.publish(1)
    assert client.held_by == 1
    await trio.sleep(2 * LONGEST_PAUSE)
    assert allowance(queue) == 64 * ALLOWANCE  # 1001 sixteenths
    worker.work()
    client.publish(1)
    assert client.held_by == 0


async def test_queue_that_held_much_gets_short_again_where_consumers_are_fast(
    harness: Harness, queue: QueueState, client: Client, autojump_clock: MockClock
) -> None:
    client.publish(1000)
    worker = Worker(harness, queue)
    client.publish(1)
    await trio.sleep(2 * LONGEST_PAUSE)
    for halved in (64, 32, 16, 8, 4, 2, 1):
        assert allowance(queue) == halved * ALLOWANCE
        worker.work(8)  # 2 MiB in 20 ms
        await trio.sleep(LONGEST_PAUSE)
        worker.work()
    for _ in range(3):
        client.publish(1)
        assert client.held_by == 1
        worker.work(8)
        await trio.sleep(1.01 * LONGEST_PAUSE)
        assert (client.held_by, allowance(queue)) == (0, ALLOWANCE)


async def test_slow_workers_cost_their_publisher_a_pause_for_each_doubling_and_no_more(
    harness: Harness, queue: QueueState, client: Client, autojump_clock: MockClock
) -> None:
    worker, sent, pauses = Worker(harness, queue), 0, 0
    while sent < 2000:
        client.publish(1)
        sent += 1
        if sent % 10 == 2:
            worker.work()
        if client.held_by:
            pauses += 1
            await trio.sleep(1.01 * LONGEST_PAUSE)
            assert not client.held_by
    assert (pauses, allowance(queue)) == (7, 128 * ALLOWANCE)  # 1,800 sixteenths


async def test_allowance_halves_again_as_the_queue_gets_low(
    harness: Harness, queue: QueueState, client: Client, autojump_clock: MockClock
) -> None:
    client.publish(100)
    worker = Worker(harness, queue)
    client.publish(1)
    await trio.sleep(2 * LONGEST_PAUSE)
    assert allowance(queue) == 8 * ALLOWANCE
    worker.work(68)
    assert allowance(queue) == 4 * ALLOWANCE
    worker.work(16)
    assert allowance(queue) == 2 * ALLOWANCE
    worker.work(12)
    assert (pieces(queue), queue.allowance) == (4, None)


async def test_purge_ends_a_pause(queue: QueueState, client: Client, worker: Worker) -> None:
    worker.work()
    client.publish(1)
    queue.ref.ask_nowait(Purge())
    await trio.testing.wait_all_tasks_blocked()
    assert (client.held_by, queue.allowance) == (0, None)


@pytest.mark.usefixtures("quiet_crashes")
async def test_crash_ends_a_pause(
    harness: Harness, queue: QueueState, client: Client, worker: Worker, autojump_clock: MockClock
) -> None:
    worker.work()
    client.publish(1)
    await harness.crash(queue)
    assert client.held_by == 0
    await trio.sleep(1)
    assert client.held_by == 0


@pytest.mark.usefixtures("quiet_crashes")
async def test_crash_of_the_domain_ends_a_pause(
    harness: Harness, client: Client, worker: Worker, autojump_clock: MockClock
) -> None:
    worker.work()
    client.publish(1)
    harness.crash_domain_nowait()
    await trio.sleep(1)
    assert client.held_by == 0


async def test_deletion_ends_a_pause(harness: Harness, queue: QueueState, client: Client, worker: Worker) -> None:
    worker.work()
    client.publish(1)
    harness.delete("q")
    await trio.testing.wait_all_tasks_blocked()
    assert (client.held_by, queue.allowance) == (0, None)


async def test_other_deadlines_of_the_queue_do_not_lose_the_end_of_a_pause(
    harness: Harness, client: Client, autojump_clock: MockClock
) -> None:
    queue = harness.queue(options=QueueOptions(message_ttl=LONGEST_PAUSE / 2))
    worker = Worker(harness, queue)
    client.publish(18)
    worker.work()
    await trio.sleep(LONGEST_PAUSE / 4)
    client.publish(20)
    assert client.held_by == 1
    await trio.sleep(LONGEST_PAUSE / 2)  # the first ones have expired
    assert (pieces(queue), client.held_by) == (20, 1)
    await trio.sleep(LONGEST_PAUSE)
    assert client.held_by == 0


# Tasks


async def test_task_waits_for_the_queue_that_it_has_filled_and_others_do_not(
    harness: Harness, queue: QueueState, worker: Worker, autojump_clock: MockClock
) -> None:
    harness.queue("other")
    turn, ended = harness.system.turn, list[str]()
    way = WaitingPublisher(Publisher(harness.directory, EVERYTHING, turn), harness.directory, turn)

    async def publish_one(name: str) -> None:
        await way.publish(RoutedRun(CachedRoute("", name), HEAD, [PIECE], len(PIECE)))
        ended.append(name)

    worker.work()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(publish_one, "q")
        await trio.testing.wait_all_tasks_blocked()
        assert (pieces(queue), ended) == (17, [])
        await publish_one("other")
        assert ended == ["other"]
        way.publish_nowait(RoutedRun(CachedRoute("", "q"), HEAD, [PIECE], len(PIECE)))
        worker.work(10)
    assert (pieces(queue), ended) == (8, ["other", "q"])


async def test_task_goes_on_by_time(worker: Worker, harness: Harness, autojump_clock: MockClock) -> None:
    turn = harness.system.turn
    way = WaitingPublisher(Publisher(harness.directory, EVERYTHING, turn), harness.directory, turn)
    worker.work()
    began = trio.current_time()
    await way.publish(RoutedRun(CachedRoute("", "q"), HEAD, [PIECE], len(PIECE)))
    assert trio.current_time() - began == pytest.approx(LONGEST_PAUSE)
