"""One session with a host of a store: what the broker's side sends and receives, from the host's start to its end.

    begin()   ◀── PiecesRecovered … StoreOpened      once; a host that starts for a broker sends what it recovers first
    run()     ──▶ Write, Read, BackUp                as soon as the journal has something, and ``_UNDER_WAY`` allows it
              ◀── BatchesCommitted, SegmentsFetched  each commit frees a place for the next batch

- Frames are answered in their order, except reads and backups, which have numbers: nothing here waits for one answer.
- A new session begins by sending what an earlier host did not answer, batches and reads; the store skips the batches
  that it has, so this is safe at any point where a host may have died.
- A write that failed for a reason that may pass (``PASSING``) is tried again after ``_RETRY`` seconds, with all
  batches behind it, since the host has left those aside. Settlements go ahead of them: on a full disk they make room.
- Any other error ends the session, and with it the supervisor.

Sending and receiving are two tasks: with one, a host that sends a large read while it is sent a large batch would wait
for the broker, and the broker for it.
"""

import os
import socket
from array import array
from contextlib import suppress
from pathlib import Path

import trio

from triomq.actors import unwrap_group
from triomq.errors import DiskFull, StoreError, StoreLocked, StoreUnwritable
from triomq.store.frames import (
    BackedUp,
    BackUp,
    BatchesCommitted,
    Buffers,
    ChunksFetched,
    DelayedFetched,
    FetchFailed,
    FromStore,
    PiecesRecovered,
    RecordFetched,
    SegmentsFetched,
    SendChunks,
    SendingEnded,
    SettleEarly,
    StoreFailed,
    StoreFrameReader,
    StoreOpened,
    ToStore,
    Write,
    encode_frame,
)
from triomq.store.journal import Journal
from triomq.store.recovered import Piece, assemble

_CHUNK = 1 << 18
"""Bytes that are received at once."""

_SHORTEST_HOLD, _LONGEST_HOLD = 0.001, 0.005
"""Seconds between looks at a batch that is held: about as many as a write takes now, so that a hold for nothing at most
doubles or triples what a publisher waits for. A consumer beside us answers in 0.3 ms, on a busy machine in a few."""

_VECTOR = 512
"""Buffers in one write; the kernel takes 1,024."""

_RETRY = 1.0
"""Seconds until batches are sent again that could not be written: so often a full disk is asked, and so long publishers
wait for one that has room again."""

PASSING = (DiskFull, StoreUnwritable, StoreLocked)
"""Errors that may be over when the write is tried again."""


