"""What AMQP's clients say and hear of streams: where a consumer begins, ages as text, records with their offsets.

A stream is a queue that keeps what was read (``core.streams``). Its consumers differ from others in four ways:

- They say where they begin (``x-stream-offset``), each for itself; reading takes nothing from the others.
- They must ack and must have a limit of their own: that is how they ask for more. An ack means nothing else.
- Each delivery has its offset in the header ``x-stream-offset``, so that a client can go on behind it later.
- What takes messages out of a queue, or puts them back, is not for streams: get, purge, nack, reject, recover.

Codes and texts are RabbitMQ's; where an argument breaks it down (541), the answer is the 406 of its other arguments.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from time import time as unix_time
from typing import TYPE_CHECKING

from triomq.core import Batch, FromOffset, Head, Place, QueueState, Since, Start
from triomq.endpoints.content import AMQP_CODEC, type_name
from triomq.endpoints.declaring import read_age
from triomq.errors import NotForStreams, PreconditionFailed
from triomq.protocols.amqp import Framing, Front

if TYPE_CHECKING:
    from triomq.endpoints.amqp.channel import Consumer, ServerChannel

_STARTS = {"first": Start.FIRST, "last": Start.LAST, "next": Start.NEXT}


def start_of(name: str, virtual_host: str, arguments: Mapping[str, object]) -> Place:
    """Read where a consumer begins.

    Raises:
        PreconditionFailed: It says nothing that can be understood.
    """
    wanted = arguments.get("x-stream-offset", "next")
    if isinstance(wanted, bytes):
        wanted = wanted.decode("utf-8", "replace")  # as RabbitMQ has it, where all texts are octets
    if isinstance(wanted, str):
        if wanted in _STARTS:
            return _STARTS[wanted]
        if (age := read_age(wanted)) is not None:
            return Since(unix_time() - age)
    elif isinstance(wanted, datetime):
        return Since(wanted.timestamp())
    elif isinstance(wanted, int) and not isinstance(wanted, bool):
        return FromOffset(max(0, wanted))
    shown = f'<<"{wanted}">>' if isinstance(wanted, str) else _shown(wanted)
    place = f"invalid arg 'x-stream-offset' for queue '{name}' in vhost '{virtual_host}'"
    raise PreconditionFailed(f"{place}: {{invalid_stream_offset_arg,{{{type_name(wanted)},{shown}}}}}")


def _shown(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "undefined", True: "true", False: "false"}[value]
    return str(value)


def check_consumer(
    channel: "ServerChannel", queue: QueueState, arguments: Mapping[str, object], *, no_ack: bool
) -> None:
    """Check that a consumer can read a stream.

    Raises:
        PreconditionFailed: It has a priority, or its channel has no limit for each consumer.
        NotForStreams: It does not ack.
    """
    where = f"queue '{queue.name}' in vhost '{channel.connection.virtual_host}'"
    if "x-priority" in arguments:
        raise PreconditionFailed(f"invalid arg 'x-priority' for {where} of queue type rabbit_stream_queue")
    if not channel.prefetch:
        raise PreconditionFailed(f"consumer prefetch count is not set for '{where}'")
    if no_ack:
        raise NotForStreams(queue.name, "automatic acknowledgement")


def check_settled(channel: "ServerChannel", tag: int, what: str, *, multiple: bool) -> None:
    """Check that no record of a stream is among deliveries that are not to be accepted.

    Args:
        channel: The channel.
        tag: The delivery, or with ``multiple`` the last one; 0 stands for all.
        what: What is to be done with them.
        multiple: Whether all up to that one are meant.

    Raises:
        NotForStreams: One of them is a record of a stream.
    """
    ledger = channel.unsettled
    if multiple:
        found = (numbered for numbered, tags in ledger.groups() if not tag or tags[0] <= tag)
    else:
        found = (numbered for numbered in (ledger.find(tag),) if numbered is not None)
    directory = channel.connection.directory
    for queue in {numbered.batch.queue for numbered in found}:
        state = directory.queues.get(directory.name_of(queue)) if queue is not None else None
        if state is not None and state.declared.stream is not None:
            raise NotForStreams(state.name, what)


# Deliveries

_UNFRAMED = Framing(0, 0, 0, 0, 0, 0)


def deliver_records(channel: "ServerChannel", consumer: "Consumer", first: int, batch: Batch) -> None:
    """Encode records under delivery tags from the first one on, each with its offset."""
    head, heads = batch.head, batch.heads
    contents: list[bytes] = batch.contents  # type: ignore[assignment]  # nothing is settled before it is encoded
    properties: Sequence[bytes]
    fronts: Front | list[Front]
    if head.traits.codec != AMQP_CODEC:
        messages = [channel.connection.to_wire(message) for message in batch.stretch().messages()]
        properties, bodies = [own for own, _ in messages], [body for _, body in messages]
    elif heads is None:
        start, trailer = head.body_start, head.body_trailer
        begin, stop = head.properties_start, head.properties_stop
        properties = [content[begin:stop] for content in contents]
        bodies = [content[start : len(content) - trailer] for content in contents]
    else:
        pairs = list(zip(heads, contents, strict=True))
        properties = [content[each.properties_start : each.properties_stop] for each, content in pairs]
        bodies = [content[each.body_start : len(content) - each.body_trailer] for each, content in pairs]
    if heads is None:
        fronts = _front(channel, consumer, head)
    else:
        known = {each: _front(channel, consumer, each) for each in dict.fromkeys(heads)}
        fronts = [known[each] for each in heads]
    common = properties[0]
    is_common = properties.count(common) == len(properties)
    channel.connection.engine.send_records(
        channel.number, first, fronts, batch.ids, common if is_common else properties, bodies
    )


def _front(channel: "ServerChannel", consumer: "Consumer", head: Head) -> Front:
    outbox = channel.connection.engine.outbox
    return outbox.front(channel.number, consumer.tag, False, head.exchange, head.routing_key, _UNFRAMED)
