"""Sinks, queues and bindings in a store: what of a domain is there again after a restart, and how it comes back.

A binding is recorded if both its ends are durable. What belongs to one session is not recorded.
"""

import logging
from collections.abc import Iterator

from triomq.core.backlog import PagedBacklog
from triomq.core.persistence.keyed_records import KeyedRecords
from triomq.core.persistence.persistence import KEYED_KINDS, Persistence
from triomq.core.persistence.records import (
    decode_binding,
    decode_identity,
    decode_key,
    decode_maker,
    decode_number,
    decode_position,
    decode_queue_options,
    decode_sink_options,
    decoding,
    encode_binding,
    encode_key,
    encode_maker,
    encode_options,
)
from triomq.core.queue.delay import Delayed
from triomq.core.queue.queue_state import QueueState
from triomq.core.routing.bindings import Binding, Target
from triomq.core.routing.sink import Destination, SinkState
from triomq.core.streams.groups import groups_of
from triomq.core.streams.ledgers import GroupLedger, ledgers_of, make_state
from triomq.core.streams.log import StreamLog
from triomq.core.streams.stored import StoredLog
from triomq.core.topology.directory import Directory
from triomq.core.topology.options import QueueOptions, SinkOptions
from triomq.store import (
    QueueDeclared,
    QueueDeleted,
    QueueFound,
    RecordFound,
    RecordKind,
    RecordPut,
    RecordRemoved,
    RecoveredQueue,
)

_log = logging.getLogger("triomq.core")


# Writing. What is recorded already is not written again, but a client that declares it may get its reply only when it
# is on disk.


def record_sink(directory: Directory, sink: SinkState, *, is_new: bool) -> None:
    """Record a sink, if it is durable."""
    persistence = directory.persistence
    if persistence is not None and sink.declared.durable:
        if is_new:
            key = encode_key(directory.name, sink.name)
            persistence.journal.add(
                RecordPut(RecordKind.SINK, key, encode_options(sink.declared, sink.origin, sink.user))
            )
        persistence.mark_sync_point()


def forget_sink(directory: Directory, sink: SinkState) -> None:
    """Remove the record of a sink."""
    persistence = directory.persistence
    if persistence is not None and sink.declared.durable:
        persistence.journal.add(RecordRemoved(RecordKind.SINK, encode_key(directory.name, sink.name)))
        persistence.mark_sync_point()


def record_queue(directory: Directory, queue: QueueState, *, is_new: bool) -> None:
    """Record a queue, if it is durable."""
    persistence = directory.persistence
    if persistence is not None and queue.durable:
        if is_new:
            identity = queue.backlog.identity if isinstance(queue.backlog, StreamLog) else 0
            options = encode_options(queue.declared, queue.origin, queue.user, identity=identity)
            persistence.journal.add(QueueDeclared(queue.backlog.queue, encode_key(directory.name, queue.name), options))
        persistence.mark_sync_point()


def record_ledger(directory: Directory, ledger: GroupLedger) -> None:
    """Record a ledger that is new, if its queue is durable: under the names of domain, queue, group and user."""
    persistence, state = directory.persistence, ledger.state
    if persistence is not None and state.durable:
        options = encode_options(state.declared, identity=ledger.log.identity)
        key = encode_key(directory.name, *ledger.names)
        persistence.journal.add(QueueDeclared(state.backlog.queue, key, options))
        ledgers_of(directory).record(ledger)
        persistence.mark_sync_point()


def forget_queue(directory: Directory, queue: QueueState) -> None:
    """Remove the record of a queue, its messages, and what of it was paged out."""
    persistence = directory.persistence
    if persistence is not None:
        if queue.durable or queue.backlog.has_spilled:
            persistence.journal.add(QueueDeleted(queue.backlog.queue))
        if queue.durable:
            persistence.mark_sync_point()


