"""What endpoints share: listening, accepting, looking at the timers of connections, and going in order.

The endpoint of a protocol says how a connection is made (``connect``); the actor of a connection says when it wants to
be woken and how it says goodbye. All the rest is here.
"""

import logging
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from math import inf

import msgspec
import trio

from triomq.actors import ChildSpec, DynamicSupervisor, InPlaceActor, Message, Ref
from triomq.endpoints.base.wheel import Wheel
from triomq.transports import (
    TLS,
    Address,
    Poller,
    StreamTransport,
    TLSSocket,
    Transport,
    accept_raw,
    address_of,
    bind_tcp,
    bind_unix,
    close_listener,
    make_context,
)

_log = logging.getLogger("triomq.endpoints")

_HANDSHAKE = 10.0  # seconds that a client has for TLS, before it gets as many for its protocol's own handshake

_ALERT = 0.5  # seconds that a client has to read why its TLS handshake failed

_RINGS = 200  # timers that are looked at in a row: some 5 ms of work

_GOODBYES = 300  # connections that are told goodbye in a row: some 10 ms of work

_OUT_OF_FILES = 0.1  # seconds until accepting is tried again when the process has too many files open


class StopListening(Message, frozen=True):
    """To an endpoint: take no new connections and ask those that are there to go."""


class EndUsers(Message, frozen=True):
    """To an endpoint: users have changed; say goodbye to those who have logged in as one of these.

    Args:
        reasons: What each of them is told.
    """

    reasons: Mapping[str, str]


class RenewCertificates(Message, frozen=True):
    """To an endpoint with TLS: clients that come from now on see these certificates."""

    context: ssl.SSLContext


class CloseConnection(Message, frozen=True):
    """To a connection: the broker wants it to end; say goodbye, and end when the client has answered."""

    reason: str


class Tick(Message, frozen=True):
    """To a connection: one of its timers may be due."""

    now: float


class ConnectionStatistics(msgspec.Struct, frozen=True, gc=False):
    """A snapshot of a connection that works in a domain.

    Args:
        peer: The client's address.
        user: As whom it has logged in.
        domain: Where it works.
        virtual_host: What the client calls that.
        channels: Its open channels.
        consumers: Its open consumers.
        since: When it was accepted, on Trio's clock.
    """

    peer: str
    user: str
    domain: str
    virtual_host: str
    channels: int
    consumers: int
    since: float


class Connection(InPlaceActor):
    """Base of the actors of connections; a temporary child of the endpoint that accepted it."""

    user: str = ""
    """As whom the client has logged in; empty until then."""

    until: float = inf
    """When the user's time is over, on Trio's clock."""

    def last_until(self, when: float) -> None:
        """Last until then and no longer; ``inf`` is as long as it likes."""
        if when != self.until:
            self.until = when
            self.reschedule()

    def ring(self, now: float) -> None:
        """Do what is due; called by the endpoint's timers."""
        if self.until <= now:
            self.until = inf
            self.ref.tell_nowait(CloseConnection(f"user '{self.user}' has expired"))
        self.ref.tell_nowait(Tick(now))
        self.reschedule()

    def note_user(self) -> None:
        """Look at the user's record again; it may have changed."""
        raise NotImplementedError

    def statistics(self) -> ConnectionStatistics | None:
        """Give a snapshot; None as long as, or as soon as, it works in no domain."""
        raise NotImplementedError

    def due_at(self) -> float:
        """Say when ``Tick`` is to be told; ``inf`` is never. After a tick this is asked anew."""
        raise NotImplementedError

    def tick(self, message: Tick) -> None:
        """Do what is due."""
        raise NotImplementedError

    def reschedule(self) -> None:
        """Have it noted that ``due_at`` says something else now."""
        parent = self.ref.parent
        if parent is not None and isinstance(parent.actor, Endpoint):
            parent.actor.reschedule(self)

    def close_connection(self, message: CloseConnection) -> None:
        """Say goodbye."""
        raise NotImplementedError

    def abandon(self) -> None:
        """Put back what is out, and close the transport; called after a crash, when no handler of this actor runs."""
        raise NotImplementedError

    def note_cut(self) -> bool:
        """Log that it is about to be cut, and tell so; nothing if it is over already, but for its socket."""
        raise NotImplementedError


