"""A transaction that is made of staged chunks, bit by bit, before the turn in which it happens.

    chunk ─┬─ all of it goes to the same streams ─▶ as it is, or cut if it is large
           ├─ records with one key and properties ─▶ a run
           └─ records with others                 ─▶ a run for each way, or a chunk if that leads to streams

Rules:

- A *way* is where records go. What is found for one key, and one set of properties where these count, is the way of all
  records with it. Into a queue by its name, or a stream without partitions, all records go whatever their keys are.
- Streams take chunks, and look at no record; but for those that store once what is sent again, and not while messages
  are observed.
- Between some milliseconds of work others have their turns. If a way changes meanwhile it was for nothing
  (``is_valid``). What has no part in it may change as often as it likes: a batch of a second's work would never be
  committed where queues for replies come and go, if each of them counted.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING

import trio

from triomq.actors import Ref
from triomq.chunks import (
    Columns,
    MovableChunk,
    RecordRun,
    RunHead,
    cut_chunk,
    encode_chunk,
    read_chunk_head,
    relabel_chunk,
)
from triomq.core.message import Head, Traits, traits_of
from triomq.core.publishing.publish import Publish, PublishChunk
from triomq.core.publishing.routed import CachedRoute, RoutedRun
from triomq.core.publishing.transaction import Transaction
from triomq.core.streams.chunk import mark_of
from triomq.core.streams.log import StreamLog
from triomq.core.streams.stage_target import StageTarget
from triomq.core.streams.staged_chunk import StagedChunk, staged_traits
from triomq.errors import LimitExceeded, Unroutable
from triomq.properties import CORE_CODEC

if TYPE_CHECKING:
    from triomq.core.publishing.publishing import Publisher
    from triomq.core.topology.directory import Directory

_AT_ONCE = 5_000
"""Records that are prepared between two checkpoints: some 5 ms."""

_LOOKED_INTO = 500
"""The same where more than a key counts, so that the way of each record is looked for."""

_SHORT = 32
"""Records of a run from which on it is worth a push of its own: a batch of runs with a record each would be millions of
pushes in the turn of its commit."""

MOST_INTO_QUEUES = 256 * 1024 * 1024
"""Bytes that one batch may bring into queues, where each record has its own properties; staged they may share them. Of
a batch that is larger it is twice as much as was staged."""

_FOUND_AGAIN = 10_000
"""Keys whose ways are found again when anything has changed, which takes some 10 ms; with more it begins anew."""

_LARGE = 512 * 1024
"""Bytes of a chunk that a stream takes as it is: each feed that comes to it decodes it at once, some 2 ms, and has all
of it in memory."""

_Each = bytes | Sequence[bytes]
"""What all records have, or what each has."""


class _Way:
    """Where records go; the same object for the same queues, so that it costs little to tell two of them apart.

    Args:
        queues: The queues and streams.
        takes_chunks: Whether all of them are streams that look at no record.
    """

    __slots__ = ("queues", "takes_chunks")

    def __init__(self, queues: tuple[Ref, ...], *, takes_chunks: bool) -> None:
        self.queues = queues
        self.takes_chunks = takes_chunks


class Prepared:
    """What a commit publishes; made for one commit, and again when it was for nothing.

    Args:
        directory: The domain's.
        publisher: The client's.
        target: Where records go.

    Raises:
        NoSuchQueue, NoSuchSink: The target is not there.
        Forbidden, SinkInternal: The client may not publish there.
    """

    def __init__(self, directory: "Directory", publisher: "Publisher", target: StageTarget) -> None:
        target.require(directory)
        self._directory = directory
        self._target = target
        alone = target.is_queue(directory)
        self._publisher = publisher.into_queue(target.name) if alone else publisher
        self._sink = "" if alone else target.name
        self._queue = target.name if alone else ""
        self._version = directory.version
        by_key = alone or publisher.finder(self._sink) is not None
        self._at_once = _AT_ONCE if by_key else _LOOKED_INTO
        self._has_chunks = False
        self._staged = 0  # bytes of chunks
        self._size = 0  # bytes that queues get, where each record has its own properties
        self._ways: dict[tuple[Ref, ...], _Way] = {}
        self._by_key: dict[bytes, _Way] = {}  # where nothing but the key counts
        self._by_both: dict[tuple[bytes, bytes], _Way] = {}  # by key and properties
        self._heads: dict[tuple[bytes, int, Traits], Head] = {}
        self._first: RoutedRun | None = None
        self.transaction = Transaction(directory)

    @property
    def is_valid(self) -> bool:
        """Whether all that was found still stands."""
        if self._has_chunks and self._directory.run_observers is not None:
            return False
        return self._directory.version == self._version or self._leads_as_before()

    def _leads_as_before(self) -> bool:
        """Whether what has changed meanwhile is not on any way: other clients' queues come and go all the time."""
        if self._queue:
            state = self._directory.queues.get(self._queue)
            return state is not None and self._ways.keys() <= {(state.ref,)}
        if len(self._by_key) + len(self._by_both) > _FOUND_AGAIN:
            return False
        find = self._publisher.finder(self._sink)
        found = chain(self._by_key.items(), ((key, way) for (key, _), way in self._by_both.items()))
        return find is not None and all(find(_text(key)) == way.queues for key, way in found)

    def require_open(self) -> None:
        """Pass the guards again, in the turn of the commit; raises what ``Publisher.admit`` does."""
        if self._first is not None:
            route = CachedRoute(self._first.route.sink, self._first.route.key)
            self._publisher.admit([self._first._replace(route=route)])

    async def add(self, staged: StagedChunk) -> None:
        """Add the records of a chunk; raises what ``Publisher.admit`` does, and ``Unroutable``."""
        columns = Columns(staged.data)
        self._staged += len(staged.data)
        ways: list[_Way] = []
        self._publisher.run(self._look_at, staged, columns, ways)
        if ways and ways[0].takes_chunks:
            for piece in _pieces(self._labelled(staged, columns)):
                self._publish_chunk(ways[0], piece)
                await trio.lowlevel.checkpoint()
            return
        for run, traits in _runs(staged, columns):
            for start, stop, own in _stretches(run, traits, self._at_once):
                self._publisher.run(self._add, run, own, slice(start, stop))
                await trio.lowlevel.checkpoint()

    # Whole chunks

    def _look_at(self, staged: StagedChunk, columns: Columns, found: list[_Way]) -> None:
        """List the way of all records of a chunk, unless they have several, or have to be looked at."""
        if None in staged.traits:
            return
        ways: set[_Way] = set()
        for head in columns.run_heads:
            if not self._queue and (head.key is None or head.properties is None):
                return
            ways.add(self._way(head.key or b"", head.properties or b""))
        if len(ways) == 1:
            found.extend(ways)

    def _labelled(self, staged: StagedChunk, columns: Columns) -> bytes:
        """Return a chunk with the run heads that a broker writes, and with one time: a client's count for nothing."""
        heads = [
            RunHead(CORE_CODEC, mark_of(traits), _octets(self._sink), head.key, head.properties)
            for head, traits in zip(columns.run_heads, staged.traits, strict=True)
            if traits is not None
        ]
        is_right = columns.head.time == columns.head.last_time and heads == columns.run_heads
        return staged.data if is_right else relabel_chunk(staged.data, heads)

    # Runs and records

    def _add(self, run: RecordRun, traits: Traits, some: slice) -> None:
        """Add some records of a run, which have the same traits."""
        values = run.values[some]
        key = run.key if isinstance(run.key, bytes) else run.key[some]
        properties = run.properties if isinstance(run.properties, bytes) else run.properties[some]
        if isinstance(key, bytes) and isinstance(properties, bytes):
            self._publish(self._way(key, properties), traits, key, properties, values)
            return
        places: dict[_Way, list[int]] = {}
        for place, way in enumerate(self._ways_of(key, properties, len(values))):
            found = places.get(way)
            if found is None:
                found = places[way] = []
            found.append(place)
        if len(places) == 1:
            self._publish(way, traits, key, properties, values)
            return
        for way, chosen in places.items():
            theirs = [values[place] for place in chosen]
            self._publish(way, traits, _chosen(key, chosen), _chosen(properties, chosen), theirs)

    def _publish(self, way: _Way, traits: Traits, key: _Each, properties: _Each, values: Sequence[bytes]) -> None:
        """Publish records with the same way and traits."""
        if way.takes_chunks:
            run = RecordRun(CORE_CODEC, _octets(self._sink), key, properties, values, mark_of(traits))
            self._publish_chunk(way, encode_chunk(0, 0, [run]))
            return
        self._count(properties, values)
        keys = repeat(key) if isinstance(key, bytes) else key
        if not isinstance(properties, bytes):
            contents = [own + value for own, value in zip(properties, values, strict=True)]
            heads = [self._head(each, len(own), traits) for each, own in zip(keys, properties, strict=False)]
        else:
            contents = [properties + value for value in values] if properties else list(values)
            size, count = len(properties), 1 if isinstance(key, bytes) else len(values)
            heads = [self._head(each, size, traits) for each, _ in zip(keys, range(count), strict=False)]
        head = heads[0]
        message = Publish(
            head, contents, sum(map(len, contents)), heads=None if heads.count(head) == len(heads) else heads
        )
        self.transaction.publish(way.queues, message)

    def _count(self, properties: _Each, values: Sequence[bytes]) -> None:
        """Count records before they get their own copies of the properties that they share."""
        own = len(properties) * len(values) if isinstance(properties, bytes) else sum(map(len, properties))
        self._size += own + sum(map(len, values))
        most = max(MOST_INTO_QUEUES, 2 * self._staged)
        if self._size > most:
            raise LimitExceeded(
                f"the batch has more than {most} bytes when each of its records has its own properties, and queues "
                "take no more of one batch: commit smaller ones"
            )

    def _publish_chunk(self, way: _Way, data: bytes) -> None:
        self.transaction.publish(way.queues, PublishChunk(MovableChunk(data)))
        self._has_chunks = True

    def _head(self, key: bytes, size: int, traits: Traits) -> Head:
        """Return the head of records with so many bytes of properties."""
        name = key, size, traits
        head = self._heads.get(name)
        if head is None:
            head = self._heads[name] = Head(self._sink, _text(key), 0, size, size, traits=traits)
        return head

    # Ways

    def _ways_of(self, key: _Each, properties: _Each, count: int) -> Iterable[_Way]:
        """Return the way of each record."""
        if self._queue:
            return repeat(self._way(b"", b""), count)
        keys = [key] * count if isinstance(key, bytes) else key
        if self._find_all(keys, properties if isinstance(properties, bytes) else properties[0]):
            return map(self._by_key.__getitem__, keys)
        return map(self._way, keys, repeat(properties) if isinstance(properties, bytes) else properties)

    def _find_all(self, keys: Sequence[bytes], properties: bytes) -> bool:
        """Find the ways for keys, and return whether all are known: not where more than the key counts."""
        new = set(keys) - self._by_key.keys()
        find = self._publisher.finder(self._sink) if new else None
        if new and find is None:
            return False
        if self._first is None:
            self._way(keys[0], properties)
        for key in new:
            queues = find(_text(key)) if find is not None else None
            if not queues:
                return False
            self._by_key[key] = self._way_to(queues)
        return True

    def _way(self, key: bytes, properties: bytes) -> _Way:
        """Return the way of a record."""
        name = (b"", b"") if self._queue else (key, properties)
        found = self._by_both.get(name)
        if found is None:
            found = self._by_both[name] = self._admit(key, properties)
        return found

    def _admit(self, key: bytes, properties: bytes) -> _Way:
        size = len(properties)
        head = self._head(key, size, staged_traits(properties))
        run = RoutedRun(CachedRoute(self._sink, self._queue or head.routing_key), head, (properties,), size)
        [admitted] = self._publisher.admit([run])
        if not admitted.route.queues:
            raise Unroutable(
                f"the record with key {head.routing_key!r} reaches no queue from {self._target.name!r}: nothing is "
                "committed"
            )
        if self._first is None:
            self._first = admitted
        return self._way_to(tuple(admitted.route.queues))

    def _way_to(self, queues: tuple[Ref, ...]) -> _Way:
        way = self._ways.get(queues)
        if way is None:
            takes_chunks = self._directory.run_observers is None and all(map(self._takes_chunks, queues))
            way = self._ways[queues] = _Way(queues, takes_chunks=takes_chunks)
        return way

    def _takes_chunks(self, queue: Ref) -> bool:
        state = self._directory.queues.get(self._directory.name_of(queue))
        return state is not None and isinstance(state.backlog, StreamLog) and state.backlog.publishers is None


