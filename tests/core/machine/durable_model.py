"""The models of a broker with a store: contents of a queue, wherever they are, and what must survive a crash.

Which messages are resident and which are paged out is up to the queue. The model checks that the resident ones are the
first, in order, that the paged ones are all the rest, and that those that were dropped had to be.
"""

from collections.abc import Callable, Sequence
from math import inf

import msgspec

from triomq.core import (
    Batch,
    Binding,
    Directory,
    Entry,
    Head,
    Overflow,
    QueueOptions,
    QueueState,
    QueueStatistics,
    SinkOptions,
    Target,
    body_of,
)
from triomq.core.backlog import PagedBacklog

from ..simulated_disk import SimulatedDisk
from .model import MessageKind

Snapshot = tuple[dict[str, SinkOptions], dict[str, QueueOptions], set[Binding]]
"""Durable sinks and queues by name, and durable bindings."""

SPILL = 100
"""Octets of transient messages that are put out of memory at once: few, so that it happens often."""


class ModelMessage(msgspec.Struct):
    """One message as the model knows it.

    Args:
        kind: Its kind; of a dead letter only what matters is right.
        body: Its body, which no other has.
        deadline: When it expires, by the wall clock; infinity if never.
        is_durable: Whether it must outlive a crash.
        seen: Head and octets; None before they were first seen, which is so with dead letters.
        attempts: How often it came back in this life.
        went: Whether a consumer ever had it.
        recorded: How often it came back at least, as the store was told.
        accepted: Whether a consumer has accepted it.
    """

    kind: MessageKind
    body: bytes
    deadline: float
    is_durable: bool
    seen: tuple[Head, bytes] | None = None
    attempts: int = 0
    went: bool = False
    recorded: int = 0
    accepted: bool = False

    def come_back(self) -> None:
        self.attempts += 1
        if self.attempts > 1:
            self.recorded = self.attempts

    def after_crash(self) -> "ModelMessage":
        """Return what the next life knows of it."""
        attempts = max(1, self.recorded) if self.went else 0
        seen = None if self.seen is None else (_anonymous(self.seen[0]), self.seen[1])
        return msgspec.structs.replace(self, attempts=attempts, seen=seen)

    def check(self, head: Head, content: bytes) -> None:
        if self.seen is None:
            assert body_of(head, content) == self.body
            assert head.traits.persistent is self.kind.head.traits.persistent
            self.seen = (head, content)
        assert (head, content) == self.seen


def _anonymous(head: Head) -> Head:
    """Remove the publisher, which is known in this life alone."""
    return msgspec.structs.replace(head, traits=msgspec.structs.replace(head.traits, publisher=0))


class UnsettledModel(msgspec.Struct):
    """One unsettled message."""

    message: ModelMessage
    batch: Batch
    position: int


class Counts(msgspec.Struct):
    """The queue's statistics since it was declared, or since a crash of the broker."""

    published: int = 0
    delivered: int = 0
    dropped: int = 0
    expired: int = 0
    lettered: int = 0


class DelayedMessages(msgspec.Struct):
    """Messages that are not ready before a time, by the wall clock; ``here`` once they are in memory."""

    due: float
    messages: list[ModelMessage]
    here: bool = True


