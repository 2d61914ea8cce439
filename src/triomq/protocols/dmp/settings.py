"""The limits and times of a direct connection."""

import msgspec

from triomq.errors import LocalProtocolError

LARGEST_MESSAGE = (1 << 24) - 1
"""The largest length that fits into a body's 24 bits, and so the largest limit that makes sense."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of an engine; the same for both roles, each reads what concerns it.

    Args:
        max_message_size: octets of a message behind its size word; a larger one is refused before it is stored.
        heartbeat: seconds between null messages on a feed that is quiet; a client gives up after three without any.
        handshake_timeout: seconds until the lease must be there, or the answer to it.
        message_timeout: seconds that a message which was begun may take.
    """

    # As OpenAMQ's clients and servers have it.
    max_message_size: int = 2 * 1024 * 1024
    heartbeat: float = 5.0
    # Long enough for a slow link, short enough that silent sockets do not pile up.
    handshake_timeout: float = 5.0
    # What is begun holds memory. The largest message at 35 KB/s: slower links have smaller messages.
    message_timeout: float = 60.0

    def __post_init__(self) -> None:
        """Refuse limits that cannot be written on the wire."""
        if not 8 <= self.max_message_size <= LARGEST_MESSAGE:
            raise LocalProtocolError(f"max_message_size is {self.max_message_size}; allowed are 8 to {LARGEST_MESSAGE}")
        if self.heartbeat < 0:
            raise LocalProtocolError(f"heartbeat is {self.heartbeat}; it takes seconds, 0 for none")
