"""From the arguments of a declare to the core's options, checked as RabbitMQ checks them."""

from collections.abc import Callable, Collection, Mapping

import msgspec

from triomq.core import HASHABLE, Overflow, QueueOptions, SinkKind, SinkOptions, StreamOptions
from triomq.endpoints.content import plain_value, type_name
from triomq.endpoints.declaring.ages import read_age
from triomq.endpoints.declaring.queue_types import QueueType, queue_type
from triomq.errors import PreconditionFailed
from triomq.protocols import FieldValue

Arguments = Mapping[str, object]

_INT64_MAX = (1 << 63) - 1

_LONGEST_TIME = 10 * 365 * 24 * 60 * 60 * 1000
"""Milliseconds that a time may be at most, as with RabbitMQ: ten years."""

_HIGHEST_PRIORITY = 255

LARGEST_SEGMENT = 3_000_000_000
"""Bytes of a stream's segment at most, as with RabbitMQ."""


def plain_arguments(arguments: Mapping[str, FieldValue] | None) -> dict[str, object]:
    """Strip the wire types off the values of a field table; integers of all widths are alike (section 4.2.5.5)."""
    return {name: plain_value(value) for name, value in (arguments or {}).items()}


def queue_options(
    name: str,
    virtual_host: str,
    arguments: Arguments,
    *,
    durable: bool,
    exclusive: bool,
    auto_delete: bool,
    exists: bool = False,
) -> QueueOptions:
    """Read what a queue is declared with.

    Args:
        name: Its name.
        virtual_host: Where.
        arguments: Those of the declare.
        durable: The bit.
        exclusive: The bit.
        auto_delete: The bit.
        exists: Whether there is a queue of that name. Then what its type does not take is passed over, as by RabbitMQ.

    Raises:
        PreconditionFailed: An argument has a value that it cannot have, or is not supported.
    """
    kind = queue_type(name, virtual_host, arguments)
    known: dict[str, object] = {}
    for argument, (option, read) in _QUEUE_ARGUMENTS.items():
        if argument in arguments and argument not in kind.refused:
            known[option] = read(arguments[argument], _Where(argument, name, virtual_host))
    if "dead_letter_key" in known and "dead_letter_sink" not in known:
        raise _Where("x-dead-letter-routing-key", name, virtual_host).invalid("routing_key_but_no_dlx_defined")
    for argument, check in _CHECKED.items():
        if argument in arguments and argument not in kind.refused:
            check(arguments[argument], _Where(argument, name, virtual_host))
    if kind is QueueType.STREAM:
        known["stream"] = _stream_options(name, virtual_host, arguments)
    if not exists:
        kind.check(name, virtual_host, arguments, durable=durable, exclusive=exclusive, auto_delete=auto_delete)
    compared = {argument: value for argument, value in arguments.items() if argument in _COMPARED}
    if kind is not QueueType.QUORUM:
        compared.pop("x-queue-type", None)  # a queue is classic anyway, and streams have options of their own
    remarks = dict(_others(arguments, (*_QUEUE_ARGUMENTS, *_COMPARED, *_STREAM_ARGUMENTS)))
    if known.get("delivery_limit", 0) is None:
        remarks["x-delivery-limit"] = arguments["x-delivery-limit"]  # another broker has a limit without it
    options = QueueOptions(
        durable=durable,
        exclusive=exclusive,
        auto_delete=auto_delete,
        notes=_others(compared, ()),
        remarks=_others(remarks, ()),
    )
    return msgspec.structs.replace(options, **known)


def _stream_options(name: str, virtual_host: str, arguments: Arguments) -> StreamOptions:
    known = {
        option: read(arguments[argument], _Where(argument, name, virtual_host))
        for argument, (option, read) in _STREAM_ARGUMENTS.items()
        if argument in arguments
    }
    return StreamOptions(**{option: value for option, value in known.items() if value})  # type: ignore[arg-type]


def sink_options(name: str, virtual_host: str, arguments: Arguments, options: SinkOptions) -> SinkOptions:
    """Add the arguments to what an exchange is declared with.

    Raises:
        PreconditionFailed: An argument has a value that it cannot have, or two contradict each other.
    """
    known: dict[str, object] = {}
    place = f"in exchange '{name}' in vhost '{virtual_host}'"
    if "alternate-exchange" in arguments:
        known["alternate"] = _read_name(arguments["alternate-exchange"], "alternate-exchange", place)
    if options.kind is SinkKind.CONSISTENT_HASH:
        known |= _read_hashed(arguments, place)
        taken: tuple[str, ...] = ("alternate-exchange", "hash-header", "hash-property")
    else:
        taken = ("alternate-exchange",)
    return msgspec.structs.replace(options, **known, remarks=_others(arguments, taken))


