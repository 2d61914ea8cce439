"""Early confirms against a small model: whatever is published, settled, moved and crashed, nothing confirmed is lost.

The model does not know in which batch anything is. It knows what was confirmed, and what consumers have decided; after
a crash everything that is left is taken out, and each confirmed copy must be somewhere: in its queue, with a consumer
that has accepted it, in the queue of its dead letters, or replaced by a transaction that is on disk.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from memory_store import MemoryStore
from triomq.core import (
    Batch,
    CloseFeed,
    Confirms,
    Directory,
    Feed,
    Get,
    NotResident,
    OpenFeed,
    Outcome,
    Persistence,
    Publish,
    Purge,
    QueueOptions,
    QueueState,
    Settle,
    Transaction,
    Window,
    recover,
)

from .durable import PERSISTENT, TRANSIENT
from .harness import settle
from .machine.stepped_harness import SteppedHarness
from .simulated_disk import SimulatedDisk

Copy = tuple[str, bytes]
"""A queue's name, and the body of one of its messages."""


def lettered(name: str, **options: object) -> QueueOptions:
    """Return options of a queue whose dead letters go to one of its own."""
    return QueueOptions(dead_letter_sink="", dead_letter_key=f"letters of {name}", **options)  # type: ignore[arg-type]


QUEUES = {
    "plain": QueueOptions(),
    "other": QueueOptions(),
    "limited": lettered("limited", delivery_limit=1),
    "short": lettered("short", max_length=2),
    "levels": QueueOptions(max_priority=2),
    "letters of limited": QueueOptions(),
    "letters of short": QueueOptions(),
}
NAMES = [name for name in QUEUES if not name.startswith("letters")]
SOME_NAMES = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True)
ALL_NAMES = st.sampled_from(list(QUEUES))
COUNTS = st.sampled_from([1, 1, 2, 4])
ACCEPT_MOSTLY = st.sampled_from([Outcome.ACCEPT, Outcome.ACCEPT, Outcome.REJECT, Outcome.REQUEUE, Outcome.RETURN])


class Out:
    """A delivery that is not settled."""

    def __init__(self, name: str, batch: Batch, position: int) -> None:
        self.name, self.batch, self.position = name, batch, position
        self.copy = name, batch.message(position).body


class Commit:
    """A transaction, the copies that it has accepted, and those that it has published."""

    def __init__(self, accepted: set[Copy], published: set[Copy], number: int) -> None:
        self.accepted, self.published, self.number = accepted, published, number


