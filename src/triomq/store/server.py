"""Runs a store at one end of a socket pair, in a process of its own or on a thread.

    broker ──socket pair──▶ receive ─▶ commit (all batches that have arrived: one transaction, one sync) ─▶ answer
                               ├─────▶ reading thread, with a connection of its own ─────────────────────▶ answer
                               └─────▶ sending thread, to sockets that the broker lends ─────────────────▶ answer

- Whatever batches have arrived by the time the last commit is done are committed together, so that many small ones cost
  one sync.
- Bodies are read over a second connection on a thread of its own, which never waits for a commit.
- A batch that cannot be written is answered with the reason, and those behind it are left aside: the broker sends all
  of them again.

The process is ``python -m triomq.store.server``, started by the broker alone. It has the store's directory and one end
of the socket pair, nothing else of the broker's, and loads no event loop. When the broker is gone, however that
happened, its end of the pair is closed: then this process commits what it has received whole, and ends.
"""

import argparse
import os
import queue
import select
import signal
import socket
import sqlite3
import threading
import time
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path

from triomq.allocator import INTERVAL, FreeMemory
from triomq.errors import StoreError
from triomq.process import forget_origin
from triomq.store.backup import back_up
from triomq.store.directory import PATIENCE
from triomq.store.frames import (
    BackedUp,
    BackUp,
    BatchesCommitted,
    ChunksFetched,
    DelayedFetched,
    FetchFailed,
    Fetching,
    FromStore,
    PiecesRecovered,
    Read,
    ReadChunks,
    ReadDelayed,
    RecordFetched,
    SegmentsFetched,
    SendChunks,
    SettleEarly,
    StoreFailed,
    StoreFrameReader,
    StoreOpened,
    ToStore,
    Write,
    encode_frame,
)
from triomq.store.operations import OperationBatch
from triomq.store.presence import KnownStore
from triomq.store.sending import SendingThread
from triomq.store.sqlite import SqliteReader, SqliteStore

_CHUNK = 1 << 20
"""Bytes of the buffer that is received into, unless a batch is larger: then it has room for two of them."""
_ANCILLARY = socket.CMSG_SPACE(array("i").itemsize)
"""Bytes for the descriptor that comes with a frame; the kernel never joins two."""
_IDLE = 500
"""Milliseconds after which the room that large batches took is given back, and the files are looked at."""
_LOOK = 0.45
"""Seconds between two looks at the files; each commit looks too."""
_PIECES = 2_000
"""Recovered pieces in one frame."""


def serve(
    wire: socket.socket,
    directory: Path,
    *,
    fresh: bool,
    patience: float = PATIENCE,
    reserve: int = 0,
    known: KnownStore | None = None,
) -> None:
    """Open a store and serve it at one end of a socket pair, until the other end is closed.

    Args:
        wire: This end, blocking.
        directory: The store's.
        fresh: Whether a broker starts: then all that is recovered is sent first.
        patience: Seconds to wait for the directory's lock.
        reserve: Bytes on the disk below which nothing is written that needs more room.
        known: The store that has to be there, if the broker has worked with it before.
    """
    with wire:
        server = _Server(wire)
        try:
            with closing(SqliteStore(directory, fresh=fresh, patience=patience, reserve=reserve, known=known)) as store:
                if fresh:
                    server.send_recovered(store)
                server.send(StoreOpened(store.committed, store.notices, store.identity))
                server.run(store)
        except StoreError as error:
            server.send(StoreFailed.of(error))