def _read_hashed(arguments: Arguments, place: str) -> dict[str, object]:
    """Read by what an x-consistent-hash exchange chooses; RabbitMQ ends the connection over a value that is no text."""
    found = {
        argument.replace("-", "_"): _read_name(arguments[argument], argument, place)
        for argument in ("hash-header", "hash-property")
        if argument in arguments
    }
    if len(found) > 1:
        raise PreconditionFailed("hash-header and hash-property are mutually exclusive")
    if found.get("hash_property", HASHABLE[0]) not in HASHABLE:
        raise PreconditionFailed(f"Unsupported property: {found['hash_property']}")
    return {**found}


def _read_name(value: object, argument: str, place: str) -> str:
    if not isinstance(value, str):
        raise PreconditionFailed(f"invalid type '{type_name(value)}' for arg '{argument}' {place}")
    return value


def _others(arguments: Arguments, known: Collection[str]) -> tuple[tuple[str, object], ...]:
    """Keep all but those that are known, in an order that does not depend on the client."""
    return tuple(sorted((item for item in arguments.items() if item[0] not in known), key=lambda item: item[0]))


class _Where(msgspec.Struct, frozen=True, gc=False):
    """The argument that is read, for texts, which are RabbitMQ's."""

    argument: str
    queue: str
    virtual_host: str

    def refused(self) -> str:
        """Return the error that it is wrong."""
        return f"invalid arg '{self.argument}' for queue '{self.queue}' in vhost '{self.virtual_host}'"

    def invalid(self, detail: str) -> PreconditionFailed:
        """Return the error about the value."""
        return PreconditionFailed(f"{self.refused()}: {detail}")

    def wrong_type(self, value: object) -> PreconditionFailed:
        """Return the error that the value is of a wrong type."""
        return self.invalid(f"{{unacceptable_type,{type_name(value)}}}")


def _read_number(value: object, where: _Where) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise where.invalid(f'"expected integer, got {type_name(value)}"')
    if value < 0:
        raise where.invalid(f"{{value_negative,{value}}}")
    return value


def _read_count(value: object, where: _Where) -> int:
    count = _read_number(value, where)
    if count > _INT64_MAX:
        raise where.invalid(f"{{value_too_large,{count}}}")
    return count


def _read_limit(value: object, where: _Where) -> int | None:
    """Read how often a message may come back; below 0 there is no limit, as with RabbitMQ since 4.0."""
    if isinstance(value, int) and not isinstance(value, bool) and value < 0:
        return None
    return _read_count(value, where)


def _read_time(value: object, where: _Where) -> float:
    """Read milliseconds, give seconds."""
    milliseconds = _read_number(value, where)
    if milliseconds > _LONGEST_TIME:
        raise where.invalid(f"{{value_too_large,{milliseconds}}}")
    return milliseconds / 1000


def _read_expiry(value: object, where: _Where) -> float:
    seconds = _read_time(value, where)
    if not seconds:
        raise where.invalid("{value_zero,0}")
    return seconds


def _read_positive(value: object, where: _Where) -> int:
    count = _read_count(value, where)
    if not count:
        raise where.invalid("{value_zero,0}")
    return count


def _read_segment(value: object, where: _Where) -> int:
    size = _read_count(value, where)
    if size > LARGEST_SEGMENT:
        raise PreconditionFailed(f"Exceeded max value for {where.argument}")
    return size


def _read_max_age(value: object, where: _Where) -> float:
    if not isinstance(value, str):
        raise where.wrong_type(value)
    seconds = read_age(value)
    if seconds is None:
        raise where.invalid("invalid_max_age")
    return seconds


def _read_priority(value: object, where: _Where) -> int:
    priority = _read_number(value, where)
    if priority > _HIGHEST_PRIORITY:
        raise where.invalid(f"{{max_value_exceeded,{priority}}}")
    return priority


def _read_exchange(value: object, where: _Where) -> str:
    return _read_name(value, where.argument, f"in queue '{where.queue}' in vhost '{where.virtual_host}'")


