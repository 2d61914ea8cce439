"""The books of one queue in a broker with a store: what is in it, wherever it is, and what of it must outlive a crash.

What is at hand and what is away is the queue's own business. The books only see to it that what is away is all of the
rest, in order, and that what has gone had to.
"""

from collections.abc import Callable, Sequence
from math import inf

import msgspec

from triomq.core import Batch, Entry, Head, Overflow, QueueOptions, QueueState, QueueStatistics, body_of
from triomq.core.backlog import PagedBacklog

from ..simulated_disk import SimulatedDisk
from .model import Kind

SPILL = 100
"""Octets of transient messages that are put out of memory at once: few, so that it happens often."""


class Kept(msgspec.Struct):
    """One message as the books know it.

    Args:
        kind: Its kind; of a dead letter only what matters is right.
        body: Its body, which no other has.
        deadline: When it expires, by the clock on the wall; infinity if never.
        is_kept: Whether it must outlive a crash.
        seen: Head and octets; None as long as nobody has seen them, which is so with dead letters.
        attempts: How often it came back in this life.
        went: Whether a consumer ever had it.
        noted: How often it came back at least, as the store was told.
    """

    kind: Kind
    body: bytes
    deadline: float
    is_kept: bool
    seen: tuple[Head, bytes] | None = None
    attempts: int = 0
    went: bool = False
    noted: int = 0

    def come_back(self) -> None:
        self.attempts += 1
        if self.attempts > 1:
            self.noted = self.attempts

    def after_crash(self) -> "Kept":
        """Give what the next life knows of it."""
        attempts = max(1, self.noted) if self.went else 0
        seen = None if self.seen is None else (_anonymous(self.seen[0]), self.seen[1])
        return msgspec.structs.replace(self, attempts=attempts, seen=seen)

    def check(self, head: Head, content: bytes) -> None:
        if self.seen is None:
            assert body_of(head, content) == self.body
            assert head.persistent is self.kind.head.persistent
            self.seen = (head, content)
        assert (head, content) == self.seen


def _anonymous(head: Head) -> Head:
    """Who published is known in this life alone."""
    return msgspec.structs.replace(head, publisher=0)


class Out(msgspec.Struct):
    """One message that is out."""

    message: Kept
    batch: Batch
    position: int


class Counts(msgspec.Struct):
    """What the queue has counted since it was declared, or since a crash of the broker."""

    published: int = 0
    delivered: int = 0
    dropped: int = 0
    expired: int = 0
    lettered: int = 0


class Putting(msgspec.Struct):
    """Messages that are not ready before a time, by the clock on the wall; ``here`` once they are in memory."""

    due: float
    messages: list[Kept]
    here: bool = True