class _Server:
    """Commits and answers for one open store, at one end of the socket pair."""

    def __init__(self, wire: socket.socket) -> None:
        self._wire = wire
        self._sending = threading.Lock()  # several threads answer
        self._reader = StoreFrameReader(_CHUNK)
        self._waiting = select.poll()
        self._waiting.register(wire, select.POLLIN)
        self._lent: deque[int] = deque()  # descriptors whose frames have not been read yet
        self._expected = 0  # number of the next batch; later ones are left aside, for one before them has failed
        self._looks_at = 0.0  # when to look whether the files are in their places
        self._lost = ""  # why they are not, as the broker was told

    def send(self, frame: FromStore) -> None:
        with (
            self._sending,
            suppress(ConnectionError, BrokenPipeError),
        ):  # the broker is gone: the next receive finds out
            for buffer in encode_frame(frame):
                self._wire.sendall(buffer)

    def send_recovered(self, store: SqliteStore) -> None:
        pieces = store.recover(segments=False)
        while some := list(islice(pieces, _PIECES)):
            self.send(PiecesRecovered(some))

    def run(self, store: SqliteStore) -> None:
        with (
            closing(_ReadingThread(store, self.send)) as reading,
            closing(SendingThread(store.open_reader, self.send)) as sending,
        ):
            while self._serve_next(store, reading, sending):
                self._merge(store)
                self._look_again(store)

    def _serve_next(self, store: SqliteStore, reading: "_ReadingThread", sending: SendingThread) -> bool:
        """Serve what arrives next; return whether there was anything. What refers to the reader's buffer ends here."""
        while not self._waiting.poll(_IDLE):
            self._reader.shrink()
            self._look_again(store)
        frames = self._receive()
        batches = [frame.batch for frame in frames if isinstance(frame, Write)]
        for frame in frames:
            if isinstance(frame, SettleEarly):
                with suppress(StoreError):  # there is no room even for that
                    store.settle_early(frame.operations)
            elif isinstance(frame, SendChunks):
                sending.put(frame, socket.socket(fileno=self._lent.popleft()))
            elif isinstance(frame, Fetching | BackUp):
                reading.put(frame)
        if batches:
            self._commit(store, batches)
        return bool(frames)

    def _merge(self, store: SqliteStore) -> None:
        """Merge small chunks of streams: some behind each batch, and more as long as nothing arrives."""
        try:
            while store.has_merges and store.merge_next() and not self._waiting.poll(0):
                pass
        except StoreError:
            pass  # there is no room now; it is tried again behind the next batch

    def _look_again(self, store: SqliteStore) -> None:
        """Tell the broker if the files of the store are not in their places any more, or are back; not all the time."""
        now = time.monotonic()
        if now < self._looks_at:
            return
        self._looks_at = now + _LOOK
        try:
            store.require_present()
        except StoreError as error:
            if str(error) != self._lost:
                self._lost = str(error)
                self.send(StoreFailed.of(error))
        else:
            if self._lost:
                self._lost = ""
                self._expected = store.committed + 1
                self.send(BatchesCommitted(store.committed))

    def _receive(self) -> list[ToStore | FromStore]:
        """Wait for frames and return all that have arrived and have room; nothing at the end of the stream."""
        frames: list[ToStore | FromStore] = []
        while not frames or self._reader.has_room:
            try:
                with self._reader.room() as room:
                    count, ancillary, _, _ = self._wire.recvmsg_into(
                        [room], _ANCILLARY, socket.MSG_DONTWAIT if frames else 0
                    )
                for _, _, data in ancillary:
                    self._lent += array("i", data)
            except BlockingIOError:
                break
            except ConnectionError:
                count = 0
            if not count:
                break
            frames += self._reader.received(count)
        return frames

    def _commit(self, store: SqliteStore, batches: list[OperationBatch]) -> None:
        self._expected = self._expected or batches[0].number
        batches = batches[_start(batches, self._expected) :]
        if not batches:
            return
        try:
            number = store.commit(batches)
        except StoreError as error:
            self.send(StoreFailed.of(error))
        except ValueError as error:
            self.send(_unexpected("a batch cannot be applied", error))
        else:
            self._expected = batches[-1].number + 1
            self.send(BatchesCommitted(max(number, batches[-1].number)))


def _unexpected(text: str, error: Exception) -> StoreFailed:
    return StoreFailed("StoreError", f"{text}, which is an error of triomq; please report it: {error!r}")


def _read(reader: SqliteReader, frame: Fetching) -> FromStore:
    match frame:
        case Read():
            return SegmentsFetched(frame.number, reader.read(frame.queue, frame.first, frame.stop, frame.max_bytes))
        case ReadChunks():
            found = reader.read_chunks(frame.queue, frame.first, frame.stop, frame.max_bytes, frame.since)
            return ChunksFetched(frame.number, found)
        case ReadDelayed():
            return DelayedFetched(frame.number, reader.read_delayed(frame.queue, frame.numbers))
        case _:
            return RecordFetched(frame.number, reader.read_record(frame.kind, frame.key))


