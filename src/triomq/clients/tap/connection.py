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

import socket
from collections.abc import Iterator, Mapping, Sequence
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from triomq.chunks import Columns, check_chunk, cut_chunk, read_chunk_head, split_chunks
from triomq.clients.tap.refusals import error_of
from triomq.clients.tap.url import TapUrl, parse_tap_url
from triomq.errors import AccessRefused, Disconnected, LimitExceeded, RemoteProtocolError
from triomq.protocols.tap import (
    LARGEST_FRAME,
    Answer,
    BoundsAnswered,
    ClientEvent,
    DoneAnswered,
    EndOfStream,
    Failed,
    GroupPosition,
    LoginChallenged,
    PartitionBounds,
    RecordsAnswered,
    RequestRefused,
    ServerClosing,
    ServerGreeting,
    Settings,
    TapClientEngine,
    TapRequest,
    Welcomed,
)

if TYPE_CHECKING:
    import ssl

A = TypeVar("A", bound=Answer)

FETCH_BYTES: Final = 1024 * 1024
"""Bytes of chunks that are asked for at once: from here on larger ones are no faster, and two are in memory."""

LONGEST_WAIT: Final = 60.0
"""Seconds that a broker waits for records at most; longer waits are asked for again."""

_RECEIVE: Final = 256 * 1024
_SMALL: Final = 8 * 1024
"""Bytes that find room in a socket's buffer even if the broker does not read."""

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
        self._ended = ""  # why, once it has
        # What is asked for is bounded by ``most_bytes``, but for one chunk; so there is nothing else to protect from.
        self._engine = TapClientEngine(now=0.0, settings=Settings(max_frame=LARGEST_FRAME, product=url.name))
        self._events: list[ClientEvent] = []
        self._unread: set[int] = set()  # requests whose answers have not come
        self._wanted: set[int] = set()  # of these and of the next, those whose answer somebody will ask for
        self._aside: dict[int, Answer] = {}
        try:
            self._socket = _connect(url, ssl_context)
        except OSError as error:
            raise Disconnected(f"cannot connect to {url.place}: {error.strerror or error}") from error
        try:
            self._log_in()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a second time nothing happens."""
        self._ended = self._ended or "it was closed here"
        self._socket.close()

    # Logging in

    def _log_in(self) -> None:
        url, until = self.url, monotonic() + self.url.timeout
        greeting = self._expect(ServerGreeting, until)
        mechanism = url.auth_mechanism.upper()
        if mechanism not in greeting.mechanisms:
            offered = ", ".join(greeting.mechanisms) or "none"
            raise AccessRefused(
                f"the broker at {url.place} does not let clients log in by {mechanism} here, but by {offered}; "
                "come over TLS (taps://), or choose another ?auth_mechanism="
            )
        response = b"" if mechanism == "EXTERNAL" else f"\0{url.user}\0{url.password}".encode()
        self._engine.log_in(mechanism, response, url.domain)
        self._expect(Welcomed, until)

    def _expect(self, kind: type[Any], until: float) -> Any:
        event = self._next_event(until)
        while isinstance(event, LoginChallenged):
            self._engine.respond(b"")
            event = self._next_event(until)
        if not isinstance(event, kind):
            raise self._lost(RemoteProtocolError(f"the broker at {self.url.place} said {event} instead of {kind}"))
        return event

    # Requests

    def ping(self) -> None:
        """Wait until the broker answers."""
        self._answer(self._ask(self._engine.ping()), DoneAnswered)

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
        time = None if since is None else int(since * 1_000_000)
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

        Raises:
            OutOfRange: The stream has dropped records before they could be read.
            OtherStream: The stream was deleted and declared anew.
            NotFound: There is no such stream, or partition.
            AccessRefused: The user may not read it.
            ChunkDamaged: What has come is not what was appended.
        """
        until, number = monotonic() + wait, 0
        try:
            while stop is None or first < stop:
                left = min(max(until - monotonic(), 0.0), LONGEST_WAIT)
                number = number or self._fetch(stream, partition, identity, first, stop, most_bytes, left)
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
                    number = self._fetch(stream, partition, identity, first, stop, most_bytes, min(wait, LONGEST_WAIT))
                for chunk in chunks:
                    yield _within(chunk, begin, stop)
        finally:
            if number:
                self._forget(number)

    def _fetch(
        self, stream: str, partition: int, identity: int | None, first: int, stop: int | None, size: int, wait: float
    ) -> int:
        milliseconds = int(wait * 1000)
        engine = self._engine
        return self._ask(engine.fetch(stream, partition, identity, first, stop, most_bytes=size, wait=milliseconds))

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

    @property
    def largest_chunk(self) -> int:
        """Bytes of the largest chunk that can be staged."""
        return self._engine.largest_frame - _STAGE_OVERHEAD

    def stage(self, sink: str, writer: str, *, batch: int, part: int, attempt: int, chunk: bytes) -> None:
        """Send records that nobody sees until they are committed; offsets and times in the chunk count for nothing.

        Args:
            sink: Where they will go: a stream, or any sink.
            writer: Who writes: one name for one query into one sink.
            batch: Which of the writer's batches; their numbers grow.
            part: Which part of the batch: a task's.
            attempt: Which attempt at that part.
            chunk: As ``triomq.chunks.encode_chunk`` makes it; further ones of the same attempt stay behind it.

        Raises:
            LimitExceeded: It is larger than ``largest_chunk``, or there is no room for it.
            NotFound: There is no such sink.
            AccessRefused: The user may not write into it.
        """
        if len(chunk) > self.largest_chunk:
            raise LimitExceeded(
                f"a chunk of {len(chunk)} bytes is too large to stage: the broker at {self.url.place} takes "
                f"{self.largest_chunk}; make smaller ones"
            )
        self._read_all()
        self._answer(self._ask(self._engine.stage(sink, writer, batch, part, attempt, chunk)), DoneAnswered)

    def commit(self, sink: str, writer: str, *, batch: int, attempts: Mapping[int, int]) -> None:
        """Publish what was staged for a batch, all of it or nothing; when this returns, it is on disk.

        Args:
            sink: As it was staged for.
            writer: Likewise.
            batch: Likewise.
            attempts: By part the attempt that counts; the others are dropped.

        Raises:
            UnknownStage: An attempt is not there, as after a restart of the broker; stage the batch again.
            Refused: A queue that it would go to cannot take it; nothing was published.
            NotFound: There is no such sink.
            AccessRefused: The user may not write into it.
        """
        self._read_all()
        self._answer(self._ask(self._engine.commit(sink, writer, batch, attempts)), DoneAnswered)

    def abort(self, sink: str, writer: str, *, batch: int, part: int | None = None, attempt: int | None = None) -> None:
        """Drop what was staged for a batch, or one attempt at one part; what is not there is no error.

        Args:
            sink: As it was staged for.
            writer: Likewise.
            batch: Likewise.
            part: Which part; None is all of them.
            attempt: Which attempt at it.

        Raises:
            AccessRefused: The user may not write into the sink.
        """
        self._answer(self._ask(self._engine.abort(sink, writer, batch, part, attempt)), DoneAnswered)

    # Answers

    def _ask(self, number: int) -> int:
        """Send what the engine has; return the number of the request, whose answer is wanted."""
        if number:
            self._unread.add(number)
            self._wanted.add(number)
        self._flush()
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
        answer = self._next_event(until)
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

    # The socket

    def _next_event(self, until: float) -> ClientEvent:
        """Return what the broker says next.

        Raises:
            Disconnected: The connection has ended, or nothing is said in time.
            AccessRefused: The broker ends it since we may not be there.
        """
        self._flush()
        while not self._events:
            self._receive(until)
        event = self._events.pop(0)
        if isinstance(event, ServerClosing):
            kind = AccessRefused if event.code == "DENIED" else Disconnected
            raise self._lost(kind(f"the broker at {self.url.place} ends the connection: {event.code} {event.text}"))
        if isinstance(event, Failed):
            raise self._lost(RemoteProtocolError(f"{self.url.place} does not speak tap as we do: {event.text}"))
        if isinstance(event, EndOfStream):
            raise self._lost(Disconnected(f"the broker at {self.url.place} has ended the connection"))
        return event

    def _receive(self, until: float) -> None:
        left = until - monotonic()
        if left <= 0:
            raise self._lost(self._silent())
        try:
            self._socket.settimeout(left)
            data = self._socket.recv(_RECEIVE)
        except TimeoutError:
            raise self._lost(self._silent()) from None
        except OSError as error:
            raise self._lost(self._broken(error)) from error
        self._engine.receive_data(data)
        self._events += self._engine.events()

    def _flush(self) -> None:
        if self._ended:
            raise Disconnected(f"the connection to {self.url.place} has ended: {self._ended}; open a new one")
        if not self._engine.outbox.unsent:
            return
        small, pieces = [], self._engine.data_to_send()
        try:
            self._socket.settimeout(self.url.timeout)
            for piece in pieces:
                if len(piece) <= _SMALL:
                    small.append(piece)
                else:
                    self._socket.sendall(b"".join(small))
                    self._socket.sendall(piece)
                    small = []
            if small:
                self._socket.sendall(b"".join(small))
        except TimeoutError:
            raise self._lost(self._silent()) from None
        except OSError as error:
            # It may have said why before it went.
            raise self._last_word() or self._lost(self._broken(error)) from error

    def _last_word(self) -> Exception | None:
        """Return why the broker has ended the connection, if it has said so."""
        try:
            self._socket.settimeout(0.0)
            while data := self._socket.recv(_RECEIVE):
                self._engine.receive_data(data)
        except OSError:
            pass
        for event in self._engine.events():
            if isinstance(event, ServerClosing):
                return self._lost(Disconnected(f"the broker at {self.url.place} ends: {event.code} {event.text}"))
        return None

    def _silent(self) -> Disconnected:
        return Disconnected(
            f"the broker at {self.url.place} says nothing for {self.url.timeout:g} s; see whether it is busy, or raise "
            "?timeout= in the URL"
        )

    def _broken(self, error: OSError) -> Disconnected:
        return Disconnected(f"the connection to {self.url.place} is lost: {error.strerror or error}")

    def _lost(self, error: Exception) -> Exception:
        """Close the connection for a reason, and return that."""
        self._ended = self._ended or str(error)
        self._socket.close()
        self._aside.clear()
        return error


def _connect(url: TapUrl, ssl_context: "ssl.SSLContext | None") -> socket.socket:
    if url.path:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(url.timeout)
        try:
            connection.connect(url.path)
        except BaseException:
            connection.close()
            raise
        return connection
    connection = socket.create_connection((url.host, url.port), url.timeout)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not url.tls:
        return connection
    import ssl  # 10 ms, that only TLS is to cost

    try:
        return (ssl_context or ssl.create_default_context()).wrap_socket(connection, server_hostname=url.host)
    except BaseException:
        connection.close()
        raise


def _within(chunk: memoryview, first: int, stop: int | None) -> Columns:
    """Return the records of a chunk that were asked for."""
    head = check_chunk(chunk)
    last = head.stop if stop is None else min(stop, head.stop)
    if head.first < first or last < head.stop:
        return Columns(cut_chunk(chunk, max(first, head.first), last))
    return Columns(chunk)
