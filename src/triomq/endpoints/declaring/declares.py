"""From what a client declares to the core's options, with the rules of AMQP for what is there already."""

from msgspec.structs import replace

from triomq.core import Directory, QueueOptions, SinkKind, SinkOptions
from triomq.endpoints.declaring.arguments import Arguments, queue_options, sink_options
from triomq.endpoints.declaring.names import RESERVED, STANDARD_EXCHANGES, require_exchange
from triomq.endpoints.declaring.queue_types import check_named, check_type, with_default_type
from triomq.errors import AccessRefused, PreconditionFailed, Refused


class UnknownExchangeType(Refused):
    """There are no exchanges of this type."""

    def __init__(self, type_: str) -> None:
        super().__init__(f"{'unknown' if type_ else 'invalid'} exchange type '{type_}'")


def declared_exchange(
    directory: Directory,
    virtual_host: str,
    name: str,
    type_: str,
    arguments: Arguments,
    *,
    durable: bool,
    auto_delete: bool,
    internal: bool,
) -> SinkOptions:
    """Return what an exchange is to be declared with.

    Args:
        directory: Of the domain.
        virtual_host: What the client calls it.
        name: The exchange's name.
        type_: Its type.
        arguments: Those of the declare.
        durable: The bit.
        auto_delete: The bit.
        internal: The bit.

    Raises:
        AccessRefused: Clients declare none of that name.
        UnknownExchangeType: There is no such type.
        PreconditionFailed: An argument has a value that it cannot have.
    """
    require_exchange(name)
    try:
        kind = SinkKind(type_)
    except ValueError:
        raise UnknownExchangeType(type_) from None
    options = SinkOptions(kind=kind, durable=durable, auto_delete=auto_delete, internal=internal)
    options = sink_options(name, virtual_host, arguments, options)
    existing = directory.sinks.get(name)
    if existing is None and name.startswith(RESERVED):
        raise AccessRefused(f"exchange name '{name}' contains reserved prefix 'amq.*'")
    if existing is not None and name in STANDARD_EXCHANGES:
        # Section 1.6.2.1: durable counts "when creating a new exchange", the bit behind it is reserved. Clients of
        # older brokers set that one, auto-delete, for any exchange, and no client has made these.
        current = existing.declared
        options = replace(options, durable=current.durable, auto_delete=current.auto_delete)
    return options


def declared_queue(
    directory: Directory,
    virtual_host: str,
    name: str,
    arguments: Arguments,
    *,
    durable: bool,
    exclusive: bool,
    auto_delete: bool,
    is_named_here: bool = False,
) -> QueueOptions:
    """Return what a queue is to be declared with.

    Args:
        directory: Of the domain.
        virtual_host: What the client calls it.
        name: The queue's name.
        arguments: Those of the declare.
        durable: The bit.
        exclusive: The bit.
        auto_delete: The bit.
        is_named_here: Whether the broker has given it the name, for want of another.

    Raises:
        PreconditionFailed: An argument has a value that it cannot have, or the queue cannot be declared so.
    """
    if directory.default_queue_type:
        fits = durable and not (exclusive or auto_delete or is_named_here)
        arguments = with_default_type(directory.default_queue_type, arguments, fits=fits)
    check_named("" if is_named_here else name, arguments)
    existing = directory.queues.get(name)
    options = queue_options(
        name,
        virtual_host,
        arguments,
        durable=durable,
        exclusive=exclusive,
        auto_delete=auto_delete,
        exists=existing is not None,
    )
    if existing is not None:
        check_type(name, existing.declared, arguments)
    else:
        _check_partition(name, options)
    return options


def _check_partition(name: str, options: QueueOptions) -> None:
    """Check that a queue which is not there yet can be declared alone.

    Raises:
        PreconditionFailed: It is one partition of a stream, which is there as a whole or not at all.
    """
    if options.stream is not None and (stream := options.stream.partition_of):
        raise PreconditionFailed(
            f"queue '{name}' is a partition of stream '{stream}', and cannot be declared alone; "
            "name the definitions in the broker's configuration"
        )
