"""The limits and times of a connection."""

import msgspec

from triomq.errors import LocalProtocolError


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of an engine; the same for both roles, each reads what concerns it.

    Bodies have no limit here: whoever wants one says how large it may be (``read_body``, ``send_request``).

    Args:
        max_head: bytes of a head: request or status line, header fields, and the blank line.
        max_line: bytes of the request line.
        max_fields: header fields of a head, or of a trailer.
        max_pipelined: bytes behind a request that is not answered; the driver looks at it.
        max_discarded: bytes of a body that nobody wants which are read all the same, so that the connection can go on.
        head_timeout: seconds until a head that has begun is whole, and until a new connection has sent its first.
        idle_timeout: seconds that a connection may stay without a request behind its last answer.
        body_rate: bytes that a body has to bring in each second, over ``LOOK`` seconds.
    """

    # As Node has it, and twice what curl, browsers and their cookies were seen to send.
    max_head: int = 16 * 1024
    # RFC 9112 section 3: "it is RECOMMENDED that all HTTP senders and recipients support … 8000 octets".
    max_line: int = 8 * 1024
    # As Apache and Node have it nearly; a browser sends 15 to 25.
    max_fields: int = 100
    # What one read brings: a driver that stops reading at this can be handed no more than twice of it.
    max_pipelined: int = 64 * 1024
    # Dearer to read on than to open a new connection, and with TLS about as dear.
    max_discarded: int = 64 * 1024
    # Long enough for a slow link, short enough that silent sockets do not pile up.
    head_timeout: float = 10.0
    # Longer than a minute, which is how often pages and scripts ask by habit.
    idle_timeout: float = 75.0
    # As Apache has it. Slower than any network; a client that sends a byte now and then holds memory for nothing.
    body_rate: int = 500

    def __post_init__(self) -> None:
        """Refuse limits that would let no request in."""
        if not 64 <= self.max_line <= self.max_head:
            raise LocalProtocolError(
                f"max_line is {self.max_line} and max_head {self.max_head}; allowed are 64 bytes or more, and a head "
                "at least as large as its line"
            )