class QueueModel:
    """The model of one queue.

    Args:
        queue: The queue.
        letters: Takes its dead letters, and returns how many queues they went to.
    """

    def __init__(self, queue: QueueState, letters: Callable[[ModelMessage], int]) -> None:
        self.queue = queue
        self._letters = letters
        self.next = 1
        self.ready: dict[int, ModelMessage] = {}  # by place, which grows
        self.out: dict[int, UnsettledModel] = {}
        self.delayed_runs: list[DelayedMessages] = []
        self.counts = Counts()
        self.refused = 0  # of those dropped
        self.sizes_are_rounded = False

    @property
    def options(self) -> QueueOptions:
        return self.queue.options

    @property
    def backlog(self) -> PagedBacklog:
        backlog = self.queue.backlog
        assert isinstance(backlog, PagedBacklog)
        return backlog

    @property
    def rejects(self) -> bool:
        return self.options.is_bounded and self.options.overflow is not Overflow.DROP_HEAD

    # Coming

    def make(self, kind: MessageKind, content: bytes) -> ModelMessage:
        durable = self.queue.durable and kind.head.traits.persistent
        return ModelMessage(kind, body_of(kind.head, content), inf, durable, (kind.head, content))

    def place(self, message: ModelMessage, now: float) -> None:
        times = [each for each in (self.options.message_ttl, message.kind.expiration) if each is not None]
        message.deadline = now + min(times) if times else inf
        self.ready[self.next] = message
        self.next += 1

    def catch_up(self, now: float) -> None:
        """Place what was put off until now."""
        due = [each for each in self.delayed_runs if each.here and each.due <= now]
        for each in sorted(due, key=lambda each: each.due):
            for message in each.messages:
                self.place(message, now)
            self.delayed_runs.remove(each)

    # What a queue did in a turn

    def level(self, message: ModelMessage) -> int:
        return min(message.kind.level, self.options.max_priority)

    def order(self) -> list[int]:
        """Return the places in the order in which messages go."""
        return sorted(self.ready, key=lambda place: (-self.level(self.ready[place]), place))

    def follow(self, batches: Sequence[Batch], now: float) -> None:
        """Follow a turn: what was delivered, and what is there no longer."""
        before, dropped = self.order(), self.queue.dropped - self.counts.dropped - self.refused
        expired = self.queue.expired - self.counts.expired
        places = {message.body: place for place, message in self.ready.items()}
        went = [place for batch in batches for place in self.send(batch, places)]
        self.look_at_what_is_left(before, went, now, dropped, expired)
        self.counts.dropped += dropped + self.refused
        self.counts.expired += expired
        self.refused = 0

    def send(self, batch: Batch, places: dict[bytes, int]) -> list[int]:
        went = []
        for position, content in enumerate(batch.contents):
            assert content is not None
            place = places[body_of(batch.head_at(position), content)]
            message = self.ready.pop(place)
            message.check(batch.head_at(position), content)
            assert batch.redelivered is (message.attempts > 0), "the mark is wrong"
            assert batch.level == self.level(message)
            message.went = True
            self.out[place] = UnsettledModel(message, batch, position)
            went.append(place)
        assert went == sorted(went)
        self.counts.delivered += len(went)
        return went

    def look_at_what_is_left(self, before: list[int], went: list[int], now: float, dropped: int, expired: int) -> None:
        """Check that messages which are gone had to go, before all that are left."""
        entries = list(self.backlog.entries())
        resident = self.check_entries(entries)
        if self.options.max_priority:  # where nothing is dropped or expires
            assert len(resident) <= len(self.ready) == self.backlog.ready
            assert not dropped
            assert not expired
            gone = []
        else:
            rest = sorted(self.ready)
            before_tail = rest[: len(rest) - self.backlog.paged]
            gone = [place for place in before_tail if place not in resident]
            left = [place for place in rest if place not in gone]
            assert resident == left[: len(resident)], "resident messages are not the first"
            assert not gone or not left or max(gone) < min(left), "a dropped message was not the first"
            assert len(gone) == dropped + expired
            over = [place for place in gone if self.ready[place].deadline <= now]
            assert expired <= len(over)
            assert not resident or self.ready[resident[0]].deadline > now, "an expired message is resident"
        if went:
            order = {place: number for number, place in enumerate(before)}
            assert max(order[place] for place in went) < min(
                (order[place] for place in self.ready if place not in gone), default=len(order)
            ), "a delivered message was not the first"
        self.check_limit(len(before), dropped, resident, len(gone))
        for place in gone:
            self.counts.lettered += self._letters(self.ready.pop(place))

    def check_entries(self, entries: Sequence[Entry]) -> list[int]:
        places = {message.body: place for place, message in self.ready.items()}
        found = []
        for entry in entries:
            place = places[body_of(entry.message.head, entry.message.content)]
            self.ready[place].check(entry.message.head, entry.message.content)
            assert entry.attempts == self.ready[place].attempts
            found.append(place)
        assert found == [place for place in self.order() if place in set(found)]
        return found

    def check_limit(self, before: int, dropped: int, resident: list[int], gone: int) -> None:
        most = self.options.max_length
        if most is None or self.rejects:
            assert not dropped
            return
        assert dropped <= max(0, before - most), "too many have results way"
        assert len(self.ready) - gone <= most or not resident, "too many are left"

    # Going

    def come_back(self, place: int) -> None:
        """Make a message ready again, marked."""
        out = self.out.pop(place)
        out.message.come_back()
        self.ready[place] = out.message

    def take_all_back(self) -> None:
        """Follow the crash of the incarnation."""
        for place in list(self.out):
            self.come_back(place)

    def give_up(self, place: int) -> None:
        """Follow a rejection."""
        self.counts.lettered += self._letters(self.out.pop(place).message)

    def purge(self) -> int:
        """Remove all ready messages, and return how many they were."""
        count = len(self.ready) + sum(len(each.messages) for each in self.delayed_runs)
        self.ready.clear()
        self.delayed_runs.clear()
        return count

    # Crashes

    def snapshot(self) -> tuple[dict[int, ModelMessage], list[DelayedMessages]]:
        """Return what must be there after a crash, if all changes up to now are on disk."""
        everything = self.ready | {place: out.message for place, out in self.out.items()}
        durable = {
            place: everything[place].after_crash() for place in sorted(everything) if everything[place].is_durable
        }
        delayed_runs = [
            DelayedMessages(each.due, [message.after_crash() for message in each.messages], here=False)
            for each in self.delayed_runs
            if each.messages[0].is_durable
        ]
        return durable, delayed_runs

    def begin_with(self, snapshot: tuple[dict[int, ModelMessage], list[DelayedMessages]]) -> None:
        """Begin with that."""
        durable, self.delayed_runs = snapshot
        self.ready = dict(durable)
        self.next = max(durable, default=0) + 1
        self.sizes_are_rounded = True

    # What always holds

    def check_statistics(self, statistics: QueueStatistics) -> None:
        self.sizes_are_rounded = self.sizes_are_rounded and self.backlog.paged > 0
        assert statistics.ready == len(self.ready)
        assert statistics.unsettled == len(self.out)
        if not self.sizes_are_rounded:
            assert statistics.ready_bytes == sum(len(message.body) for message in self.ready.values())
        assert statistics.delayed == sum(len(each.messages) for each in self.delayed_runs)
        counts = self.counts
        assert (statistics.published, statistics.delivered) == (counts.published, counts.delivered)
        assert (statistics.dropped, statistics.expired) == (counts.dropped, counts.expired)
        assert statistics.dead_lettered == counts.lettered

    def check_disk(self, disk: SimulatedDisk) -> None:
        """Check that an idle disk has all durable messages, and of transient ones only those that are paged out."""
        everything = self.ready | {place: out.message for place, out in self.out.items()}
        durable = [everything[place].body for place in sorted(everything) if everything[place].is_durable]
        found = list(disk.contents(self.backlog.queue, spilled=False).values())
        assert len(found) == len(durable)
        assert all(content.endswith(body) for content, body in zip(found, durable, strict=True))
        paged = sorted(self.ready)[len(self.ready) - self.backlog.paged :]
        transient = tuple(self.ready[place].body for place in paged if not self.ready[place].is_durable)
        for content in disk.contents(self.backlog.queue, spilled=True).values():
            assert content.endswith(transient), "a spilled message was not settled"
        assert self.backlog._tail.held <= SPILL, "messages on disk are still in memory"


