"""The oracle of a broker with a store: the broker, its simulated disk, a model of both, and restarts after crashes."""

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
    QueueOptions,
    Receipt,
    recover,
    traits_of,
)

from ..harness import Consumer
from ..simulated_disk import SimulatedDisk
from .durable_model import DelayedMessages, ModelMessage, QueueModel, Snapshot, Topology
from .model import MessageKind, mixed
from .stepped_harness import WALL_CLOCK, SteppedHarness

T = TypeVar("T")
Runs = list[tuple[MessageKind, list[int]]]
QueueSnapshot = tuple[dict[int, ModelMessage], list[DelayedMessages]]

LETTERS = "letters"
"""The queue that dead letters go to."""


class OpenedFeed:
    """An open feed."""

    def __init__(self, feed: Feed, name: str, consumer: Consumer, limit: int) -> None:
        self.feed = feed
        self.name = name
        self.consumer = consumer
        self.limit = limit


class Publication:
    """A publish of this turn."""

    def __init__(self, receipt: Receipt, messages: list[ModelMessage], delay: float) -> None:
        self.receipt = receipt
        self.messages = messages
        self.delay = delay


class DurableOracle(RuleBasedStateMachine):
    """A domain, a disk, and a model of both; subclasses have the steps."""

    choice: ClassVar[tuple[QueueOptions, ...]] = (QueueOptions(),)
    stepped: SteppedHarness

    def __init__(self) -> None:
        super().__init__()
        WALL_CLOCK.begin()
        self.serial = 0
        self.store = MemoryStore()
        self.memory = 0
        self.snapshots: dict[int, tuple[Snapshot, dict[str, QueueSnapshot]]] = {}
        self.begin_life()

    # Lives

    def begin_life(self) -> None:
        """Start a broker over the contents of the store, with a model of what these must be."""
        snapshot, queues = self.snapshots.get(self.store.committed, (None, {}))
        self.disk = SimulatedDisk(self.store)
        self.persistence = Persistence(self.disk.journal, self.memory)
        WALL_CLOCK.stop()
        self.stepped = SteppedHarness(self.make_directory)
        WALL_CLOCK.follow(self.stepped)
        self.harness = self.stepped.harness
        self.topology = Topology(snapshot)
        self.topology.check(self.harness.directory)
        self.deliveries: list[Batch] = []
        self.feeds: dict[Feed, OpenedFeed] = {}
        self.dead: list[Batch] = []
        self.publications: list[Publication] = []
        self.waiting: list[tuple[str, list[None]]] = []  # callers that were told to wait for messages
        self.models: dict[str, QueueModel] = {}
        for name in self.topology.queues:
            self.models[name] = self.make_model(name)
            self.models[name].begin_with(queues[name])
        self.snapshots = {self.store.committed: self.snapshot()}
        self.begin_confirms()
        self.after()

    def make_directory(self) -> Directory:
        directory = Directory("domain", persistence=self.persistence)
        recover(directory)
        return directory

    def make_model(self, name: str) -> QueueModel:
        return QueueModel(self.harness.directory.queues[name], lambda message: self.dead_letter(name, message))

    def dead_letter(self, name: str, message: ModelMessage) -> int:
        """Follow a dead letter, and return how many queues it went to."""
        letters = self.models.get(LETTERS)
        if self.models[name].options.dead_letter_sink is None or letters is None:
            return 0
        persistent = message.kind.head.traits.persistent
        durable = letters.queue.durable and persistent
        letters.place(
            ModelMessage(MessageKind(Head(traits=traits_of(persistent=persistent))), message.body, 0.0, durable),
            self.now,
        )
        letters.counts.published += 1
        return 1

    def snapshot(self) -> tuple[Snapshot, dict[str, QueueSnapshot]]:
        """Return what must be there after a crash, if all changes up to now are on disk."""
        durable = [(name, model) for name, model in self.models.items() if model.queue.durable]
        return self.topology.snapshot(), {name: model.snapshot() for name, model in durable}

    def teardown(self) -> None:
        self.stepped.close()

    # Declaring

    def declare(self, name: str, options: QueueOptions) -> None:
        self.turn(lambda: self.harness.queue(name, options))
        self.topology.queues[name] = options
        self.models[name] = self.make_model(name)

    def delete(self, name: str) -> None:
        self.dead += [out.batch for out in self.models[name].out.values()]
        self.forget_feeds(name)
        del self.models[name]
        self.topology.forget_queue(name)
        self.turn(lambda: self.harness.domain.ask_nowait(DeleteQueue(name, self.harness.session)))
        self.check_waiting(name)

    def forget_feeds(self, name: str) -> None:
        self.feeds = {feed: opened for feed, opened in self.feeds.items() if opened.name != name}

    # Publishing and confirming

    def begin_confirms(self) -> None:
        # By number of the publish: the batch that it must be in, 0 for none, and the message.
        self.promised: dict[int, tuple[int, ModelMessage]] = {}
        self.woken = False
        self.confirms = Confirms(self.wake, self.persistence, self.wake)
        self.confirmed = 0  # all up to here

    def wake(self) -> None:
        self.woken = True

    def publish_runs(self, name: str, runs: Runs, *, delay: float = 0.0) -> None:
        """Publish runs, with receipts."""
        model = self.models[name]
        for together in mixed(runs, self.serial):
            count = len(together.contents)
            self.serial += count
            receipt = self.confirms.expect(count, count)
            messages = [model.make(kind, content) for kind, content in zip(*together, strict=True)]
            self.publications.append(Publication(receipt, messages, delay))
            model.queue.ref.tell_nowait(together.publish(receipt, delay))

    def place_published(self, model: QueueModel) -> int | None:
        """Add the messages that were placed in this turn, and return the place of the last one."""
        told, self.publications = self.publications, []
        most, before, first = model.options.max_length, len(model.ready), model.next
        for one in told:
            receipt, messages = one.receipt, one.messages
            assert not receipt.missing
            refused = len(receipt.refusals or ())
            placed = messages[: len(messages) - refused]
            if refused:
                assert model.rejects
                assert most is not None
                assert before + len(placed) >= most, "refused, though it fits"
            for number, message in enumerate(messages, receipt.first):
                if number not in (receipt.refusals or ()):
                    self.promised[number] = (self.taken + 1 if message.is_durable else 0), message
            self.enter(model, placed, one.delay)
            before += len(placed)
            model.counts.published += len(placed)
            model.refused += refused
        return model.next - 1 if model.next > first else None

    def enter(self, model: QueueModel, placed: list[ModelMessage], delay: float) -> None:
        if delay:
            model.delayed_runs.append(DelayedMessages(self.now + delay, placed))
            return
        for message in placed:
            model.place(message, self.now)

    def check_confirms(self) -> None:
        """Check that what can be confirmed is on disk, when there is something."""
        if not self.woken:
            return
        self.woken = False
        confirmed = self.confirms.take()
        numbers = [number for number in self.promised if number <= confirmed.up_to]
        for number in {*numbers, *confirmed.single}:
            batch, message = self.promised.pop(number)
            assert batch <= self.store.committed or message.accepted, "confirmed before anything has it"

    # Turns

    @property
    def now(self) -> float:
        return WALL_CLOCK()

    @property
    def taken(self) -> int:
        """The number of the last batch that was taken."""
        return self.disk.last

    def turn(self, function: Callable[[], T]) -> T:
        answer = self.stepped.turn(function)
        self.after()
        return answer

    def after(self) -> None:
        """Follow what queues did in the last turn; those that get letters come last."""
        for name in sorted(self.models, key=lambda name: name == LETTERS):
            model = self.models[name]
            model.catch_up(self.now)
            last = self.place_published(model) if self.publications and name != LETTERS else None
            model.follow([batch for batch in self.deliveries if self.name_of(batch) == name], self.now)
            if last in model.ready and model.rejects and model.options.max_length is not None:
                assert len(model.ready) <= model.options.max_length, "there was no room for the last message"
        self.deliveries.clear()
        self.check_confirms()

    def name_of(self, batch: Batch) -> str:
        assert batch.queue is not None
        return self.harness.directory.name_of(batch.queue)

    def check_waiting(self, name: str) -> None:
        """Check that callers which wait for messages of a queue were called."""
        for other, told in self.waiting:
            assert other != name or told == [None]
        self.waiting = [each for each in self.waiting if each[0] != name]

    # What always holds

    @invariant()
    def the_statistics_are_right(self) -> None:
        for model in self.models.values():
            statistics = self.stepped.turn(partial(model.queue.ref.ask_nowait, Enlist()))
            assert not self.deliveries, "counting made the queue deliver"
            model.check_statistics(statistics)
            feeds = [opened for opened in self.feeds.values() if self.models[opened.name] is model]
            assert statistics.feeds == len(feeds)

    @invariant()
    def no_feed_with_room_waits(self) -> None:
        for opened in self.feeds.values():
            model = self.models[opened.name]
            out = sum(out.batch.feed is opened.feed for out in model.out.values())
            assert not opened.limit or out <= opened.limit
            if not opened.limit or out < opened.limit:
                assert not model.backlog.resident, "a feed has room, and messages are resident"

    @invariant()
    def paged_messages_are_read_when_few_are_resident(self) -> None:
        for opened in self.feeds.values():
            backlog = self.models[opened.name].backlog
            resident = backlog.resident_bytes + backlog.resident * 128
            if backlog.paged and resident * 2 <= self.memory:
                assert self.disk.is_asked(backlog.queue), "paged messages are not read"
