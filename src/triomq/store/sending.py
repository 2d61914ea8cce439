"""Writes chunks straight to the sockets of those who want them, so that they do not pass through the broker.

    client ══ socket ══ broker: the protocol, rights, what is in memory
                 ║         │ SendChunks, and a duplicate of the socket with it
                 ╚══ this thread: length, head, chunks ──▶ SendingEnded

- One thread for all sockets, with a connection of its own. It waits for none of them: what a socket does not take now
  is sent when it takes more, so a client that does not read costs the others nothing but the memory of its one answer.
- That memory is bounded for each reader, whatever number of sockets it reads by: to half of what the broker allows for
  all. Above it answers of that reader are ended that have not moved for a second, the one that is stuck for longest
  first; at twice as much none has that second. Its newest answer is never ended for that.
- The broker writes nothing to a socket that it has lent, and keeps its own duplicate. When it shuts that down, writing
  here fails at once; so closing a connection and draining work as they do elsewhere.
- A chunk's checksum is for its reader: to look at it here too would take a third of this thread's time. What shows in
  a head is found: a body of other records, or one that is cut.
- The frame is all that the store knows of a protocol: four bytes of length, a message that the broker has encoded up to
  its last field, and that field, MessagePack's ``bin`` of 32 bits.
"""

import queue
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from triomq.errors import StoreCorrupt, StoreError
from triomq.process import close_in_forks
from triomq.store.body import BINARY, BINARY_CODE
from triomq.store.chunk_rows import contiguous
from triomq.store.frames import FetchFailed, FromStore, SendChunks, SendingEnded, StoreFailed
from triomq.store.reading import ChunksSent
from triomq.store.sqlite import SqliteReader

_PATIENCE = 60.0
"""Seconds for which a client may take nothing of its answer: as long as it may have asked us to wait for records."""

_GRACE = 1.0
"""Seconds that an answer may be stuck though its reader has too much unread."""

_LOOK = 0.5
"""Seconds between two looks while a reader has too much unread."""

_SENT = memoryview(b"")

_VECTOR = 512
"""Buffers in one write; the kernel takes 1,024."""


class _Answer:
    """One answer on its way; owned by the thread.

    Args:
        number: The request's.
        reader: Whose it is.
        target: Where it goes.
        pieces: All of it.
    """

    __slots__ = ("held", "number", "pieces", "position", "reader", "since", "size", "target")

    def __init__(self, number: int, reader: str, target: socket.socket, pieces: list[memoryview]) -> None:
        self.number = number
        self.reader = reader
        self.held = sum(map(len, pieces))  # bytes in memory
        self.target = target
        self.pieces = pieces
        self.position = 0  # of the first piece that is not sent
        self.size = 0  # bytes that are
        self.since = monotonic()  # when the last of them were

    def push(self) -> bool:
        """Send what the socket takes now; return whether there is more to send.

        Raises:
            OSError: The other side is gone.
        """
        while self.position < len(self.pieces):
            some = self.pieces[self.position : self.position + _VECTOR]
            try:
                sent = self.target.sendmsg(some, (), socket.MSG_DONTWAIT)
            except BlockingIOError:
                return True
            self.size += sent
            self.since = monotonic()
            while sent and sent >= len(self.pieces[self.position]):
                size = len(self.pieces[self.position])
                sent -= size
                self.held -= size
                self.pieces[self.position] = _SENT
                self.position += 1
            if sent:
                self.pieces[self.position] = self.pieces[self.position][sent:]
        return False


