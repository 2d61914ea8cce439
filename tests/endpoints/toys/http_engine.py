"""An engine for HTTP/1.1 over h11, in the server's role: bytes in, requests out; no socket, no clock, no broker.

    RequestHead ── read_body ──> RequestBody ── respond ──> the next RequestHead
                └─────────────────────────────── respond

One request at a time: what a client sends behind one that is not answered (pipelining) waits in here, and is counted
(``pipelined``). A body is read when the owner wants it, so that it can look at the user and the length first. ``Gone``
says that the client sends nothing more; closed or half-closed looks the same. What cannot be parsed is answered here.
"""

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus

import h11
import msgspec

LARGEST = 4 * 1024 * 1024
"""Bytes of a body."""

IDLE = 30.0
"""Seconds within which a client has to bring something whole, at least once in two of them."""


class RequestHead(msgspec.Struct, frozen=True):
    """The client has sent the head of a request.

    Args:
        method: Such as ``GET``.
        path: The target's segments, as sent.
        headers: By names in lower case.
    """

    method: str
    path: tuple[str, ...]
    headers: Mapping[bytes, bytes]


class RequestBody(msgspec.Struct, frozen=True):
    """The body of the request that was read last, whole."""

    data: bytes


class Gone(msgspec.Struct, frozen=True):
    """The client sends nothing more."""


Event = RequestHead | RequestBody | Gone


class Outbox:
    """What waits to be written, for drivers that look at it."""

    def __init__(self) -> None:
        self.unsent = 0
        self.finished = False


class HTTPEngine:
    """One server's side; what every engine has is described by ``triomq.protocols.Engine``.

    Args:
        now: The time, on the clock of ``handle_timer``.
    """

    def __init__(self, now: float) -> None:
        self.reading_paused = False
        self.outbox = Outbox()
        self.pipelined = 0
        """Bytes that have come behind a request that is not answered, the rest of its body not counted."""
        self._h11 = h11.Connection(h11.SERVER)
        self._outgoing: list[bytes | memoryview] = []
        self._body = bytearray()
        self._under_way = False  # whether a request is read and not answered
        self._wants_body = False
        self._ended = False  # whether the client sends nothing more
        self._told_end = False
        self._timer = now + IDLE
        self._quiet = False  # whether nothing whole has come since the timer was looked at

    # What comes

    @property
    def unfinished(self) -> int:
        return len(self._body) + self.pipelined

    def receive_data(self, data: bytes) -> None:
        if self.outbox.finished or self._ended:
            return
        self._ended = not data
        self._h11.receive_data(data)
        if self._under_way and not self._wants_body:
            self.pipelined += len(data)

    def events(self) -> Sequence[Event]:
        events: list[Event] = []
        if not self.outbox.finished:
            try:
                events.extend(self._parse())
            except h11.RemoteProtocolError as error:
                self._fail(error)
        if self._ended and not self._told_end:
            self._told_end = True
            events.append(Gone())
            if not self._under_way:
                self.outbox.finished = True
        return events

    def _parse(self) -> Iterable[Event]:
        while not self._under_way or self._wants_body:
            match self._h11.next_event():
                case h11.Request() as request:
                    self._under_way, self._quiet = True, False
                    path = request.target.decode("latin-1").partition("?")[0]
                    segments = tuple(path.strip("/").split("/"))
                    yield RequestHead(request.method.decode(), segments, dict(request.headers))
                case h11.Data(data=data):
                    self._body += data
                    if len(self._body) > LARGEST:
                        self.respond(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
                case h11.EndOfMessage() if self._wants_body:
                    body, self._body = bytes(self._body), bytearray()
                    self._wants_body = self._quiet = False
                    yield RequestBody(body)
                case h11.EndOfMessage():
                    pass
                case _:  # it needs more data, the answer, or nothing more
                    return

    def _fail(self, error: h11.RemoteProtocolError) -> None:
        """Answer what is no HTTP, and end; nothing is said to a client that has gone in the middle of a request."""
        if self._h11.our_state in (h11.IDLE, h11.SEND_RESPONSE) and not self._ended:
            self._under_way = True
            self.respond(HTTPStatus(error.error_status_hint), str(error).encode())
        self._finish()

    def read_body(self) -> None:
        """Let the body of the request come."""
        self._wants_body = True
        if self._h11.they_are_waiting_for_100_continue:
            self._send(h11.InformationalResponse(status_code=100, headers=[]))

    # What goes

    def respond(
        self, status: HTTPStatus, body: bytes = b"", headers: Mapping[str, str] | None = None, *, close: bool = False
    ) -> None:
        """Answer the request; nothing is sent to a client that was given up meanwhile."""
        if self.outbox.finished or not self._under_way:
            return
        self._wants_body, self._body = False, bytearray()
        fields = {"Content-Length": str(len(body)), **(headers or {})}
        if close or self._ended:
            fields["Connection"] = "close"
        self._send(h11.Response(status_code=status, reason=status.phrase, headers=list(fields.items())))
        if body:
            self._send(h11.Data(data=body))
        self._send(h11.EndOfMessage())
        self._under_way, self.pipelined = False, 0
        if self._may_go_on():
            self._h11.start_next_cycle()
        else:
            self._finish()

    def _may_go_on(self) -> bool:
        """Return whether another request may follow: not if this one has a body that was not wanted."""
        if self._h11.their_state is h11.SEND_BODY:
            try:
                self._h11.next_event()  # the end of a request without a body
            except h11.RemoteProtocolError:
                return False
        return self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE

    def _send(self, event: h11.Event) -> None:
        data = self._h11.send(event)
        if data:
            self._outgoing.append(data)
            self.outbox.unsent += len(data)

    def give_up(self) -> None:
        """Answer nothing more."""
        self._finish()

    def _finish(self) -> None:
        self.outbox.finished = True
        self._body.clear()

    def data_to_send(self) -> Sequence[bytes | memoryview]:
        outgoing, self._outgoing, self.outbox.unsent = self._outgoing, [], 0
        return outgoing

    # Time

    def next_timer(self) -> float | None:
        return None if self.outbox.finished else self._timer

    def handle_timer(self, now: float) -> None:
        if now >= self._timer:
            busy = self._under_way and not self._wants_body
            if self._quiet and not busy and not self.reading_paused:
                self._finish()
            self._quiet, self._timer = True, now + IDLE
