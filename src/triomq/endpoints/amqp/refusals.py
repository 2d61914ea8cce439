"""From a refusal to the code and the text that AMQP clients know; the texts are those that RabbitMQ's clients match.

AMQP 0-9-1 section 1.2 (reply codes).
"""

import msgspec

from triomq.core import (
    Inequivalent,
    InExclusiveUse,
    NoSuchQueue,
    NoSuchSink,
    QueueInUse,
    QueueLocked,
    QueueNotEmpty,
    QueueStopped,
    SinkInternal,
    SinkInUse,
    StreamOptions,
    UnknownDelivery,
)
from triomq.endpoints.content import type_name
from triomq.endpoints.declaring import UnknownExchangeType, write_age
from triomq.errors import (
    AccessRefused,
    LimitExceeded,
    NotForStreams,
    NotFound,
    PreconditionFailed,
    Refused,
    ResourceLocked,
    TriomqError,
)

HARD_CODES = frozenset((320, 402, 501, 502, 503, 504, 505, 506, 530, 540, 541))
"""Codes that end the connection; the others end the channel (section 1.2)."""


class ReplyCode(msgspec.Struct, frozen=True, gc=False):
    """A reply code, and what follows the code's name in the reply text."""

    code: int
    text: str


class AMQPRefusal(Refused):
    """The endpoint itself refuses, with a code of AMQP's."""

    def __init__(self, code: int, text: str) -> None:
        self.answer = ReplyCode(code, text)
        super().__init__(text)


ARGUMENTS = {
    "kind": "type",
    "alternate": "alternate-exchange",
    "hash_header": "hash-header",
    "hash_property": "hash-property",
    "max_length": "x-max-length",
    "max_bytes": "x-max-length-bytes",
    "overflow": "x-overflow",
    "message_ttl": "x-message-ttl",
    "expires": "x-expires",
    "dead_letter_sink": "x-dead-letter-exchange",
    "dead_letter_key": "x-dead-letter-routing-key",
    "max_priority": "x-max-priority",
    "delivery_limit": "x-delivery-limit",
    "single_active": "x-single-active-consumer",
    "consumer_timeout": "x-consumer-timeout",
}
"""The core's options, by the arguments and properties that they have in a declare."""

_TIMES = ("message_ttl", "expires", "consumer_timeout")  # seconds in the core, milliseconds on the wire
_NONE_WHEN_OFF = ("max_priority", "single_active")  # which one has by leaving the argument out

_LOCKED = (
    "cannot obtain exclusive access to locked queue '{0}' in vhost '{1}'. It could be originally declared on another "
    "connection or the exclusive property value does not match that of the original declaration."
)

_TEXTS: dict[type[Refused], str] = {
    NoSuchSink: "no exchange '{0}' in vhost '{1}'",
    NoSuchQueue: "no queue '{0}' in vhost '{1}'",
    QueueStopped: "queue '{0}' in vhost '{1}' process is stopped by supervisor",
    QueueLocked: _LOCKED,
    InExclusiveUse: "queue '{0}' in vhost '{1}' in exclusive use",
    SinkInternal: "cannot publish to internal exchange '{0}' in vhost '{1}'",
    SinkInUse: "exchange '{0}' in vhost '{1}' in use",
    QueueInUse: "queue '{0}' in vhost '{1}' in use",
    QueueNotEmpty: "queue '{0}' in vhost '{1}' not empty",
}

_METHODS = {"get": "basic.get", "purge": "queue.purge"}
"""What the core refuses to do with streams, by the methods that ask for it."""

_CODES: tuple[tuple[type[Refused], int], ...] = (
    (UnknownExchangeType, 503),
    (NotFound, 404),
    (AccessRefused, 403),
    (ResourceLocked, 405),
    (PreconditionFailed, 406),
    (LimitExceeded, 506),
)


def reply_code_of(refused: TriomqError, virtual_host: str, resource: str) -> ReplyCode:
    """Word a refusal.

    Args:
        refused: The refusal.
        virtual_host: The name that the client knows the domain by.
        resource: ``"queue"`` or ``"exchange"``: what the method was about.
    """
    if isinstance(refused, AMQPRefusal):
        return refused.answer
    code = next((code for kind, code in _CODES if isinstance(refused, kind)), 541)
    if isinstance(refused, NotForStreams):
        where = f"queue '{refused.name}' in vhost '{virtual_host}'"
        return ReplyCode(540, f"{_METHODS.get(refused.what, refused.what)} not supported by stream queues {where}")
    if isinstance(refused, Inequivalent):
        return ReplyCode(code, _inequivalent(refused, virtual_host, resource))
    if isinstance(refused, UnknownDelivery):
        return ReplyCode(code, f"unknown delivery tag {refused.number}")
    template = _TEXTS.get(type(refused))  # type: ignore[arg-type]  # an actor that has stopped has none
    detail = str(refused) if template is None else template.format(getattr(refused, "name", ""), virtual_host)
    return ReplyCode(code, detail)


def _inequivalent(refused: Inequivalent, virtual_host: str, resource: str) -> str:
    name, received, current = _different(refused)
    where = f"inequivalent arg '{name}' for {resource} '{refused.name}' in vhost '{virtual_host}'"
    if received is None:
        return f"{where}: received none but current is {_described(current)}"
    if current is None:
        return f"{where}: received {_described(received)} but current is none"
    return f"{where}: received '{_shown(received)}' but current is '{_shown(current)}'"


def _different(refused: Inequivalent) -> tuple[str, object, object]:
    """Return the argument that differs, inside the notes if need be."""
    if refused.option == "stream":
        return _different_streams(refused.received, refused.current)
    if refused.option != "notes":
        option = refused.option
        return ARGUMENTS.get(option, option), on_wire(option, refused.received), on_wire(option, refused.current)
    received, current = _notes(refused.received), _notes(refused.current)
    for name in (*received, *current):
        if received.get(name) != current.get(name):
            return name, received.get(name), current.get(name)
    return "arguments", refused.received, refused.current


def _different_streams(received: object, current: object) -> tuple[str, object, object]:
    """Return the argument of streams that differs; their type, if one of them is none."""
    if isinstance(received, StreamOptions) and isinstance(current, StreamOptions):
        ours, theirs = stream_arguments(current), stream_arguments(received)
        for name in (*theirs, *ours):
            if theirs.get(name) != ours.get(name):
                return name, theirs.get(name), ours.get(name)
    kind = "stream"
    return "x-queue-type", kind if received is not None else None, kind if current is not None else None


def stream_arguments(options: StreamOptions) -> dict[str, object]:
    """Return the arguments of a stream that differ from a plain declare, as clients write them."""
    plain = StreamOptions()
    found: dict[str, object] = {}
    if options.max_age is not None:
        found["x-max-age"] = write_age(options.max_age)
    if options.segment_bytes != plain.segment_bytes:
        found["x-stream-max-segment-size-bytes"] = options.segment_bytes
    if options.partition_of:
        found["x-partition-of"] = options.partition_of
    if options.deduplicate:
        found["x-stream-deduplicate"] = True
    return found


def on_wire(option: str, value: object) -> object:
    """Return an option's value as a client writes it."""
    if option in _TIMES and isinstance(value, float):
        return round(value * 1000)
    return None if option in _NONE_WHEN_OFF and not value else value


def _notes(notes: object) -> dict[str, object]:
    return dict(notes) if isinstance(notes, tuple) else {}


def _described(value: object) -> str:
    return f"the value '{_shown(value)}' of type '{type_name(getattr(value, 'value', value))}'"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(getattr(value, "value", value))
