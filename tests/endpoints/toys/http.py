"""A toy over HTTP/1.1: requests borrow a session, which is the client and outlives their sockets.

    POST   /sessions                        201 with its Location, from here on called S
    PUT    S/queues/QUEUE                   204: it is declared
    POST   S/sinks/SINK/KEY                 204: the message is placed and on disk; SINK ``-`` is the default one
    GET    S/queues/QUEUE                   200 with a message, and with its Location; 204 if none has come for a while
    DELETE S/deliveries/NUMBER              204: it is accepted
    DELETE S                                204: all that is not accepted goes back

    stream ── HTTPConnection (StreamClient, never in a domain) ── a task for each request ──┐ borrows
    listener ── endpoint ── HTTPSession (Client, in a domain) <─────────────────────────────┘

Rules:

- Each request brings name and password (Basic); the user is looked at before the body is read. A session is its user's
  alone, and its name cannot be guessed: for all others it does not exist.
- A publish waits under pressure, at most ``patience`` seconds. Then it is answered by 503 or, if the disk is full, by
  507, with ``Retry-After``: nothing was published.
- GET accepts nothing. A message that was sent to a socket that has gone meanwhile stays with the session, until its
  client accepts it after all, or the session ends. One that has not been sent yet goes back at once, unmarked.
- A client that half-closes its socket counts as gone where its poll waits, since that looks the same as a closed one.
  A publish goes on, and its answer is sent.
- Requests behind one that is not answered wait. Behind a publish the socket is not read. Behind a poll it is, since the
  end of the socket would be missed; so a client that sends more than ``PIPELINED`` bytes there is let go.
- Drain wakes the polls, lets publishes end, and closes each socket with the answer to its request.
"""

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from math import inf
from secrets import token_hex
from typing import ClassVar, Final
from urllib.parse import unquote

import trio

from endpoints.toy import Lines
from endpoints.toys.http_engine import LARGEST, Gone, HTTPEngine, RequestBody, RequestHead
from triomq.core import (
    Batch,
    DeclareQueue,
    Outcome,
    Pressure,
    Properties,
    PublishingPaused,
    QueueOptions,
    Restarting,
    Subscription,
)
from triomq.endpoints import BrokerContext, Client, Endpoint, StreamClient, StreamListener, check_password
from triomq.endpoints.base.domain_work import ClientEnded
from triomq.errors import AccessRefused, ActorError, LimitExceeded, NotFound, Refused
from triomq.transports import Transport

PIPELINED: Final = 64 * 1024
"""Bytes behind a poll: what one read brings."""

IDLE: Final = 4.0
"""Seconds that a session lives without a request."""

POLL: Final = 20.0
"""Seconds that a poll waits for a message: less than what stands between us and the client gives up after."""


