"""A broker with a store, for machines: the house, its disk, its books, and its end and new beginning."""

from collections.abc import Callable
from functools import partial
from typing import ClassVar, TypeVar

from hypothesis.stateful import RuleBasedStateMachine, invariant

from memory_store import MemoryStore
from triomq.core import (
    Batch,
    Confirms,
    DeleteQueue,
    Directory,
    Enlist,
    Feed,
    Head,
    Persistence,
    Publish,
    QueueOptions,
    Receipt,
    recover,
)

from ..harness import Consumer
from ..simulated_disk import SimulatedDisk
from .kept_books import Kept, Putting, QueueBooks
from .kept_topology import Picture, Topology
from .model import Kind
from .still_harness import StillHarness
from .wall_clock import WALL_CLOCK

T = TypeVar("T")
Runs = list[tuple[Kind, list[int]]]
QueuePicture = tuple[dict[int, Kept], list[Putting]]

LETTERS = "letters"
"""The queue that dead letters go to."""


class Taking:
    """An open feed."""

    def __init__(self, feed: Feed, name: str, consumer: Consumer, limit: int) -> None:
        self.feed = feed
        self.name = name
        self.consumer = consumer
        self.limit = limit


class Told:
    """A publish of this turn."""

    def __init__(self, receipt: Receipt, messages: list[Kept], delay: float) -> None:
        self.receipt = receipt
        self.messages = messages
        self.delay = delay


