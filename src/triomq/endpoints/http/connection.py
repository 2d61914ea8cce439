"""A connection of HTTP: requests come one after the other, and are answered in their order.

    RequestHead ── who is it? ─┬─ nobody ──> 401, or 429 if that was tried too often; the body unread
                               └─ user ────> requested(request, user)
                                               ├─ answer(request, …)                         at once
                                               ├─ read_body(request, most, take) ──> take(data, ended) ── answer
                                               ├─ wait(request) … answer(request, …)         a long poll
                                               └─ begin_answer … send_piece … end_answer     a stream, such as events

Rules:

- A connection works in no domain. A request names its user, and two of them may differ; what they publish and consume
  is done by a session, a ``Client`` of the endpoint's that outlives connections. ``borrow`` says by which.
- The user is known before the body is read, and so is its length. What the hooks refuse then costs the client a body of
  64 KiB at most, or the connection.
- A request that waits is a record: it has no task. ``request_over`` says, once for each, that it was answered or will
  not be any more, since its client has gone or the connection ends: the one place where a record is dropped.
- A client that closes one direction looks like one that has gone. So a request that waits is given up, while one that
  does something goes on, and its answer is sent.
- Requests behind one that is not answered wait, unread by us. More than ``max_pipelined`` bytes of them are not taken
  from the socket; but where a request waits this would hide that the client goes, and the connection ends.
- A publish that meets a pressure is tried again when that is over. After ``patience`` seconds it is answered: nothing
  was published. A request that waits for a message is never answered like this: it does not add to the pressure.
- Asked to go, requests that wait are answered by 503 at once, those under way when they are done, the last word of each
  connection being that it closes.

What was tried: a task for each request, 20 to 40 µs more, and 5 KiB for each that waits (``docs/topics/http.rst``).
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from math import ceil, inf
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeAlias, final

import msgspec
import trio

from triomq.core import Pressure, PublishingPaused
from triomq.endpoints.base.client import Client
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.domain_work import ClientEnded
from triomq.endpoints.base.stream_client import StreamClient
from triomq.endpoints.http.basic_login import BasicLogin
from triomq.errors import AccessRefused, ActorError, LimitExceeded, NotFound, TriomqError
from triomq.protocols import http_date
from triomq.protocols.http1 import EndOfStream, Failed, HTTPServerEngine, RequestBody, RequestHead, Settings
from triomq.transports import TLS, Transport

_NO_FIELDS: Final[Mapping[str, str]] = MappingProxyType({})

_PIPELINED: Final = "pipelined"
"""Why nothing is read: enough has come behind a request that is not answered."""

_PATIENCE_UNDER_PRESSURE: Final = 30.0
"""Seconds: less than the minute after which clients and proxies give up, and longer than most pressures take."""

_PATIENCE_AT_THE_END: Final = 5.0
"""Seconds that a client may leave an answer unread which will send nothing more: most of these have gone."""

_REQUEST: Final = 50
"""What a request is charged with, in queue pushes: so some forty of those that a client pipelines share a turn."""

_RENDERED: Final = 32
"""Bytes of an answer that are charged as much as a queue push; a large one ends the turn, and so it is written, or
the client does not read and its next requests wait."""

_RETRY_AFTER: Final = "10"
"""Seconds until a client should try again what a pressure has refused: about as long as consumers or an administrator
need to notice."""

_RESTARTED: Final = "1"
"""Seconds until a client should look whether a broker is there again that was closing: a poll wants to be back soon."""

TakeBody: TypeAlias = Callable[[bytes, bool], None]
"""What gets a body, or a piece of it, and whether that was the last."""


class HTTPAnswer(msgspec.Struct, frozen=True):
    """An answer.

    Args:
        status: Its status.
        body: What it says.
        headers: Its header fields, beside those that every answer has.
    """

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = _NO_FIELDS


def text_answer(status: int, text: str, headers: Mapping[str, str] = _NO_FIELDS) -> HTTPAnswer:
    """Return an answer that a person reads."""
    return HTTPAnswer(status, f"{text}\n".encode(), {"Content-Type": "text/plain; charset=utf-8", **headers})


class HTTPConnection(StreamClient):
    """Base of connections that speak HTTP/1.1; a temporary child of its endpoint.

    Args:
        transport: The bytes; owned from now on.
        context: What the broker lends.
        realm: What people are asked for when they are to log in.
        settings: Limits and times.
        allow_plain_insecure: Whether passwords may come from other machines without TLS.
        tls: What the endpoint listens with, which says where in a client's certificate the name of its user is.
    """

    last_words_are_long = True  # an answer of megabytes may be the last: clients that want one only say so

    _engine: HTTPServerEngine
    _is_full = False  # whether something sent waits for the client, when it was looked at last
    _impatient_at = inf  # when a request has waited for long enough

    def __init__(
        self,
        transport: Transport,
        context: BrokerContext,
        *,
        realm: str = "triomq",
        settings: Settings | None = None,
        allow_plain_insecure: bool = False,
        tls: TLS | None = None,
    ) -> None:
        date = partial(_today, context.unix_time)
        super().__init__(transport, HTTPServerEngine(now=trio.current_time(), settings=settings, date=date), context)
        self._login = BasicLogin(context, transport, realm=realm, tls=tls, allow_plain_insecure=allow_plain_insecure)
        self._request: RequestHead | None = None  # the one that is not answered
        self._take_body: TakeBody | None = None
        self._waits = False  # whether it ends with its client
        self._handling = False  # whether a handler is on the stack, behind which more is read

    # Hooks: what a protocol defines

    def requested(self, request: RequestHead, user: str) -> None:
        """Answer a request, read its body, or let it wait.

        What this raises is answered as ``answer_to`` says. After ``PublishingPaused`` and ``Restarting`` it is called
        again with the same request, and nothing must have been done for it.

        Args:
            request: The request.
            user: Who sends it; empty where ``wants_login`` is False.
        """
        raise NotImplementedError(f"{type(self).__qualname__} needs `requested`")

    def request_over(self, request: RequestHead) -> None:
        """Forget a request: it was answered, or will not be any more. Called once for each."""

    def writable(self, request: RequestHead) -> None:
        """Go on with an answer in pieces: the client has taken what was sent so far."""

    def wants_login(self, request: RequestHead) -> bool:
        """Return whether a request needs a user; all do, but for those that a subclass knows better."""
        return True

    @property
    def patience_under_pressure(self) -> float:
        """Seconds that a request waits for the end of a pressure."""
        return _PATIENCE_UNDER_PRESSURE

    @property
    def engine(self) -> HTTPServerEngine:
        """What reads requests and writes answers."""
        return self._engine

    def fields_for(self, request: RequestHead) -> Mapping[str, str]:
        """Return header fields that each answer to a request has, also those which are made here."""
        return _NO_FIELDS

    def refusal(self, status: int, text: str, headers: Mapping[str, str] = _NO_FIELDS) -> HTTPAnswer:
        """Return the answer to a request that is refused by what is the same for all of HTTP.

        Args:
            status: 401, 403 and 429 are about who asks, 503 about the broker.
            text: Why, and what to do.
            headers: What the status wants with it.
        """
        return text_answer(status, text, headers)

    def answer_to(self, error: Exception) -> HTTPAnswer:
        """Return the answer to a request that was refused, or that pressure does not let be done."""
        if isinstance(error, PublishingPaused):
            full = error.pressure is Pressure.DISK
            status = HTTPStatus.INSUFFICIENT_STORAGE if full else HTTPStatus.SERVICE_UNAVAILABLE
            return text_answer(status, str(error), {"Retry-After": _RETRY_AFTER})
        return text_answer(next((status for kind, status in _STATUSES if isinstance(error, kind)), 409), str(error))

    # What a protocol calls; nothing happens when the request is over

    @final
    def read_body(self, request: RequestHead, most: int, take: TakeBody, *, pieces: bool = False) -> None:
        """Let the body come.

        Args:
            request: Whose.
            most: Bytes that it may have; a larger one is answered by 413.
            take: Called with the body, once, also with an empty one. It may raise what ``requested`` may, and is called
                again then.
            pieces: Whether it is called with each piece that comes. ``hold`` and ``go_on`` stop and start that.
        """
        if request is self._request:
            self._take_body = take
            self._engine.read_body(most, pieces=pieces)
            self._read_on()

    @final
    def wait(self, request: RequestHead) -> None:
        """Let a request wait for what may not come for long; it ends with its client."""
        if request is self._request:
            self._waits = True
            if self.gone:
                self.in_turn(self._give_up_waiting)  # not in the middle of what the caller does
            elif _PIPELINED in self.gates.closed:
                self.in_turn(self._end_pipelined)

    @final
    def answer(
        self,
        request: RequestHead,
        status: int,
        body: bytes | memoryview = b"",
        headers: Mapping[str, str] = _NO_FIELDS,
        *,
        close: bool = False,
    ) -> None:
        """Answer a request; may be called in any turn.

        Args:
            request: Which.
            status: A status that is no 1xx.
            body: All of the body; it must not change.
            headers: Header fields, beside length, date, and what is about the connection.
            close: Whether the connection ends with it.
        """
        if request is self._request:
            self.ref.run_in_turn(self._answer, request, status, body, headers, close)

    @final
    def begin_answer(self, request: RequestHead, status: int, headers: Mapping[str, str] = _NO_FIELDS) -> None:
        """Begin an answer in pieces; from now on the request ends with its client."""
        if request is self._request:
            self.ref.run_in_turn(self._begin_answer, request, status, headers)

    @final
    def send_piece(self, request: RequestHead, data: bytes) -> None:
        """Send a piece of an answer that has begun; while ``is_writable`` is False it waits in memory."""
        if request is self._request:
            self.ref.run_in_turn(self._send_piece, data)

    @final
    def end_answer(self, request: RequestHead) -> None:
        """End an answer that has begun."""
        if request is self._request:
            self.ref.run_in_turn(self._end_answer)

    @final
    def is_open(self, request: RequestHead) -> bool:
        """Return whether a request still waits for its answer."""
        return request is self._request

    @property
    def is_writable(self) -> bool:
        """Whether the client has taken all that was sent; ``writable`` is called when it has."""
        return self.writer.may_write

    @final
    def borrow(self, session: Client) -> None:
        """Name the client by whom the present request publishes: its pressures are waited for."""
        self.publisher = session.publisher

    # Requests

    def _head(self, request: RequestHead) -> None:
        """Handle a request, or handle it again when something is over that it met."""
        self._request, self._take_body, self._waits = request, None, False
        user = self._user_of(request) if self.wants_login(request) else ""
        if user is None:
            return
        self._handling = True
        try:
            self.requested(request, user)
        finally:
            self._handling = False

    def _user_of(self, request: RequestHead) -> str | None:
        """Return who sends a request; None if that is worked out, or was answered by 401."""
        header = request.headers.get("authorization", "")
        if header and not self._login.takes_passwords:
            text = "passwords are taken over TLS only; use https, or let the administrator allow them without"
            self._send(request, self.refusal(HTTPStatus.FORBIDDEN, text), close=True)
            return None
        user = self._login.user_of(header)
        if user is None:
            self.start_task(self._login.work_out, header, partial(self._worked_out, request))
        elif not user:
            self._challenge(request)
        return user or None

    def _worked_out(self, request: RequestHead, user: str) -> None:
        self.ref.run_in_turn(self._judged, request, user)

    def _judged(self, request: RequestHead, user: str) -> None:
        """Go on with a request whose password was worked out; the users know it now."""
        if request is self._request:
            if user:
                self.do_next(request)
                self.work_off()
            else:
                self._challenge(request)

    def _challenge(self, request: RequestHead) -> None:
        wait = ceil(self._login.wait(request.headers.get("authorization", "")))
        if wait:
            text = f"too many log-ins have failed from here, or as this user; try again in {wait} s"
            self._send(request, self.refusal(HTTPStatus.TOO_MANY_REQUESTS, text, {"Retry-After": str(wait)}))
            return
        headers = {"WWW-Authenticate": f'Basic realm="{self._login.realm}", charset="UTF-8"'}
        self._send(request, self.refusal(HTTPStatus.UNAUTHORIZED, "log in with a name and its password", headers))

    def _body(self, body: RequestBody) -> None:
        take = self._take_body
        if take is not None:  # or it was answered meanwhile
            self._handling = True
            try:
                take(body.data, body.ended)
            finally:
                self._handling = False

    def _send(self, request: RequestHead, answer: HTTPAnswer, *, close: bool = False) -> None:
        self.answer(request, answer.status, answer.body, answer.headers, close=close)

    def refused(self, event: Any, error: TriomqError) -> None:
        """Answer the request that was refused."""
        if self._request is not None:
            self._send(self._request, self.answer_to(error))

    # Answers

    def _answer(
        self,
        request: RequestHead,
        status: int,
        body: bytes | memoryview,
        headers: Mapping[str, str],
        close: bool,
    ) -> None:
        common = self.fields_for(request)
        self._turn.charge(_REQUEST + len(body) // _RENDERED)
        self._engine.answer(
            status, body, {**common, **headers} if common else headers, close=close or bool(self.ending)
        )
        self._drop_request()
        self._read_on()

    def _begin_answer(self, request: RequestHead, status: int, headers: Mapping[str, str]) -> None:
        self._engine.begin_answer(status, {**self.fields_for(request), **headers})
        self._take_body = None
        self.wait(request)
        self.ref.touch()

    def _send_piece(self, data: bytes) -> None:
        self._engine.send_piece(data)
        self.ref.touch()

    def _end_answer(self) -> None:
        self._engine.end_answer()
        self._drop_request()
        self._read_on()

    def _read_on(self) -> None:
        """Write what there is, and read on in what has come; where a handler is on the stack that follows by itself."""
        self.ref.touch()
        if _PIPELINED in self.gates.closed:
            self.in_turn(self.go_on, _PIPELINED)
        elif not self._handling and (self._engine.unfinished or self.gone):
            self.in_turn(self._work_on)

    def _work_on(self) -> None:
        if not self.writer.is_choked:  # or that comes when the client has read
            self.work_off()

    def after_batch(self) -> None:
        """Write, and have more of an answer in pieces when what waited of it has left."""
        was_full = self._is_full
        super().after_batch()
        if self.writer.may_write is was_full:  # else nothing is written: most connections keep the class's attribute
            self._is_full = not was_full
        if was_full and not self._is_full and self._engine.state == "streaming" and self._request is not None:
            self.writable(self._request)

    # Pressure

    def pausing(self, pressure: Pressure) -> None:
        """Wait for so long, and not for ever."""
        super().pausing(pressure)
        self._impatient_at = trio.current_time() + self.patience_under_pressure
        self.reschedule()

    def resuming(self, pressure: Pressure) -> None:
        """Wait no more."""
        self._impatient_at = inf

    def due_at(self) -> float:
        """Return when a timer is due, or a request has waited for long enough."""
        return min(super().due_at(), self._impatient_at)

    def due(self, now: float) -> None:
        """Answer a request that has waited for long enough; otherwise as every client."""
        if now >= self._impatient_at:
            self._impatient_at = inf
            paused = self.take_paused()
            if paused is not None:
                if self._request is not None:
                    self._send(self._request, self.answer_to(PublishingPaused(paused[1])))
                self.resume()
        if self.gone:
            self.patience = min(self.patience, _PATIENCE_AT_THE_END)
        super().due(now)

    # What comes beside requests

    def judge_unfinished(self) -> None:
        """Stop reading what is behind a request, or end where that would hide the client's end."""
        if self._engine.pipelined > self._engine.settings.max_pipelined and _PIPELINED not in self.gates.closed:
            if self._waits:
                self._end_pipelined()
            else:
                self.hold(_PIPELINED)

    def _end_pipelined(self) -> None:
        if self._waits:
            self.ending = self.ending or "too much is pipelined behind a request that waits"
            self.leave()

    def refuse_unfinished(self, reason: str) -> None:
        """Answer a request whose body takes too much room."""
        if self._request is None or self._waits:
            super().refuse_unfinished(reason)
        else:
            answer = self.refusal(HTTPStatus.SERVICE_UNAVAILABLE, reason, {"Retry-After": _RETRY_AFTER})
            self._send(self._request, answer, close=True)

    def _end_of_stream(self, event: EndOfStream) -> None:
        if self._waits:
            self._give_up_waiting()

    def _give_up_waiting(self) -> None:
        if self._waits and self._request is not None:
            self._drop_request()
            self._engine.give_up()
            self.ref.touch()

    def _failed(self, failed: Failed) -> None:
        """Log what the engine has answered already."""
        self.ending = self.ending or failed.text
        self.note(logging.INFO, "request refused", status=failed.status, reason=failed.text)
        self._drop_request()

    def _drop_request(self) -> None:
        request, self._request, self._take_body = self._request, None, None
        if request is not None:
            self.request_over(request)

    # The end

    def closing(self, reason: str) -> None:
        """Answer what waits, let end what is under way, and close."""
        self.ending = self.ending or reason
        request = self._request
        if request is None:
            if self._engine.outbox.unsent or not self.writer.may_write:
                self._engine.give_up()  # it leaves when the last answer is written
                self.ref.touch()
            else:
                self.leave()
        elif self._engine.state == "streaming":
            self._drop_request()
            self._engine.end_answer()
            self._engine.give_up()
            self.ref.touch()
        elif self._waits:
            text = f"{reason}; nothing was done; try again in a while, or at another one"
            self._send(request, self.refusal(HTTPStatus.SERVICE_UNAVAILABLE, text, {"Retry-After": _RESTARTED}))

    def left(self) -> None:
        """Drop the request that is not answered; linger as every client does."""
        self._drop_request()
        super().left()

    def released(self) -> None:
        """Drop all, also after a crash."""
        self.forget(self.resume)
        self._drop_request()
        super().released()

    event_handlers: ClassVar = {RequestHead: _head, RequestBody: _body, EndOfStream: _end_of_stream, Failed: _failed}


def _today(unix_time: Callable[[], float]) -> str:
    return http_date(unix_time())


_STATUSES: Final[tuple[tuple[type[Exception], int], ...]] = (
    (ClientEnded, HTTPStatus.SERVICE_UNAVAILABLE),
    (ActorError, HTTPStatus.SERVICE_UNAVAILABLE),
    (NotFound, HTTPStatus.NOT_FOUND),
    (AccessRefused, HTTPStatus.FORBIDDEN),
    (LimitExceeded, HTTPStatus.TOO_MANY_REQUESTS),
)
"""How refusals are answered; what is not here is a conflict, 409, with what there is."""