def _read_key(value: object, where: _Where) -> str:
    if not isinstance(value, str):
        raise where.wrong_type(value)
    return value


def _read_flag(value: object, where: _Where) -> bool:
    if not isinstance(value, bool):
        raise where.wrong_type(value)
    return value


def _read_overflow(value: object, where: _Where) -> Overflow:
    if not isinstance(value, str):
        raise where.wrong_type(value)
    try:
        return Overflow(value)
    except ValueError:
        raise where.invalid("invalid_overflow") from None


_QUEUE_ARGUMENTS: dict[str, tuple[str, Callable[[object, _Where], object]]] = {
    "x-message-ttl": ("message_ttl", _read_time),
    "x-expires": ("expires", _read_expiry),
    "x-max-length": ("max_length", _read_count),
    "x-max-length-bytes": ("max_bytes", _read_count),
    "x-overflow": ("overflow", _read_overflow),
    "x-dead-letter-exchange": ("dead_letter_sink", _read_exchange),
    "x-dead-letter-routing-key": ("dead_letter_key", _read_key),
    "x-max-priority": ("max_priority", _read_priority),
    "x-delivery-limit": ("delivery_limit", _read_limit),
    "x-single-active-consumer": ("single_active", _read_flag),
    "x-consumer-timeout": ("consumer_timeout", _read_time),
}
"""Argument to the core's option, and what reads it."""

_STREAM_ARGUMENTS: dict[str, tuple[str, Callable[[object, _Where], float | str]]] = {
    "x-max-age": ("max_age", _read_max_age),
    "x-stream-max-segment-size-bytes": ("segment_bytes", _read_segment),
    "x-partition-of": ("partition_of", _read_key),
    "x-stream-deduplicate": ("deduplicate", _read_flag),
}
"""Argument to the core's option of streams, and what reads it; 0 leaves it to the core.

RabbitMQ does not know ``x-partition-of``, and passes it over."""

_COMPARED = (
    "x-dead-letter-strategy",
    "x-initial-cluster-size",
    "x-max-in-memory-bytes",
    "x-max-in-memory-length",
    "x-queue-leader-locator",
    "x-queue-mode",
    "x-queue-type",
    "x-queue-version",
    "x-quorum-initial-group-size",
)
"""Arguments that change nothing here, but must be equal at a second declare, as with RabbitMQ; others may differ."""


def _check_version(value: object, where: _Where) -> None:
    if _read_number(value, where) not in (1, 2):
        raise where.invalid(f"\"unsupported queue version '{value}'\"")


def _check_mode(value: object, where: _Where) -> None:
    _check_word(value, where, ("default", "lazy"), f"\"unsupported queue mode '{value}'\"")


def _check_strategy(value: object, where: _Where) -> None:
    _check_word(value, where, ("at-least-once", "at-most-once"), "invalid_dlx_strategy")


def _check_locator(value: object, where: _Where) -> None:
    _check_word(value, where, ("balanced", "client-local", "least-leaders", "random"), "invalid_queue_locator_arg")


def _check_word(value: object, where: _Where, words: Collection[str], wrong: str) -> None:
    if not isinstance(value, str):
        raise where.wrong_type(value)
    if value not in words:
        raise where.invalid(wrong)


_CHECKED: dict[str, Callable[[object, _Where], object]] = {
    "x-dead-letter-strategy": _check_strategy,
    "x-initial-cluster-size": _read_positive,
    "x-max-in-memory-bytes": _read_count,
    "x-max-in-memory-length": _read_count,
    "x-queue-leader-locator": _check_locator,
    "x-queue-mode": _check_mode,
    "x-queue-version": _check_version,
    "x-quorum-initial-group-size": _read_positive,
}
"""What checks the arguments that change nothing here."""


def consumer_priority(name: str, virtual_host: str, arguments: Arguments) -> int:
    """Read the priority of a consumer; those with a higher one are served first, and it may be negative.

    Raises:
        PreconditionFailed: ``x-priority`` is no integer, or the consumer wants to read a stream.
    """
    if "x-stream-offset" in arguments:
        where = _Where("x-stream-offset", name, virtual_host)
        raise PreconditionFailed(f"{where.refused()} of queue type rabbit_classic_queue")
    priority = arguments.get("x-priority", 0)
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise _Where("x-priority", name, virtual_host).invalid(f'"expected integer, got {type_name(priority)}"')
    return priority