class DurableHarness(RuleBasedStateMachine):
    """A domain, a disk, and the books of both; subclasses say what happens."""

    choice: ClassVar[tuple[QueueOptions, ...]] = (QueueOptions(),)
    kinds: ClassVar[list[Kind]] = []
    still: StillHarness

    def __init__(self) -> None:
        super().__init__()
        WALL_CLOCK.begin()
        self.serial = 0
        self.store = MemoryStore()
        self.memory = 0
        self.pictures: dict[int, tuple[Picture, dict[str, QueuePicture]]] = {}
        self.begin_life()

    # Lives

    def begin_life(self) -> None:
        """Start a broker over what the store has, with books that say what that must be."""
        picture, queues = self.pictures.get(self.store.committed, (None, {}))
        self.disk = SimulatedDisk(self.store)
        self.persistence = Persistence(self.disk.journal, self.memory)
        WALL_CLOCK.stop()
        self.still = StillHarness(self.make_directory)
        WALL_CLOCK.go_with(self.still)
        self.harness = self.still.harness
        self.topology = Topology(picture)
        self.topology.check(self.harness.directory)
        self.deliveries: list[Batch] = []
        self.feeds: dict[Feed, Taking] = {}
        self.dead: list[Batch] = []
        self.told: list[Told] = []
        self.waiting: list[tuple[str, list[None]]] = []  # who was told that messages are not at hand
        self.books: dict[str, QueueBooks] = {}
        for name in self.topology.queues:
            self.books[name] = self.open_books(name)
            self.books[name].begin_with(queues[name])
        self.pictures = {self.store.committed: self.picture()}
        self.begin_confirms()
        self.after()

    def make_directory(self) -> Directory:
        directory = Directory("domain", persistence=self.persistence)
        recover(directory)
        return directory

    def open_books(self, name: str) -> QueueBooks:
        return QueueBooks(self.harness.directory.queues[name], lambda message: self.dead_letter(name, message))

    def dead_letter(self, name: str, message: Kept) -> int:
        """Enter that a queue gave a message up, and tell how many queues that went to."""
        letters = self.books.get(LETTERS)
        if self.books[name].options.dead_letter_sink is None or letters is None:
            return 0
        persistent = message.kind.head.persistent
        kept = letters.queue.durable and persistent
        letters.place(Kept(Kind(Head(persistent=persistent)), message.body, 0.0, kept), self.now)
        letters.counts.published += 1
        return 1

    def picture(self) -> tuple[Picture, dict[str, QueuePicture]]:
        """Give what must be there after a crash, if all is on disk that was said by now."""
        durable = [(name, books) for name, books in self.books.items() if books.queue.durable]
        return self.topology.picture(), {name: books.picture() for name, books in durable}

    def teardown(self) -> None:
        self.still.close()

    # Declaring

    def declare(self, name: str, options: QueueOptions) -> None:
        self.turn(lambda: self.harness.queue(name, options))
        self.topology.queues[name] = options
        self.books[name] = self.open_books(name)

    def delete(self, name: str) -> None:
        self.dead += [out.batch for out in self.books[name].out.values()]
        self.forget_feeds(name)
        del self.books[name]
        self.topology.forget_queue(name)
        self.turn(lambda: self.harness.domain.ask_nowait(DeleteQueue(name, self.harness.session)))
        self.check_waiting(name)

    def forget_feeds(self, name: str) -> None:
        self.feeds = {feed: taking for feed, taking in self.feeds.items() if taking.name != name}

    # Publishing and confirming

    def begin_confirms(self) -> None:
        self.promised: dict[int, int] = {}  # by number of the publish: the batch that it must be in; 0 for none
        self.woken = False
        self.confirms = Confirms(self.wake, self.persistence, self.wake)
        self.confirmed = 0  # all up to here

    def wake(self) -> None:
        self.woken = True

    def tell_runs(self, name: str, runs: Runs, *, delay: float = 0.0) -> None:
        """Publish runs, with receipts."""
        books = self.books[name]
        for kind, sizes in runs:
            contents = [kind.content(self.serial + number, size) for number, size in enumerate(sizes)]
            self.serial += len(contents)
            receipt = self.confirms.expect(len(contents), 1)
            messages = [books.make(kind, content) for content in contents]
            self.told.append(Told(receipt, messages, delay))
            size = sum(map(len, contents))
            books.queue.ref.tell_nowait(Publish(kind.head, contents, size, receipt, delay=delay))

    def place_told(self, books: QueueBooks) -> int | None:
        """Enter what was placed in this turn, and give the place of the last message."""
        told, self.told = self.told, []
        most, before, first = books.options.max_length, len(books.ready), books.next
        for one in told:
            receipt, messages = one.receipt, one.messages
            assert not receipt.missing
            refused = len(receipt.refusals or ())
            placed = messages[: len(messages) - refused]
            if refused:
                assert books.rejects
                assert most is not None
                assert before + len(placed) >= most, "refused, though it fits"
            for number, message in enumerate(messages, receipt.first):
                if number not in (receipt.refusals or ()):
                    self.promised[number] = self.taken + 1 if message.is_kept else 0
            self.enter(books, placed, one.delay)
            before += len(placed)
            books.counts.published += len(placed)
            books.refused += refused
        return books.next - 1 if books.next > first else None

    def enter(self, books: QueueBooks, placed: list[Kept], delay: float) -> None:
        if delay:
            books.put_off.append(Putting(self.now + delay, placed))
            return
        for message in placed:
            books.place(message, self.now)

    def hear_confirms(self) -> None:
        """Hear what can be confirmed, when we are told that there is something, and see that it may be."""
        if not self.woken:
            return
        self.woken = False
        confirmed = self.confirms.take()
        numbers = [number for number in self.promised if number <= confirmed.up_to]
        for number in {*numbers, *confirmed.single}:
            assert self.promised.pop(number) <= self.store.committed, "confirmed before it is on disk"

    # Turns

    @property
    def now(self) -> float:
        return WALL_CLOCK()

    @property
    def taken(self) -> int:
        """The number of the last batch that was taken."""
        return self.disk.last

    def turn(self, function: Callable[[], T]) -> T:
        answer = self.still.turn(function)
        self.after()
        return answer

    def after(self) -> None:
        """Follow what queues did in the last turn; those that get letters come last."""
        for name in sorted(self.books, key=lambda name: name == LETTERS):
            books = self.books[name]
            books.catch_up(self.now)
            last = self.place_told(books) if self.told and name != LETTERS else None
            books.follow([batch for batch in self.deliveries if self.name_of(batch) == name], self.now)
            if last in books.ready and books.rejects and books.options.max_length is not None:
                assert len(books.ready) <= books.options.max_length, "there was no room for the last message"
        self.deliveries.clear()
        self.hear_confirms()

    def name_of(self, batch: Batch) -> str:
        assert batch.queue is not None
        return self.harness.directory.name_of(batch.queue)

    def check_waiting(self, name: str) -> None:
        """See that those were told who waited for messages of a queue."""
        for other, told in self.waiting:
            assert other != name or told == [None]
        self.waiting = [each for each in self.waiting if each[0] != name]

    # What always holds

    @invariant()
    def the_statistics_are_right(self) -> None:
        for books in self.books.values():
            statistics = self.still.turn(partial(books.queue.ref.ask_nowait, Enlist()))
            assert not self.deliveries, "counting made the queue deliver"
            books.check_statistics(statistics)
            feeds = [taking for taking in self.feeds.values() if self.books[taking.name] is books]
            assert statistics.feeds == len(feeds)

    @invariant()
    def nobody_waits_in_vain(self) -> None:
        for taking in self.feeds.values():
            books = self.books[taking.name]
            out = sum(out.batch.feed is taking.feed for out in books.out.values())
            assert not taking.limit or out <= taking.limit
            if not taking.limit or out < taking.limit:
                assert not books.backlog.resident, "a feed has room, and messages are at hand"

    @invariant()
    def more_is_wished_for_when_little_is_at_hand(self) -> None:
        for taking in self.feeds.values():
            backlog = self.books[taking.name].backlog
            at_hand = backlog.resident_bytes + backlog.resident * 128
            if backlog.paged and at_hand * 2 <= self.memory:
                assert self.disk.is_asked(backlog.queue), "nobody reads what is away"