class StoreSession:
    """The session with one host; created by the supervisor, ends with the host.

    Args:
        journal: The operations for the store.
        stream: To the host.
    """

    def __init__(self, journal: Journal, stream: trio.abc.Stream) -> None:
        self._journal = journal
        self._stream = stream
        self._reader = StoreFrameReader()
        self._wanted = trio.Event()
        self._held = trio.Event()  # set while the journal holds a batch
        self._hold = _SHORTEST_HOLD
        self._last_sent = 0  # number of the last batch that this session has sent
        self._began = trio.current_time()  # when the host could begin with the batch that is to be answered next
        self._settles_early = False  # whether settlements are to be sent ahead of the batches, to make room
        self._tries_again = False  # whether that is due in a while
        self._again = True  # whether unanswered batches and reads are to be sent, of an earlier host or a failed write
        self._copies: dict[int, _Copy] = {}
        self._copied = self._sent_copies = 0

    async def begin(self) -> list[str] | None:
        """Wait until the host has opened the store, and set what it has recovered in the journal.

        Returns:
            Warnings for the operator of the broker; None if the host has ended.

        Raises:
            StoreError: The store cannot be opened.
        """
        pieces: list[Piece] = []
        while frames := await self._receive():
            for frame in frames:
                match frame:
                    case StoreFailed():
                        raise frame.error
                    case PiecesRecovered():
                        pieces += frame.pieces
                    case StoreOpened():
                        if not self._journal.is_open:
                            self._journal.opened(frame.committed, assemble(pieces), frame.identity)
                        return list(frame.notices)
        return None

    async def run(self) -> None:
        """Send the journal's batches and requests and handle the answers, until the host has ended.

        Raises:
            StoreError: The store cannot go on.
        """
        self._journal.wake = self._wake
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send)
                nursery.start_soon(self._handle_answers, nursery)
                nursery.start_soon(self._tick)
        except BaseExceptionGroup as group:
            raise unwrap_group(group) from None
        finally:
            self._journal.wake = _do_nothing
            self._wanted.set()
            for copy in self._copies.values():
                copy.end(StoreError("the store's process has ended while it made the copy; try again"))

    async def _receive(self) -> list[ToStore | FromStore]:
        """Return the next frames; nothing when the host has ended."""
        frames: list[ToStore | FromStore] = []
        while not frames:
            try:
                data = await self._stream.receive_some(_CHUNK)
            except trio.BrokenResourceError:
                data = b""
            if not data:
                break
            frames = self._reader.feed(bytes(data))
        return frames

    # Sending

    def _wake(self) -> None:
        self._wanted.set()

    async def _send(self) -> None:
        with suppress(trio.BrokenResourceError):  # the receiving task sees the end as well
            while True:
                for frame in self._frames_to_send():
                    if isinstance(frame, SendChunks):
                        await self._lend(frame)
                    else:
                        await send_gathered(self._stream, encode_frame(frame))
                await self._wanted.wait()
                self._wanted = trio.Event()

    async def _lend(self, frame: SendChunks) -> None:
        """Send a request with a duplicate of the socket that it is about."""
        descriptor = self._journal.take_descriptor(frame.number)
        if descriptor is not None:
            try:
                await send_gathered(self._stream, encode_frame(frame), descriptor)
            finally:
                os.close(descriptor)

    def _frames_to_send(self) -> list[ToStore]:
        journal, again = self._journal, self._again
        frames = self._frames_again() if again else []
        while (batch := journal.take(patient=True)) is not None:
            frames.append(Write(batch))
            if self._last_sent <= journal.committed:
                self._began = trio.current_time()
            self._last_sent = batch.number
        if journal.is_held:
            self._held.set()
        frames += [fetch.request for fetch in journal.take_fetches(again=again)]
        if self._sent_copies < self._copied:
            frames += [
                BackUp(number, str(copy.path)) for number, copy in self._copies.items() if number > self._sent_copies
            ]
            self._sent_copies = self._copied
        return frames

    async def _tick(self) -> None:
        """Send what was held, in the end; a timer for each batch would cost more than the batch."""
        while True:
            await self._held.wait()
            await trio.sleep(self._hold)
            if self._journal.tick():
                self._held = trio.Event()
                self._wake()
            elif not self._journal.is_held:
                self._held = trio.Event()

    def _frames_again(self) -> list[ToStore]:
        """Return what an earlier host or a failed write has left unanswered."""
        early = self._journal.early_settlements() if self._settles_early else []
        self._again = self._settles_early = False
        frames: list[ToStore] = [SettleEarly(early)] if early else []
        return frames + [Write(batch) for batch in self._journal.unanswered]

    async def _try_again(self) -> None:
        await trio.sleep(_RETRY)
        self._tries_again = False
        self._again = self._settles_early = True
        self._wake()

    # Receiving

    async def _handle_answers(self, nursery: trio.Nursery) -> None:
        while frames := await self._receive():
            for frame in frames:
                self._handle(frame, nursery)
        nursery.cancel_scope.cancel()

    def _handle(self, frame: ToStore | FromStore, nursery: trio.Nursery) -> None:
        match frame:
            case BatchesCommitted():
                now = trio.current_time()
                took, self._began = now - self._began, now
                self._hold = min(max(_SHORTEST_HOLD, (self._hold + took) / 2), _LONGEST_HOLD)
                self._journal.answered(frame.number)
                self._wake()
            case SegmentsFetched():
                self._journal.fetched(frame.number, frame.reading)
            case DelayedFetched():
                self._journal.fetched(frame.number, frame.bodies)
            case RecordFetched():
                self._journal.fetched(frame.number, frame.value)
            case ChunksFetched():
                self._journal.fetched(frame.number, frame.chunks)
            case SendingEnded():
                self._journal.fetched(frame.number, frame.sent)
            case FetchFailed():
                self._journal.fetched(frame.number, frame.failed.error)
            case BackedUp():
                self._copies.pop(frame.number).end(frame.failed.error if frame.failed else None)
            case StoreFailed():
                if not isinstance(frame.error, PASSING):
                    raise frame.error
                self._journal.failed(frame.error)
                if not self._tries_again:
                    self._tries_again = True
                    nursery.start_soon(self._try_again)

    async def back_up(self, target: Path) -> None:
        """Copy the store to a new directory, while it is in use.

        Raises:
            StoreError: It cannot be copied.
        """
        self._copied += 1
        copy = self._copies[self._copied] = _Copy(target)
        self._wake()
        await copy.ended.wait()
        if copy.error is not None:
            raise copy.error


async def send_gathered(stream: trio.abc.Stream, buffers: Buffers, descriptor: int | None = None) -> None:
    """Send buffers one behind the other; to a socket many with each call, for the kernel to gather.

    Args:
        stream: To the other side.
        buffers: What to send.
        descriptor: Goes with the first byte, over a socket that can do that.
    """
    if (len(buffers) == 1 and descriptor is None) or not isinstance(stream, trio.SocketStream):
        for buffer in buffers:
            await stream.send_all(buffer)
        return
    ancillary = [] if descriptor is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [descriptor]))]
    position, sent = 0, 0  # of the first buffer that has not left whole, and how much of it has
    while position < len(buffers):
        some = buffers[position : position + _VECTOR]
        some[0] = memoryview(some[0])[sent:]
        try:
            sent += await stream.socket.sendmsg(some, ancillary)
            ancillary = []
        except OSError as error:
            raise trio.BrokenResourceError("the host of the store has ended") from error
        while position < len(buffers) and sent >= len(buffers[position]):
            sent -= len(buffers[position])
            position += 1


class _Copy:
    """A copy that the host makes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ended = trio.Event()
        self.error: StoreError | None = None

    def end(self, error: StoreError | None) -> None:
        self.error = error
        self.ended.set()


def _do_nothing() -> None:
    """Wake no session: there is none."""
