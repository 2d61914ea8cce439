"""From the arguments of a declare to the core's options, checked as RabbitMQ checks them."""

from collections.abc import Callable, Mapping

from triomq.core import Overflow, QueueOptions, SinkOptions
from triomq.endpoints.amqp_answers import AnswerError, type_name
from triomq.endpoints.amqp_properties import plain_value
from triomq.errors import PreconditionFailed
from triomq.protocols import FieldValue

__all__ = ["check_consume", "check_expiration", "plain_arguments", "queue_options", "sink_options"]

Arguments = Mapping[str, object]

_INT64_MAX = (1 << 63) - 1

_NOT_YET = (
    "x-message-ttl",
    "x-expires",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-priority",
    "x-single-active-consumer",
    "x-delivery-limit",
)
"""Arguments that would change what happens to messages: a queue that silently ignored them would lose or keep the wrong
ones, so they are refused until they work."""


def plain_arguments(arguments: Mapping[str, FieldValue] | None) -> dict[str, object]:
    """Strip the wire types off the values of a field table; integers of all widths are alike (section 4.2.5.5)."""
    return {name: plain_value(value) for name, value in (arguments or {}).items()}


def queue_options(
    name: str, virtual_host: str, arguments: Arguments, *, durable: bool, exclusive: bool, auto_delete: bool
) -> QueueOptions:
    """Read what a queue is declared with.

    Raises:
        PreconditionFailed: An argument has a value that it cannot have, or is not supported.
    """
    where = f"for queue '{name}' in vhost '{virtual_host}'"
    known: dict[str, int | Overflow | None] = {}
    for argument, (option, read) in _QUEUE_ARGUMENTS.items():
        if argument in arguments:
            known[option] = read(argument, arguments[argument], where)
    for argument in _NOT_YET:
        if argument in arguments:
            raise PreconditionFailed(
                f"arg '{argument}' {where} is not supported by this version of triomq; leave it out"
            )
    _check_queue_type(arguments, where)
    max_length, max_bytes, overflow = known.get("max_length"), known.get("max_bytes"), known.get("overflow")
    return QueueOptions(
        durable=durable,
        exclusive=exclusive,
        auto_delete=auto_delete,
        max_length=max_length if isinstance(max_length, int) else None,
        max_bytes=max_bytes if isinstance(max_bytes, int) else None,
        overflow=overflow if isinstance(overflow, Overflow) else Overflow.DROP_HEAD,
        notes=_notes(arguments, _QUEUE_ARGUMENTS),
    )


def sink_options(name: str, virtual_host: str, arguments: Arguments, options: SinkOptions) -> SinkOptions:
    """Add the arguments to what an exchange is declared with.

    Raises:
        PreconditionFailed: An argument is not supported.
    """
    if "alternate-exchange" in arguments:
        where = f"for exchange '{name}' in vhost '{virtual_host}'"
        raise PreconditionFailed(
            f"arg 'alternate-exchange' {where} is not supported by this version of triomq; leave it out"
        )
    return SinkOptions(
        kind=options.kind,
        durable=options.durable,
        auto_delete=options.auto_delete,
        internal=options.internal,
        notes=_notes(arguments, ()),
    )


def _notes(arguments: Arguments, known: Mapping[str, object] | tuple[()]) -> tuple[tuple[str, object], ...]:
    """Keep what means nothing to us, in an order that does not depend on the client."""
    return tuple(sorted((item for item in arguments.items() if item[0] not in known), key=lambda item: item[0]))


def _read_count(argument: str, value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        found = type_name(value)
        raise PreconditionFailed(f"invalid arg '{argument}' {where}: \"expected integer, got {found}\"")
    if value < 0:
        raise PreconditionFailed(f"invalid arg '{argument}' {where}: {{value_negative,{value}}}")
    if value > _INT64_MAX:
        raise PreconditionFailed(f"invalid arg '{argument}' {where}: {{value_too_large,{value}}}")
    return value


def _read_overflow(argument: str, value: object, where: str) -> Overflow:
    if not isinstance(value, str):
        raise PreconditionFailed(f"invalid arg '{argument}' {where}: {{unacceptable_type,{type_name(value)}}}")
    if value == "reject-publish-dlx":
        raise PreconditionFailed(f"{argument} '{value}' {where} is not supported by this version of triomq")
    try:
        return Overflow(value)
    except ValueError:
        raise PreconditionFailed(f"invalid arg '{argument}' {where}: invalid_overflow") from None


_QUEUE_ARGUMENTS: dict[str, tuple[str, Callable[[str, object, str], int | Overflow]]] = {
    "x-max-length": ("max_length", _read_count),
    "x-max-length-bytes": ("max_bytes", _read_count),
    "x-overflow": ("overflow", _read_overflow),
}


def _check_queue_type(arguments: Arguments, where: str) -> None:
    wanted = arguments.get("x-queue-type", "classic")
    if wanted != "classic":
        raise PreconditionFailed(f"invalid arg 'x-queue-type' {where}: found '{wanted}', expected 'classic'")
    mode = arguments.get("x-queue-mode", "default")
    if mode not in ("default", "lazy"):
        raise PreconditionFailed(f"invalid arg 'x-queue-mode' {where}: \"unsupported queue mode '{mode}'\"")


def check_consume(name: str, virtual_host: str, arguments: Arguments) -> None:
    """Check the arguments of a consumer.

    Raises:
        PreconditionFailed: ``x-priority`` is no integer.
    """
    priority = arguments.get("x-priority", 0)
    if isinstance(priority, bool) or not isinstance(priority, int):
        where = f"for queue '{name}' in vhost '{virtual_host}'"
        found = type_name(priority)
        raise PreconditionFailed(f"invalid arg 'x-priority' {where}: \"expected integer, got {found}\"")


def check_expiration(expiration: str | None) -> None:
    """Check the expiration property, milliseconds as text.

    Raises:
        AnswerError: It is no number, or negative.
    """
    if expiration is None or expiration.isdecimal():
        return
    if expiration.removeprefix("-").isdecimal():
        raise AnswerError(406, f"invalid expiration '{expiration}': {{value_negative,{expiration}}}")
    raise AnswerError(406, f"invalid expiration '{expiration}': no_integer")
