"""Streams of a broker in this process: the handle, and records as an async iterator.

    async for record in stream.read(from_offset="first", group="audit"):
        print(record.offset, record.body)

A reader asks for chunks and goes through them, so it needs no feed, no window and no clean-up: a loop that is left
leaves nothing behind. It waits at the end; it is as far behind as its loop is slow, and holds one chunk.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

import trio

from triomq.app.checks import check_flag, check_number, check_text, check_whole
from triomq.chunks import Columns, StreamRecord, check_chunk
from triomq.core import (
    Bounds,
    Codecs,
    DeleteStream,
    Enlist,
    ForgetGroup,
    FromOffset,
    Head,
    NoSuchQueue,
    OutOfRange,
    Place,
    Properties,
    QueueMessage,
    QueueState,
    QueueStatistics,
    ResolvePlace,
    SetPosition,
    Since,
    Start,
    partitions_of,
    read_records,
    traits_of,
)
from triomq.errors import ActorStopped
from triomq.shown import shown

if TYPE_CHECKING:
    from triomq.app.domain_handle import DomainHandle

StartName: TypeAlias = Literal["first", "last", "next"]
"""Where a reader begins, as programs write it: the values of ``Start``."""

_MOST_RECORDS = 10_000
"""Records that are asked for at once: a chunk, mostly."""

_MOST_BYTES = 256 * 1024
"""Bytes of chunks that a reader holds at a time, one chunk excepted."""

_MICRO = 1_000_000


class Record:
    """One record of a stream, as ``StreamHandle.read`` yields it."""

    __slots__ = ("_codecs", "_found", "body", "offset")

    def __init__(self, found: StreamRecord, codecs: Codecs) -> None:
        self._found = found
        self._codecs = codecs
        self.offset = found.offset
        self.body = found.value

    def __repr__(self) -> str:
        """Show what identifies it."""
        return f"<Record {self.offset} {self.sink!r} {self.key!r} {len(self.body)} bytes>"

    @property
    def time(self) -> float:
        """When it was appended, in seconds since 1970, by the broker's clock; it never falls from one to the next."""
        return self._found.time / _MICRO

    @property
    def sink(self) -> str:
        """The sink that it was published into; empty for the default sink."""
        return self._found.sink.decode("utf-8", "surrogateescape")

    @property
    def key(self) -> str:
        """The key that it was published with."""
        return self._found.key.decode("utf-8", "surrogateescape")

    @property
    def properties(self) -> Properties:
        """Its type, headers and the like."""
        found = self._found
        stop = len(found.properties)
        head = Head(properties_stop=stop, body_start=stop, traits=traits_of(codec=found.codec))
        return self._codecs.decode(QueueMessage(head, found.properties))


class StreamHandle:
    """A stream of a broker in this process; obtained from ``DomainHandle.declare_stream`` or ``DomainHandle.stream``.

    One publishes into a partitioned stream by its name as the sink, and into another by its name as the key of the
    default sink: ``broker.publish("", stream.name, body)``.
    """

    def __init__(self, domain: "DomainHandle", name: str) -> None:
        self._domain = domain
        self.name = name

    @property
    def domain(self) -> "DomainHandle":
        """The domain that it belongs to."""
        return self._domain

    def __repr__(self) -> str:
        """Show the name."""
        return f"<StreamHandle {self.name!r}>"

    @property
    def partitions(self) -> tuple["StreamHandle", ...]:
        """Its partitions, streams themselves; the stream alone if it has none."""
        return tuple(StreamHandle(self._domain, part.name) for part in self._parts())

    def read(
        self,
        *,
        from_offset: int | StartName = "first",
        since: float | None = None,
        group: str | None = None,
        wait: bool = True,
    ) -> "StreamReader":
        """Read: ``async for record in stream.read(group="audit"): …``; of a partitioned stream read each partition.

        Records that are gone when the reader comes to them are passed over; ``StreamReader.missed`` counts them.

        Args:
            from_offset: Where it begins: an offset, or ``first``, ``last`` (the last records that were appended
                together) or ``next`` (what is appended from now on).
            since: Begin with what was appended at this time or later instead, in seconds since 1970.
            group: Begin where this group has read to, if it has read before, and record how far it comes: behind each
                chunk, when the next record is asked for. So after a crash some records may come again, and none is
                passed over.
            wait: Whether it waits at the end for what comes; otherwise the iteration ends there.

        Raises:
            ValueError: The stream has several partitions, or an argument is out of its range.
        """
        if group is not None:
            check_text("group", group)
        check_flag("wait", wait)
        if len(parts := self._parts()) > 1:
            names = f"{parts[0].name!r} to {parts[-1].name!r}"
            raise ValueError(f"stream {self.name!r} has partitions, {names}; read each of `stream.partitions`")
        return StreamReader(self, _place(from_offset, since), group, wait=wait)

    def _parts(self) -> list[QueueState]:
        return partitions_of(self._domain.directory, self.name)

    async def bounds(self) -> Bounds:
        """Return what can be read.

        Raises:
            NoSuchQueue: The stream does not exist, or has several partitions.
        """
        stream = (await self.statistics()).stream
        assert stream is not None
        return stream.bounds

    async def statistics(self) -> QueueStatistics:
        """Return the present numbers; ``stream`` in them has bounds and the lags of groups.

        Raises:
            NoSuchQueue: The stream does not exist, or has several partitions.
        """
        return await (await self.state()).ref.ask(Enlist())

    async def set_position(self, group: str, offset: int) -> None:
        """Set the next offset that a group wants; it may be lower than before. On disk when this returns.

        Raises:
            NoSuchQueue: The stream does not exist, or has several partitions.
        """
        check_text("group", group)
        check_whole("offset", offset, 0)
        number = await (await self.state()).ref.ask(SetPosition(group, offset))
        if number and (persistence := self._domain.directory.persistence) is not None:
            await persistence.wait_committed(number)

    async def forget_group(self, group: str) -> bool:
        """Forget a group, and return whether it was known.

        Raises:
            NoSuchQueue: The stream does not exist, or has several partitions.
        """
        check_text("group", group)
        return await (await self.state()).ref.ask(ForgetGroup(group))

    async def delete(self) -> None:
        """Delete the stream with all of its partitions; it is no error if it is gone already."""
        await self._domain.ask(DeleteStream(self.name, self._domain.session))
        await self._domain.wait_synced()

    async def state(self) -> QueueState:
        """Return the stream when it runs; for readers.

        Raises:
            NoSuchQueue: It does not exist, or has several partitions.
        """
        state = await self._domain.wait_queue(self.name)
        if state.declared.stream is None:
            raise NoSuchQueue(self.name)
        return state


