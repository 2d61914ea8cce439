"""A toy over HTTP/1.1: requests borrow a session, which is the client and outlives their sockets.

    POST   /sessions                        201 with its Location, from here on called S
    PUT    S/queues/QUEUE                   204: it is declared
    POST   S/sinks/SINK/KEY                 204: the message is placed and on disk; SINK ``-`` is the default one
    GET    S/queues/QUEUE                   200 with a message, and with its Location; 204 if none has come for a while
    DELETE S/deliveries/NUMBER              204: it is accepted
    DELETE S                                204: all that is not accepted goes back

    stream ── HTTPToyConnection (HTTPConnection, never in a domain) ── a request ──┐ borrows
    listener ── endpoint ── HTTPSession (Client, in a domain) <────────────────────┘

Rules, beside those of ``HTTPConnection``:

- A session is its user's alone, and its name cannot be guessed: for all others it does not exist. It lives as long as a
  request of its own is under way, and a while longer.
- GET accepts nothing. A message that was sent to a socket that has gone meanwhile stays with the session, until its
  client accepts it after all, or the session ends. One that has not been sent yet goes back at once, unmarked.
- Asked to go, a session lets publishes end.
"""

from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from math import inf
from secrets import token_hex
from typing import ClassVar, Final
from urllib.parse import unquote

import trio

from endpoints.toy import Lines
from triomq.core import Batch, DeclareQueue, Outcome, Properties, QueueOptions, Subscription
from triomq.endpoints import BrokerContext, Client, ClientEnded, Endpoint, StreamListener
from triomq.endpoints.http import HTTPAnswer, HTTPConnection, text_answer
from triomq.errors import AccessRefused, NotFound
from triomq.protocols.http1 import RequestHead
from triomq.transports import Transport

LARGEST: Final = 4 * 1024 * 1024
"""Bytes of a body."""

IDLE: Final = 4.0
"""Seconds that a session lives without a request."""

POLL: Final = 20.0
"""Seconds that a poll waits for a message: less than what stands between us and the client gives up after."""


class Poll:
    """A request that waits for one message, until it is answered or gone."""

    def __init__(self, connection: "HTTPToyConnection", request: RequestHead) -> None:
        self.until = trio.current_time() + POLL
        self.connection = connection
        self.request = request
        self.subscription: Subscription | None = None

    def answer(self, answer: HTTPAnswer) -> None:
        self.connection.answer(self.request, answer.status, answer.body, answer.headers)


class HTTPSession(Client):
    """The client: what one user publishes and takes; lives until nothing has been asked for ``IDLE`` seconds."""

    kind: ClassVar[str] = "session"
    noun: ClassVar[str] = "session"

    def __init__(self, context: BrokerContext, login: str, peer: str, ended: Callable[["HTTPSession"], object]) -> None:
        super().__init__(context, peer)
        self.login = login
        self.token = token_hex(16)
        self._ended = ended
        self._requests: dict[RequestHead, HTTPToyConnection] = {}
        self._polls: dict[RequestHead, Poll] = {}
        self._idle_since = trio.current_time()

    def started(self) -> None:
        self.enter(self.login, "default")

    # Requests

    def request_begins(self, connection: "HTTPToyConnection", request: RequestHead) -> None:
        if self.ending or self.has_left:
            raise ClientEnded(self.ending)
        self._requests[request] = connection

    def request_ends(self, request: RequestHead) -> None:
        self._end_poll(request)
        self._requests.pop(request, None)
        self._idle_since = trio.current_time()
        self.ref.run_in_turn(self._ended_one)

    def _ended_one(self) -> None:
        if self.ending and not self._requests:
            self.leave()
        self.reschedule()

    def due_at(self) -> float:
        polls = min((poll.until for poll in self._polls.values()), default=inf)
        return polls if self._requests else self._idle_since + IDLE

    def due(self, now: float) -> None:
        for poll in [poll for poll in self._polls.values() if poll.until <= now]:
            poll.answer(HTTPAnswer(HTTPStatus.NO_CONTENT))
        if not self._requests and now >= self._idle_since + IDLE:
            self.ending = "nothing was asked for a while"
            self.leave()

    def closing(self, reason: str) -> None:
        self.ending = self.ending or reason
        for poll in list(self._polls.values()):
            poll.answer(text_answer(HTTPStatus.SERVICE_UNAVAILABLE, reason))
        self.ref.run_in_turn(self._ended_one)

    def released(self) -> None:
        for request, connection in list(self._requests.items()):
            connection.answer(request, HTTPStatus.SERVICE_UNAVAILABLE)
        self._ended(self)

    # Polls

    def take(self, connection: "HTTPToyConnection", request: RequestHead, queue: str) -> None:
        poll = Poll(connection, request)
        poll.subscription = self.subscribe(queue, messages=1)
        self._polls[request] = poll
        connection.wait(request)
        self.reschedule()

    def _end_poll(self, request: RequestHead) -> None:
        poll = self._polls.pop(request, None)
        if poll is not None and poll.subscription is not None and self.entered:
            self.unsubscribe(poll.subscription)

    def _poll_of(self, subscription: Subscription) -> Poll:
        return next(poll for poll in self._polls.values() if poll.subscription is subscription)

    def delivered(self, subscription: Subscription, batch: Batch) -> None:
        poll = self._poll_of(subscription)
        number, body = self.unsettled.enter(batch), batch.message(0).body
        location = f"/sessions/{self.token}/deliveries/{number}"
        poll.answer(HTTPAnswer(HTTPStatus.OK, body, {"Location": location}))

    def cancelled(self, subscription: Subscription, reason: str) -> None:
        self._poll_of(subscription).answer(text_answer(HTTPStatus.GONE, reason))

    # What is answered at once

    def declare(self, queue: str) -> None:
        self.ask(self.domain, DeclareQueue(queue, QueueOptions(durable=False), self.session))

    def accept(self, number: int) -> None:
        self.unsettled.settle_each((number,), Outcome.ACCEPT)


