"""Clients that come with whole messages, each found by its identity; whatever carries them.

    PeerListener ─┬─ RouterListener: peers of ZeroMQ, and users who have to say who they are
                  └─ MemoryListener: this process, whose code may do everything

A client begins with the first message of its peer, and is a ``RouterClient``. Where one peer may be several clients,
such as those behind a proxy, each of them has a key beside its identity.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias

from triomq.endpoints.base.listener import Listener

if TYPE_CHECKING:
    from triomq.endpoints.base.endpoint import Endpoint
    from triomq.endpoints.base.router_client import RouterClient


Frames: TypeAlias = list[bytes]
"""One message."""

PARKED_BYTES = 64 * 1024 * 1024
"""Bytes that may be parked for all clients of a listener: four messages of the largest size that AMQP clients send."""


class _Router(Protocol):
    """What routers of both kinds know of what waits for their peers."""

    def unsent(self, identity: bytes) -> int: ...
    def taken_at(self, identity: bytes) -> float: ...
    def stuck_for(self, identity: bytes, now: float) -> float: ...
    def forget(self, identity: bytes) -> None: ...


class PeerListener(Listener):
    """Base of listeners whose clients are found by identities; made with its endpoint.

    Args:
        make_client: Makes a client, from this listener, the peer's identity, and the user that it was let in as.
    """

    is_internal: ClassVar[bool] = False
    """Whether its peers are code of this program, which may do everything, and whose end is announced."""

    def __init__(self, make_client: "Callable[[PeerListener, bytes, str], RouterClient]") -> None:
        self._make_client = make_client
        self._endpoint: Endpoint
        self._router: _Router
        self._clients: dict[Hashable, RouterClient] = {}
        self._beside: dict[bytes, dict[Hashable, None]] = {}  # by identity, keys that are none
        self._stopping = False
        self.parked = 0
        """Bytes that clients have parked."""

    # What carries the messages

    def send_all(self, identity: bytes, messages: Sequence[Sequence[bytes]]) -> bool:
        """Send messages to a peer, or let them wait for that one; return whether the peer is still there."""
        raise NotImplementedError

    def send(self, identity: bytes, frames: Sequence[bytes]) -> bool:
        """Send a message, as ``send_all`` does."""
        return self.send_all(identity, (frames,))

    def unsent(self, identity: bytes) -> int:
        """Return how many bytes wait for a peer, beside the few messages that count as sent."""
        return self._router.unsent(identity)

    def taken_at(self, identity: bytes) -> float:
        """Return when a peer last took something of what waits for it."""
        return self._router.taken_at(identity)

    def stuck_for(self, identity: bytes, now: float) -> float:
        """Return for how many seconds a peer has taken nothing of what waits for it."""
        return self._router.stuck_for(identity, now)

    def drop(self, identity: bytes) -> None:
        """Drop what waits for a peer, which is no client any more; one of this process hears that."""
        self._router.forget(identity)

    # Clients

    def client_of(self, identity: bytes, login: str, key: Hashable = None) -> "RouterClient | None":
        """Return the client of a peer that has sent something, a new one if need be; None while it stops.

        Args:
            identity: The peer's.
            login: As whom it was let in.
            key: Which of its peer's clients it is; None where that has one alone.
        """
        client = self._clients.get(identity if key is None else key)
        if client is None and not self._stopping:
            client = self.make(identity, login, key)
            if key is not None:
                client.key = key
                self._beside.setdefault(identity, {})[key] = None
            self._clients[client.key] = client
            self._endpoint.serve(client)
        return client

    def make(self, identity: bytes, login: str, key: Hashable) -> "RouterClient":
        """Make a client; the arguments are those of ``client_of``."""
        return self._make_client(self, identity, login)

    def forget(self, client: "RouterClient") -> None:
        """Drop what waits for a client, which has ended; the next message of its peer begins another one."""
        if self._clients.get(client.key) is not client:
            return
        del self._clients[client.key]
        others = self._beside.get(client.identity)
        if others is not None:
            others.pop(client.key, None)
            if not others:
                del self._beside[client.identity]
        if not self._clients_of(client.identity):
            self.drop(client.identity)

    def _clients_of(self, identity: bytes) -> "list[RouterClient]":
        keys = (identity, *self._beside.get(identity, ()))
        return [self._clients[key] for key in keys if key in self._clients]

    def tell_drained(self, identity: bytes) -> None:
        """Tell the clients of a peer that it has taken everything."""
        for client in self._clients_of(identity):
            client.ref.run_in_turn(client.drained)

    def tell_gone(self, identity: bytes) -> None:
        """Tell the clients of a peer that it has gone."""
        for client in self._clients_of(identity):
            client.ref.run_in_turn(client.lost)

    # The end

    def stop_accepting(self) -> None:
        """Make no client any more, and let no peer in."""
        self._stopping = True
