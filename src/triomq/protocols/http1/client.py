"""The client's side of a connection: requests out, several ahead if one likes, and answers in, in the same order.

    send_request … send_request ──> ResponseHead, ResponseBody … ──> ResponseHead, ResponseBody …

Rules:

- Requests may be sent before earlier ones are answered (pipelining); each answer belongs to the first that has none. A
  server may close behind any answer: ``EndOfStream`` says how many requests are left without. Whether those were done
  nobody knows, so only what may be done twice should be sent ahead.
- A request that waits for long holds up all behind it. A client that polls does so over a connection of its own.
- Interim answers (1xx) are passed over. An answer that nobody has asked for is a fault: an old connection may be
  closed by one (408), and what would follow cannot be told apart.
- There are no times here: who waits for an answer knows for how long, and a poll may take hours.
"""

import re
from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from triomq.errors import LocalProtocolError
from triomq.protocols.http1.body import BodyReader, ChunkReader, EndReader, LengthReader
from triomq.protocols.http1.codes import PeerError
from triomq.protocols.http1.events import ClientEvent, EndOfStream, Failed, ResponseBody, ResponseHead
from triomq.protocols.http1.faults import check_begun
from triomq.protocols.http1.grammar import REQUEST_LINE
from triomq.protocols.http1.head import HEAD_END, read_response
from triomq.protocols.http1.outbox import Outbox, encode_fields
from triomq.protocols.http1.settings import Settings
from triomq.protocols.http1.states import CLIENT, State

LARGEST_BODY: Final = 16 * 1024 * 1024
"""Bytes of an answer that are read unless more are wanted: the largest content that RestMS hands out."""

_LINE: Final = re.compile(REQUEST_LINE)

_WITH_BODY: Final = frozenset(("POST", "PUT", "PATCH"))
"""Methods whose requests say that they have no body, if they have none (RFC 9110 section 8.6)."""


class _Asked(NamedTuple):
    """A request that is not answered."""

    method: str
    most: int
    pieces: bool


