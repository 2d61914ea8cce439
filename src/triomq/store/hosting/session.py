"""What the store's actor and one host say to each other, from the host's start to its end."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import trio

from triomq.actors import unwrap_group
from triomq.errors import DiskFull, StoreError, StoreLocked, StoreUnwritable
from triomq.store.frames import (
    BackedUp,
    BackUp,
    BatchesCommitted,
    DelayedFetched,
    FetchFailed,
    FromStore,
    PiecesRecovered,
    SegmentsFetched,
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
"""Octets that are received at once."""

_RETRY = 1.0
"""Seconds until batches are sent again that could not be written: so often a full disk is asked, and so long publishers
wait for one that has room again."""

_MENDABLE = (DiskFull, StoreUnwritable, StoreLocked)
"""What may be over when one tries again."""


class StoreSession:
    """One host's part of a store's life; made by the store's actor, ends with the host.

    Args:
        journal: What is to be kept.
        stream: To the host.
        progress: Called whenever batches have come to be on disk.
    """

    def __init__(self, journal: Journal, stream: trio.abc.Stream, progress: Callable[[], None]) -> None:
        self._journal = journal
        self._stream = stream
        self._progress = progress
        self._reader = StoreFrameReader()
        self._wanted = trio.Event()
        self._settles_early = False  # whether what makes room is to be done first
        self._again = True  # whether what was sent to an earlier host, or could not be written, is to be sent
        self._copies: dict[int, tuple[Path, _Copy]] = {}
        self._copied = self._sent_copies = 0

    async def begin(self) -> list[str] | None:
        """Wait until the host has opened the store, and keep what it has found.

        Returns:
            What whoever runs the broker should know; None if the host has ended.

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
                            self._journal.opened(frame.committed, assemble(pieces))
                        return list(frame.notices)
        return None

    async def run(self) -> None:
        """Say what there is to say and hear the answers, until the host has ended.

        Raises:
            StoreError: The store cannot go on.
        """
        self._journal.wake = self._wake
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send_frames)
                while frames := await self._receive():
                    for frame in frames:
                        self._handle(frame, nursery)
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise unwrap_group(group) from None
        finally:
            self._journal.wake = _do_nothing
            self._wanted.set()
            for _, copy in self._copies.values():
                copy.end(StoreError("the store's process has ended while it made the copy; try again"))

    async def _receive(self) -> list[ToStore | FromStore]:
        """Give the next frames; nothing when the host has ended."""
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

    # Saying

    def _wake(self) -> None:
        self._wanted.set()

    async def _send_frames(self) -> None:
        with suppress(trio.BrokenResourceError):  # whoever hears knows
            while True:
                for frame in self._frames_to_send():
                    await self._stream.send_all(encode_frame(frame))
                await self._wanted.wait()
                self._wanted = trio.Event()

    def _frames_to_send(self) -> list[ToStore]:
        journal, again, self._again = self._journal, self._again, False
        early_settlements, self._settles_early = journal.early_settlements() if self._settles_early else [], False
        said: list[ToStore] = [SettleEarly(early_settlements)] if early_settlements else []
        said += [Write(batch) for batch in journal.unanswered] if again else []
        while (batch := journal.take()) is not None:
            said.append(Write(batch))
        said += [fetch.request for fetch in journal.take_fetches(again=again)]
        said += [BackUp(number, str(path)) for number, (path, _) in self._copies.items() if number > self._sent_copies]
        self._sent_copies = self._copied
        return said

    async def _try_again(self) -> None:
        await trio.sleep(_RETRY)
        self._again = self._settles_early = True
        self._wake()

    # Hearing

    def _handle(self, frame: ToStore | FromStore, nursery: trio.Nursery) -> None:
        match frame:
            case BatchesCommitted():
                self._journal.answered(frame.number)
                self._progress()
                self._wake()
            case SegmentsFetched():
                self._journal.fetched(frame.number, frame.reading)
            case DelayedFetched():
                self._journal.fetched(frame.number, frame.bodies)
            case FetchFailed():
                self._journal.fetched(frame.number, frame.failed.error)
            case BackedUp():
                self._copies.pop(frame.number)[1].end(frame.failed.error if frame.failed else None)
            case StoreFailed():
                if not isinstance(frame.error, _MENDABLE):
                    raise frame.error
                self._journal.failed(frame.error)
                nursery.start_soon(self._try_again)

    async def back_up(self, target: Path) -> None:
        """Have the store copied, while it is in use.

        Raises:
            StoreError: It cannot be.
        """
        copy = _Copy()
        self._copied += 1
        self._copies[self._copied] = (target, copy)
        self._wake()
        await copy.ended.wait()
        if copy.error is not None:
            raise copy.error


class _Copy:
    """A copy that is being made."""

    def __init__(self) -> None:
        self.ended = trio.Event()
        self.error: StoreError | None = None

    def end(self, error: StoreError | None) -> None:
        self.error = error
        self.ended.set()


def _do_nothing() -> None:
    """Wake nobody up: no host is there."""