class Topology:
    """The model of what is declared in a broker with a store: sinks, queues and bindings by name."""

    def __init__(self, snapshot: Snapshot | None = None) -> None:
        sinks, queues, bindings = snapshot or ({}, {}, set())
        self.sinks, self.queues, self.bindings = dict(sinks), dict(queues), set(bindings)

    def forget_sink(self, name: str) -> None:
        del self.sinks[name]
        self._unbind(Target.SINK, name)
        self.bindings = {each for each in self.bindings if each.source != name}

    def forget_queue(self, name: str) -> None:
        del self.queues[name]
        self._unbind(Target.QUEUE, name)

    def _unbind(self, target: Target, name: str) -> None:
        self.bindings = {each for each in self.bindings if (each.target, each.destination) != (target, name)}

    def _is_durable(self, binding: Binding) -> bool:
        ends = self.queues if binding.target is Target.QUEUE else self.sinks
        return self.sinks[binding.source].durable and ends[binding.destination].durable

    def snapshot(self) -> Snapshot:
        """Return what must be there after a crash."""
        return (
            {name: options for name, options in self.sinks.items() if options.durable},
            {name: options for name, options in self.queues.items() if options.durable},
            {binding for binding in self.bindings if self._is_durable(binding)},
        )

    def check(self, directory: Directory) -> None:
        """Check that a directory has all of it, and nothing else."""
        assert {name: sink.declared for name, sink in directory.sinks.items()} == self.sinks
        assert {name: queue.declared for name, queue in directory.queues.items()} == self.queues
        found = [binding for sink in directory.sinks.values() for binding in sink.bindings]
        assert len(found) == len(self.bindings)
        assert set(found) == self.bindings
        ends = [sink.bound for sink in directory.sinks.values()] + [queue.bound for queue in directory.queues.values()]
        assert {binding for bound in ends for binding in bound or ()} == self.bindings
