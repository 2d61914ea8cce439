"""The limits and times of a tap connection."""

import msgspec

from triomq.errors import LocalProtocolError

LARGEST_FRAME = 0xFFFFFFFF
"""What fits into a length of four bytes."""

FIRST_FRAMES = 4096
"""Bytes of a frame before a client is welcome: names, a password, SCRAM's messages, each at most some hundred bytes."""

LEAST_FRAME = 64 * 1024
"""Bytes that every side takes in a frame, so that requests always fit."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of an engine; the same for both roles, each reads what concerns it.

    Args:
        max_frame: bytes of the largest frame that this side takes; a larger one is refused before it is stored.
        handshake_timeout: seconds until the client must be in.
        frame_timeout: seconds that a frame which was begun may take.
        mechanisms: how a server lets clients log in, best first.
        product: what this side says that it is.
    """

    # A stage of several MiB is as fast as one can be; a client cuts what is larger.
    max_frame: int = 16 * 1024 * 1024
    # A slow link, and passwords that are worked out by a thread, one after the other.
    handshake_timeout: float = 10.0
    # What is begun holds memory. The largest frame at 280 KB/s.
    frame_timeout: float = 60.0
    mechanisms: tuple[str, ...] = ("PLAIN",)
    product: str = "triomq"

    def __post_init__(self) -> None:
        """Refuse limits that cannot be written on the wire, or are too small for any request."""
        if not LEAST_FRAME <= self.max_frame <= LARGEST_FRAME:
            raise LocalProtocolError(
                f"max_frame is {self.max_frame}; allowed are {LEAST_FRAME} to {LARGEST_FRAME} bytes"
            )
