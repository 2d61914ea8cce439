"""How ZeroMQ's peers say who they are, and as whom their clients work."""

from collections.abc import Mapping
from typing import Final

import msgspec

from triomq.protocols.zmtp import Mechanism, Settings, SocketType, decode_key

MECHANISMS: Final[Mapping[str, Mechanism]] = {"null": "NULL", "plain": "PLAIN", "curve": "CURVE"}
"""Mechanisms as configurations call them."""


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """How peers of a listener say who they are.

    Args:
        mechanism: PLAIN: by a password. CURVE: by the key that their user owns. NULL: not at all.
        user: With NULL, as whom all of them work.
        secret_key: With CURVE, the listener's own (Z85).
    """

    mechanism: Mechanism = "PLAIN"
    user: str = ""
    secret_key: str = ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(mechanism={self.mechanism}, user={self.user!r})"

    @property
    def asks(self) -> bool:
        """Whether a peer has to say who it is; if not, all peers are one and the same, and on the loopback alone."""
        return self.mechanism != "NULL"

    @property
    def hands_over(self) -> bool:
        """Whether a peer may take an identity over from a connection that was let in as the same user."""
        return True

    def settings(self, socket_type: SocketType, heartbeat: float) -> Settings:
        """Return what engines have to know.

        Args:
            socket_type: What our side is to messages.
            heartbeat: Seconds of silence within which a peer is asked whether it is there.
        """
        return Settings(
            socket_type=socket_type,
            mechanism=self.mechanism,
            secret_key=decode_key(self.secret_key),
            old_peers=not self.asks,
            heartbeat=heartbeat,
        )

    def login_of(self, address: str, user: str) -> str:
        """Return what clients are told of who their peer is.

        Args:
            address: Where a connection comes from; empty where that is no address.
            user: As whom it was let in; empty with NULL.
        """
        return user or self.user