class HTTPToyConnection(HTTPConnection):
    """A stream of requests, one at a time; in no domain, since its requests borrow a session."""

    def __init__(self, transport: Transport, context: BrokerContext, endpoint: "HTTPToyEndpoint") -> None:
        super().__init__(transport, context)
        self._toy = endpoint
        self._session: HTTPSession | None = None

    @property
    def patience_under_pressure(self) -> float:
        return self._toy.patience

    def requested(self, request: RequestHead, user: str) -> None:
        match [request.method, *map(unquote, request.path.strip("/").split("/"))]:
            case ["POST", "sessions"]:
                session = self._toy.open_session(user, self.peer)
                self.answer(request, HTTPStatus.CREATED, headers={"Location": f"/sessions/{session.token}"})
            case [method, "sessions", token, *rest]:
                self._session = self._toy.find_session(token, user)
                self._session.request_begins(self, request)
                self.borrow(self._session)
                self._perform(self._session, request, method, rest)
            case _:
                raise NotFound("there is no such path; begin with POST /sessions")

    def _perform(self, session: HTTPSession, request: RequestHead, method: str, path: list[str]) -> None:
        match [method, *path]:
            case ["POST", "sinks", sink, key]:
                self.read_body(request, LARGEST, partial(self._publish, session, request, sink.strip("-"), key))
                return
            case ["GET", "queues", queue]:
                session.take(self, request, queue)
                return
            case ["PUT", "queues", queue]:
                session.declare(queue)
            case ["DELETE", "deliveries", number] if number.isdigit():
                session.accept(int(number))
            case ["DELETE"]:
                session.closing("as you wish")
            case _:
                raise NotFound("there is no such path in a session, or not with this method")
        self.answer(request, HTTPStatus.NO_CONTENT)

    def _publish(
        self, session: HTTPSession, request: RequestHead, sink: str, key: str, body: bytes, ended: bool
    ) -> None:
        names = request.headers.get("x-header", "")
        headers: dict[str, object] | None = {names: 1} if names else None
        properties = Properties(persistent=request.headers.get("x-persistent") == "yes", headers=headers)
        if not session.publish(sink, key, body, properties, done=partial(self._confirm, request)):
            raise NotFound("no queue is bound for it")

    def _confirm(self, request: RequestHead, placed: bool) -> None:
        self.answer(request, HTTPStatus.NO_CONTENT if placed else HTTPStatus.TOO_MANY_REQUESTS)

    def request_over(self, request: RequestHead) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.request_ends(request)


class HTTPToyEndpoint(Endpoint):
    """The sessions, by their names, beside the connections."""

    patience: ClassVar[float] = 60.0
    """Seconds that a publish waits for the end of a pressure."""

    def __init__(self, config: "HTTPToys", context: BrokerContext) -> None:
        make_client = partial(HTTPToyConnection, context=context, endpoint=self)
        self.listener = StreamListener(make_client, "127.0.0.1", config.port)
        self._sessions: dict[str, HTTPSession] = {}
        super().__init__(context, self.listener)

    def open_session(self, user: str, peer: str) -> HTTPSession:
        session = HTTPSession(self.context, user, peer, lambda session: self._sessions.pop(session.token, None))
        self._sessions[session.token] = session
        self.serve(session)
        if session.has_left:
            raise AccessRefused(session.ending)
        return session

    def find_session(self, token: str, user: str) -> HTTPSession:
        session = self._sessions.get(token)
        if session is None or session.login != user:
            raise NotFound("there is no such session; begin with POST /sessions")
        return session


class HTTPToys(Lines, frozen=True, forbid_unknown_fields=True, tag="http-toys"):
    def make(self, broker: BrokerContext) -> HTTPToyEndpoint:  # type: ignore[override]  # it is not of lines
        return HTTPToyEndpoint(self, broker)
