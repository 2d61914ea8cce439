"""Clients that come over ZeroMQ as to one ROUTER: found by their identity, let in as users (PLAIN, CURVE, or NULL).

    ZMTPAcceptor ── who may come ──> ZMTPConnection ── open ──> by identity ──> RouterClient.received, a turn for each
    RouterClient ── send ──> ZMTPRouter ──> the connection of its identity, if there is one

Rules:

- A client begins with the first message of its peer. The end of a connection does not end it: a peer that comes back
  under the same identity within its time of silence is the same client.
- The user is the one that the connection was let in as. A peer may choose its identity, and take that of one that has
  gone. So a connection of another user proves that the client's peer is gone, and ends the client before anything that
  was for it can go there; the first message begins a client of that user's.
- An identity that is here already goes to a newcomer of the same user, at once, and the older connection is closed: it
  may be half of one that the network has broken. One of another user is closed, without a word that would tell it that
  there is such an identity.
- A peer that names itself by nothing, or by a name that begins with an octet of 0, gets a name of ours: such are
  reserved for that, and nobody is to guess another one's.
- With NULL nobody says who it is, and every peer is one and the same user. So NULL is for loopback addresses alone. A
  protocol that has its peers log in by words of its own derives an ``Admission`` that tells connections apart.
- Reading one peer does not stop for what a client must wait with: that is parked by ``RouterClient``, and all of them
  together may park ``PARKED_BYTES``.
- A peer that is silent is asked by PING, and a connection that answers nothing ends within twice the heartbeat.
"""

import logging
import ssl
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import trio

from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.peer_listener import PeerListener
from triomq.endpoints.zmtp.acceptor import ZMTPAcceptor
from triomq.endpoints.zmtp.admission import Admission
from triomq.endpoints.zmtp.connection import ZMTPConnection
from triomq.endpoints.zmtp.router import MADE, ZMTPRouter
from triomq.protocols.zmtp import Frames, KeyShown, LoginRequested, Opened
from triomq.transports import TLS, Address

if TYPE_CHECKING:
    from triomq.endpoints.base.endpoint import Endpoint
    from triomq.endpoints.base.router_client import RouterClient

_BY_PASSWORD: Final = Admission()