@pytest.fixture(autouse=True)
def small_pieces(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have many segments and spills; do not log crashes on purpose."""
    caplog.set_level(logging.CRITICAL, "triomq")
    monkeypatch.setattr("triomq.store.batch_builder._SEGMENT", 8)
    monkeypatch.setattr("triomq.store.batch_builder._THIN", 10)
    monkeypatch.setattr("triomq.core.backlog.tail._SPILL", 3)


class EarlyConfirmsMachine(RuleBasedStateMachine):
    """Queues of all kinds, consumers, transactions and a disk."""

    @initialize(memory=st.sampled_from([1 << 20, 300, 1]))
    def begin(self, memory: int) -> None:
        self.memory, self.serial = memory, 0
        self.store = MemoryStore()
        self.open()
        for name, options in QUEUES.items():
            self.stepped.turn(partial(self.stepped.harness.queue, name, options))
        self.disk.work()
        self.consume_all()

    def consume_all(self) -> None:
        for name in QUEUES:
            self.consume(name, 0, automatic=False)

    def open(self) -> None:
        """Start a broker over what the store has."""
        self.disk = SimulatedDisk(self.store)
        self.persistence = Persistence(self.disk.journal, self.memory)
        self.stepped = SteppedHarness(self.make_directory)
        self.woken = False
        self.confirms = Confirms(self.wake, self.persistence, self.wake)
        self.awaited: dict[int, list[Copy]] = {}  # by number of the publish
        self.confirmed: set[Copy] = set()
        self.accepted: dict[Copy, int] = {}  # with the batch that was open then
        self.dropped: set[Copy] = set()
        self.commits: list[Commit] = []
        self.feeds: dict[Feed, str] = {}
        self.automatic: set[str] = set()
        self.deliveries: list[Batch] = []
        self.out: list[Out] = []

    def make_directory(self) -> Directory:
        directory = Directory("domain", persistence=self.persistence)
        recover(directory)
        return directory

    def wake(self) -> None:
        self.woken = True

    def teardown(self) -> None:
        if hasattr(self, "stepped"):
            self.stepped.close()

    def queue(self, name: str) -> QueueState:
        return self.stepped.harness.directory.queues[name]

    def turn(self, function: Callable[[], object]) -> None:
        self.stepped.turn(function)
        self.follow()

    def follow(self) -> None:
        """Follow deliveries, which automatic consumers accept at once, and confirms."""
        while self.deliveries:
            batches, self.deliveries[:] = list(self.deliveries), []
            for batch in batches:
                assert batch.queue is not None
                name = self.stepped.harness.directory.name_of(batch.queue)
                outs = [Out(name, batch, position) for position in batch.unsettled()]
                if name in self.automatic:
                    self.stepped.turn(partial(self.settle, outs, Outcome.ACCEPT, whole=True))
                else:
                    self.out += outs
        if self.woken:
            self.woken = False
            confirmed = self.confirms.take()
            numbers = [number for number in self.awaited if number <= confirmed.up_to]
            for number in [*numbers, *confirmed.single]:
                self.confirmed.update(self.awaited.pop(number))
            assert not confirmed.refused

    # Publishing

    def make(self, names: Sequence[str], count: int) -> tuple[list[bytes], list[list[Copy]]]:
        """Return new bodies, and for each the copies that there will be."""
        bodies = [b"%d" % (self.serial + number) for number in range(count)]
        self.serial += count
        return bodies, [[(name, body) for name in names] for body in bodies]

    @rule(names=SOME_NAMES, count=COUNTS)
    def publish(self, names: list[str], count: int) -> None:
        bodies, copies = self.make(names, count)
        receipt = self.confirms.expect(count, count * len(names))
        self.awaited |= dict(enumerate(copies, receipt.first))
        message = Publish(PERSISTENT, bodies, sum(map(len, bodies)), receipt)

        def publish() -> None:
            for name in names:
                self.queue(name).ref.tell_nowait(message)

        self.turn(publish)

    def publish_transient(self, name: str) -> None:
        self.turn(lambda: self.queue(name).ref.tell_nowait(Publish(TRANSIENT, [b"transient"], 9)))

    # Consuming

    @rule(data=st.data(), name=ALL_NAMES, limit=st.sampled_from([0, 1, 3]), automatic=st.booleans())
    def consume_otherwise(self, data: st.DataObject, name: str, limit: int, automatic: bool) -> None:
        if len(self.feeds) > 5:
            self.close(data.draw(st.sampled_from(list(self.feeds))))
        self.consume(name, limit, automatic=automatic)

    def consume(self, name: str, limit: int, *, automatic: bool) -> None:
        if automatic:
            self.automatic.add(name)

        def consume() -> None:
            consumer, ref = self.stepped.harness.consumer(self.deliveries), self.queue(name).ref
            feed = Feed(ref, consumer.ref, window=Window(limit))
            ref.ask_nowait(OpenFeed(feed))
            self.feeds[feed] = name

        self.turn(consume)

    def close(self, feed: Feed) -> None:
        self.automatic.discard(self.feeds.pop(feed))
        self.turn(lambda: feed.queue.tell_nowait(CloseFeed(feed)))

    def settle(self, outs: Sequence[Out], outcome: Outcome, *, whole: bool = False) -> None:
        """Settle deliveries of one batch."""
        batch, name = outs[0].batch, outs[0].name
        if outcome is Outcome.ACCEPT:
            self.accepted |= dict.fromkeys((out.copy for out in outs), self.disk.journal.open_batch)
        elif outcome is Outcome.REJECT and QUEUES[name].dead_letter_sink is None:
            self.dropped.update(out.copy for out in outs)
        assert batch.queue is not None
        batch.queue.tell_nowait(Settle(batch, outcome, None if whole else [out.position for out in outs]))

    def draw_out(self, data: st.DataObject) -> list[Out]:
        """Choose deliveries that are to be settled, and forget them."""
        chosen = data.draw(st.lists(st.sampled_from(self.out), min_size=1, unique=True))
        self.out = [out for out in self.out if out not in chosen]
        return chosen

    @precondition(lambda self: self.out)
    @rule(data=st.data(), outcome=ACCEPT_MOSTLY)
    def settle_some(self, data: st.DataObject, outcome: Outcome) -> None:
        chosen = self.draw_out(data)

        def settle() -> None:
            for out in chosen:
                self.settle([out], outcome)

        self.turn(settle)

    @rule(outcome=ACCEPT_MOSTLY)
    def settle_all(self, outcome: Outcome) -> None:
        out, self.out = self.out, []

        def settle() -> None:
            for batch in dict.fromkeys(each.batch for each in out):
                self.settle([each for each in out if each.batch is batch], outcome, whole=True)

        self.turn(settle)

    @rule(names=SOME_NAMES, count=COUNTS, outcome=ACCEPT_MOSTLY)
    def publish_and_settle(self, names: list[str], count: int, outcome: Outcome) -> None:
        """Do what fits into one batch most often."""
        self.publish(names, count)
        self.settle_all(outcome)

    @rule(names=SOME_NAMES, count=COUNTS)
    def publish_and_move(self, names: list[str], count: int) -> None:
        self.publish(names, count)
        chosen, self.out = self.out, []
        self.move(chosen, count)

    @precondition(lambda self: self.out)
    @rule(data=st.data(), count=COUNTS)
    def move_some(self, data: st.DataObject, count: int) -> None:
        self.move(self.draw_out(data), count)

    def move(self, chosen: Sequence[Out], count: int) -> None:
        """Accept some in a transaction that publishes others."""
        bodies, copies = self.make(["other"], count)
        transaction = Transaction(self.stepped.harness.directory)
        transaction.publish([self.queue("other").ref], Publish(PERSISTENT, bodies, sum(map(len, bodies))))
        for out in chosen:
            transaction.settle(out.batch, Outcome.ACCEPT, [out.position])

        def commit() -> None:
            transaction.commit()
            published = {copy for each in copies for copy in each}
            self.commits.append(Commit({out.copy for out in chosen}, published, self.persistence.sync_point))

        self.turn(commit)

    @rule(name=ALL_NAMES, what=st.sampled_from(["publish a transient message", "purge", "crash"]))
    def disturb(self, name: str, what: str) -> None:
        if what == "crash":
            self.crash_queue(name)
        elif what == "purge":
            self.purge(name)
        else:
            self.publish_transient(name)

    def purge(self, name: str) -> None:
        ready = {(name, entry.message.body) for entry in self.queue(name).backlog.entries()}
        if not getattr(self.queue(name).backlog, "paged", 0):
            self.dropped |= ready
            self.turn(lambda: self.queue(name).ref.ask_nowait(Purge()))

    def crash_queue(self, name: str) -> None:
        self.stepped.turn(lambda: self.stepped.harness.crash_nowait(self.queue(name)))
        self.out = [out for out in self.out if out.name != name]
        self.feeds = {feed: other for feed, other in self.feeds.items() if other != name}
        self.automatic.discard(name)
        self.stepped.rest()
        self.follow()

    # The disk

    @rule(takes=st.integers(0, 2), patient=st.booleans(), writes=st.integers(0, 2), answers=st.booleans())
    def work(self, takes: int, patient: bool, writes: int, answers: bool) -> None:
        """Take the next batches, write some, and answer; or not all of that."""
        for _ in range(takes):
            self.disk.take(patient=patient)
        self.disk.write(writes)
        if answers:
            self.disk.answer()
        self.follow()

    @rule()
    def settle_down(self) -> None:
        """Let the disk work: then nobody waits for anything any more."""
        self.disk.work()
        self.follow()
        assert not self.awaited, "a confirm is waited for that will never come"
        assert self.persistence.sync_point <= self.disk.journal.committed, "a reply is held that will never be released"

    @rule(name=st.sampled_from(NAMES), count=COUNTS, outcome=st.sampled_from([*Outcome, None]), crashes=st.booleans())
    def do_all_in_one_batch(self, name: str, count: int, outcome: Outcome | None, crashes: bool) -> None:
        """Publish, and let consumers do something with it, before anything is sent; None is a move."""
        self.settle_down()
        if outcome is None:
            self.publish_and_move([name], count)
        else:
            self.publish_and_settle([name], count, outcome)
        if crashes:
            self.crash(0)
        else:
            self.settle_down()

    @rule(writes=st.integers(0, 2))
    def crash(self, writes: int) -> None:
        """Lose all that is not on disk, and look for what was confirmed."""
        self.disk.write(writes)
        on_disk = self.store.committed
        confirmed, accepted, dropped, commits = self.confirmed, self.accepted, self.dropped, self.commits
        self.stepped.close()
        self.open()
        left = self.take_all_out()
        moved = {copy for each in commits if each.number <= on_disk for copy in each.accepted}
        safe = accepted.keys() | dropped | left | moved
        for name, body in confirmed:
            assert {(name, body), (f"letters of {name}", body)} & safe, f"{body!r} was confirmed, and is lost"
        for commit in commits:
            if commit.number <= on_disk:
                assert not commit.accepted & left, "a transaction that is on disk was not done"
                assert commit.published <= safe, "a transaction that is on disk was not done"
            else:
                assert not commit.published & left, "a part of a transaction is on disk"
        for copy, number in accepted.items():
            assert number > on_disk or copy not in left, "what was settled on disk came again"
        self.consume_all()

    def get(self, queue: QueueState) -> Batch | None:
        """Get a message; the disk works if that is asked of it."""
        try:
            return queue.ref.ask_nowait(Get())
        except NotResident:
            self.disk.work()
            return queue.ref.ask_nowait(Get())

    def take_all_out(self) -> set[Copy]:
        """Empty all queues, and return what was in them."""
        left: set[Copy] = set()
        for name in QUEUES:
            while (batch := self.get(self.queue(name))) is not None:
                left.add((name, batch.message(0).body))
                settle(batch)
        self.disk.work()
        return left


TestEarlyConfirmsMachine = EarlyConfirmsMachine.TestCase
TestEarlyConfirmsMachine.settings = settings(stateful_step_count=30, max_examples=max(400, settings().max_examples))
