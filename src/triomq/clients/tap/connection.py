"""The client for streams by ranges: plain blocking sockets, for tasks of batch jobs and for scripts.

    fetch ── FETCH 1 ──▶                        a thread of its own is not needed: while the caller works on one
          ◀── RECORDS 1 ──                      answer, the next one is on its way into the socket's buffers
          ── FETCH 2 ──▶  yields the chunks of 1

Rules:

- It loads neither Trio nor asyncio, and TLS only where a URL wants it: an executor starts in a few hundredths of a
  second. ``triomq.clients`` therefore resolves its names when they are first used.
- A connection belongs to one thread. Answers come in the order of requests, so an answer that somebody else waits for
  is put aside, one at most for each ``fetch`` that is under way.
- A request that is large waits until all answers have been read: a server that cannot write does not read either.
- When the connection is lost everything raises ``Disconnected``, for good. To connect again, and when, is the caller's:
  it knows what it was at.
"""

from collections.abc import Iterator, Mapping, Sequence
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from triomq.chunks import Columns, check_chunk, cut_chunk, read_chunk_head, split_chunks
from triomq.clients.tap.refusals import error_of
from triomq.clients.tap.url import TapUrl, parse_tap_url
from triomq.clients.tap.wire import TapSocket
from triomq.errors import LimitExceeded
from triomq.protocols import in_units
from triomq.protocols.tap import (
    Answer,
    BoundsAnswered,
    DoneAnswered,
    GroupPosition,
    LeasedAnswered,
    PartitionBounds,
    RecordsAnswered,
    RequestRefused,
    StreamsAnswered,
    TapRequest,
)

if TYPE_CHECKING:
    import ssl

_Source = tuple[str, int, int | None, str]  # stream, partition, identity and group
A = TypeVar("A", bound=Answer)

FETCH_BYTES: Final = 1024 * 1024
"""Bytes of chunks that are asked for at once: from here on larger ones are no faster, and two are in memory."""

LEASE_BYTES: Final = 8 * 1024 * 1024
"""Bytes of messages that are leased at once: as many as a broker moves in one turn."""

LONGEST_WAIT: Final = 60.0
"""Seconds that a broker waits for records at most; longer waits are asked for again."""

_STAGE_OVERHEAD: Final = 2048
"""Bytes of a STAGE beside its chunk: names of at most 255 characters, and numbers."""


def open_tap(url: str, *, ssl_context: "ssl.SSLContext | None" = None) -> "TapConnection":
    """Connect to a broker and log in; close what comes of it, or use it in a ``with`` block.

    Args:
        url: ``tap://user:password@host:port/domain``; see ``TapUrl`` for what else it may hold.
        ssl_context: Whom to trust with ``taps://``; None trusts whom the system trusts.

    Raises:
        ConfigError: The URL is wrong.
        Disconnected: There is no broker, or it does not answer in time.
        AccessRefused: It does not let us in.
        RemoteProtocolError: What answers is no broker that speaks tap.
    """
    return TapConnection(parse_tap_url(url), ssl_context)


