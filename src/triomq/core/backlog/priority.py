"""The backlog of a queue with priorities: a ``MemoryBacklog`` for each level in use, one sequence of ids for all."""

from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from itertools import islice
from math import inf
from typing import TypeVar, TypeVarTuple

from triomq.core.backlog.backlog import Backlog, Entry, ReadDone, Remains, page_of
from triomq.core.backlog.memory import MemoryBacklog
from triomq.core.batch import Batch
from triomq.core.message import Head, Stretch

R = TypeVar("R")
Ts = TypeVarTuple("Ts")


class PriorityBacklog(Backlog):
    """Ready and outstanding messages by priority: the highest level goes first, within one the oldest.

    A batch remembers the level that it came from, and goes back there. Which levels hold ready messages, and in which
    the first of them expires, stands in the bits of two integers, so that the other levels cost nothing.

    Args:
        levels: The highest level; messages above it count as of this level.
    """

    __slots__ = ("_dying", "_filled", "_levels", "highest")

    def __init__(self, levels: int) -> None:
        super().__init__()
        self.highest = levels
        self._levels: dict[int, MemoryBacklog] = {}
        self._filled = 0
        self._dying = 0

    def _change(self, number: int, operation: Callable[[MemoryBacklog, *Ts], R], *args: *Ts) -> R:
        """Call a method of one level, and update the sums by what it changes."""
        level = self._levels[number]
        resident, size, unsettled = level.resident, level.resident_bytes, level.unsettled
        result = operation(level, *args)
        self.resident += level.resident - resident
        self.resident_bytes += level.resident_bytes - size
        self.unsettled += level.unsettled - unsettled
        bit = 1 << number
        self._filled = self._filled | bit if level.resident else self._filled & ~bit
        self._dying = self._dying | bit if level.next_deadline() < inf else self._dying & ~bit
        return result

    @property
    def next_level(self) -> int:
        """The level whose message goes next."""
        if not self._filled:
            raise IndexError("nothing is ready; look at Backlog.resident first")
        return self._filled.bit_length() - 1

    @property
    def lowest_level(self) -> int:
        """The level whose first message gives way when there are too many."""
        return (self._filled & -self._filled).bit_length() - 1

    def _front(self) -> MemoryBacklog:
        return self._levels[self.next_level]

    def push(
        self,
        head: Head,
        contents: Sequence[bytes],
        size: int,
        deadline: float = inf,
        level: int = 0,
        heads: Sequence[Head] | None = None,
    ) -> None:
        """Append messages of a run to a level; see ``Backlog.push``."""
        number = self._level(level)
        self._levels[number].next_id = self.next_id
        self.next_id += len(contents)
        self._change(number, MemoryBacklog.push, head, contents, size, deadline, 0, heads)

    def _level(self, level: int) -> int:
        """Return the number of the level that messages of a level go to; the level is made if it is missing."""
        number = min(level, self.highest)
        if number not in self._levels:
            self._levels[number] = MemoryBacklog()
        return number

    def restore(self, number: int, head: Head, content: bytes, deadline: float, level: int, attempts: int) -> None:
        """Put a message in its place that was delivered so many times before the broker was restarted."""
        self._change(self._level(level), MemoryBacklog.restore, number, head, content, deadline, level, attempts)

    def take(self, most: int, most_bytes: int) -> Batch:
        """Hand out the first messages of the highest level; see ``MemoryBacklog.take``."""
        number = self.next_level
        batch = self._change(number, MemoryBacklog.take, most, most_bytes)
        batch.level = number
        return batch

    def take_turns(self, feeds: int, rounds: int) -> list[Batch]:
        """Hand out messages of the highest level in turns; see ``MemoryBacklog.take_turns``."""
        number = self.next_level
        batches = self._change(number, MemoryBacklog.take_turns, feeds, rounds)
        for batch in batches:
            batch.level = number
        return batches

    @property
    def run_length(self) -> int:
        """How many messages ``take_turns`` can hand out."""
        return self._front().run_length if self._filled else 0

    def longest(self, count: int) -> int:
        """Return the bytes of the largest of the messages that go first."""
        return self._front().longest(count)

    def next_size(self) -> int:
        """Return the bytes of the message that goes next."""
        return self._front().next_size()

    def next_head(self) -> Head:
        """Return the head of the message that goes next."""
        return self._front().next_head()

    def next_deadline(self) -> float:
        """Return when the first message of some level expires."""
        return min((self._levels[number].next_deadline() for number in _bits(self._dying)), default=inf)

    def expired_level(self, now: float) -> int | None:
        """Return a level whose first message has expired, if there is one; low ones first."""
        return next((number for number in _bits(self._dying) if self._levels[number].next_deadline() <= now), None)

    def first(self, most: int, level: int = 0) -> Stretch:
        """Return the first ready messages of a level; see ``MemoryBacklog.first``."""
        return self._levels[level].first(most)

    def first_ids(self, count: int, level: int = 0) -> Sequence[int]:
        """Return the ids of so many of the messages that ``first`` returns."""
        return self._levels[level].first_ids(count)

    def drop(self, count: int, level: int = 0) -> Sequence[int]:
        """Remove so many of the messages that ``first`` returns; return their ids, which are in a row."""
        return self._change(level, MemoryBacklog.drop, count)

    def resident_ids(self, up_to: int) -> Iterator[tuple[int, int]]:
        """Yield the ids up to this of resident messages: the first of some in a row, and how many."""
        for level in self._levels.values():
            yield from level.resident_ids(up_to)

    def discard(self, up_to: int) -> int:
        """Remove all ready messages with an id up to this, and return how many they were."""
        return sum(self._change(number, MemoryBacklog.discard, up_to) for number in self._levels)

    def purge(self, remains: list[Remains]) -> int:
        """Remove all ready messages and return how many they were."""
        return sum(self._change(number, MemoryBacklog.purge, remains) for number in self._levels)

    def release(self, remains: list[Remains]) -> None:
        """Hand over all ready messages."""
        for number in self._levels:
            self._change(number, MemoryBacklog.release, remains)

    def holds(self, batch: Batch) -> bool:
        """Return whether a batch is outstanding here."""
        return batch.level in self._levels and self._levels[batch.level].holds(batch)

    def outstanding(self) -> list[Batch]:
        """Return the unsettled batches, highest level first."""
        return [batch for _, level in sorted(self._levels.items(), reverse=True) for batch in level.outstanding()]

    def accept(
        self, batch: Batch, positions: Sequence[int] | None = None, *, consumed: bool = False
    ) -> tuple[int, int]:
        """Settle messages for good; see ``MemoryBacklog.accept``."""
        return self._change(batch.level, MemoryBacklog.accept, batch, positions)

    def requeue(self, batch: Batch, positions: Sequence[int] | None = None, *, marked: bool = True) -> tuple[int, int]:
        """Put messages back in their old places; see ``MemoryBacklog.requeue``."""
        put_back = _requeue_marked if marked else _requeue_unmarked
        return self._change(batch.level, put_back, batch, positions)

    def set_aside(self, batch: Batch, position: int) -> Batch:
        """Part a message from its batch; see ``MemoryBacklog.set_aside``."""
        return self._change(batch.level, MemoryBacklog.set_aside, batch, position)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """Go through the ready messages with ids above ``after``, highest level first."""
        for _, level in sorted(self._levels.items(), reverse=True):
            yield from level.entries(after)

    def browse(self, after: int, limit: int, done: ReadDone) -> list[Entry] | None:
        """Return ready messages by their ids, not by their priority: a browser that pages on must not pass over low
        ones.
        """
        levels = [level.entries(after) for level in self._levels.values()]
        return page_of(islice(merge(*levels, key=_id_of), limit))


def _id_of(entry: Entry) -> int:
    return entry.id


def _bits(mask: int) -> Iterator[int]:
    """Return the numbers of the bits that are set, lowest first."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _requeue_marked(level: MemoryBacklog, batch: Batch, positions: Sequence[int] | None) -> tuple[int, int]:
    return level.requeue(batch, positions, marked=True)


def _requeue_unmarked(level: MemoryBacklog, batch: Batch, positions: Sequence[int] | None) -> tuple[int, int]:
    return level.requeue(batch, positions, marked=False)