def record_binding(directory: Directory, binding: Binding, origin: str, user: str, *, is_new: bool) -> None:
    """Record a binding, if both its ends are recorded."""
    persistence, sinks = directory.persistence, directory.sinks
    ends = directory.queues if binding.target is Target.QUEUE else sinks
    if persistence is not None and _is_recorded(sinks[binding.source], ends[binding.destination]):
        if is_new:
            maker = encode_maker(origin, user)
            persistence.journal.add(RecordPut(RecordKind.BINDING, encode_binding(directory.name, binding), maker))
        persistence.mark_sync_point()


def forget_binding(directory: Directory, binding: Binding, source: SinkState, destination: Destination) -> None:
    """Remove the record of a binding; its ends may have left the directory already."""
    persistence = directory.persistence
    if persistence is not None and _is_recorded(source, destination):
        persistence.journal.add(RecordRemoved(RecordKind.BINDING, encode_binding(directory.name, binding)))
        persistence.mark_sync_point()


def _is_recorded(source: SinkState, destination: Destination) -> bool:
    durable = destination.durable if isinstance(destination, QueueState) else destination.declared.durable
    return durable and source.declared.durable


# Reading


def _decode_sink(record: RecordFound) -> tuple[str, str, SinkOptions, str, str]:
    with decoding("sink", record.key):
        domain, name = decode_key(record.key)
        return domain, name, *decode_sink_options(record.value)


def _decode_bound(record: RecordFound) -> tuple[str, Binding, str, str]:
    with decoding("binding", record.key):
        return *decode_binding(record.key), *decode_maker(record.value)


def _decode_queue(found: QueueFound) -> tuple[str, list[str], QueueOptions, str, str]:
    """Return the domain, the queue's name, of a ledger with group and user behind it, options, origin and user."""
    with decoding("queue", found.key):
        domain, name, *group = decode_key(found.key)
        return domain, [name, *group[:2]], *decode_queue_options(found.value)


def require_decodable(piece: RecordFound | QueueFound) -> None:
    """Decode a record or a queue.

    Raises:
        StoreCorrupt: It means nothing.
    """
    if isinstance(piece, QueueFound):
        _decode_queue(piece)
    elif piece.kind == RecordKind.SINK:
        _decode_sink(piece)
    elif piece.kind == RecordKind.BINDING:
        _decode_bound(piece)
    elif piece.kind in KEYED_KINDS:
        with decoding("record", piece.key):
            decode_key(piece.key)


def recovered_domains(persistence: Persistence) -> list[str]:
    """List the domains that the store knows something of."""
    recovered = persistence.journal.recovered
    if recovered is None:
        return []
    domains = [_decode_queue(found.found)[0] for found in recovered.queues.values()]
    domains += [_decode_sink(record)[0] for record in recovered.records if record.kind == RecordKind.SINK]
    domains += [_decode_bound(record)[0] for record in recovered.records if record.kind == RecordKind.BINDING]
    return list(dict.fromkeys(domains))


def recover(directory: Directory) -> None:
    """Fill a directory with what the store has of its domain; to be called before the domain is started.

    Raises:
        StoreCorrupt: A record cannot be decoded.
    """
    for _ in recovering(directory):
        pass


