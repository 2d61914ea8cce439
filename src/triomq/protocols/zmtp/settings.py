"""The limits and times of a connection, with the reason for each; see the table in ``docs/topics/zmtp.rst``."""

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from triomq.errors import LocalProtocolError
from triomq.protocols.zmtp.states import Mechanism

SocketType: TypeAlias = Literal["ROUTER", "DEALER", "REQ", "REP", "PUB", "SUB", "XPUB", "XSUB"]
"""What a side is to messages (RFC 28, 29)."""

OLD_TYPES: Final[dict[SocketType, int]] = {
    "PUB": 1,
    "SUB": 2,
    "REQ": 3,
    "REP": 4,
    "DEALER": 5,
    "ROUTER": 6,
    "XPUB": 9,
    "XSUB": 10,
}
"""Kinds of sockets as ZMTP 2.0 has them (RFC 15)."""

PEERS: Final[dict[SocketType, frozenset[str]]] = {
    "ROUTER": frozenset(("REQ", "DEALER", "ROUTER")),
    "DEALER": frozenset(("REP", "DEALER", "ROUTER")),
    "REQ": frozenset(("REP", "ROUTER")),
    "REP": frozenset(("REQ", "DEALER")),
    "PUB": frozenset(("SUB", "XSUB")),
    "SUB": frozenset(("PUB", "XPUB")),
    "XPUB": frozenset(("SUB", "XSUB")),
    "XSUB": frozenset(("PUB", "XPUB")),
}
"""Which kinds of sockets talk to which (RFC 37, section "The Socket-Type Property")."""

NAMED: Final[frozenset[SocketType]] = frozenset(("ROUTER", "DEALER", "REQ"))
"""Kinds that say their identity: a ROUTER finds them by it."""

KEY_SIZE: Final = 32
"""Octets (RFC 26)."""

LONGEST_IDENTITY: Final = 255
"""Octets (RFC 37)."""

HANDSHAKE_OCTETS: Final = 4096
"""Octets that a peer may send until the connection is open, all together: the greeting has 64, HELLO of PLAIN 518 at
most, CURVE some 600, READY some 50 and 255 of an identity; the rest is for properties of peers' own (``X-…``)."""

LONGEST_COMMAND: Final = 1100
"""Octets of a command on an open connection: a subscription of the longest topic, its name, and a little."""

LONGEST_TOPIC: Final = 1024
"""Octets of a topic that is subscribed to: four times the longest routing key."""

MOST_SUBSCRIPTIONS: Final = 1000
"""Different topics of one peer: what a program has that subscribes to single keys, and a look at them takes 0.1 ms."""

SUBSCRIPTION_OCTETS: Final = 64 * 1024
"""Octets of all topics of one peer."""

UNREAD_BEFORE_SILENCE: Final = 64 * 1024
"""Octets that wait for a peer above which its PINGs are not answered: who reads nothing learns nothing by an answer,
and a PONG is larger than the smallest PING."""

AT_ONCE: Final = 1024
"""Frames and commands that are read before the driver has its turn: some 0.5 ms."""

SEALED_AT_ONCE: Final = 128
"""The same where each has to be opened, which takes 8 µs."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of an engine; the same for both roles, each reads what concerns it.

    Args:
        socket_type: What our side is.
        mechanism: How a client says who it is; both sides must have the same one.
        identity: By which a client's ROUTER is to know it; empty lets that one choose.
        user: With PLAIN, a client's name.
        password: With PLAIN, a client's password.
        secret_key: With CURVE, our side's key, 32 octets.
        server_key: With CURVE, the public key of the server that a client means.
        old_peers: With NULL, whether a server takes peers that speak ZMTP 1.0 or 2.0: ZeroMQ before 4.0.
        max_frame: Octets of the largest frame that this side takes; a larger one is refused by its length.
        max_message: Octets of all frames of a message, 256 more for each, which bounds a message without an end.
        max_parts: Frames of a message that are kept; the message is cut there, which makes it too long for its readers.
        handshake_timeout: Seconds until the connection must be open.
        message_timeout: Seconds that a message which was begun may take.
        heartbeat: Seconds within which a silent peer is asked by PING whether it is there; twice as many without a
            word are the end. 0 is never to ask.
    """

    socket_type: SocketType = "ROUTER"
    mechanism: Mechanism = "NULL"
    identity: bytes = b""
    user: str = ""
    password: str = ""
    secret_key: bytes = b""
    server_key: bytes = b""
    old_peers: bool = False
    # The largest message of AMQP's default configuration.
    max_frame: int = 16 * 1024 * 1024
    # One frame of that size, and what stands before it.
    max_message: int = 16 * 1024 * 1024 + 64 * 1024
    # Protocols over ZeroMQ have a dozen at most.
    max_parts: int = 64
    # A slow link, and passwords that are worked out by a thread, one after the other.
    handshake_timeout: float = 10.0
    # What is begun holds memory. The largest message at 280 KB/s.
    message_timeout: float = 60.0
    heartbeat: Annotated[float, msgspec.Meta(ge=0)] = 0.0

    def __post_init__(self) -> None:
        """Refuse what cannot be written on the wire."""
        if len(self.identity) > LONGEST_IDENTITY or self.identity[:1] == b"\0":
            raise LocalProtocolError(
                f"identity: found {self.identity!r}; it has at most {LONGEST_IDENTITY} octets, the first one not 0"
            )
        if self.mechanism == "CURVE" and len(self.secret_key) != KEY_SIZE:
            raise LocalProtocolError(f"secret_key: CURVE wants {KEY_SIZE} octets, and it has {len(self.secret_key)}")
        for name, text in (("user", self.user), ("password", self.password)):
            if len(text.encode()) > 255:
                raise LocalProtocolError(f"{name}: PLAIN carries at most 255 octets, and it has {len(text.encode())}")

    def __repr__(self) -> str:
        return f"Settings(socket_type={self.socket_type!r}, mechanism={self.mechanism!r}, user={self.user!r})"
