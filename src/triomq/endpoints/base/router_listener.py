"""Clients that come over one ZeroMQ ROUTER: found by their identity, let in as users (ZAP; PLAIN, CURVE, or NULL).

    libzmq ── may this peer connect? ──> Authenticator ──> check_password (PLAIN), owner of a key (CURVE)
    Router ── all that has come ──> by identity and user ──> RouterClient.received, a turn for each client
    RouterClient ── send ──> Router ──> TAKEN, or GONE

Rules:

- A client begins with the first message of its peer: connections are not announced, nor is their end.
- The user is the one that the authenticator has let in, and stands at each message; it is compared each time. A peer
  may choose its identity, and take that of one that has gone. libzmq lets only one peer at a time have an identity
  (without ROUTER_HANDOVER, which is therefore off). So a message of another user proves that the client's peer is gone,
  and ends the client; the next one begins a client of that user's.
- Until then that other peer gets what is sent to the identity, and nothing can tell: libzmq does not name the identity
  when it asks whether a peer may connect. So peers that choose theirs have to choose what cannot be guessed.
- With NULL nobody says who it is, and every peer is one and the same user. So NULL is for loopback addresses alone,
  there is no authenticator, and nothing is compared. A protocol that has its peers log in by words of its own derives
  an ``Admission`` that gives each connection a name.
- Each listener has a context of its own, since a context has one authenticator. The authenticator is bound first and
  closed last.
- Reading never stops, since a ROUTER cannot stop reading one of its peers. So what a client must wait with is parked
  by ``RouterClient``, and all of them together may park ``PARKED_BYTES``.

A peer that is refused by the authenticator tries again for ever, and ``check_password`` logs that now and then.
"""

import sys
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec
import trio

from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.endpoint_config import is_loopback
from triomq.endpoints.base.login import check_password
from triomq.endpoints.base.peer_listener import PeerListener
from triomq.errors import ConfigError
from triomq.transports import Address
from triomq.transports.zmq import (
    HIGH_WATER,
    Authenticator,
    Frames,
    MessageForm,
    Question,
    Received,
    Router,
    Sent,
    ZAPMechanism,
    ZMQSocket,
    close_context,
    key_text,
    make_context,
)

if TYPE_CHECKING:
    from triomq.endpoints.base.endpoint import Endpoint
    from triomq.endpoints.base.router_client import RouterClient

_DOMAIN = "triomq"
"""What the authenticator is told; any name makes libzmq ask it."""

LARGEST_FRAME = 16 * 1024 * 1024
"""Bytes of a frame. A peer that sends a longer one is cut off by libzmq, before there is a client of it to ask."""

_LAST_WORDS = 0.1
"""Seconds that libzmq's thread gets to send what it was given last, before the socket is closed."""

_LINGER = 0.5
"""Seconds for which libzmq goes on sending when the socket is closed: ten messages for each peer at most, which a peer
that reads takes at once."""

PARKED_BYTES = 64 * 1024 * 1024
"""Bytes that may be parked for all clients of a listener: four messages of the largest size that AMQP clients send."""


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """How peers of a listener say who they are.

    Args:
        mechanism: PLAIN: by a password. CURVE: by the key that their user owns. NULL: not at all.
        user: With NULL, as whom all of them work.
        secret_key: With CURVE, the listener's own (Z85).
    """

    mechanism: ZAPMechanism = ZAPMechanism.PLAIN
    user: str = ""
    secret_key: str = ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(mechanism={self.mechanism.name}, user={self.user!r})"

    @property
    def asks(self) -> bool:
        """Whether each connection is asked for; if not, all peers are one and the same, and on the loopback alone."""
        return self.mechanism is not ZAPMechanism.NULL

    def prepare(self, socket: ZMQSocket) -> None:
        """Set the options of a socket that is to bind."""
        if self.mechanism is ZAPMechanism.PLAIN:
            socket.socket.plain_server = True
        elif self.mechanism is ZAPMechanism.CURVE:
            socket.socket.curve_server = True
            socket.socket.curve_secretkey = self.secret_key.encode()

    async def decide(self, context: BrokerContext, question: Question) -> str | None:
        """Return as which user a peer is let in, if it is."""
        if question.mechanism is not self.mechanism:
            return None
        if question.mechanism is ZAPMechanism.CURVE:
            await trio.lowlevel.checkpoint()
            return context.users.owner_of(key_text(question.key))
        known = await check_password(context, question.address, question.user, question.password.encode())
        return question.user if known else None


_BY_PASSWORD = Admission()


