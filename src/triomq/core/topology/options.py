"""What sinks and queues are declared with, and the comparison that a second declare must pass."""

from enum import Enum

import msgspec

from triomq.errors import Inequivalent


class Overflow(Enum):
    """What a full queue does."""

    DROP_HEAD = "drop-head"
    """The oldest ready message gives way."""
    REJECT_PUBLISH = "reject-publish"
    """The new message is refused; publishers with confirms get a nack."""
    REJECT_PUBLISH_DLX = "reject-publish-dlx"
    """The new message is refused, and becomes a dead letter as well."""
    WAIT = "wait"
    """A publisher in this process waits for room; a publisher that cannot wait is refused."""


class SinkKind(Enum):
    """How a sink routes."""

    DIRECT = "direct"
    FANOUT = "fanout"
    TOPIC = "topic"
    HEADERS = "headers"
    CONSISTENT_HASH = "x-consistent-hash"


HASHABLE = ("correlation_id", "message_id", "timestamp")
"""The properties by which a consistent-hash sink may choose, as with RabbitMQ."""


class SinkOptions(msgspec.Struct, frozen=True):
    """The options of a sink.

    Args:
        kind: How it routes.
        durable: Whether it is there again after a restart.
        auto_delete: Whether it goes when its last binding goes.
        internal: Whether only other sinks may publish into it.
        alternate: The sink that takes what no binding of this one matches; None lets it go nowhere.
        hash_header: The header by which a consistent-hash sink chooses; None takes the key.
        hash_property: The same for a property, one of ``HASHABLE``.
        remarks: Arguments that mean nothing to this broker; stored to be shown.
    """

    kind: SinkKind = SinkKind.DIRECT
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    alternate: str | None = None
    hash_header: str | None = None
    hash_property: str | None = None
    remarks: tuple[tuple[str, object], ...] = ()


class StreamOptions(msgspec.Struct, frozen=True):
    """What makes a queue a stream, which keeps what was read; ``max_length`` and ``max_bytes`` of its options bound it.

    Args:
        max_age: Seconds for which a record is kept at least; None for as long as there is room.
        segment_bytes: Bytes of records that retention removes at once; a quarter of ``max_bytes`` if that is less.
        partition_of: The partitioned stream that it is a part of; empty if it stands alone.
        deduplicate: Whether what numbered publishers send again is stored once; see ``core.streams.publishers``.
    """

    max_age: float | None = None
    segment_bytes: int = 64 * 1024 * 1024
    partition_of: str = ""
    deduplicate: bool = False


_QUORUM = ("x-queue-type", "quorum")
"""The note by which the core knows what is a type of its own to AMQP's clients alone."""


class QueueOptions(msgspec.Struct, frozen=True):
    """The options of a queue.

    Args:
        durable: Whether it is there again after a restart.
        exclusive: Whether it belongs to the session that declares it, and ends with it.
        auto_delete: Whether it goes when its last feed closes.
        max_length: How many ready messages it holds; None for no limit.
        max_bytes: How many bytes of ready bodies it holds; None for no limit.
        overflow: What it does when it is full.
        message_ttl: Seconds that a message may be ready before it expires; None for never. What is 0 expires
            unless a feed takes it at once.
        expires: Seconds that it may go unused (no feed, no get, no declare) before it is deleted; None for never.
        dead_letter_sink: Where rejected, expired and shed messages are published to; None drops them.
        dead_letter_key: With which key; None for each message's own.
        max_priority: The highest priority that counts; 0 takes messages in the order in which they came.
        delivery_limit: How often a message may come back before it becomes a dead letter; None sets no limit.
        single_active: Whether one feed gets everything until it is closed, and then the next.
        consumer_timeout: Seconds that a consumer behind a wire may leave a delivery unsettled; 0 for ever, None as the
            wire's endpoint sets.
        notes: Arguments that mean nothing to the core but must be equal at a second declare.
        remarks: Arguments that mean nothing to this broker; stored to be shown.
        stream: What makes it a stream; None for a queue that forgets what is consumed.
        private: Whether it belongs to the user who declares it: others can send to it, and nothing else, as if there
            were none (``QueueState.require_use``).
    """

    durable: bool = True
    exclusive: bool = False
    auto_delete: bool = False
    # The first that differs is the one that a refused redeclare names: in RabbitMQ's order.
    expires: float | None = None
    message_ttl: float | None = None
    dead_letter_sink: str | None = None
    dead_letter_key: str | None = None
    max_length: int | None = None
    max_bytes: int | None = None
    max_priority: int = 0
    overflow: Overflow = Overflow.DROP_HEAD
    delivery_limit: int | None = None
    single_active: bool = False
    consumer_timeout: float | None = None
    notes: tuple[tuple[str, object], ...] = ()
    remarks: tuple[tuple[str, object], ...] = ()
    stream: StreamOptions | None = None
    private: bool = False

    @property
    def is_quorum(self) -> bool:
        """Whether it was declared as one of RabbitMQ's type quorum, which counts how often messages come back."""
        return _QUORUM in self.notes

    @property
    def is_bounded(self) -> bool:
        """Whether the queue can be full."""
        return self.max_length is not None or self.max_bytes is not None


def require_equivalent(name: str, received: msgspec.Struct, current: msgspec.Struct) -> None:
    """Compare two sets of options, field by field in the order of declaration; ``name`` is for the text.

    Remarks and the time that consumers have may differ, as with RabbitMQ; those that came first count. A queue stays
    its user's.

    Raises:
        Inequivalent: The first field that differs.
    """
    for option in received.__struct_fields__:
        if option in ("remarks", "consumer_timeout", "private"):
            continue
        ours, theirs = getattr(current, option), getattr(received, option)
        if ours != theirs:
            raise Inequivalent(name, option, theirs, ours)