class RouterListener(PeerListener):
    """Accepts connections, and makes a client of each peer that is let in and sends something.

    Args:
        context: What the broker lends.
        host: An address, or ``*`` for all of IPv4; or several.
        port: A port, or 0 for one that is free.
        make_client: Makes a client, from this listener, the peer's identity, and the user that it was let in as.
        admission: How peers say who they are.
        path: Path of a Unix socket to listen on instead.
        tls: How to speak TLS; None is not at all.
    """

    _router: ZMTPRouter

    def __init__(
        self,
        context: BrokerContext,
        host: str | Sequence[str],
        port: int,
        make_client: "Callable[[PeerListener, bytes, str], RouterClient]",
        admission: Admission = _BY_PASSWORD,
        *,
        path: str = "",
        tls: TLS | None = None,
    ) -> None:
        super().__init__(make_client)
        self._admission = admission
        self._router = ZMTPRouter()
        self._acceptor = ZMTPAcceptor(context, host, port, self, admission, "ROUTER", path=path, tls=tls)

    @property
    def addresses(self) -> list[Address]:
        """Each address of the hosts with the port, or the path of the Unix socket."""
        return self._acceptor.addresses

    @property
    def port(self) -> int:
        """The one that it is bound to, once it has started."""
        return self._acceptor.port

    @property
    def connections(self) -> list[ZMTPConnection]:
        """Those that are not closed, whether they are open yet or not."""
        return self._acceptor.connections

    async def start(self, endpoint: "Endpoint") -> None:
        """Listen from now on."""
        self._endpoint = endpoint
        await self._acceptor.start(endpoint)

    def connect_stream(self, stream: trio.abc.Stream, peer: str) -> None:
        """Begin with a connection over any Trio stream, such as one end of a memory stream."""
        self._acceptor.connect_stream(stream, peer)

    # What connections tell

    def login_requested(self, connection: ZMTPConnection, event: LoginRequested) -> None:
        """Have a password judged."""
        self._acceptor.judge(connection, event)

    def key_shown(self, connection: ZMTPConnection, event: KeyShown) -> None:
        """Have a key judged."""
        self._acceptor.judge_key(connection, event)

    def opened(self, connection: ZMTPConnection, event: Opened) -> None:
        """Find a connection by its identity from now on, or close it if another peer has that."""
        self._acceptor.no_stranger(connection)
        if self._stopping:
            connection.end()
            return
        identity = event.identity
        if not identity or identity.startswith(MADE):
            identity = self._router.make_identity()
        older = self._router.find(identity)
        if older is not None and (older.user != connection.user or not self._admission.hands_over):
            connection.note(logging.INFO, "connection refused", reason="another one has its identity")
            connection.end()
            return
        connection.identity = identity
        connection.login = self._admission.login_of(connection.address, connection.user)
        for client in self._clients_of(identity):  # before anything that is for them can go out here
            self._end_stranger(client, connection)
        self._router.add(connection)
        if older is not None:
            older.note(logging.INFO, "connection ended", reason="its peer has come again")
            older.cut()
            self.tell_drained(identity)  # what waited there is lost, and nothing waits here

    def messages_received(self, connection: ZMTPConnection, messages: list[Frames]) -> None:
        """Hand each client what has come for it, in a turn of its own."""
        for key, its in self.sorted_by_client(connection.identity, messages):
            client = self.client_of(connection.identity, connection.login, key)
            if client is not None and client.login == connection.login:
                client.ref.run_in_turn(client.received, its)
                if client.is_behind:
                    connection.wait_for(client)

    @staticmethod
    def _end_stranger(client: "RouterClient", connection: ZMTPConnection) -> None:
        """End a client whose peer is gone, since a connection of somebody else has its identity."""
        if client.login != connection.login:
            client.ending = "another peer has its identity"
            client.ref.run_in_turn(client.lost)

    def topic_subscribed(self, connection: ZMTPConnection, topic: bytes) -> None:
        """Ignore it; an engine of a ROUTER knows no subscriptions."""

    def topic_cancelled(self, connection: ZMTPConnection, topic: bytes) -> None:
        """Ignore it."""

    def blocked(self, connection: ZMTPConnection) -> None:
        """Remember that something waits for a peer."""
        self._router.block(connection)

    def drained(self, connection: ZMTPConnection) -> None:
        """Let the clients of a peer go on."""
        self._unblock(connection)
        if connection.identity:
            self.tell_drained(connection.identity)

    def gone(self, connection: ZMTPConnection) -> None:
        """Forget a connection."""
        self._acceptor.no_stranger(connection)
        if self._router.find(connection.identity) is connection:
            if connection.unsent:
                self.tell_gone(connection.identity)
            self._router.remove(connection)
        self._unblock(connection)

    def _unblock(self, connection: ZMTPConnection) -> None:
        self._router.unblock(connection)
        if self._stopping and not self._router.has_unsent:
            self._endpoint.check_empty()

    def closed(self, connection: ZMTPConnection) -> None:
        """Forget it altogether."""
        self._acceptor.forget(connection)

    def sorted_by_client(self, identity: bytes, messages: list[Frames]) -> Iterable[tuple[Hashable, list[Frames]]]:
        """Return which messages of a peer are for which of its clients, by their keys; without one it has one alone."""
        return ((None, messages),)

    # For clients

    def send_all(self, identity: bytes, messages: Sequence[Sequence[bytes]]) -> bool:
        """Send messages to a peer, or let them wait for that one; return whether the peer is still there."""
        return self._router.send_all(identity, messages)

    # The end

    def renew_certificates(self, context: ssl.SSLContext) -> None:
        """Show other certificates from now on."""
        self._acceptor.renew_certificates(context)

    @property
    def is_quiet(self) -> bool:
        """Whether all peers have taken what they were sent."""
        return not self._router.has_unsent

    def stop_accepting(self) -> None:
        """Let no peer in; those that are in may be waiting for an answer, without a client of theirs."""
        super().stop_accepting()
        self._acceptor.stop_accepting()

    def close(self) -> None:
        """Close everything at once."""
        self._stopping = True
        self._acceptor.close()