class RouterListener(PeerListener):
    """Binds one ROUTER, and makes a client of each peer that is let in and sends something.

    Args:
        context: What the broker lends.
        host: An address, or ``*`` for all.
        port: A port, or 0 for one that is free.
        make_client: Makes a client, from this listener, the peer's identity, and the user that it was let in as.
        admission: How peers say who they are.
        high_water: Messages that libzmq holds for each peer, which nothing counts.
        form: Of messages, by which reading them is cheaper where all peers are one user.
    """

    _router: Router

    def __init__(
        self,
        context: BrokerContext,
        host: str,
        port: int,
        make_client: "Callable[[PeerListener, bytes, str], RouterClient]",
        admission: Admission = _BY_PASSWORD,
        *,
        high_water: int = HIGH_WATER,
        form: MessageForm | None = None,
    ) -> None:
        self._form = form
        super().__init__(make_client)
        self._high_water = high_water
        self._admission = admission
        self._context = context
        self._host = host
        self.port = port
        """The one that it is bound to, once it has started."""
        self._addresses: list[Address] = []
        self._opened = False
        self._has_last_words = False  # whether something was sent since it stops

    @property
    def addresses(self) -> list[Address]:
        """The one address."""
        return self._addresses

    async def start(self, endpoint: "Endpoint") -> None:
        """Bind, and receive from now on."""
        self._endpoint = endpoint
        asks = self._admission.asks
        if not asks and not is_loopback(self._host):
            raise ConfigError(
                f"host {self._host!r} is open to other machines, where peers have to say who they are; choose PLAIN or "
                "CURVE, or listen on 127.0.0.1"
            )
        self._sockets = make_context()
        self._authenticator = Authenticator(self._sockets, self._decide) if asks else None
        # What waits for a peer is bounded by its client, which can tell replies from deliveries.
        self._router = Router(
            self._sockets,
            self._received,
            drained=self.tell_drained,
            gone=self.tell_gone,
            domain=_DOMAIN if asks else "",
            outbox_bytes=sys.maxsize,
            high_water=self._high_water,
            form=self._form,
        )
        self._router.socket.maxmsgsize = LARGEST_FRAME
        self._opened = True
        self._admission.prepare(self._router)
        try:
            address = self._router.bind(f"tcp://{self._host}:{self.port}")
        except ConfigError:
            self.close()
            await close_context(self._sockets)
            raise
        self.port = int(address.rpartition(":")[2])
        self._addresses = [(self._host, self.port)]
        endpoint.start_task(self._run)

    async def _run(self) -> None:
        try:
            async with trio.open_nursery() as nursery:
                if self._authenticator is not None:
                    nursery.start_soon(self._authenticator.run)
                nursery.start_soon(self._router.run)
        finally:
            self.close()
            await close_context(self._sockets)

    # Who may come

    async def _decide(self, question: Question) -> str | None:
        return None if self._stopping else await self._admission.decide(self._context, question)

    def _received(self, found: Received) -> None:
        """Hand each client what has come from it, in a turn of its own."""
        for (identity, user), messages in found.items():
            login = user or self._admission.user
            for key, its in self.sorted_by_client(identity, messages):
                self._hand(identity, login, key, its)

    def _hand(self, identity: bytes, login: str, key: Hashable, messages: list[Frames]) -> None:
        client = self.client_of(identity, login, key)
        if client is not None and client.login == login:
            client.ref.run_in_turn(client.received, messages)
        elif client is not None:
            client.ending = "another peer has its identity"
            client.ref.run_in_turn(client.lost)

    def sorted_by_client(self, identity: bytes, messages: list[Frames]) -> Iterable[tuple[Hashable, list[Frames]]]:
        """Return which messages of a peer are for which of its clients, by their keys; without one it has one alone."""
        return ((None, messages),)

    # For clients

    def send_all(self, identity: bytes, messages: Sequence[Sequence[bytes]]) -> bool:
        """Send messages to a peer, or let them wait for that one; return whether the peer is still there."""
        self._has_last_words = self._stopping
        return not self._router.closed and self._router.send_all(identity, messages) is not Sent.GONE

    async def wait_sent(self) -> None:
        """Wait a moment: libzmq drops, in spite of its linger, what it was given just before its socket is closed."""
        if self._has_last_words:
            self._has_last_words = False
            await trio.sleep(_LAST_WORDS)

    # The end

    def close(self) -> None:
        """Close the sockets; libzmq goes on for a moment with what it has taken."""
        self._stopping = True
        if self._opened:
            self._router.close(_LINGER)
            if self._authenticator is not None:
                self._authenticator.close()
