"""The limits and times of one conversation."""

from math import inf
from typing import Final, Literal, TypeAlias

import msgspec

from triomq.errors import LocalProtocolError

Dialect: TypeAlias = Literal["eventmq-0.3", "strict"]
"""What is written to a peer that has not announced our extensions; both are read always.

``eventmq-0.3`` is what the released programs send and understand, ``strict`` what the specification says. They differ
in REPLY, SCHEDULE, UNSCHEDULE, PUBLISH, the queues of INFORM, and in how one says goodbye.
"""

EXTENSIONS: Final = "jobs"
"""The capability of peers that know ACK of every command, ERROR, SUBSCRIBE, counts in READY, and extension frames."""

DURABLE: Final = "durable"
"""The capability of a broker that remembers jobs with a guarantee when it is restarted."""

LARGEST_MESSAGE: Final = (1 << 31) - 1
"""The largest limit that makes sense: more than fits into memory beside a broker."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of an engine; the same for both sides, each reads what concerns it.

    Args:
        dialect: what is written to a peer that has not announced our extensions.
        capabilities: what this side announces; without any it is a peer like the released ones.
        heartbeat: seconds of own silence after which a HEARTBEAT is due; it comes half of that late at most.
        silence: seconds of the peer's silence after which it counts as gone; both are infinite where what carries the
            messages tells of the peer's end itself.
        parting: the same once one side has said KBAI: what is left are replies to jobs that are under way.
        inform: seconds between INFORMs until one is acknowledged; a client goes on without after one of them.
        max_message_size: bytes of the message of a REQUEST, a REPLY, a PUBLISH or a SCHEDULE.
    """

    dialect: Dialect = "eventmq-0.3"
    capabilities: tuple[str, ...] = (EXTENSIONS,)
    # Released peers give up after 15 s, and drop those that have been silent for 5.
    heartbeat: float = 3.0
    silence: float = 15.0
    # Released workers end their own stragglers after that.
    parting: float = 300.0
    # Brokers answer at once. ZeroMQ keeps what is sent before it is connected, so that few are worth being sent.
    inform: float = 1.0
    # As for AMQP's direct connections. Released programs know no limit.
    max_message_size: int = 2 * 1024 * 1024

    def __post_init__(self) -> None:
        """Refuse times and limits that cannot be held."""
        if not 0 < self.heartbeat < self.silence and not self.heartbeat == self.silence == inf:
            raise LocalProtocolError(
                f"heartbeat is {self.heartbeat} and silence {self.silence}; both take seconds, and silence is longer"
            )
        if self.inform <= 0 or self.parting <= 0:
            raise LocalProtocolError(f"inform is {self.inform} and parting {self.parting}; both take seconds")
        if not 0 < self.max_message_size <= LARGEST_MESSAGE:
            raise LocalProtocolError(f"max_message_size is {self.max_message_size}; allowed are 1 to {LARGEST_MESSAGE}")
