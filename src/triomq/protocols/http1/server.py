"""The server's side of a connection: bytes in, requests out, one at a time, and answers in.

    RequestHead ── read_body ──> RequestBody … ── answer ──────────────────────────> the next RequestHead
                └────────────────────────────── begin_answer, send_piece …, end_answer

Rules:

- One request at a time. What a client sends behind one that is not answered (pipelining) waits in here, as it came, and
  is counted in ``pipelined``: so answers are in order, and a flood of small requests is never a list of objects.
- A body is read when the endpoint wants it, so that it can look at the user and the length first; a client that asked
  whether it may send it (``Expect: 100-continue``) is answered then, or gets the final answer at once.
- A body that nobody wanted is read and dropped where that is short, or else the connection ends with the answer. Where
  the client was to be asked for it, nobody can tell whether it comes, and the connection ends.
- A client that sends nothing more may still read: ``EndOfStream`` is an event, and what is under way can be answered.
  Requests that were behind it are answered too. Only a request that can never be whole any more ends the connection.
- What cannot be read is answered here, and is the end: nobody knows where the next request begins.
- Asked to speak another protocol (``Upgrade``) the engine goes on in this one, as a server may (RFC 9110 section 7.8).
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from triomq.errors import LocalProtocolError
from triomq.protocols.http1.body import BodyReader, ChunkReader, LengthReader
from triomq.protocols.http1.codes import CONTINUE, STATUS_LINES, PeerError
from triomq.protocols.http1.events import EndOfStream, Failed, RequestBody, RequestHead, ServerEvent
from triomq.protocols.http1.faults import check_begun
from triomq.protocols.http1.head import HEAD_END, RequestReader
from triomq.protocols.http1.outbox import Outbox, encode_fields
from triomq.protocols.http1.settings import Settings
from triomq.protocols.http1.states import READS, SERVER, State
from triomq.protocols.http1.timers import Timers, Waited

_NO_FIELDS: Final[Mapping[str, str]] = MappingProxyType({})

_CR: Final = ord("\r")

_WITHOUT_BODY: Final = frozenset((204, 304))
"""Answers that never have a body, nor a length (RFC 9110 sections 15.3.5 and 15.4.5)."""

_DEFAULT_SETTINGS: Final = Settings()


class HTTPServerEngine:
    """One client's connection, as ``Engine`` describes it.

    The owner of the socket creates the engine, and drops it when ``outbox.finished`` is true and ``data_to_send()`` is
    written. Nothing that a client sends makes it raise. Commands for a connection that has ended are dropped; those
    that the state does not allow raise ``LocalProtocolError``.

    Take ``events()`` until there are none: an answer lets the engine read on in what the client sent ahead.

    Args:
        now: The present moment in seconds, on the clock that ``handle_timer`` will be given.
        settings: Limits and times.
        date: Gives the date that answers have, for the clock is the owner's; without it they have none.
    """

    __slots__ = (
        "_asks_first",
        "_blank_line",
        "_chunked",
        "_count",
        "_date",
        "_ended",
        "_ended_seen",
        "_events",
        "_gathered",
        "_heads",
        "_in_pieces",
        "_keeps",
        "_most",
        "_reader",
        "_received",
        "_rest",
        "_searched",
        "_timers",
        "outbox",
        "reading_paused",
        "request",
        "settings",
        "state",
    )

    def __init__(self, *, now: float, settings: Settings | None = None, date: Callable[[], str] | None = None) -> None:
        self.state: State = "idle"
        self.reading_paused = False
        self.outbox = Outbox()
        """What waits to be written; ``unsent`` bytes, and nothing after them when it is ``finished``."""
        self.request: RequestHead | None = None
        """The request that is not answered; None between two."""
        self._date = date
        self.settings = settings or _DEFAULT_SETTINGS
        """Limits and times."""
        self._timers = Timers(now, self.settings)
        self._heads = RequestReader(self.settings)
        self._events: list[ServerEvent] = []
        self._rest = b""  # what has come and is not looked at yet
        self._searched = 0  # how much of it has no head's end
        self._blank_line = False  # whether one was skipped before the head
        self._count = 0  # requests so far
        self._ended = False  # whether the client sends nothing more
        self._ended_seen = False  # and whether the owner knows
        # Of the request
        self._reader: BodyReader | None = None  # what is left of its body; None if there is nothing
        self._asks_first = False  # whether the client waits to be asked for it
        self._received = 0  # bytes of it so far
        self._most = 0  # how many it may have
        self._in_pieces = False
        self._gathered: list[bytes] = []
        # Of its answer, once that has begun
        self._chunked = False
        self._keeps = False  # whether the connection goes on behind it

    # What an engine is

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the client; ``b""`` means that it will send no more."""
        if self.state == "closed":
            return
        if data:
            self._rest = self._rest + data if self._rest else data
        else:
            self._ended = True

    def events(self) -> list[ServerEvent]:
        """Read as far as may be; return what was found, in the order of the wire."""
        try:
            while self.state in READS and (self._read_head() if self.state == "idle" else self._read_body()):
                pass
        except PeerError as error:
            self._fail(error.status, error.text)
        if self._ended and not self._ended_seen:
            self._ended_seen = True
            self._events.append(EndOfStream(int(self.request is not None)))
        if self._ended and self.state in READS:
            self._end("received end")  # no request can become whole any more
        events, self._events = self._events, []
        return events

    def data_to_send(self) -> list[bytes | memoryview]:
        """Return what is to be written since the last call, in order."""
        return self.outbox.take()

    @property
    def unfinished(self) -> int:
        """How many bytes are here of what is not whole, or not looked at."""
        return len(self._rest) + (self._received if self._gathered else 0)

    @property
    def pipelined(self) -> int:
        """How many bytes have come behind a request that is not answered; of a body that is not wanted yet, too."""
        return 0 if self.state in READS else len(self._rest)

    # Time

    def next_timer(self) -> float | None:
        """Return when to call ``handle_timer``; None while the client need not bring anything."""
        return self._timers.next if self.state in READS else None

    def handle_timer(self, now: float) -> None:
        """End the connection if the client takes too long: over a head, over a body, or without any request."""
        if now < self._timers.next:
            return
        if self.reading_paused:
            self._timers.forgive(now)
            return
        waited = self._waited_for()
        if self._timers.look(now, waited, self._count, self._received):
            if waited == "request" or (waited == "first" and not self._rest) or self.state == "discarding":
                self._end("lost")  # nothing is under way that an answer could be to
            else:
                self._fail(408, f"the {'body' if waited == 'body' else 'head'} of the request comes too slowly")

    def _waited_for(self) -> Waited:
        if self.state not in READS:
            return ""
        if self.state != "idle":
            return "body"
        if not self._count:
            return "first"
        return "head" if self._rest else "request"

    # Requests

    def _read_head(self) -> bool:
        """Read a head, if it is whole; return whether it was."""
        rest = self._rest
        if not rest:
            return False
        if rest[0] == _CR and not self._blank_line:
            if rest == b"\r":
                return False
            if rest.startswith(b"\r\n"):
                # "SHOULD ignore at least one empty line (CRLF) received prior to the request-line" (RFC 9112, 2.2)
                self._rest = rest = rest[2:]
                self._blank_line = True
                if not rest:
                    return False
        end = rest.find(HEAD_END, self._searched)
        if end < 0:
            check_begun(rest, "request", self.settings)
            self._searched = max(0, len(rest) - len(HEAD_END) + 1)
            return False
        end += len(HEAD_END)
        request = self._heads.read(rest[:end])
        self._rest = rest[end:]
        self._searched, self._blank_line = 0, False
        self._count += 1
        self.request = request
        self._received = 0
        self._asks_first = request.expects_continue
        if request.length:
            self._reader = LengthReader(request.length)
        elif request.length is None:
            self._reader = ChunkReader(self.settings.max_head)
        else:
            self._reader = None
        self._events.append(request)
        self._move("received head")
        return False  # the endpoint's turn

    def read_body(self, most: int, *, pieces: bool = False) -> None:
        """Let the body of the request come; this answers ``RequestHead``, and one without a body has an empty one.

        Args:
            most: Bytes that it may have: a larger one is answered by 413, and the connection ends.
            pieces: Whether it comes as one ``RequestBody`` for each read, and not as one in all.

        Raises:
            LocalProtocolError: There is no request whose body has not been read.
        """
        if self.state == "closed":
            return
        self._move("sent call for body")
        self._most, self._in_pieces = most, pieces
        request = self.request
        assert request is not None  # the states say so
        if request.length is not None and request.length > most:
            self._fail(413, f"the body has {request.length} bytes; allowed are {most}")
        elif self._asks_first:
            if self._reader is not None and not self._rest:
                self.outbox.put(CONTINUE)
            self._asks_first = False

    def _read_body(self) -> bool:
        """Read what has come of the body; return whether there may be more to read."""
        reader = self._reader
        if reader is None:
            self._end_body(b"")
            return True
        if not self._rest:
            return False
        piece, self._rest, ended = reader.read(self._rest)
        self._received += len(piece)
        if self.state == "discarding":
            if ended:
                self._reader = None
                self._move("received whole body")
            return ended
        if self._received > self._most:
            if self._in_pieces:
                fitting = piece[: self._most - self._received]
                if fitting:
                    self._events.append(RequestBody(fitting, False))
            self._fail(413, f"the body has more than {self._most} bytes")
            return False
        if ended:
            self._reader = None
            self._end_body(piece)
        elif piece:
            if self._in_pieces:
                self._events.append(RequestBody(piece, False))
            else:
                self._gathered.append(piece)
        return bool(piece) and bool(self._rest)

    def _end_body(self, piece: bytes) -> None:
        if self._gathered:
            self._gathered.append(piece)
            piece = b"".join(self._gathered)
            self._gathered = []
        self._events.append(RequestBody(piece, True))
        self._move("received whole body")

    # Answers

    def answer(
        self,
        status: int,
        body: bytes | memoryview = b"",
        headers: Mapping[str, str] = _NO_FIELDS,
        *,
        close: bool = False,
    ) -> None:
        """Answer the request, also before its body was read; then the next one may be looked at.

        ``Content-Length``, ``Connection`` and ``Date`` are written here. HEAD has its answer without the body, and 204
        and 304 never have one. A large body is not copied and must not change.

        Args:
            status: A status that is no 1xx.
            body: All of the body.
            headers: Header fields, by names as they are to be written.
            close: Whether the connection ends with it.

        Raises:
            LocalProtocolError: There is no request to answer, or a header field cannot be written.
        """
        request = self.request
        if self.state == "closed":
            return
        if request is None or self.state == "streaming":
            raise LocalProtocolError(f"there is no request to answer in state {self.state}")
        self._gathered = []
        discards = self._reader is not None
        keeps = not close and self._may_keep(request)
        head = self._encode_head(request, status, headers, keeps=keeps)
        if status not in _WITHOUT_BODY:
            head += f"Content-Length: {len(body)}\r\n\r\n"
        else:
            head += "\r\n"
        if request.method == "HEAD" or status in _WITHOUT_BODY:
            body = b""
        self.outbox.put_with_body(head.encode("latin-1"), body)
        self.request = None
        if not keeps:
            self._end("sent last answer")
        else:
            self._move("sent early answer" if discards else "sent answer")

    def begin_answer(self, status: int, headers: Mapping[str, str] = _NO_FIELDS, *, close: bool = False) -> None:
        """Answer the request with a body whose length is not known yet: chunks, or with HTTP/1.0 all until the end.

        Raises:
            LocalProtocolError: As ``answer`` does, or the status has no body.
        """
        request = self.request
        if self.state == "closed":
            return
        if request is None or self.state == "streaming" or status in _WITHOUT_BODY:
            raise LocalProtocolError(f"no answer of status {status} can begin in state {self.state}")
        self._gathered = []
        self._chunked = request.version > 0
        self._keeps = not close and self._chunked and self._reader is None and self._may_keep(request)
        head = self._encode_head(request, status, headers, keeps=self._keeps)
        head += "Transfer-Encoding: chunked\r\n\r\n" if self._chunked else "\r\n"
        self.outbox.put(head.encode("latin-1"))
        self._move("sent head")

    def send_piece(self, data: bytes) -> None:
        """Send a piece of the answer that has begun.

        Raises:
            LocalProtocolError: None has begun.
        """
        if self._is_streaming() and data and self.request is not None and self.request.method != "HEAD":
            if self._chunked:
                self.outbox.put_with_body(b"%x\r\n" % len(data), data)
                self.outbox.put(b"\r\n")
            else:
                self.outbox.put(data)

    def end_answer(self) -> None:
        """End the answer that has begun.

        Raises:
            LocalProtocolError: None has begun.
        """
        if not self._is_streaming():
            return
        assert self.request is not None
        if self._chunked and self.request.method != "HEAD":
            self.outbox.put(b"0\r\n\r\n")
        self.request = None
        if self._keeps:
            self._move("sent whole answer")
        else:
            self._end("sent last answer")

    def give_up(self) -> None:
        """Answer nothing more, since the client has gone; also in the middle of an answer."""
        if self.state != "closed":
            self._end("lost")

    def _is_streaming(self) -> bool:
        if self.state not in ("streaming", "closed"):
            raise LocalProtocolError(f"no answer has begun in state {self.state}")
        return self.state == "streaming"

    def _may_keep(self, request: RequestHead) -> bool:
        """Return whether another request may come behind this one's answer."""
        if not request.keep_alive or (self._ended and not self._rest):
            return False
        if self._reader is None:
            return True
        if self._asks_first:
            return False  # nobody can tell whether the body comes, or the next request
        # Chunks may go on for ever.
        return request.length is not None and request.length - self._received <= self.settings.max_discarded

    def _encode_head(self, request: RequestHead, status: int, headers: Mapping[str, str], *, keeps: bool) -> str:
        line = STATUS_LINES.get(status)
        if line is None or status < 200:
            raise LocalProtocolError(f"{status} is no status that an answer can have")
        fields = encode_fields(headers) if headers else ""
        date = "" if self._date is None else f"Date: {self._date()}\r\n"
        connection = ""
        if not keeps:
            connection = "Connection: close\r\n"
        elif not request.version:
            connection = "Connection: keep-alive\r\n"
        return f"{line}{date}{fields}{connection}"

    # Moving on

    def _move(self, event: str) -> None:
        """Go to the next state; an event that the table does not have is a mistake of our own."""
        following = SERVER[self.state].get(event)
        if following is None:
            raise LocalProtocolError(f"{event!r} has no place in state {self.state}")
        self.state = following

    def _fail(self, status: int, text: str) -> None:
        """End because of what the client did, and tell it why, unless it has been answered already."""
        self._events.append(Failed(status, text))
        if self.state != "discarding":
            body = f"{text}\n".encode()
            date = "" if self._date is None else f"Date: {self._date()}\r\n"
            head = (
                f"{STATUS_LINES[status]}{date}Content-Type: text/plain; charset=utf-8\r\n"
                f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            is_head = self.request is not None and self.request.method == "HEAD"
            self.outbox.put_with_body(head.encode("latin-1"), b"" if is_head else body)
        self._end("found fault")

    def _end(self, event: str) -> None:
        self._move(event)
        self.outbox.finished = True
        self.request = None
        self._reader = None
        self._gathered = []
        self._rest = b""