class HTTPClientEngine:
    """One connection to a server, as ``Engine`` describes it.

    The owner of the socket creates the engine, and drops it when ``outbox.finished`` is true: then the server takes no
    more requests. Nothing that a server sends makes it raise.

    Args:
        now: The present moment; engines are made alike, and this one needs no time.
        settings: Limits of heads.
    """

    __slots__ = (
        "_asked",
        "_events",
        "_gathered",
        "_head",
        "_reader",
        "_received",
        "_rest",
        "_searched",
        "_settings",
        "outbox",
        "reading_paused",
        "state",
    )

    def __init__(self, *, now: float = 0.0, settings: Settings | None = None) -> None:
        self.state: State = "idle"
        self.reading_paused = False
        self.outbox = Outbox()
        """What waits to be written; ``finished`` when the server sends nothing more."""
        self._settings = settings or Settings()
        self._asked: deque[_Asked] = deque()
        self._events: list[ClientEvent] = []
        self._rest = b""
        self._searched = 0  # how much of it has no head's end
        self._head: ResponseHead | None = None  # of the answer whose body comes
        self._reader: BodyReader = EndReader()
        self._received = 0  # bytes of that body
        self._gathered: list[bytes] = []

    @property
    def unanswered(self) -> int:
        """How many requests are without an answer, or without the whole of it."""
        return len(self._asked)

    def send_request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        most: int = LARGEST_BODY,
        pieces: bool = False,
    ) -> None:
        """Send a request.

        Args:
            method: Such as ``GET``.
            target: A path, with its query; or a whole URI, to a proxy.
            headers: Header fields, with ``Host``; the body's length is written here.
            body: All of the body; a large one is not copied and must not change.
            most: Bytes that the answer's body may have.
            pieces: Whether that comes as one ``ResponseBody`` for each read, and not as one in all.

        Raises:
            LocalProtocolError: The line or a field cannot be written, or the server takes no more requests.
        """
        if self.state == "closed":
            raise LocalProtocolError("the connection has ended; open another one")
        line = f"{method} {target} HTTP/1.1"
        if _LINE.fullmatch(line) is None:
            raise LocalProtocolError(f"{line!r} is no request line; encode what stands in a path")
        head = f"{line}\r\n{encode_fields(headers)}"
        if body or method in _WITH_BODY:
            head += f"Content-Length: {len(body)}\r\n"
        self.outbox.put_with_body(f"{head}\r\n".encode("latin-1"), body)
        self._asked.append(_Asked(method, most, pieces))

    # What an engine is

    def receive_data(self, data: bytes) -> None:
        """Read bytes from the server; ``b""`` means that it will send no more."""
        if self.state == "closed":
            return
        self._rest = self._rest + data if self._rest else data
        try:
            while self._read_head() if self.state == "idle" else self._read_body():
                pass
        except PeerError as error:
            self._fail(error.text)
        if not data:
            self._end_stream()

    def events(self) -> list[ClientEvent]:
        """Return the events since the last call, in the order of the wire."""
        events, self._events = self._events, []
        return events

    def data_to_send(self) -> list[bytes | memoryview]:
        """Return what is to be written since the last call, in order."""
        return self.outbox.take()

    @property
    def unfinished(self) -> int:
        """How many bytes are here of what is not whole."""
        return len(self._rest) + (self._received if self._gathered else 0)

    def next_timer(self) -> float | None:
        """Return None: there are no times here."""
        return None

    def handle_timer(self, now: float) -> None:
        """Do nothing."""

    # Answers

    def _read_head(self) -> bool:
        """Read a head, if it is whole; return whether it was."""
        rest = self._rest
        if not rest:
            return False
        if not self._asked:
            raise PeerError(502, "the server has sent an answer that nobody has asked for")
        end = rest.find(HEAD_END, self._searched)
        if end < 0:
            check_begun(rest, "response", self._settings)
            self._searched = max(0, len(rest) - len(HEAD_END) + 1)
            return False
        end += len(HEAD_END)
        head = read_response(rest[:end].decode("latin-1"), self._settings)
        self._rest, self._searched = rest[end:], 0
        if head.status == 101:
            raise PeerError(502, "the server changes to a protocol that nobody has asked for")
        if head.status >= 200:
            self._begin_body(head)
        return True

    def _begin_body(self, head: ResponseHead) -> None:
        self._move("received head")
        self._head, self._received = head, 0
        self._events.append(head)
        if self._asked[0].method == "HEAD" or head.status in (204, 304):
            self._reader = LengthReader(0)
        elif "transfer-encoding" in head.headers:
            self._reader = ChunkReader(self._settings.max_head)
        elif head.length is not None:
            self._reader = LengthReader(head.length)
        else:
            self._reader = EndReader()

    def _read_body(self) -> bool:
        """Read what has come of a body; return whether there may be more to read."""
        if self.outbox.finished:
            return False
        asked = self._asked[0]
        piece, self._rest, ended = self._reader.read(self._rest)
        self._received += len(piece)
        if self._received > asked.most:
            raise PeerError(502, f"the answer has more than {asked.most} bytes, which is what was asked for at most")
        if ended:
            self._end_body(piece)
        elif piece and asked.pieces:
            self._events.append(ResponseBody(piece, False))
        elif piece:
            self._gathered.append(piece)
        return ended or (bool(piece) and bool(self._rest))

    def _end_body(self, piece: bytes) -> None:
        head = self._head
        assert head is not None  # its body has ended
        if self._gathered:
            self._gathered.append(piece)
            piece = b"".join(self._gathered)
            self._gathered = []
        self._events.append(ResponseBody(piece, True))
        self._asked.popleft()
        self._move("received whole body")
        if not head.keep_alive:
            self._end_stream()

    # The end

    def _end_stream(self) -> None:
        """End, since the server sends nothing more; an answer that ends with the stream is whole now."""
        if self.state == "reading" and isinstance(self._reader, EndReader):
            self._reader = LengthReader(0)
            self._end_body(b"")
        if not self.outbox.finished:
            self._events.append(EndOfStream(len(self._asked)))
            self._end("received end")

    def _fail(self, text: str) -> None:
        self._events.append(Failed(502, text))
        self._end("found fault")

    def _end(self, event: str) -> None:
        self._move(event)
        self.outbox.finished = True
        self._rest, self._gathered = b"", []
        self._asked.clear()

    def _move(self, event: str) -> None:
        self.state = CLIENT[self.state][event]
