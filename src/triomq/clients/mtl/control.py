"""A control flow: one command at a time, and a session that comes back whenever the broker has forgotten it.

    ask ──▶ lock ──▶ a session? ── no ──▶ Open, Authorize …, Profile
                        │ yes
                        ▼
                     command ──▶ reply; 401: there is no session (any more), nothing was done: begin anew

Rules:

- "The server MAY issue a 401 response at any time", and does so after a restart, since a session belongs to a
  connection. Whatever is answered so was not done, and is asked again in a new session.
- A command that was sent when the connection broke, or that is not answered in time, may have been done or not. It is
  not sent again: its caller gets ``Disconnected``.
- Replies to commands that were given up are told from others by a number in their envelope, so a caller that is
  cancelled harms nobody.
- ZeroMQ's own heartbeats find out that a broker is gone which cannot say so: this flow has none.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import trio

from triomq.clients.amqp.connecting import Reconnect
from triomq.clients.dealer import Dealer, Place, dealer_settings
from triomq.clients.mtl.refusals import refusal_of
from triomq.clients.mtl.sasl import begin_login
from triomq.clients.mtl.url import MTLUrl
from triomq.errors import AccessRefused, Disconnected, RemoteProtocolError
from triomq.process import refuse_in_forks
from triomq.protocols.mtl import (
    ConfirmModel,
    ControlClientEvent,
    DataLeased,
    FlowDirection,
    Frames,
    IllFormed,
    LoginRequired,
    MTLControlClient,
    ReplyReceived,
    SASLChallenged,
    SessionReady,
)

_log = logging.getLogger("triomq.clients")

_MOST_LOGINS: Final = 3
"""How often a command is asked again that is answered 401 although we have logged in each time."""

_MOST_CHALLENGES: Final = 10
"""Challenges of one login; SCRAM has two."""


class ControlFlow:
    """The control flow of a connection, which makes it.

    Args:
        url: Where to, and as whom.
        policy: When to try again.
    """

    def __init__(self, url: MTLUrl, policy: Reconnect) -> None:
        refuse_in_forks(self, "the connection of a client")
        self.url = url
        self.policy = policy
        self._lock = trio.Lock()
        self._socket: Dealer | None = None
        self._engine = MTLControlClient(url.settings())
        self._has_session = False
        self._nursery: trio.Nursery | None = None
        self.profiles: Sequence[str] = ()
        """What the broker offers to this user."""
        self.sessions = 0
        """How many sessions there were."""

    async def start(self, nursery: trio.Nursery) -> None:
        """Log in for the first time; raises as ``open_mtl`` does."""
        self._nursery = nursery
        with trio.move_on_after(self.url.timeout):
            async with self._lock:
                await self._begin()
            return
        raise Disconnected(self.url.trouble)

    def close(self) -> None:
        """End the session, if there is one, and close the socket."""
        if self._socket is not None:
            if self._has_session and not self._socket.is_lost:
                self._engine.give_up()
                self._socket.send_nowait(self._engine.close())
            self._socket.close()

    def connect(self, port: int = 0, endpoint: str = "", *, heartbeat: float = 0.0) -> Dealer:
        """Return a socket that has begun to connect to the broker, with our keys.

        Args:
            port: Of the broker's host; 0 for that of control flows.
            endpoint: An address in place of that, if it is not empty.
            heartbeat: Seconds of silence after which the broker is asked for a sign of life, for flows that have none.

        Raises:
            ConfigError: The endpoint is no address, or a file of keys cannot be read.
        """
        assert self._nursery is not None
        settings = dealer_settings(self.url.keys, self.url.server_key, heartbeat=heartbeat)
        place = Place.at(endpoint or self.url.address(port), tls=self.url.tls, ca=self.url.ca)
        return Dealer(place, settings, self._nursery)

    # Commands

    async def call(self, command: str, arguments: Mapping[str, object]) -> dict[str, Any]:
        """Ask for a method of the profile, and return the fields of its reply.

        Raises:
            Refused: The broker refuses it.
            Disconnected: The connection broke, or no answer came in time: it was done, or not.
        """
        return _fields_of(await self._ask(lambda engine: engine.call(command, arguments)))

    async def lease(
        self, direction: FlowDirection, resources: Sequence[str], confirm: ConfirmModel, prefetch: int, lease: str
    ) -> DataLeased:
        """Ask for a data lease; raises as ``call`` does.

        Args:
            direction: Whether to read or to write.
            resources: Their names; none for all.
            confirm: Whether contents are confirmed.
            prefetch: How many contents may be unconfirmed.
            lease: One that we had, and go on with if the broker still knows it.
        """
        event = await self._ask(lambda engine: engine.ask_lease(direction, resources, confirm, prefetch, lease))
        if not isinstance(event, DataLeased):
            _fields_of(event)
            raise RemoteProtocolError("the broker answers a question for a data lease, but with none")
        return event

    async def release(self, lease: str) -> None:
        """Give a lease back; a broker that does not know how to has it expire."""
        await self._ask(lambda engine: engine.release(lease))

    async def _ask(self, say: Callable[[MTLControlClient], Frames]) -> ControlClientEvent:
        async with self._lock:
            for _ in range(_MOST_LOGINS):
                await self._have_session()
                event = await self._exchange(say)
                if not isinstance(event, LoginRequired):
                    return event
                self._has_session = False
        raise AccessRefused(f"401 the broker at {self.url.address()} lets us in, and then wants another login")

    async def _exchange(self, say: Callable[[MTLControlClient], Frames]) -> ControlClientEvent:
        """Send a command, and return what the reply says."""
        socket = self._socket
        assert socket is not None  # there is a session, or one begins
        frames = say(self._engine)
        try:
            with trio.move_on_after(self.url.timeout):
                await socket.send(frames)
                while True:
                    for message in await socket.receive():
                        event = self._engine.receive(message)
                        if not isinstance(event, IllFormed):
                            return event
            reason = f"the broker has not answered within {self.url.timeout:g} s"
        except trio.BrokenResourceError:
            reason = "the connection was lost before the broker had answered"
        finally:
            self._engine.give_up()
        raise Disconnected(f"{reason}; {self.url.address()} may have done what it was asked for, or not")

    # Sessions

    async def _have_session(self) -> None:
        """Begin a session if there is none, as often as it takes."""
        failures, began = 0, trio.current_time()
        while not self._has_session or self._socket is None or self._socket.is_lost:
            try:
                await self._begin()
            except Disconnected as error:
                self.log(logging.WARNING, "no session", attempt=failures + 1, reason=error)
                self._drop_socket()  # it may have gone where nobody answers, and a new one looks up the name again
                if self.policy.attempts is not None and failures + 1 >= self.policy.attempts:
                    raise
                await trio.sleep(self.policy.seconds(failures))
                failures += 1
        if failures:
            self.log(logging.INFO, "session is back", seconds=round(trio.current_time() - began, 3))

    async def _begin(self) -> None:
        self._has_session = False
        if self._socket is None or self._socket.is_lost:
            self._drop_socket()
            self._socket = self.connect(heartbeat=self.url.heartbeat)
        self._engine = MTLControlClient(self.url.settings())
        event = await self._exchange(lambda engine: engine.open(self.url.virtual_host))
        if isinstance(event, LoginRequired):
            event = await self._log_in(event)
        if not isinstance(event, SessionReady):
            _fields_of(event)
            raise RemoteProtocolError(f"{self.url.address()} answers, but does not open a session; is it MTL?")
        self.profiles = event.profiles
        if self.url.profile:
            _fields_of(await self._exchange(lambda engine: engine.choose_profile(self.url.profile)))
        self._has_session = True
        self.sessions += 1

    def _drop_socket(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.close()

    def log(self, level: int, text: str, **fields: object) -> None:
        """Log what becomes of flows; where they lead, without the password."""
        _log.log(level, text, extra={"fields": {"place": self.url.address(), **fields}})

    async def _log_in(self, required: LoginRequired) -> ControlClientEvent:
        """Show who we are; return what the broker says in the end."""
        dialogue = begin_login(self.url, required.mechanisms)
        response = dialogue.begin()
        for _ in range(_MOST_CHALLENGES):
            event = await self._exchange(lambda engine: engine.authorize(dialogue.mechanism, response))  # noqa: B023
            if isinstance(event, LoginRequired):
                raise AccessRefused(
                    f"401 the broker at {self.url.address()} does not let {self.url.user or 'us'} in by "
                    f"{dialogue.mechanism}; see the user's name and password, or the keys"
                )
            if not isinstance(event, SASLChallenged):
                if isinstance(event, SessionReady) and not dialogue.is_complete:
                    raise AccessRefused("the broker lets us in without having shown that it knows the password")
                return event
            response = await trio.to_thread.run_sync(dialogue.answer, event.challenge)  # hashing takes a while
        raise RemoteProtocolError(f"the broker challenges {dialogue.mechanism} again and again")


def _fields_of(event: ControlClientEvent) -> dict[str, Any]:
    """Return the fields of a reply that says that something was done.

    Raises:
        Refused: It says that it was not.
        RemoteProtocolError: It is no such reply.
    """
    if isinstance(event, LoginRequired):
        raise refusal_of(401, "log in first")
    if not isinstance(event, ReplyReceived):
        raise RemoteProtocolError(f"the broker has answered by {type(event).__name__}, which was not asked for")
    if event.code >= 300:
        raise refusal_of(event.code, event.reason or str(event.fields.get("status", "")))
    return {name: value for name, value in event.fields.items() if name != "status"}
