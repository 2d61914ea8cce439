"""Partitioned streams: one name to publish to, and several streams behind it, each with its own offsets.

    publish("orders", key) ─▶ sink orders (x-consistent-hash) ─┬─ by the hash of the key ─▶ stream orders-0
                                                               ├─────────────────────────▶ stream orders-1
                                                               └─────────────────────────▶ stream orders-2

- Records with one key are in one partition, in the order of their publishing. The number of partitions is fixed: with
  another number a key would go elsewhere, and its order would end.
- It is made of what is there already, a sink and streams under names that RabbitMQ's super streams have; so every door
  publishes into it, and consumes from a partition, with no word of its own. There is no queue ``orders``.
- It is made and deleted as a whole: what would take a part out of it is refused (``PartOfStream``).
- To spread records without keys evenly, give each another key: a counter will do.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from triomq.actors import Request
from triomq.core.queue.queue_state import QueueState
from triomq.core.routing.bindings import Binding, Target, make_binding
from triomq.core.topology.options import QueueOptions, SinkKind, SinkOptions
from triomq.core.topology.requests import Bind, DeclareQueue, DeclareSink
from triomq.errors import Inequivalent, PartOfStream, PreconditionFailed, Refused

if TYPE_CHECKING:
    from triomq.core.topology.directory import Directory
    from triomq.core.topology.domain import Domain
    from triomq.core.topology.session import Session

MOST_PARTITIONS = 256
"""Each is a queue, an actor and a row for each batch; a consistent-hash sink takes milliseconds to get each of them."""


class DeclareStream(Request[Sequence[QueueState]], frozen=True):
    """To a domain: declare a stream. Answers its partitions; the stream itself if it has none.

    Args:
        name: Its name.
        options: Those of each partition; with ``stream``.
        session: Whose it is if it is exclusive.
        partitions: How many; 0 for a stream of that name without any.

    Raises (in the asker):
        Inequivalent: It exists and differs.
        PreconditionFailed: A stream cannot have so many partitions.
    """

    name: str
    options: QueueOptions
    session: "Session"
    partitions: int = 0


class DeleteStream(Request[bool], frozen=True):
    """To a domain: delete a stream with all of its partitions. Answers whether it was there."""

    name: str
    session: "Session"


def partition_name(stream: str, number: int) -> str:
    """Return the name of a partition."""
    return f"{stream}-{number}"


def partitions_of(directory: "Directory", name: str) -> list[QueueState]:
    """Return the partitions of a stream in their order, the stream itself if it has none; nothing if it is not there.

    For sessions that may use exclusive ones, see ``Directory.queue``.
    """
    alone = directory.queues.get(name)
    if alone is not None and alone.declared.stream is not None:
        return [alone]
    found: list[QueueState] = []
    while (part := directory.queues.get(partition_name(name, len(found)))) is not None and stream_of(part) == name:
        found.append(part)
    return found


def stream_names(directory: "Directory", session: "Session") -> list[str]:
    """Return the names of the streams that a session may use, in order; a partitioned one has one name."""
    return sorted(
        {
            queue.declared.stream.partition_of or queue.name
            for queue in directory.queues.values()
            if queue.declared.stream is not None and queue.owner in (None, session)
        }
    )


def stream_of(queue: QueueState) -> str:
    """Return the partitioned stream that a queue is a part of; empty if it is none."""
    return "" if queue.declared.stream is None else queue.declared.stream.partition_of


def require_no_part(queue: QueueState) -> None:
    """Require that a queue is no partition.

    Raises:
        PartOfStream: It is.
    """
    if stream := stream_of(queue):
        raise PartOfStream(f"queue {queue.name!r}", stream)


def require_no_router(directory: "Directory", sink: str, binding: Binding | None = None) -> None:
    """Require that a sink, or one of its bindings, does not lead to the partitions of a stream.

    Raises:
        PartOfStream: It does.
    """
    destination = partition_name(sink, 0) if binding is None else binding.destination
    queue = directory.queues.get(destination)
    if queue is not None and stream_of(queue) == sink and (binding is None or binding.target is Target.QUEUE):
        raise PartOfStream(f"sink {sink!r}" if binding is None else f"the binding of {destination!r}", sink)


def declare_stream(domain: "Domain", message: DeclareStream) -> list[QueueState]:
    """Declare a stream in the present turn: all of it, or nothing."""
    name, directory, session = message.name, domain.directory, message.session
    if message.options.stream is None or not 0 <= message.partitions <= MOST_PARTITIONS:
        raise PreconditionFailed(
            f"stream {name!r} cannot have {message.partitions} partitions; it has 1 to {MOST_PARTITIONS}, or 0 for none"
        )
    existing = partitions_of(directory, name)
    count = 0 if name in directory.queues else len(existing)
    if (existing or name in directory.queues) and count != message.partitions:
        raise Inequivalent(name, "partitions", message.partitions, count)
    if not message.partitions:
        return [domain.declare_queue(DeclareQueue(name, message.options, session))]
    router = SinkOptions(SinkKind.CONSISTENT_HASH, durable=message.options.durable)
    stream = msgspec.structs.replace(message.options.stream, partition_of=name)
    options = msgspec.structs.replace(message.options, stream=stream)
    before = set(directory.queues)
    is_new = domain.declare_sink(DeclareSink(name, router, session))
    try:
        return [_declare_part(domain, message, options, number) for number in range(message.partitions)]
    except Refused:
        for number in range(message.partitions):
            part = directory.queues.get(partition_name(name, number))
            if part is not None and part.name not in before:
                domain.remove_queue(part, session)
        if is_new:
            domain.remove_sink(directory.sinks[name], session)
        raise


def _declare_part(domain: "Domain", message: DeclareStream, options: QueueOptions, number: int) -> QueueState:
    part = domain.declare_queue(DeclareQueue(partition_name(message.name, number), options, message.session))
    domain.bind(Bind(make_binding(message.name, Target.QUEUE, part.name, "1"), message.session))
    return part


def delete_stream(domain: "Domain", message: DeleteStream) -> bool:
    """Delete a stream in the present turn."""
    directory = domain.directory
    parts = partitions_of(directory, message.name)
    for part in parts:
        directory.queue(part.name, message.session)  # whether the session may use it
    for part in parts:
        domain.remove_queue(part, message.session)
    sink = directory.sinks.get(message.name)
    if sink is not None and parts and stream_of(parts[0]):
        domain.remove_sink(sink, message.session)
    return bool(parts)
