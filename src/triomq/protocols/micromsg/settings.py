"""The limits and times of a MicroMsg2 connection, and the extensions that a side knows."""

from typing import Final

import msgspec

from triomq.errors import LocalProtocolError
from triomq.protocols.micromsg.extensions import (
    ACK,
    BATCH_ACK,
    DOTNET,
    HEARTBEAT,
    JSON,
    LARGEST_WINDOW,
    MOST_EXTENSIONS,
    PUB_SUB,
    REPLY,
    HandshakeExtension,
    check_own_extension,
)

DEFAULT_OPTIONAL: Final = tuple(map(HandshakeExtension, (BATCH_ACK, ACK, PUB_SUB, HEARTBEAT, REPLY)))
"""What both sides know unless they say otherwise; who wants no acks leaves two of them out."""

SERVER_OPTIONAL: Final = (*DEFAULT_OPTIONAL, HandshakeExtension(JSON), HandshakeExtension(DOTNET))
"""The same with what a server does for clients that ask for it: agreed upon, they say something of every message."""

LONGEST_IDENTITY: Final = 255
"""Octets of an identity: its length is one."""

LARGEST_PAYLOAD: Final = 1024 * 1024
"""Octets of a frame's payload that any peer takes (Message frames); a larger message goes in several frames."""

LONGEST_COMMAND: Final = 16 * 1024
"""Octets of a COMMAND: a filter of sixteen conditions with long names and long texts."""

LONGEST_TYPE: Final = 1024
"""Octets of a type's name with ``dotnet``: four times as many as any real one."""

SHARPMESSAGING_BODY: Final = 16384
"""Octets of a body that SharpMessaging can receive; its process ends at a larger one."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of an engine; the same for both roles, each reads what concerns it.

    Args:
        identity: what this side calls itself; a label, which proves nothing.
        required: extensions without which there is no conversation.
        optional: further ones that this side knows. The engine adds the properties of its own extensions.
        window: messages that may be unacknowledged, in each direction.
        ack_delay: seconds until messages that are safe are acknowledged, if there are too few to do it at once.
        sharpmessaging_delay: seconds of silence after which SharpMessaging is sent an ack for less than a window.
        max_payload: octets of a frame's payload that this side takes, and sends if it is below a MiB.
        max_message: octets of the body of a message, in however many frames it comes.
        max_handshake: octets of each list of extensions.
        max_conditions: conditions of a filter.
        handshake_timeout: seconds until the handshake must be over, a log-in included.
        frame_timeout: seconds that a frame which was begun may take, or a message in several frames between two.
        heartbeat: seconds of silence after which a heartbeat is sent; three times that and the peer is gone.
        mechanisms: how a server lets clients log in with ``x-sasl``, best first.
        is_sharpmessaging: whether a client expects a server of SharpMessaging, and writes what that can read.
    """

    identity: str = "triomq"
    required: tuple[HandshakeExtension, ...] = ()
    optional: tuple[HandshakeExtension, ...] = DEFAULT_OPTIONAL
    # Half a window is on the way while the other half is acknowledged: at 300,000 messages/s that is 1.7 ms.
    window: int = 1000
    # A publisher that waits for its last ack waits so long; more often would be a frame for each message.
    ack_delay: float = 0.05
    # An early ack makes SharpMessaging send again all that is not acknowledged: only when it surely waits itself.
    sharpmessaging_delay: float = 0.25
    max_payload: int = LARGEST_PAYLOAD
    max_message: int = 16 * 1024 * 1024
    # Fifty extensions with properties; a list of 64 KiB would only be stored to be refused.
    max_handshake: int = 4096
    max_conditions: int = 16
    # A slow link, and passwords that are worked out by a thread, one after the other.
    handshake_timeout: float = 10.0
    # What is begun holds memory: the largest frame at 35 KB/s.
    frame_timeout: float = 30.0
    heartbeat: float = 10.0
    mechanisms: tuple[str, ...] = ()
    is_sharpmessaging: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be written on the wire, or would let nobody in."""
        if not 1 <= self.window <= LARGEST_WINDOW:
            raise LocalProtocolError(f"window is {self.window}; it takes 1 to {LARGEST_WINDOW} messages")
        if not (self.identity.isascii() and len(self.identity) <= LONGEST_IDENTITY):
            raise LocalProtocolError(
                f"identity {self.identity[:40]!r} is not ASCII of at most {LONGEST_IDENTITY} octets"
            )
        if not 256 <= self.max_payload <= self.max_message <= 0xFFFFFFFF:
            raise LocalProtocolError(
                f"max_payload is {self.max_payload} and max_message {self.max_message}; 256 is the least, and one "
                "message has room for one frame"
            )
        if not (self.heartbeat == 0 or 0.1 <= self.heartbeat <= 86_400):
            raise LocalProtocolError(f"heartbeat is {self.heartbeat}; it takes 0.1 to 86,400 seconds, or 0 for none")
        if not self.heartbeat and any(extension.canonical == HEARTBEAT for extension in self.required):
            raise LocalProtocolError(f"{HEARTBEAT} is required and heartbeat is 0; give it an interval")
        names = [extension.canonical for extension in (*self.required, *self.optional)]
        if len(names) > MOST_EXTENSIONS:
            raise LocalProtocolError(f"{len(names)} extensions; at most {MOST_EXTENSIONS} can be numbered")
        if len(set(names)) < len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise LocalProtocolError(f"extensions {', '.join(twice)} are listed twice; once is enough")
        for extension in (*self.required, *self.optional):
            check_own_extension(extension)
