"""Streams from plain threads and from asyncio: records cross between threads a chunk at a time, which costs little."""

from collections.abc import AsyncIterator, Iterator
from typing import Unpack

from triomq.app.portal.arguments import ReadArguments
from triomq.app.streams import Record, StreamHandle, StreamReader
from triomq.core import QueueStatistics
from triomq.portal import AsyncioCaller, BlockingCaller


class BlockingStream:
    """A stream, for plain threads; obtained from ``BlockingDomain.declare_stream`` or ``BlockingDomain.stream``.

    Methods are those of ``StreamHandle``, where errors are listed. Each takes a ``timeout`` in seconds as well, and
    raises ``TimeoutError`` when that is over.
    """

    def __init__(self, caller: BlockingCaller, handle: StreamHandle) -> None:
        self._caller = caller
        self.handle = handle

    def __repr__(self) -> str:
        """Show the name."""
        return f"<BlockingStream {self.name!r}>"

    @property
    def name(self) -> str:
        """Its name."""
        return self.handle.name

    @property
    def partitions(self) -> tuple["BlockingStream", ...]:
        """Its partitions, streams themselves; the stream alone if it has none."""
        return tuple(BlockingStream(self._caller, part) for part in self.handle.partitions)

    def read(self, *, timeout: float | None = None, **arguments: Unpack[ReadArguments]) -> Iterator[Record]:
        """Read: ``for record in stream.read(group="audit"): …``.

        Args:
            timeout: Seconds that it may wait for the next records.
            arguments: Those of ``StreamHandle.read``.
        """
        return self._records(self.handle.read(**arguments), timeout)

    def _records(self, reader: StreamReader, timeout: float | None) -> Iterator[Record]:
        while found := self._caller.call(reader.next_records, timeout=timeout):
            yield from found

    def statistics(self, *, timeout: float | None = None) -> QueueStatistics:
        """Return the present numbers."""
        return self._caller.call(self.handle.statistics, timeout=timeout)

    def set_position(self, group: str, offset: int, *, timeout: float | None = None) -> None:
        """Set the next offset that a group wants."""
        self._caller.call(lambda: self.handle.set_position(group, offset), timeout=timeout)

    def forget_group(self, group: str, *, timeout: float | None = None) -> bool:
        """Forget a group, and return whether it was known."""
        return self._caller.call(lambda: self.handle.forget_group(group), timeout=timeout)

    def delete(self, *, timeout: float | None = None) -> None:
        """Delete the stream with all of its partitions; it is no error if it is gone already."""
        self._caller.call(self.handle.delete, timeout=timeout)


class AsyncioStream:
    """A stream, for asyncio; obtained from ``AsyncioDomain.declare_stream`` or ``AsyncioDomain.stream``.

    Methods are those of ``StreamHandle``, where their errors are listed.
    """

    def __init__(self, caller: AsyncioCaller, handle: StreamHandle) -> None:
        self._caller = caller
        self.handle = handle

    def __repr__(self) -> str:
        """Show the name."""
        return f"<AsyncioStream {self.name!r}>"

    @property
    def name(self) -> str:
        """Its name."""
        return self.handle.name

    @property
    def partitions(self) -> tuple["AsyncioStream", ...]:
        """Its partitions, streams themselves; the stream alone if it has none."""
        return tuple(AsyncioStream(self._caller, part) for part in self.handle.partitions)

    def read(self, **arguments: Unpack[ReadArguments]) -> AsyncIterator[Record]:
        """Read: ``async for record in stream.read(group="audit"): …``; arguments are those of ``StreamHandle.read``."""
        return self._records(self.handle.read(**arguments))

    async def _records(self, reader: StreamReader) -> AsyncIterator[Record]:
        while found := await self._caller.call(reader.next_records):
            for record in found:
                yield record

    async def statistics(self) -> QueueStatistics:
        """Return the present numbers."""
        return await self._caller.call(self.handle.statistics)

    async def set_position(self, group: str, offset: int) -> None:
        """Set the next offset that a group wants."""
        await self._caller.call(lambda: self.handle.set_position(group, offset))

    async def forget_group(self, group: str) -> bool:
        """Forget a group, and return whether it was known."""
        return await self._caller.call(lambda: self.handle.forget_group(group))

    async def delete(self) -> None:
        """Delete the stream with all of its partitions; it is no error if it is gone already."""
        await self._caller.call(self.handle.delete)
