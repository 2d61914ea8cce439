"""The types of queues that RabbitMQ's clients ask for (``x-queue-type``), and what each of them takes.

Classic and quorum are one kind of queue here. One of the type quorum is durable, may limit how often a message comes
back, and tells consumers how often it did; what else the type means with RabbitMQ is about several machines. A stream
is another thing: it keeps what was read (``streams``).
"""

from collections.abc import Mapping, Sequence
from enum import Enum

from triomq.core import Inequivalent, QueueOptions
from triomq.endpoints.content import type_name
from triomq.errors import PreconditionFailed

_ARGUMENT = "x-queue-type"

_STREAM_ONLY = ("x-initial-cluster-size", "x-max-age", "x-stream-deduplicate", "x-stream-max-segment-size-bytes")


class QueueType(Enum):
    """A type of queues, by the name that clients give."""

    CLASSIC = "classic"
    """A queue like any other."""
    QUORUM = "quorum"
    """A durable queue that counts how often messages come back."""
    STREAM = "stream"
    """A queue that keeps what was read."""

    @property
    def refused(self) -> Sequence[str]:
        """The arguments that other types take and this one does not; others mean nothing to any type."""
        return _REFUSED[self]

    def check(
        self,
        name: str,
        virtual_host: str,
        arguments: Mapping[str, object],
        *,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
    ) -> None:
        """Check that a queue of this type can be declared so.

        Raises:
            PreconditionFailed: It cannot.
        """
        place = f"for queue '{name}' in vhost '{virtual_host}'"
        for argument in self.refused:
            if argument in arguments:
                raise PreconditionFailed(f"invalid arg '{argument}' {place} of queue type rabbit_{self.value}_queue")
        if self is not QueueType.CLASSIC:
            unfit = {"auto-delete": auto_delete, "exclusive-owner": exclusive, "non-durable": not durable}
            for unfitting, given in unfit.items():
                if given:
                    raise PreconditionFailed(f"invalid property '{unfitting}' {place}")


_REFUSED = {
    QueueType.CLASSIC: (
        "x-dead-letter-strategy",
        "x-delivery-limit",
        "x-max-in-memory-bytes",
        "x-max-in-memory-length",
        "x-queue-leader-locator",
        "x-quorum-initial-group-size",
        *_STREAM_ONLY,
    ),
    QueueType.QUORUM: ("x-max-priority", "x-queue-master-locator", "x-queue-mode", "x-queue-version", *_STREAM_ONLY),
    QueueType.STREAM: (
        "x-max-length",
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-dead-letter-strategy",
        "x-delivery-limit",
        "x-expires",
        "x-max-in-memory-bytes",
        "x-max-in-memory-length",
        "x-max-priority",
        "x-message-ttl",
        "x-overflow",
        "x-queue-master-locator",
        "x-queue-mode",
        "x-queue-version",
        "x-quorum-initial-group-size",
        "x-single-active-consumer",
    ),
}


def queue_type(name: str, virtual_host: str, arguments: Mapping[str, object]) -> QueueType:
    """Read the type that a queue is to have.

    Raises:
        PreconditionFailed: There is no such type, or it is not supported.
    """
    wanted = arguments.get(_ARGUMENT, QueueType.CLASSIC.value)
    place = f"invalid arg '{_ARGUMENT}' for queue '{name}' in vhost '{virtual_host}'"
    if not isinstance(wanted, str):
        raise PreconditionFailed(f"{place}: {{unacceptable_type,{type_name(wanted)}}}")
    try:
        return QueueType(wanted)
    except ValueError:
        raise PreconditionFailed(f"{place}: \"unsupported queue type '{wanted}'\"") from None


def with_default_type(default: str, arguments: Mapping[str, object], *, fits: bool) -> Mapping[str, object]:
    """Return the arguments of a declare with the default type of queues, as RabbitMQ's virtual hosts have one.

    Args:
        default: The type.
        arguments: Those of the declare.
        fits: Whether the queue is durable, shared and named by its client: others are classic whatever the default is.
    """
    if _ARGUMENT in arguments or not (fits or default == QueueType.CLASSIC.value):
        return arguments
    return {**arguments, _ARGUMENT: default}


def check_named(name: str, arguments: Mapping[str, object]) -> None:
    """Check that a queue without a name may be given one by the broker.

    Raises:
        PreconditionFailed: Those of its type have their names from clients.
    """
    wanted = arguments.get(_ARGUMENT)
    if not name and wanted in (QueueType.QUORUM.value, QueueType.STREAM.value):
        raise PreconditionFailed(f"Cannot declare a server-named queue for type rabbit_{wanted}_queue")


def is_quorum(options: QueueOptions) -> bool:
    """Return whether a queue was declared as one of the type quorum."""
    return options.is_quorum


def type_of(options: QueueOptions) -> QueueType:
    """Return the type that a queue was declared with."""
    if options.stream is not None:
        return QueueType.STREAM
    return QueueType.QUORUM if is_quorum(options) else QueueType.CLASSIC


def check_type(name: str, current: QueueOptions, arguments: Mapping[str, object]) -> None:
    """Check that a queue which is there is a stream if it is declared as one, and none if it is not.

    Raises:
        Inequivalent: It is not so.
    """
    kind, wanted = type_of(current), arguments.get(_ARGUMENT)
    if (kind is QueueType.STREAM) is not (wanted == QueueType.STREAM.value):
        raise Inequivalent(name, _ARGUMENT, wanted, None if kind is QueueType.CLASSIC else kind.value)