class Endpoint(DynamicSupervisor):
    """The actor that listens for one protocol; a child of the broker's endpoints, made by its configuration.

    Args:
        host: A name or an address.
        port: A port, or 0 for one that is free.
        path: Path of a Unix socket to listen on instead.
        tls: How to speak TLS; None is not at all.
    """

    def __init__(self, host: str, port: int, *, path: str = "", tls: TLS | None = None) -> None:
        super().__init__()
        self.addresses: list[Address] = []
        self._host = host
        self._port = port
        self._path = path
        self._tls = tls
        self._context: ssl.SSLContext | None = None
        self._shaking_hands: set[TLSSocket] = set()
        self._listeners: list[trio.SocketListener] = []
        self._accepted = 0
        self._accepting: trio.CancelScope | None = None
        self._empty = trio.Event()
        self._sleep = trio.CancelScope()  # until the next timer is due
        self.timers = Wheel(trio.current_time, self._wake)
        self._poller = Poller()
        self._connections: dict[Ref, Connection] = {}

    # What a protocol says

    def make_connection(self, transport: Transport) -> Connection:
        """Make the actor that serves a connection over a transport, which it owns from now on."""
        raise NotImplementedError

    # Listening

    async def on_start(self) -> None:
        """Listen on all addresses of the host, or on the Unix socket."""
        await super().on_start()
        self._context = None if self._tls is None else make_context(self._tls)
        self._listeners = [bind_unix(self._path)] if self._path else await bind_tcp(self._host, self._port)
        self.addresses = [address_of(listener) for listener in self._listeners]
        self._accepting = self.start_task(self._accept_all)
        self.start_task(self._poller.run)
        self.start_task(self._watch_timers)

    async def on_stop(self) -> None:
        """Close what watches the sockets."""
        for transport in self._shaking_hands:
            transport.close()
        self._poller.close()
        await super().on_stop()

    async def _accept_all(self) -> None:
        """Accept until cancelled; also after a crash the port is then free for the next incarnation."""
        try:
            async with trio.open_nursery() as nursery:
                for listener in self._listeners:
                    nursery.start_soon(self._accept, listener)
        finally:
            for listener in self._listeners:
                close_listener(listener)

    async def _accept(self, listener: trio.SocketListener) -> None:
        while True:
            try:
                stream = await listener.accept()
            except OSError as error:
                _log.error("cannot accept a connection", extra={"fields": {"endpoint": self.ref.name, "reason": error}})
                await trio.sleep(_OUT_OF_FILES)
            else:
                self._accept_one(stream)

    def _accept_one(self, stream: trio.SocketStream) -> None:
        try:
            transport = accept_raw(stream, self._poller)
        except OSError:
            return  # gone again already
        if self._context is None:
            self.connect(transport)
        else:
            secure = TLSSocket(transport, self._context, secured=self._secured, failed=self._not_secured)
            self._shaking_hands.add(secure)
            self._end_handshake_after(secure, _HANDSHAKE)

    def _secured(self, transport: TLSSocket) -> None:
        self._shaking_hands.discard(transport)
        self.timers.discard(transport)
        if self._accepting is None:
            transport.close()  # it listens no more
        else:
            self.connect(transport)

    def _not_secured(self, transport: TLSSocket, reason: str) -> None:
        """Let the client have the alert that says why, for a while."""
        fields = {"endpoint": self.ref.name, "peer": transport.peer, "reason": reason or "the client has gone"}
        _log.log(logging.INFO if reason else logging.DEBUG, "TLS handshake failed", extra={"fields": fields})
        self._end_handshake_after(transport, _ALERT)

    def _end_handshake_after(self, transport: TLSSocket, seconds: float) -> None:
        self.timers.set(transport, trio.current_time() + seconds, lambda _: self._end_handshake(transport))

    def _end_handshake(self, transport: TLSSocket) -> None:
        transport.close()
        self._shaking_hands.discard(transport)

    def renew_certificates(self, message: RenewCertificates) -> None:
        """Show other certificates from now on."""
        self._context = message.context

    def connect(self, transport: Transport) -> Ref:
        """Serve a connection over a transport."""
        self._accepted += 1
        return self.serve(self.make_connection(transport), f"connection-{self._accepted}")

    def serve(self, connection: Connection, name: str) -> Ref:
        """Start the actor of a connection."""
        spec = ChildSpec(lambda: connection, name=name, restart="temporary")
        ref = self.start_child_nowait(spec)
        self._connections[ref] = connection
        self.reschedule(connection)
        return ref

    def connect_stream(self, stream: trio.abc.Stream, peer: str) -> Ref:
        """Serve a connection over any Trio stream, such as one end of a memory stream."""
        transport = StreamTransport(stream, peer)
        ref = self.connect(transport)
        self.start_task(transport.run)
        return ref

    # Timers

    async def _watch_timers(self) -> None:
        """Let whoever has a timer that is due do what is due."""
        while True:
            with trio.CancelScope(deadline=self.timers.next) as self._sleep:
                await trio.sleep_forever()
            while self.timers.turn(_RINGS):
                await trio.lowlevel.checkpoint()

    def _wake(self) -> None:
        """Sleep less long, for there is a timer that is due sooner."""
        self._sleep.deadline = self.timers.next

    def reschedule(self, connection: Connection) -> None:
        """Look anew at when a connection is due."""
        if self._connections.get(connection.ref) is connection:
            self.timers.set(connection, min(connection.due_at(), connection.until), connection.ring)

    # Ending

    def stop_listening(self, message: StopListening) -> None:
        """Take no new connections and ask those that are there to go."""
        if self._accepting is not None:
            self._accepting.cancel()
        self._accepting = None
        self._in_steps(list(self.ref.children.values()), self._shut_down)
        self._note_empty()

    def _shut_down(self, ref: Ref) -> None:
        ref.tell_nowait(CloseConnection("the broker is shutting down"))

    def end_users(self, message: EndUsers) -> None:
        """Say goodbye to clients of users that are gone or may less; all others are looked at anew."""
        self._in_steps(list(self._connections), partial(self._end_user, message.reasons))

    def _end_user(self, reasons: Mapping[str, str], ref: Ref) -> None:
        connection = self._connections.get(ref)
        if connection is None:
            return  # it has gone since the last step
        reason = reasons.get(connection.user)
        if reason is not None:
            ref.tell_nowait(CloseConnection(reason))
        elif connection.user:
            connection.note_user()

    def _in_steps(self, refs: list[Ref], work: Callable[[Ref], None]) -> None:
        """Do something to each of many connections: to the first ones now, to the others when all have had a turn."""
        for ref in refs[:_GOODBYES]:
            work(ref)
        if len(refs) > _GOODBYES:
            self.start_task(self._go_on_in_steps, refs[_GOODBYES:], work)

    async def _go_on_in_steps(self, refs: list[Ref], work: Callable[[Ref], None]) -> None:
        for start in range(0, len(refs), _GOODBYES):
            await trio.lowlevel.checkpoint()
            for ref in refs[start : start + _GOODBYES]:
                work(ref)

    async def wait_empty(self) -> None:
        """Wait until the last connection has gone, once ``StopListening`` was told."""
        await self._empty.wait()

    def note_cut(self) -> int:
        """Log which connections are still there, since they are about to be cut; count them."""
        return sum(connection.note_cut() for connection in self._connections.values())

    def child_exited(self, ref: Ref, error: BaseException | None) -> None:
        """Put back what a connection that crashed had out."""
        connection = self._connections.pop(ref, None)
        self.timers.discard(connection)
        if error is not None and connection is not None:
            # The supervisor has said why; this is about whom it hit.
            _log.error("connection crashed", extra={"fields": {"connection": ref.path, "user": connection.user}})
            connection.abandon()
        self._note_empty()

    def _note_empty(self) -> None:
        if self._accepting is None and not self.ref.children:
            self._empty.set()