class Poll:
    """A request that waits for one message; it is the request's as long as that has not been answered."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.batch: Batch | None = None
        self.cancelled = ""  # why nothing comes any more


class QueueGone(Refused):
    """A poll gets nothing any more, since its queue has been deleted or has crashed."""


class HTTPSession(Client):
    """The client: what one user publishes and takes; lives until nothing has been asked for ``IDLE`` seconds."""

    kind: ClassVar[str] = "session"
    noun: ClassVar[str] = "session"

    def __init__(self, context: BrokerContext, login: str, peer: str, ended: Callable[["HTTPSession"], object]) -> None:
        super().__init__(context, peer)
        self.login = login
        self.token = token_hex(16)
        self._ended = ended
        self._requests: dict[trio.CancelScope, bool] = {}  # and whether they may be cut short
        self._polls: dict[Subscription, Poll] = {}
        self._idle_since = trio.current_time()

    def started(self) -> None:
        self.enter(self.login, "default")

    @contextmanager
    def request(self, *, may_be_cut: bool = False) -> Iterator[None]:
        """Let the session live as long as a request; raises ``ClientEnded`` where the session ends first."""
        if self.ending or self.has_left:
            raise ClientEnded(self.ending)
        with trio.CancelScope() as scope:
            self._requests[scope] = may_be_cut
            try:
                yield
            finally:
                del self._requests[scope]
                self._idle_since = trio.current_time()
                self.ref.run_in_turn(self.requested)
        if scope.cancelled_caught:
            raise ClientEnded(self.ending)

    def requested(self) -> None:
        if self.ending and not self._requests:
            self.leave()
        self.reschedule()

    def due_at(self) -> float:
        return inf if self._requests else self._idle_since + IDLE

    def due(self, now: float) -> None:
        if not self._requests and now >= self._idle_since + IDLE:
            self.ending = "nothing was asked for a while"
            self.leave()

    def closing(self, reason: str) -> None:
        self.ending = self.ending or reason
        for scope, may_be_cut in list(self._requests.items()):
            if may_be_cut:
                scope.cancel()
        self.requested()

    def released(self) -> None:
        for scope in self._requests:
            scope.cancel()
        self._ended(self)

    # Polls

    async def take(self, queue: str) -> tuple[int, bytes] | None:
        """Wait for a message, and return its number and body; None if none has come for a while."""
        poll = Poll()
        subscription = self.perform(self._begin_poll, queue, poll)
        try:
            with trio.move_on_after(POLL):
                await poll.done.wait()
            await trio.lowlevel.checkpoint_if_cancelled()  # from here to the answer nothing can come between
            if poll.cancelled:
                raise QueueGone(poll.cancelled)
            if poll.batch is None:
                return None
            batch, poll.batch = poll.batch, None
            return self.unsettled.enter(batch), batch.message(0).body
        finally:
            if self.entered:
                self.perform(self._end_poll, subscription, poll)

    def _begin_poll(self, queue: str, poll: Poll) -> Subscription:
        subscription = self.subscribe(queue, messages=1)
        self._polls[subscription] = poll
        return subscription

    def _end_poll(self, subscription: Subscription, poll: Poll) -> None:
        self._polls.pop(subscription, None)
        self.unsubscribe(subscription)  # before anything goes back: the room would let the next message come
        self._return(poll)

    def _return(self, poll: Poll) -> None:
        if poll.batch is not None:
            batch, poll.batch = poll.batch, None
            self.give_back(batch)

    def delivered(self, subscription: Subscription, batch: Batch) -> None:
        poll = self._polls[subscription]
        poll.batch = batch
        poll.done.set()

    def cancelled(self, subscription: Subscription, reason: str) -> None:
        poll = self._polls[subscription]
        poll.cancelled = reason
        poll.done.set()

    def put_back(self) -> None:
        for poll in self._polls.values():
            self._return(poll)

    # What is answered at once

    def declare(self, queue: str) -> None:
        self.ask(self.domain, DeclareQueue(queue, QueueOptions(durable=False), self.session))

    def accept(self, number: int) -> None:
        self.unsettled.settle_each((number,), Outcome.ACCEPT)

    def quit(self) -> None:
        self.closing("as you wish")


class Answer(Exception):
    """A request is answered by this at once."""

    def __init__(self, status: HTTPStatus, headers: Mapping[str, str] | None = None, *, body: bytes = b"") -> None:
        self.status = status
        self.headers = headers
        self.body = body


def answer_to(error: Refused | ActorError | PublishingPaused) -> Answer:
    """Return what a request is answered by that was refused."""
    if isinstance(error, PublishingPaused):
        full = error.pressure is Pressure.DISK
        status = HTTPStatus.INSUFFICIENT_STORAGE if full else HTTPStatus.SERVICE_UNAVAILABLE
        return Answer(status, {"Retry-After": "10"}, body=error.pressure.value.encode())
    statuses = {
        ClientEnded: HTTPStatus.SERVICE_UNAVAILABLE,
        ActorError: HTTPStatus.SERVICE_UNAVAILABLE,
        NotFound: HTTPStatus.NOT_FOUND,
        QueueGone: HTTPStatus.GONE,
        AccessRefused: HTTPStatus.FORBIDDEN,
        LimitExceeded: HTTPStatus.TOO_MANY_REQUESTS,
    }
    found = next((status for kind, status in statuses.items() if isinstance(error, kind)), HTTPStatus.CONFLICT)
    return Answer(found, body=str(error).encode())


class HTTPConnection(StreamClient):
    """A stream of requests, one at a time, each of them a task; in no domain, since its requests borrow a session."""

    def __init__(self, transport: Transport, context: BrokerContext, endpoint: "HTTPToyEndpoint") -> None:
        self.engine = HTTPEngine(trio.current_time())
        super().__init__(transport, self.engine, context)
        self._toy = endpoint
        self._request: trio.CancelScope | None = None
        self._polls = False  # whether the request ends with the socket
        self._body = b""
        self._body_came = trio.Event()

    # Requests, and what comes beside them

    def head(self, event: RequestHead) -> None:
        self.hold("request")
        self._request = self.start_task(self._serve, event)

    def body(self, event: RequestBody) -> None:
        self.hold("request")
        self._body = event.data
        self._body_came.set()

    def client_gone(self, event: Gone) -> None:
        if self._request is not None and self._polls:
            self._request.cancel()
            self.engine.give_up()

    event_handlers: ClassVar = {RequestHead: head, RequestBody: body, Gone: client_gone}

    def judge_unfinished(self) -> None:
        if self.engine.pipelined > PIPELINED and self._polls:
            self.refuse_unfinished("too much is pipelined behind a poll")

    async def _serve(self, head: RequestHead) -> None:
        try:
            answer = await self._answer(head, await self._login(head))
        except Answer as early:
            answer = early
        except (Refused, ActorError, PublishingPaused) as error:
            answer = answer_to(error)
        self._request, self._polls = None, False
        self.ref.run_in_turn(self._respond, answer)

    def _respond(self, answer: Answer) -> None:
        self.engine.respond(answer.status, answer.body, answer.headers, close=bool(self.ending))
        self.go_on("request")

    async def _login(self, head: RequestHead) -> str:
        """Return the request's user, or answer 401."""
        scheme, _, encoded = head.headers.get(b"authorization", b"").partition(b" ")
        try:
            name, _, password = b64decode(encoded, validate=True).partition(b":")
            user = name.decode()
        except ValueError:
            user, password = "", b""
        if scheme.lower() != b"basic" or not await check_password(self.context, self.peer, user, password):
            raise Answer(HTTPStatus.UNAUTHORIZED, {"WWW-Authenticate": 'Basic realm="triomq"'})
        return user

    async def _read_body(self, head: RequestHead) -> bytes:
        length = head.headers.get(b"content-length", b"0")
        if int(length) > LARGEST:
            raise Answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        self._body_came = trio.Event()
        self.engine.read_body()
        self.ref.run_in_turn(self.go_on, "request")
        await self._body_came.wait()
        body, self._body = self._body, b""
        return body

    async def _answer(self, head: RequestHead, user: str) -> Answer:
        match head.method, *map(unquote, head.path):
            case "POST", "sessions":
                session = self._toy.open_session(user, self.peer)
                return Answer(HTTPStatus.CREATED, {"Location": f"/sessions/{session.token}"})
            case method, "sessions", token, *rest:
                return await self._answer_in(self._toy.find_session(token, user), head, method, rest)
            case _:
                raise NotFound("there is no such path; begin with POST /sessions")

    async def _answer_in(self, session: HTTPSession, head: RequestHead, method: str, path: list[str]) -> Answer:
        match method, *path:
            case "POST", "sinks", sink, key:
                return await self._publish(session, head, sink.strip("-"), key)
            case "GET", "queues", queue:
                return await self._poll(session, queue)
            case "PUT", "queues", queue:
                return await self._perform(session, partial(session.declare, queue))
            case "DELETE", "deliveries", number if number.isdigit():
                return await self._perform(session, partial(session.accept, int(number)))
            case ("DELETE",):
                return await self._perform(session, session.quit)
            case _:
                raise NotFound("there is no such path in a session, or not with this method")

    async def _publish(self, session: HTTPSession, head: RequestHead, sink: str, key: str) -> Answer:
        with session.request():
            body = await self._read_body(head)
            names = head.headers.get(b"x-header", b"").decode("latin-1")
            headers: dict[str, object] | None = {names: 1} if names else None
            properties = Properties(persistent=head.headers.get(b"x-persistent") == b"yes", headers=headers)
            patience = self._toy.patience
            if not await session.publish_and_wait(sink, key, body, properties, patience=patience):
                raise NotFound("no queue is bound for it")
        return Answer(HTTPStatus.NO_CONTENT)

    async def _poll(self, session: HTTPSession, queue: str) -> Answer:
        self._polls = True
        self.ref.run_in_turn(self.go_on, "request")  # to see the end of the socket
        with session.request(may_be_cut=True):
            taken = await session.take(queue)
        if taken is None:
            return Answer(HTTPStatus.NO_CONTENT)
        number, body = taken
        return Answer(HTTPStatus.OK, {"Location": f"/sessions/{session.token}/deliveries/{number}"}, body=body)

    async def _perform(self, session: HTTPSession, function: Callable[[], None]) -> Answer:
        with session.request():
            while True:
                try:
                    session.perform(function)
                    return Answer(HTTPStatus.NO_CONTENT)
                except Restarting as restarting:
                    await restarting.wait_over()

    # The end

    def closing(self, reason: str) -> None:
        self.ending = self.ending or reason
        if self._request is None:
            self.leave()

    def left(self) -> None:
        if self._request is not None:
            self._request.cancel()
        super().left()


class HTTPToyEndpoint(Endpoint):
    """The sessions, by their names, beside the connections."""

    patience: ClassVar[float] = 60.0
    """Seconds that a publish waits for the end of a pressure."""

    def __init__(self, config: "HTTPToys", context: BrokerContext) -> None:
        make_client = partial(HTTPConnection, context=context, endpoint=self)
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