def _pieces(data: bytes) -> Iterator[bytes]:
    """Cut a chunk that is too large."""
    if len(data) <= _LARGE:
        yield data
        return
    head = read_chunk_head(data)
    step = max(1, head.count * _LARGE // (2 * len(data)))
    for first in range(head.first, head.stop, step):
        yield cut_chunk(data, first, first + step)


def _runs(staged: StagedChunk, columns: Columns) -> Iterable[tuple[RecordRun, Traits | None]]:
    """Return the runs of a chunk with their traits; very short ones as one, whose records have all of their own."""
    head = columns.head
    if head.runs > 1 and head.count < head.runs * _SHORT:
        keys, properties = columns.keys().each(), columns.properties().each()
        return [(RecordRun(CORE_CODEC, b"", keys, properties, columns.values.each()), None)]
    return ((run, traits) for (_, run), traits in zip(columns.runs(), staged.traits, strict=True))


def _stretches(run: RecordRun, traits: Traits | None, most: int) -> Iterator[tuple[int, int, Traits]]:
    """Yield where records of a run begin and end that are looked at at once, with traits that hold for all of them.

    Where theirs differ, all have those of any: a trait only says that properties are worth a look, and if each change
    of them began another run a batch with a priority here and there would be as many runs as records, in one turn.
    """
    for start in range(0, len(run.values), most):
        stop = min(start + most, len(run.values))
        if traits is not None:
            yield start, stop, traits
            continue
        assert not isinstance(run.properties, bytes)  # what is shared has the same traits
        found = {staged_traits(each) for each in set(run.properties[start:stop])}
        yield start, stop, found.pop() if len(found) == 1 else _any_of(found)


def _any_of(found: Iterable[Traits]) -> Traits:
    return traits_of(
        persistent=True,
        has_expiration=any(each.has_expiration for each in found),
        has_priority=any(each.has_priority for each in found),
    )


def _chosen(given: _Each, places: Sequence[int]) -> _Each:
    return given if isinstance(given, bytes) else [given[place] for place in places]


def _octets(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