class QueueBooks:
    """One queue's books.

    Args:
        queue: The queue.
        letters: Takes what it gives up, and tells how many queues that went to.
    """

    def __init__(self, queue: QueueState, letters: Callable[[Kept], int]) -> None:
        self.queue = queue
        self._letters = letters
        self.next = 1
        self.ready: dict[int, Kept] = {}  # by place, which grows
        self.out: dict[int, Out] = {}
        self.put_off: list[Putting] = []
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

    def make(self, kind: Kind, content: bytes) -> Kept:
        kept = self.queue.durable and kind.head.persistent
        return Kept(kind, body_of(kind.head, content), inf, kept, (kind.head, content))

    def place(self, message: Kept, now: float) -> None:
        times = [each for each in (self.options.message_ttl, message.kind.expiration) if each is not None]
        message.deadline = now + min(times) if times else inf
        self.ready[self.next] = message
        self.next += 1

    def catch_up(self, now: float) -> None:
        """Place what was put off until now."""
        due = [each for each in self.put_off if each.here and each.due <= now]
        for each in sorted(due, key=lambda each: each.due):
            for message in each.messages:
                self.place(message, now)
            self.put_off.remove(each)

    # What a queue did in a turn

    def level(self, message: Kept) -> int:
        return min(message.kind.level, self.options.max_priority)

    def order(self) -> list[int]:
        """In which order messages go."""
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
            place = places[body_of(batch.head, content)]
            message = self.ready.pop(place)
            message.check(batch.head, content)
            assert batch.redelivered is (message.attempts > 0), "the mark is wrong"
            assert batch.level == self.level(message)
            message.went = True
            self.out[place] = Out(message, batch, position)
            went.append(place)
        assert went == sorted(went)
        self.counts.delivered += len(went)
        return went

    def look_at_what_is_left(self, before: list[int], went: list[int], now: float, dropped: int, expired: int) -> None:
        """See that what has gone had to go, and had nothing before it that had not."""
        entries = list(self.backlog.entries())
        at_hand = self.check_entries(entries)
        if self.options.max_priority:  # where nothing gives way or expires, so that what is away needs no place
            assert len(at_hand) <= len(self.ready) == self.backlog.ready
            assert not dropped
            assert not expired
            gone = []
        else:
            rest = sorted(self.ready)
            kept = rest[: len(rest) - self.backlog.paged]
            gone = [place for place in kept if place not in at_hand]
            left = [place for place in rest if place not in gone]
            assert at_hand == left[: len(at_hand)], "what is at hand does not come first"
            assert not gone or not left or max(gone) < min(left), "what has gone was not the first"
            assert len(gone) == dropped + expired
            over = [place for place in gone if self.ready[place].deadline <= now]
            assert expired <= len(over)
            assert not at_hand or self.ready[at_hand[0]].deadline > now, "what is over is at hand"
        if went:
            order = {place: number for number, place in enumerate(before)}
            assert max(order[place] for place in went) < min(
                (order[place] for place in self.ready if place not in gone), default=len(order)
            ), "what went was not the first"
        self.check_limit(len(before), dropped, at_hand, len(gone))
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

    def check_limit(self, before: int, dropped: int, at_hand: list[int], gone: int) -> None:
        most = self.options.max_length
        if most is None or self.rejects:
            assert not dropped
            return
        assert dropped <= max(0, before - most), "too many have given way"
        assert len(self.ready) - gone <= most or not at_hand, "too many are left"

    # Going

    def come_back(self, place: int) -> None:
        """Enter that a message is ready again, marked."""
        out = self.out.pop(place)
        out.message.come_back()
        self.ready[place] = out.message

    def take_all_back(self) -> None:
        """Enter that the incarnation has crashed."""
        for place in list(self.out):
            self.come_back(place)

    def give_up(self, place: int) -> None:
        """Enter that a message was rejected."""
        self.counts.lettered += self._letters(self.out.pop(place).message)

    def purge(self) -> int:
        """Enter that all that is ready is forgotten, and tell how many messages that were."""
        count = len(self.ready) + sum(len(each.messages) for each in self.put_off)
        self.ready.clear()
        self.put_off.clear()
        return count

    # Crashes

    def picture(self) -> tuple[dict[int, Kept], list[Putting]]:
        """Give what must be there after a crash, if all is on disk that was said by now."""
        everything = self.ready | {place: out.message for place, out in self.out.items()}
        kept = {place: everything[place].after_crash() for place in sorted(everything) if everything[place].is_kept}
        put_off = [
            Putting(each.due, [message.after_crash() for message in each.messages], here=False)
            for each in self.put_off
            if each.messages[0].is_kept
        ]
        return kept, put_off

    def begin_with(self, picture: tuple[dict[int, Kept], list[Putting]]) -> None:
        """Begin with that."""
        kept, self.put_off = picture
        self.ready = dict(kept)
        self.next = max(kept, default=0) + 1
        self.sizes_are_rounded = True

    # What always holds

    def check_statistics(self, statistics: QueueStatistics) -> None:
        self.sizes_are_rounded = self.sizes_are_rounded and self.backlog.paged > 0
        assert statistics.ready == len(self.ready)
        assert statistics.unsettled == len(self.out)
        if not self.sizes_are_rounded:
            assert statistics.ready_bytes == sum(len(message.body) for message in self.ready.values())
        assert statistics.delayed == sum(len(each.messages) for each in self.put_off)
        counts = self.counts
        assert (statistics.published, statistics.delivered) == (counts.published, counts.delivered)
        assert (statistics.dropped, statistics.expired) == (counts.dropped, counts.expired)
        assert statistics.dead_lettered == counts.lettered

    def check_disk(self, disk: SimulatedDisk) -> None:
        """See that the disk has what it must, and what is only out of memory, once it has done all it was told."""
        everything = self.ready | {place: out.message for place, out in self.out.items()}
        kept = [everything[place].body for place in sorted(everything) if everything[place].is_kept]
        found = list(disk.contents(self.backlog.queue, spilled=False).values())
        assert len(found) == len(kept)
        assert all(content.endswith(body) for content, body in zip(found, kept, strict=True))
        away = sorted(self.ready)[len(self.ready) - self.backlog.paged :]
        transient = tuple(self.ready[place].body for place in away if not self.ready[place].is_kept)
        for content in disk.contents(self.backlog.queue, spilled=True).values():
            assert content.endswith(transient), "what is out of memory was not forgotten"
        assert self.backlog._tail.held <= SPILL, "what is on disk is still in memory"