class SendingThread:
    """The thread; created with the server, begins with the first request, ends with the server.

    Args:
        open_reader: Opens the store for reading.
        send: Answers the broker.
    """

    def __init__(self, open_reader: Callable[[], SqliteReader], send: Callable[[FromStore], None]) -> None:
        self._open_reader = open_reader
        self._send = send
        self._wanted: queue.SimpleQueue[tuple[SendChunks, socket.socket] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._bell, self._ear = map(close_in_forks, socket.socketpair())
        self._bell.setblocking(False)
        self._reader: SqliteReader | None = None
        self._answers: dict[int, _Answer] = {}  # by descriptor
        self._poll = select.poll()
        self._room = 0  # bytes that all answers may hold; 0 is no bound
        self._is_crowded = False  # whether a reader has too much unread

    def put(self, frame: SendChunks, target: socket.socket) -> None:
        """Answer a request; the socket is closed then."""
        self._wanted.put((frame, target))
        self._ring()

    def close(self) -> None:
        """End, whatever is on its way."""
        if self._thread is not None:
            self._wanted.put(None)
            self._ring()
            self._thread.join()
        self._bell.close()
        self._ear.close()

    def _ring(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        with suppress(BlockingIOError):  # it rings already
            self._bell.send(b"\0")

    def _run(self) -> None:
        self._poll.register(self._ear, select.POLLIN)
        try:
            while self._turn():
                pass
        finally:
            for answer in self._answers.values():
                answer.target.close()
            if self._reader is not None:
                self._reader.close()

    def _turn(self) -> bool:
        """Wait for something to do, and do it; return whether to go on."""
        patience = _LOOK if self._is_crowded else _PATIENCE
        for descriptor, _ in self._poll.poll(patience * 1000 if self._answers else None):
            if descriptor in self._answers:
                self._push(self._answers[descriptor])
            else:
                self._ear.recv(4096)
        while not self._wanted.empty():
            wanted = self._wanted.get()
            if wanted is None:
                return False
            self._begin(*wanted)
            if self._is_crowded:  # now, for many may be waiting behind it
                self._relieve(monotonic())
        now = monotonic()
        for answer in [each for each in self._answers.values() if now - each.since > _PATIENCE]:
            self._end(answer, is_whole=False)
        if self._is_crowded:
            self._relieve(now)
        return True

    def _relieve(self, now: float) -> None:
        """End answers that are stuck, of readers who have too much unread."""
        self._is_crowded = False
        by_reader: dict[str, list[_Answer]] = {}
        for answer in self._answers.values():
            by_reader.setdefault(answer.reader, []).append(answer)
        for answers in by_reader.values():
            held, share = sum(answer.held for answer in answers), self._room // 2
            for answer in sorted(answers[:-1], key=lambda each: each.since):
                if held <= share:
                    break
                if now - answer.since >= _GRACE or held > 2 * share:
                    held -= answer.held
                    self._end(answer, is_whole=False)
            self._is_crowded = self._is_crowded or held > share

    def _begin(self, frame: SendChunks, target: socket.socket) -> None:
        """Read what is wanted, and send what the socket takes of it."""
        try:
            self._reader = self._reader or self._open_reader()
            chunks = _chunks_of(self._reader, frame)
        except StoreError as error:
            target.close()
            self._send(FetchFailed(frame.number, StoreFailed.of(error)))
        except Exception as error:  # unanswered, its client would wait for ever
            target.close()
            text = f"records cannot be read, which is an error of triomq; please report it: {error!r}"
            self._send(FetchFailed(frame.number, StoreFailed("StoreError", text)))
        else:
            pieces = _pieces(frame.head, chunks) if chunks else []
            answer = self._answers[target.fileno()] = _Answer(frame.number, frame.reader, target, pieces)
            self._poll.register(target, select.POLLOUT)
            self._push(answer)
            if frame.room and target.fileno() in self._answers:
                self._room, self._is_crowded = frame.room, True  # to be looked at

    def _push(self, answer: _Answer) -> None:
        try:
            if answer.push():
                return
        except OSError:
            self._end(answer, is_whole=False)
        else:
            self._end(answer, is_whole=bool(answer.pieces))

    def _end(self, answer: _Answer, *, is_whole: bool) -> None:
        self._poll.unregister(answer.target)
        del self._answers[answer.target.fileno()]
        answer.target.close()
        begun = 0 if is_whole or not answer.pieces else 1  # what has begun is not asked for again, sent or not
        self._send(SendingEnded(answer.number, ChunksSent(max(begun, answer.size), is_whole)))


def _chunks_of(reader: SqliteReader, frame: SendChunks) -> list[bytes]:
    """Return the chunks from the first offset on, up to what is seen to be damaged; none if that offset is gone.

    Raises:
        StoreCorrupt: The records at the first offset are seen to be damaged.
        StoreError: They cannot be read.
    """
    found = reader.read_unchecked_chunks(frame.queue, frame.first, frame.stop, frame.max_bytes)
    chunks = contiguous(found.chunks, frame.first)
    if not chunks and found.damaged:
        raise StoreCorrupt(f"the records from {frame.first} on are damaged: {found.damaged[0].reason}")
    return chunks


def _pieces(head: bytes, chunks: list[bytes]) -> list[memoryview]:
    size = sum(map(len, chunks))
    front = head + BINARY.pack(BINARY_CODE, size)
    return [memoryview((len(front) + size).to_bytes(4, "big") + front), *[memoryview(chunk) for chunk in chunks]]