def _has_damage(answer: FromStore) -> bool:
    match answer:
        case SegmentsFetched():
            return bool(answer.reading.damaged)
        case ChunksFetched():
            return bool(answer.chunks.damaged)
        case _:
            return False


def _start(batches: list[OperationBatch], expected: int) -> int:
    """Return the position of the expected batch; the end if it is not among them."""
    for position, batch in enumerate(batches):
        if batch.number == expected:
            return position
    return len(batches)


class _ReadingThread:
    """The thread that reads bodies; created with the server, ends with it."""

    def __init__(self, store: SqliteStore, send: Callable[[FromStore], None]) -> None:
        self._store = store
        self._send = send
        self._wanted: queue.SimpleQueue[Fetching | None] = queue.SimpleQueue()
        self._early: SqliteReader | None = None  # open at once, to read on should the files lose their names
        with suppress(StoreError):  # it is tried again, and the first read answered with the reason
            self._early = store.open_reader()
        self._thread: threading.Thread | None = None

    def put(self, frame: Fetching | BackUp) -> None:
        if isinstance(frame, BackUp):  # may take minutes, and others want to read meanwhile
            threading.Thread(target=self._back_up, args=(frame,), daemon=True).start()
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        self._wanted.put(frame)

    def _run(self) -> None:
        reader = self._early
        while (frame := self._wanted.get()) is not None:
            try:
                reader = reader or self._store.open_reader()
                answer = _read(reader, frame)
                if _has_damage(answer):
                    self._store.be_careful()
                self._send(answer)
            except StoreError as error:
                self._send(FetchFailed(frame.number, StoreFailed.of(error)))
            except Exception as error:  # unanswered, it would stop the queue that waits for it, and all behind it
                self._send(FetchFailed(frame.number, _unexpected("messages cannot be read", error)))
        if reader is not None:
            reader.close()

    def _back_up(self, frame: BackUp) -> None:
        try:
            self._store.require_places()
            back_up(self._store.directory, Path(frame.path))
        except (StoreError, sqlite3.Error) as error:
            self._send(BackedUp(frame.number, StoreFailed(type(error).__name__, str(error))))
        except Exception as error:  # unanswered, the caller would wait for ever
            self._send(BackedUp(frame.number, _unexpected("the store cannot be copied", error)))
        else:
            self._send(BackedUp(frame.number))

    def close(self) -> None:
        if self._thread is not None:
            self._wanted.put(None)
            self._thread.join()
        elif self._early is not None:
            self._early.close()


def _keep_giving_back() -> None:
    """Return memory to the system that is free for long; runs as long as the process."""
    memory = FreeMemory()
    while True:
        time.sleep(INTERVAL)
        memory.look()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the process of a store, until the broker is gone."""
    forget_origin()
    parser = argparse.ArgumentParser("triomq.store.server", description="The store of a broker; started by it.")
    parser.add_argument("directory", type=Path, help="the store's directory")
    parser.add_argument("--wire", type=int, required=True, help="descriptor of this end of the socket pair")
    parser.add_argument("--fresh", action="store_true", help="the broker starts, so send what is recovered")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds to wait for the directory's lock")
    parser.add_argument("--known", default="", help="identity and last batch of the store that has to be there")
    parser.add_argument("--reserve", type=int, default=0, help="bytes on the disk that are left free")
    given = parser.parse_args(arguments)
    os.umask(0o077)  # messages are for their owner alone
    # Ctrl-C and a service manager tell all processes of a group. The broker drains then, and needs its store for that.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_keep_giving_back, daemon=True).start()
    serve(
        socket.socket(fileno=given.wire),
        given.directory,
        fresh=given.fresh,
        patience=given.patience,
        reserve=given.reserve,
        known=_known(given.known),
    )


def _known(text: str) -> KnownStore | None:
    identity, _, committed = text.partition(":")
    return KnownStore(bytes.fromhex(identity), int(committed)) if text else None


if __name__ == "__main__":
    main()