def _place(from_offset: object, since: float | None) -> Place:
    if since is not None:
        check_number("since", since, 0.0)
        return Since(since)
    if isinstance(from_offset, int) and not isinstance(from_offset, bool):
        check_whole("from_offset", from_offset, 0)
        return FromOffset(from_offset)
    for start in Start:
        if from_offset == start.value:
            return start
    raise ValueError(f"from_offset is {shown(from_offset)}; it is an offset, or 'first', 'last' or 'next'")


class StreamReader:
    """Records in their order; iterate over it in one task at a time. Made by ``StreamHandle.read``; needs no closing.

    ``offset`` is that of the next record, None before the first one is asked for. ``missed`` counts records that were
    gone when the reader came to them.
    """

    def __init__(self, stream: StreamHandle, place: Place, group: str | None, *, wait: bool) -> None:
        self._stream = stream
        self._place = place
        self._group = group
        self._wait = wait
        self._identity = 0
        self._since = int(place.time * _MICRO) if isinstance(place, Since) and group is None else 0
        self._records: Iterator[StreamRecord] = iter(())
        self.offset: int | None = None
        self.missed = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        """Wait for the next record.

        Raises:
            StopAsyncIteration: The end is reached, and the reader does not wait; or the stream is deleted.
            NoSuchQueue: There was no such stream when the first record was asked for.
            ChunkDamaged: The disk has changed the next records.
            StoreError: They cannot be read.
        """
        while (found := self._next()) is None:
            if not await self._has_more():
                raise StopAsyncIteration
        return found

    async def next_records(self) -> list[Record]:
        """Wait for the next records, and return those of some chunks; nothing at the end.

        Raises what the iteration does. With a group, what was returned counts as read when this is called again.
        """
        records: list[Record] = []
        while not records:
            while (found := self._next()) is not None:
                records.append(found)
            if not records and not await self._has_more():
                break
        return records

    def _next(self) -> Record | None:
        """Return the next record of what was read."""
        for found in self._records:
            if found.offset >= (self.offset or 0) and found.time >= self._since:
                self.offset = found.offset + 1
                return Record(found, self._stream.domain.consumers.codecs)
        return None

    async def _has_more(self) -> bool:
        """Read the next chunks; return False at the end."""
        try:
            return await self._read()
        except (NoSuchQueue, ActorStopped):
            if self.offset is None:
                raise
            return False

    async def _read(self) -> bool:
        """Read the next chunks; return False at the end, if that is all."""
        stream = self._stream
        if self.offset is None:
            self.offset = await self._begin()
        elif self._group is not None:
            await (await stream.state()).ref.ask(SetPosition(self._group, self.offset))
        while True:
            state = await stream.state()
            arrived = trio.Event()
            state.when_arrived(arrived.set)
            try:
                read = await read_records(
                    state, self.offset, most_records=_MOST_RECORDS, most_bytes=_MOST_BYTES, since=self._since
                )
            except OutOfRange as gone:
                self.missed += gone.first - self.offset
                self.offset = gone.first
                continue
            if read.bounds.identity != self._identity:
                return False  # it was deleted and declared anew: these are other records
            if read.chunks:
                self._records = _records(read.chunks)
                return True
            if not self._wait:
                return False
            await arrived.wait()

    async def _begin(self) -> int:
        state = await self._stream.state()
        resolved = await state.ref.ask(ResolvePlace(self._place, self._group))
        self._identity = resolved.identity
        return resolved.offset


def _records(chunks: Sequence[bytes]) -> Iterator[StreamRecord]:
    for chunk in chunks:
        check_chunk(chunk)
        yield from Columns(chunk).records()