class TapConnection:
    """A connection that is open; made by ``open_tap``, ends with ``close`` or its ``with`` block.

    Every method raises ``Disconnected`` when the connection is lost, and what a refusal is (``OutOfRange``,
    ``NotFound``, ``OtherStream``, ``UnknownStage``, ``AccessRefused``, ``Refused``), after which it goes on.

    Args:
        url: Where, and as whom.
        ssl_context: Whom to trust over TLS.
    """

    def __init__(self, url: TapUrl, ssl_context: "ssl.SSLContext | None" = None) -> None:
        self.url = url
        self._socket = TapSocket(url, ssl_context)
        self._engine = self._socket.engine
        self._unread: set[int] = set()  # requests whose answers have not come
        self._wanted: set[int] = set()  # of these and of the next, those whose answer somebody will ask for
        self._aside: dict[int, Answer] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a second time nothing happens."""
        self._socket.close()

    # Requests

    def ping(self) -> None:
        """Wait until the broker answers."""
        self._answer(self._ask(self._engine.ping()), DoneAnswered)

    def streams(self) -> Sequence[str]:
        """Return the names of the streams that the user may read, in order; a partitioned one is there once."""
        return self._answer(self._ask(self._engine.streams()), StreamsAnswered).names

    def offsets(self, stream: str, group: str = "", *, since: float | None = None) -> Sequence[PartitionBounds]:
        """Return what may be read of each partition: its ``identity``, the ``first`` offset and the ``next`` one.

        Args:
            stream: The stream's name.
            group: A group, whose place is the ``position`` of each; None there if it has none.
            since: A time, in seconds since 1970: where there is no group with a position, ``position`` is that of the
                first record which was appended then or later, ``next`` if there is none.

        Raises:
            NotFound: There is no such stream.
            AccessRefused: The user may not read it.
        """
        time = None if since is None else in_units("since", since, 1_000_000, (1 << 63) - 1)
        return self._answer(self._ask(self._engine.offsets(stream, group, time)), BoundsAnswered).partitions

    def fetch(
        self,
        stream: str,
        partition: int,
        first: int,
        stop: int | None = None,
        *,
        identity: int | None = None,
        most_bytes: int = FETCH_BYTES,
        wait: float = 0.0,
        group: str = "",
    ) -> Iterator[Columns]:
        """Yield the records of a partition, chunk by chunk, and have the next ones sent meanwhile.

        Other requests may be made between two chunks. Whoever breaks off leaves nothing behind but bytes to skip.

        Args:
            stream: The stream's name.
            partition: Which one, from 0.
            first: The first offset.
            stop: The offset to end before; None ends when the end of the stream is reached.
            identity: The partition's, as ``offsets`` has shown it; another one is refused. None takes any.
            most_bytes: How much is asked for at once.
            wait: Seconds to wait for further records at the end of the stream.
            group: The group whose ledger is read, if ``stream`` is the name of a queue (``lease``).

        Raises:
            OutOfRange: The stream has dropped records before they could be read.
            OtherStream: The stream was deleted and declared anew.
            NotFound: There is no such stream, or partition.
            AccessRefused: The user may not read it.
            ChunkDamaged: What has come is not what was appended.
        """
        until, number = monotonic() + wait, 0
        source = stream, partition, identity, group
        try:
            while stop is None or first < stop:
                left = min(max(until - monotonic(), 0.0), LONGEST_WAIT)
                number = number or self._fetch(source, first, stop, most_bytes, left)
                asked, number = number, 0
                answer = self._answer(asked, RecordsAnswered, left, stream=stream, offset=first)
                chunks = list(split_chunks(answer.chunks))
                if not chunks:
                    if until <= monotonic():
                        return
                    continue
                begin, first = first, read_chunk_head(chunks[-1]).stop
                until = monotonic() + wait
                if stop is None or first < stop:
                    number = self._fetch(source, first, stop, most_bytes, min(wait, LONGEST_WAIT))
                for chunk in chunks:
                    yield _within(chunk, begin, stop)
        finally:
            if number:
                self._forget(number)

    def _fetch(self, source: _Source, first: int, stop: int | None, size: int, wait: float) -> int:
        stream, partition, identity, group = source
        engine, milliseconds = self._engine, in_units("wait", wait, 1000, (1 << 31) - 1)
        return self._ask(
            engine.fetch(stream, partition, identity, first, stop, most_bytes=size, wait=milliseconds, group=group)
        )

    def ack(self, stream: str, group: str, positions: Mapping[int, GroupPosition]) -> None:
        """Set where a group is; when this returns, the broker has it on disk.

        Args:
            stream: The stream's name.
            group: The group's.
            positions: By partition the next offset that it wants, with the identity of what it has read.

        Raises:
            OtherStream: A partition is another one by now; no position was set.
            NotFound: There is no such stream, or partition.
            AccessRefused: The user may not read it.
        """
        self._answer(self._ask(self._engine.ack(stream, group, positions)), DoneAnswered)

    def lease(
        self, queue: str, group: str, *, most_records: int, most_bytes: int = LEASE_BYTES
    ) -> tuple[PartitionBounds, int]:
        """Move the first ready messages of an ordinary queue into a group's ledger, where they can be read by offsets.

        ``offsets``, ``fetch`` and ``ack`` with the queue's name and the group are about the ledger. What is not
        acknowledged an hour after its lease goes back to the end of the queue. It never waits for messages.

        Args:
            queue: The queue's name.
            group: The group's.
            most_records: How many messages at most; fewer may come though there are more. With 0 the ledger is made if
                it is not there.
            most_bytes: Bytes of messages at most, but one in any case.

        Returns:
            The ledger's bounds, on disk if the queue is durable, and how many messages are still ready in the queue.

        Raises:
            NotFound: There is no such queue.
            Refused: It is a stream; or the group has leased too much that it has not acknowledged.
            AccessRefused: The user may not read it.
        """
        number = self._ask(self._engine.lease(queue, group, most_records, most_bytes))
        answer = self._answer(number, LeasedAnswered)
        return answer.bounds, answer.ready

    @property
    def largest_chunk(self) -> int:
        """Bytes of the largest chunk that can be staged."""
        return self._engine.largest_frame - _STAGE_OVERHEAD

    def stage(
        self, target: str, writer: str, *, batch: int, part: int, attempt: int, chunk: bytes, is_sink: bool = False
    ) -> None:
        """Send records that nobody sees until they are committed; offsets and times in the chunk count for nothing.

        Args:
            target: Where they will go: a stream, whose partitions are found by the records' keys, or a queue.
            writer: Who writes: one name for one query into one target.
            batch: Which of the writer's batches; their numbers grow.
            part: Which part of the batch: a task's.
            attempt: Which attempt at that part.
            chunk: As ``triomq.chunks.encode_chunk`` makes it; further ones of the same attempt stay behind it.
            is_sink: Whether ``target`` is a sink (AMQP's exchange) instead, and records go where their keys lead.

        Raises:
            LimitExceeded: It is larger than ``largest_chunk``, or there is no room for it.
            NotFound: There is no such target.
            AccessRefused: The user may not write into it.
        """
        if len(chunk) > self.largest_chunk:
            raise LimitExceeded(
                f"a chunk of {len(chunk)} bytes is too large to stage: the broker at {self.url.place} takes "
                f"{self.largest_chunk}; make smaller ones"
            )
        self._read_all()
        number = self._engine.stage(target, writer, batch, part, attempt, chunk, is_sink=is_sink)
        self._answer(self._ask(number), DoneAnswered)

    def commit(
        self, target: str, writer: str, *, batch: int, attempts: Mapping[int, int], is_sink: bool = False
    ) -> None:
        """Publish what was staged for a batch, all of it or nothing; when this returns, it is on disk.

        Args:
            target: As it was staged for.
            writer: Likewise.
            batch: Likewise.
            attempts: By part the attempt that counts; the others are dropped.
            is_sink: As it was staged.

        Raises:
            UnknownStage: An attempt is not there, as after a restart of the broker; stage the batch again.
            Refused: A queue that it would go to cannot take it; nothing was published.
            NotFound: There is no such target.
            AccessRefused: The user may not write into it.
        """
        self._read_all()
        number = self._engine.commit(target, writer, batch, attempts, is_sink=is_sink)
        self._answer(self._ask(number), DoneAnswered)

    def abort(
        self,
        target: str,
        writer: str,
        *,
        batch: int,
        part: int | None = None,
        attempt: int | None = None,
        is_sink: bool = False,
    ) -> None:
        """Drop what was staged for a batch, or one attempt at one part; what is not there is no error.

        Args:
            target: As it was staged for.
            writer: Likewise.
            batch: Likewise.
            part: Which part; None is all of them.
            attempt: Which attempt at it.
            is_sink: As it was staged.

        Raises:
            AccessRefused: The user may not write into the target.
        """
        number = self._engine.abort(target, writer, batch, part, attempt, is_sink=is_sink)
        self._answer(self._ask(number), DoneAnswered)

    # Answers

    def _ask(self, number: int) -> int:
        """Send what the engine has; return the number of the request, whose answer is wanted."""
        if number:
            self._unread.add(number)
            self._wanted.add(number)
        self._socket.flush()
        return number

    def _answer(self, number: int, kind: type[A], wait: float = 0.0, *, stream: str = "", offset: int = 0) -> A:
        """Wait for an answer.

        Args:
            number: The request's.
            kind: What it is if it is not refused.
            wait: Seconds that the broker may let pass first.
            stream: What was asked for, for errors.
            offset: From where.
        """
        until = monotonic() + wait + self.url.timeout
        while number not in self._aside:
            self._read_one(until)
        answer = self._aside.pop(number)
        self._wanted.discard(number)
        if isinstance(answer, RequestRefused):
            raise error_of(answer, stream, offset)
        assert isinstance(answer, kind)  # the engine has checked that
        return answer

    def _read_one(self, until: float) -> None:
        """Wait for one more answer, and put it aside if somebody will ask for it."""
        answer = self._socket.next_event(until)
        assert isinstance(answer, TapRequest)  # all that comes after WELCOME
        self._unread.discard(answer.number)
        if answer.number in self._wanted:
            self._aside[answer.number] = answer

    def _forget(self, number: int) -> None:
        """Want an answer no more."""
        self._wanted.discard(number)
        self._aside.pop(number, None)

    def _read_all(self) -> None:
        """Read all answers that are outstanding; one that waits for records comes at once behind a PING."""
        if self._unread:
            self.ping()


def _within(chunk: memoryview, first: int, stop: int | None) -> Columns:
    """Return the records of a chunk that were asked for."""
    head = check_chunk(chunk)
    last = head.stop if stop is None else min(stop, head.stop)
    if head.first < first or last < head.stop:
        return Columns(cut_chunk(chunk, max(first, head.first), last))
    return Columns(chunk)
