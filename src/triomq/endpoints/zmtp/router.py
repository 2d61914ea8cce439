"""The open connections of a ROUTER's peers, by their identities, and what waits for them."""

from collections.abc import Sequence
from secrets import token_bytes
from typing import Final

import trio

from triomq.endpoints.zmtp.connection import ZMTPConnection

MADE: Final = b"\0"
_MADE_SIZE: Final = 4
"""A name of ours is an octet of 0 and so many of chance, as libzmq makes them."""


class ZMTPRouter:
    """The connections of a listener, by their identities."""

    def __init__(self) -> None:
        self._connections: dict[bytes, ZMTPConnection] = {}
        self._blocked: dict[ZMTPConnection, None] = {}  # those that have not taken everything

    def find(self, identity: bytes) -> ZMTPConnection | None:
        """Return the connection of an identity."""
        return self._connections.get(identity)

    def add(self, connection: ZMTPConnection) -> None:
        """Take a connection in, by its identity."""
        self._connections[connection.identity] = connection

    def remove(self, connection: ZMTPConnection) -> None:
        """Forget a connection."""
        del self._connections[connection.identity]

    def make_identity(self) -> bytes:
        """Return an identity that no connection has."""
        while (identity := MADE + token_bytes(_MADE_SIZE)) in self._connections:
            pass
        return identity

    def block(self, connection: ZMTPConnection) -> None:
        """Count a connection among those that have not taken everything."""
        self._blocked[connection] = None

    def unblock(self, connection: ZMTPConnection) -> None:
        """Count it no more."""
        self._blocked.pop(connection, None)

    @property
    def has_unsent(self) -> bool:
        """Whether anything waits for any peer."""
        return bool(self._blocked)

    def send_all(self, identity: bytes, messages: Sequence[Sequence[bytes]]) -> bool:
        """Send messages to a peer, or let them wait for that one; return whether the peer is there."""
        connection = self._connections.get(identity)
        if connection is None:
            return False
        connection.send_all(messages)
        return True

    def unsent(self, identity: bytes) -> int:
        """Return how many octets wait for a peer."""
        connection = self._connections.get(identity)
        return 0 if connection is None else connection.unsent

    def taken_at(self, identity: bytes) -> float:
        """Return when a peer last took something of what waits for it; 0 if it is not there."""
        connection = self._connections.get(identity)
        now = trio.current_time()
        return 0.0 if connection is None else now - connection.stuck_for(now)

    def stuck_for(self, identity: bytes, now: float) -> float:
        """Return for how many seconds a peer has taken nothing of what waits for it."""
        connection = self._connections.get(identity)
        return 0.0 if connection is None else connection.stuck_for(now)

    def forget(self, identity: bytes) -> None:
        """Drop what waits for a peer: with its connection, since half of a message may have gone."""
        connection = self._connections.get(identity)
        if connection is not None and connection.unsent:
            connection.cut()
