"""The limits and times of both flows."""

from typing import Final

import msgspec

from triomq.errors import LocalProtocolError

LARGEST_CONTENT: Final = (1 << 31) - 1
"""The largest limit that makes sense: more than fits into memory beside a broker."""


class MTLSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of an engine of either flow; each reads what concerns it.

    Args:
        max_message_size: bytes of the body of a Content.
        longest_header: bytes of a header that a server reads; nearly all of them are the table's of a Content.
        most_fields: values in the table of a Content that a server reads, those inside of others included.
        longest_body: bytes of the JSON of a control command.
        longest_reply: bytes of the JSON of a reply, for a client.
        most_waiting: control commands of one client that may wait for the answer to an earlier one; more are dropped.
        most_resources: names in the list of resources of a lease.
        most_summons: resources that one data flow may have summoned.
        heartbeat: seconds of own silence after which a Ping is due; it comes half of that late at most.
        silence: seconds of the peer's silence after which it counts as gone; both are infinite where what carries the
            messages tells of the peer's end itself.
        pongs_per_second: how many Pongs a peer gets that floods with Pings.
    """

    # As for AMQP's direct connections.
    max_message_size: int = 2 * 1024 * 1024
    longest_header: int = 64 * 1024
    # Each takes a microsecond, and nobody else is served meanwhile; 64 KiB have room for 20,000.
    most_fields: int = 512
    # A list of 1,024 resources takes a fourth of that.
    longest_body: int = 64 * 1024
    # Lists of all queues are long; a larger frame is cut off by ZeroMQ.
    longest_reply: int = 16 * 1024 * 1024
    # A client waits for each answer; one that does not is a program without patience, or an attack.
    most_waiting: int = 16
    most_resources: int = 1024
    most_summons: int = 256
    # The specification wants it configurable, and says no more.
    heartbeat: float = 5.0
    silence: float = 15.0
    pongs_per_second: float = 10.0

    def __post_init__(self) -> None:
        """Refuse times and limits that cannot be held."""
        if not 0 < self.heartbeat < self.silence and not self.heartbeat == self.silence == float("inf"):
            raise LocalProtocolError(
                f"heartbeat is {self.heartbeat} and silence {self.silence}; both take seconds, and silence is longer"
            )
        if not 0 < self.max_message_size <= LARGEST_CONTENT:
            raise LocalProtocolError(f"max_message_size is {self.max_message_size}; allowed are 1 to {LARGEST_CONTENT}")
        for name in (
            "longest_header",
            "most_fields",
            "longest_body",
            "longest_reply",
            "most_waiting",
            "most_resources",
            "most_summons",
            "pongs_per_second",
        ):
            if getattr(self, name) <= 0:
                raise LocalProtocolError(f"{name} is {getattr(self, name)}; it takes a number above 0")
