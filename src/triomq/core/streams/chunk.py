"""Some records of a stream in a row: as they were published, as the bytes of a chunk, or both.

    Publish ─▶ runs ──encoded──▶ data ──records──▶ runs of a reader that comes later
               as they came      for disk, for wires, and in memory for as long as it is there

The runs are what feeds read at the end of a stream, and cost no decoding. They have a ``bytes`` for each record, framed
as it came; so only the last ones stay (``StreamLog``).
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from triomq.chunks import Columns, RecordRun, encode_chunk, read_chunk_head
from triomq.core.backlog import RUN_LENGTH, Run, add_heads
from triomq.core.message import Head, Traits, body_of, properties_of, traits_of
from triomq.properties import EXPIRES_MARK, PERSISTENT_MARK, PRIORITY_MARK

_FLAGS = (1 << 32) - 1
"""Of a head, in a run's mark; what queues look at is above."""

SHORT = 64 * 1024
"""Bytes from which on a chunk is full: what a reader that comes later decodes at once, some 0.1 ms."""

SPAN = 10_000
"""Microseconds after which other records go to another chunk: those of one have one time."""


class Chunk:
    """Records in a row; made and owned by a stream's log.

    ``first`` and ``count`` are its records, ``size`` about its bytes, ``time`` and ``last_time`` when the first and the
    last record were appended, in microseconds since 1970. ``runs`` and ``data`` are None while they are not in memory,
    never both.
    """

    __slots__ = ("count", "data", "first", "last_time", "runs", "size", "time")

    def __init__(self, first: int, time: int) -> None:
        self.first = first
        self.count = 0
        self.size = 0
        self.time = self.last_time = time
        self.runs: list[Run] | None = []
        self.data: bytes | None = None

    @classmethod
    def of(cls, data: bytes) -> "Chunk":
        """Return a chunk that is only bytes, which have been checked."""
        head = read_chunk_head(data)
        chunk = cls(head.first, head.time)
        chunk.count, chunk.last_time, chunk.size = head.count, head.last_time, len(data)
        chunk.data, chunk.runs = data, None
        return chunk

    @property
    def stop(self) -> int:
        """The offset behind the last record."""
        return self.first + self.count

    def add(self, head: Head, contents: Sequence[bytes], size: int, heads: Sequence[Head] | None) -> None:
        """Append records to a chunk that is open."""
        count = len(contents)
        first = self.first + self.count
        self.count += count
        self.size += size
        runs = self.runs
        assert runs is not None
        if runs:
            last = runs[-1]
            if last.head.traits is head.traits and len(last.contents) + count <= RUN_LENGTH:
                if last.heads is not None or heads is not None or last.head is not head:
                    add_heads(last, head, heads, count)
                last.contents += contents
                last.size += size
                return
        runs.append(Run(head, list(contents), first, size, 0, 0.0, None if heads is None else [*heads]))

    def encoded(self) -> bytes:
        """Return the bytes, as disk and wires have them."""
        if self.data is None:
            assert self.runs is not None
            parts = [part for run in self.runs for part in _parts(run)]
            self.data = encode_chunk(self.first, self.time, parts)
        return self.data

    def forget_runs(self) -> None:
        """Keep the bytes alone."""
        self.encoded()
        self.runs = None

    def read(self) -> list[Run]:
        """Return the records for a feed."""
        if self.runs is not None:
            return self.runs
        assert self.data is not None
        return decoded(self.data)


def mark_of(traits: Traits) -> int:
    """Return what of a run's mark says what queues look at."""
    return (
        EXPIRES_MARK * traits.has_expiration | PRIORITY_MARK * traits.has_priority | PERSISTENT_MARK * traits.persistent
    )


def _parts(run: Run) -> Iterator[RecordRun]:
    """Cut a run where more than keys and properties differs, and the framing off its contents."""
    if run.heads is None:
        yield _part(run.head, run.contents, None)
        return
    start = 0
    for _, group in groupby(run.heads, key=_alike):
        heads = list(group)
        stop = start + len(heads)
        yield _part(heads[0], run.contents[start:stop], heads)
        start = stop


def _alike(head: Head) -> tuple[str, int]:
    return head.exchange, head.flags


def _part(head: Head, contents: Sequence[bytes], heads: Sequence[Head] | None) -> RecordRun:
    traits, sink = head.traits, _octets(head.exchange)
    mark = head.flags & _FLAGS | mark_of(traits)
    key: bytes | list[bytes]
    if heads is None:
        start, trailer = head.body_start, head.body_trailer
        first, stop = head.properties_start, head.properties_stop
        bodies = [each[start : len(each) - trailer] for each in contents] if start or trailer else contents
        properties = [each[first:stop] for each in contents]
        key = _octets(head.routing_key)
    else:
        pairs = list(zip(heads, contents, strict=True))
        bodies = [body_of(each, content) for each, content in pairs]
        properties = [properties_of(each, content) for each, content in pairs]
        key = [_octets(each.routing_key) for each in heads]
    common = properties[0]
    is_common = properties.count(common) == len(properties)
    return RecordRun(traits.codec, sink, key, common if is_common else properties, bodies, mark)


def decoded(data: bytes) -> list[Run]:
    """Return the records of a chunk for feeds; the chunk has been checked."""
    columns = Columns(data)
    first = columns.head.first
    runs: list[Run] = []
    for _, found in columns.runs():
        run = _run(found, first)
        first += len(run.contents)
        runs.append(run)
    return runs


def _run(found: RecordRun, first: int) -> Run:
    traits = traits_of(
        codec=found.codec,
        has_expiration=bool(found.mark & EXPIRES_MARK),
        has_priority=bool(found.mark & PRIORITY_MARK),
        persistent=bool(found.mark & PERSISTENT_MARK),
    )
    sink, flags, values = _text(found.sink), found.mark & _FLAGS, list(found.values)
    if isinstance(found.key, bytes) and isinstance(found.properties, bytes):
        head = _head(sink, _text(found.key), len(found.properties), flags, traits)
        contents = [found.properties + value for value in values] if found.properties else values
        return Run(head, contents, first, sum(map(len, contents)), 0, 0.0)
    count = len(values)
    keys = [found.key] * count if isinstance(found.key, bytes) else found.key
    properties = [found.properties] * count if isinstance(found.properties, bytes) else found.properties
    known: dict[tuple[bytes, int], Head] = {}
    heads = []
    for key, own in zip(keys, properties, strict=True):
        head_key = (key, len(own))
        head_of = known.get(head_key)
        if head_of is None:
            head_of = known[head_key] = _head(sink, _text(key), len(own), flags, traits)
        heads.append(head_of)
    contents = [own + value for own, value in zip(properties, values, strict=True)]
    return Run(heads[0], contents, first, sum(map(len, contents)), 0, 0.0, heads if len(known) > 1 else None)


def _head(sink: str, key: str, properties: int, flags: int, traits: Traits) -> Head:
    return Head(sink, key, 0, properties, properties, 0, 0, flags, traits)


def _octets(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")