def recovering(directory: Directory) -> Iterator[None]:
    """Fill a directory as ``recover`` does, step by step, each some 20 µs, so that others can have the loop."""
    persistence = directory.persistence
    recovered = persistence.journal.recovered if persistence is not None else None
    if persistence is None or recovered is None:
        return
    for record in recovered.records:
        if record.kind == RecordKind.SINK:
            domain, name, declared, origin, user = _decode_sink(record)
            if domain == directory.name:
                directory.sinks[name] = SinkState(name, declared, directory.policies, origin, user)
                directory.quotas.take(user, "sinks")
                yield
    for found in recovered.queues.values():
        domain, (name, *group), options, origin, user = _decode_queue(found.found)
        if domain != directory.name:
            continue
        if group:
            _recover_ledger(directory, name, *group, recovered=found)
        else:
            directory.queues[name] = _recover_queue(directory, name, options, found, origin, user)
        yield
    _recover_positions(directory)
    if directory.ledgers is not None:
        directory.ledgers.recover_leases()
    nowhere = 0
    for record in recovered.records:
        if record.kind == RecordKind.BINDING:
            domain, binding, origin, user = _decode_bound(record)
            if domain == directory.name and not _bind(directory, binding, origin, user):
                persistence.journal.add(RecordRemoved(RecordKind.BINDING, record.key))
                nowhere += 1
            yield
    if nowhere:  # the broker was killed before it had removed all bindings of something that was deleted
        _log.warning("bindings led nowhere and are removed", extra={"fields": {"bindings": nowhere}})


def _recover_queue(
    directory: Directory, name: str, declared: QueueOptions, recovered: RecoveredQueue, origin: str, user: str
) -> QueueState:
    found = recovered.found
    identity = decode_identity(found.value) if declared.stream is not None else 0
    queue = QueueState(name, declared, directory, origin=origin, user=user, number=found.queue, identity=identity)
    directory.quotas.take(user, "queues")
    if isinstance(queue.backlog, StoredLog):
        queue.backlog.recover(recovered.chunks, found.next_id - 1)
    else:
        assert isinstance(queue.backlog, PagedBacklog)
        queue.backlog.recover(found.next_id, recovered.count, recovered.size, recovered.delivered, recovered.attempts)
    recovered.chunks = []
    if recovered.missing:
        fields = {"queue": name, "messages": recovered.missing}
        _log.error("messages are missing on disk; see `triomq store check`", extra={"fields": fields})
    if recovered.delayed:
        queue.delayed = Delayed()
        for delayed in recovered.delayed:
            queue.delayed.expect(delayed)
    recovered.delayed = []  # they are in the queue's state now
    return queue


def _recover_ledger(directory: Directory, queue: str, group: str, user: str = "", *, recovered: RecoveredQueue) -> None:
    found = recovered.found
    identity = decode_identity(found.value)
    state = make_state(directory, queue, group, user, durable=True, number=found.queue, identity=identity)
    assert isinstance(state.backlog, StoredLog)
    state.backlog.recover(recovered.chunks, found.next_id - 1)
    recovered.chunks = []
    ledgers_of(directory).recover(queue, group, state)


def _recover_positions(directory: Directory) -> None:
    for (stream, group), value in KeyedRecords(directory, RecordKind.POSITION).recovered():
        queue = directory.queues.get(stream)
        if queue is not None and isinstance(queue.backlog, StreamLog):
            offset, user, used = decode_position(value)
            queue.backlog.positions[group] = offset
            groups_of(directory).recover(stream, group, user, used)
    if directory.groups is not None:
        directory.groups.recovered()
    for (stream, publisher, *owner), value in KeyedRecords(directory, RecordKind.PUBLISHER).recovered():
        queue = directory.queues.get(stream)
        if queue is not None and isinstance(queue.backlog, StreamLog) and queue.backlog.publishers is not None:
            queue.backlog.publishers.recover(publisher, owner[0] if owner else "", decode_number(value))


def _bind(directory: Directory, binding: Binding, origin: str, user: str) -> bool:
    """Bind again; return whether both ends are there."""
    source = directory.sinks.get(binding.source)
    ends = directory.queues if binding.target is Target.QUEUE else directory.sinks
    destination: Destination | None = ends.get(binding.destination)
    if source is None or destination is None:
        return False
    source.add(binding, destination)
    source.set_maker(binding, origin, user)
    directory.quotas.take(user, "bindings")
    directory.quotas.take(user, "steps", source.weight(binding))
    if destination.bound is None:
        destination.bound = {}
    destination.bound[binding] = source
    return True
