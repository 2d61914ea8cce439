"""Answers what one can ask a broker about itself: reads of the directory, of queues and of the tree of actors.

Reads need no message: between two awaits nothing changes, so each answer is a picture of one moment.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import translate
from heapq import nsmallest
from itertools import islice
from math import inf
from operator import itemgetter
from typing import TypeVar

import msgspec
import trio

from triomq.actors import Ref
from triomq.core import (
    Browse,
    Directory,
    Entry,
    QueueMessage,
    QueueState,
    Session,
    StreamStatistics,
    process_memory,
)
from triomq.endpoints.base.client import Client
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.statistics import ClientStatistics, Role, ScheduleStatistics
from triomq.endpoints.content import REPLY_TO, without_secret
from triomq.endpoints.management.paging import Paged
from triomq.protocols.control import (
    ActorRecord,
    BindingRecord,
    BrowseQueue,
    ConnectionRecord,
    Cursor,
    GetTotals,
    ListBindings,
    ListConnections,
    ListQueues,
    ListSchedules,
    ListSinks,
    ListWorkers,
    MessageRecord,
    QueueRecord,
    ScheduleRecord,
    ServedQueue,
    ShowTree,
    SinkRecord,
    StreamSummary,
    Totals,
    WorkerRecord,
    encode,
    sayable,
)
from triomq.version import __version__

S = TypeVar("S")
T = TypeVar("T")


class DomainInspector:
    """Looks into one domain, as one session may see it.

    Args:
        context: What the broker lends.
        directory: What is in the domain.
        session: Who is looking; exclusive queues of others are listed but not opened.
        asker: Their connection, from which the others are found.
        browse: Asks a queue for messages.
        properties: Gives a message's properties in the form that the asker reads.
        room: Bytes of the largest answer.
    """

    def __init__(
        self,
        context: BrokerContext,
        directory: Directory,
        session: Session,
        asker: Ref,
        *,
        browse: Callable[[Ref, Browse], Sequence[Entry]],
        properties: Callable[[QueueMessage], bytes],
        room: int,
    ) -> None:
        self._context = context
        self._directory = directory
        self._session = session
        self._asker = asker
        self._browse = browse
        self._properties = properties
        self._room = room

    def list_queues(self, asked: ListQueues) -> Iterable[Paged[QueueRecord]]:
        """List queues by name, or those with most ready messages."""
        queues = self._directory.queues
        if asked.order == "ready":
            named = _named(queues, asked.pattern, asked.after)
            ready = [queue.backlog.ready for _, queue in named]
            most = sorted(range(len(named)), key=ready.__getitem__, reverse=True)  # which costs less than a heap here
            return (Paged(None, _queue_record(*named[place]), _shorten_queue) for place in most[: asked.limit])
        named = _named(queues, asked.pattern, asked.after, asked.limit + 1)  # one more: is there a next page?
        return (Paged(name, _queue_record(name, queue), _shorten_queue) for name, queue in named)

    def list_sinks(self, asked: ListSinks) -> Iterable[Paged[SinkRecord]]:
        """List sinks by name."""
        for name, sink in _named(self._directory.sinks, asked.pattern, asked.after, asked.limit + 1):
            options = sink.options
            yield Paged(
                name,
                SinkRecord(
                    name,
                    options.kind.value,
                    sink.ref.state,
                    len(sink.bindings),
                    options.durable,
                    options.auto_delete,
                    options.internal,
                    None if options.alternate is None else sayable(options.alternate),
                    None if sink.policy is None else sink.policy.name,
                    _origin(sink.origin),
                ),
            )

    def list_bindings(self, asked: ListBindings) -> Iterable[Paged[BindingRecord]]:
        """List the bindings of one sink, or of all.

        Raises:
            NoSuchSink: There is none of that name.
        """
        directory = self._directory
        sinks = [directory.sink(asked.source)] if asked.source else list(directory.sinks.values())
        bindings = ((binding, sink.origin_of(binding)) for sink in sinks for binding in sink.bindings)
        for number, (binding, origin) in _numbered(bindings, asked.after):
            record = BindingRecord(
                sayable(binding.source),
                binding.target.value,
                sayable(without_secret(binding.destination)),
                sayable(binding.key),
                binding.arguments,
                _origin(origin),
            )
            yield Paged(number, record, lambda record, room: msgspec.structs.replace(record, arguments=None))

    def list_connections(self, asked: ListConnections) -> Iterable[Paged[ConnectionRecord]]:
        """List the clients that work in this domain, those of each endpoint by age."""
        now = trio.current_time()
        here = (found for found in connections_of(self._asker) if found.domain == self._directory.name)
        for number, found in _numbered(here, asked.after):
            role = found.role or Role("", now)
            record = ConnectionRecord(
                peer=sayable(found.peer),
                user=sayable(found.user),
                virtual_host=sayable(found.virtual_host),
                channels=found.channels,
                consumers=found.consumers,
                age=now - found.since,
                role=role.kind,
                name=sayable(role.name),
                silent=None if found.role is None else now - role.last_message,
            )
            yield Paged(number, record)

    def list_workers(self, asked: ListWorkers) -> Iterable[Paged[WorkerRecord]]:
        """List the clients that take jobs in this domain, those of each endpoint by age."""
        now = trio.current_time()
        here = (found for found in connections_of(self._asker) if found.domain == self._directory.name)
        workers = ((found, role, role.work) for found in here if (role := found.role) is not None and role.work)
        for number, (found, role, work) in _numbered(workers, asked.after):
            record = WorkerRecord(
                peer=sayable(found.peer),
                name=sayable(role.name),
                user=sayable(found.user),
                queues=[ServedQueue(sayable(name), weight) for weight, name in work.queues],
                free=work.free,
                out=work.out,
                done=work.done,
                silent=now - role.last_message,
                age=now - found.since,
            )
            yield Paged(number, record, lambda record, room: msgspec.structs.replace(record, queues=None))

    def list_schedules(self, asked: ListSchedules) -> Iterable[Paged[ScheduleRecord]]:
        """List schedules by their keys, or those that come next."""
        listing = self._context.schedules.get(self._directory.name)
        found = [schedule for schedule in (listing() if listing is not None else ()) if schedule.key > asked.after]
        if asked.order == "due":
            next_ones = nsmallest(
                asked.limit, found, key=lambda schedule: inf if schedule.due is None else schedule.due
            )
            return (Paged(None, self._schedule_record(schedule)) for schedule in next_ones)
        first = nsmallest(asked.limit + 1, found, key=lambda schedule: schedule.key)  # one more: is there a next page?
        return (Paged(schedule.key, self._schedule_record(schedule)) for schedule in first)

    def _schedule_record(self, schedule: ScheduleStatistics) -> ScheduleRecord:
        timetable = schedule.timetable
        return ScheduleRecord(
            key=schedule.key,
            call=sayable(schedule.call),
            queue=sayable(schedule.queue),
            user=sayable(schedule.user),
            interval=timetable.interval,
            cron=timetable.cron,
            timezone=timetable.timezone,
            due=schedule.due,
            runs=schedule.runs,
            run_count=timetable.run_count,
            owner=sayable(schedule.owner),
        )

    def browse(self, asked: BrowseQueue) -> Iterable[Paged[MessageRecord]]:
        """List ready messages.

        Raises:
            NoSuchQueue: There is none of that name.
            QueueLocked: It belongs exclusively to another session.
            QueueStopped: Its restarts have failed for good.
        """
        queue = self._directory.queue(asked.queue, self._session)
        after = asked.after
        while entries := self._browse(queue.ref, Browse(after, asked.limit + 1)):  # one more: is there a page?
            for entry in entries:
                yield Paged(entry.id, self._message_record(entry, asked.body), _shorten_message)
            after = entries[-1].id

    def _message_record(self, entry: Entry, most: int) -> MessageRecord:
        message = entry.message
        head, content = message.head, message.content
        size = len(content) - head.overhead
        # No more than an answer can have, so that a body of megabytes is not copied to be cut.
        body = content[head.body_start : head.body_start + min(size, most, self._room)]
        return MessageRecord(
            entry.id,
            sayable(head.exchange),
            sayable(without_secret(head.routing_key)),
            entry.attempts > 0,
            entry.attempts,
            size,
            body,
            self._properties(message),
        )


class BrokerInspector:
    """Looks at the whole broker.

    Args:
        broker: All its domains.
        asker: The connection that asks, from which the tree is found.
    """

    def __init__(self, broker: BrokerContext, asker: Ref) -> None:
        self._broker = broker
        self._asker = asker

    def show_tree(self, asked: ShowTree) -> Iterable[Paged[ActorRecord]]:
        """List actors, parents first."""
        for number, ref in _numbered(_walk(_root_of(self._asker), asked.children), asked.after):
            statistics = ref.statistics()
            record = ActorRecord(
                sayable(without_secret(statistics.path)),
                ref.actor_class.__qualname__,
                statistics.state,
                _restarts(ref),
                statistics.handled,
                statistics.waiting,
                len(ref.children),
                sayable(ref.actor.about) if isinstance(ref.actor, Client) else "",
            )
            yield Paged(number, record)

    def get_totals(self, asked: GetTotals) -> Totals:
        """Add everything up."""
        directories = [domain.directory for domain in self._broker.domains.values()]
        found = [state.statistics() for directory in directories for state in directory.queues.values()]
        connections = list(connections_of(self._asker))
        return Totals(
            version=__version__,
            uptime=trio.current_time() - self._broker.opened,
            memory=process_memory(),
            connections=len(connections),
            consumers=sum(found.consumers for found in connections),
            queues=len(found),
            sinks=sum(len(directory.sinks) for directory in directories),
            ready=sum(queue.ready for queue in found if queue.stream is None),  # records of streams wait for nobody
            unsettled=sum(queue.unsettled for queue in found),
            published=sum(queue.published for queue in found),
            delivered=sum(queue.delivered for queue in found),
            dropped=sum(queue.dropped for queue in found),
        )


def connections_of(asker: Ref) -> Iterator[ClientStatistics]:
    """Return the open connections of all endpoints, found from one of them: its endpoint, and that one's siblings."""
    assert asker.parent is not None
    assert asker.parent.parent is not None
    for endpoint in asker.parent.parent.children.values():
        for ref in endpoint.children.values():
            if isinstance(ref.actor, Client) and (statistics := ref.actor.statistics()) is not None:
                yield statistics


def _root_of(ref: Ref) -> Ref:
    while ref.parent is not None:
        ref = ref.parent
    return ref


def _walk(ref: Ref, most: int) -> Iterator[Ref]:
    """Yield an actor and those below it, of each one's children at most so many, those in trouble first."""
    yield ref
    children = sorted(ref.children.values(), key=lambda child: child.state == "running")
    for child in children[:most] if most else children:
        yield from _walk(child, most)


def _restarts(ref: Ref) -> int:
    return max(0, ref.epoch - 1)  # the first incarnation is epoch 1


def _named(stores: Mapping[str, S], pattern: str, after: str, most: int | None = None) -> list[tuple[str, S]]:
    """Return the values whose names match the pattern and come later than ``after``, all of them or the first by name.

    There may be 100,000 of them, all of which are looked at for each page: so most names are looked at alone, without
    calls, and few are sorted.
    """
    matches = None if pattern == "*" else re.compile(translate(pattern)).match

    def wanted(names: list[str]) -> list[str]:
        later = [name for name in names if name > after] if after else names
        return later if matches is None else [name for name in later if matches(name)]

    plain = [name for name in stores if name.isascii() and REPLY_TO not in name]
    found = wanted(plain)
    pairs = [(name, stores[name]) for name in (found if most is None else nsmallest(most, found))]
    if len(plain) < len(stores):
        others = [(name, sayable(without_secret(name))) for name in stores.keys() - set(plain)]
        pairs += [(shown, stores[name]) for name, shown in others if wanted([shown])]
    return pairs if most is None else nsmallest(most, pairs, key=itemgetter(0))


def _numbered(items: Iterable[T], after: int) -> Iterator[tuple[Cursor, T]]:
    """Pass over so many items, and number the others."""
    return islice(enumerate(items, 1), after, None)


def _queue_record(name: str, queue: QueueState) -> QueueRecord:
    statistics, options = queue.statistics(), queue.options
    return QueueRecord(
        name=name,
        state=queue.ref.state,
        restarts=_restarts(queue.ref),
        ready=statistics.ready,
        ready_bytes=statistics.ready_bytes,
        unsettled=statistics.unsettled,
        feeds=statistics.feeds,
        published=statistics.published,
        delivered=statistics.delivered,
        dropped=statistics.dropped,
        delayed=statistics.delayed,
        expired=statistics.expired,
        dead_lettered=statistics.dead_lettered,
        durable=options.durable,
        exclusive=options.exclusive,
        auto_delete=options.auto_delete,
        max_length=options.max_length,
        max_bytes=options.max_bytes,
        overflow=options.overflow.value,
        policy=None if queue.policy is None else queue.policy.name,
        origin=_origin(queue.origin),
        rejected=statistics.rejected,
        exhausted=statistics.exhausted,
        kind="queue" if statistics.stream is None else "stream",
        stream=None if statistics.stream is None else _stream_record(statistics.stream),
    )


def _stream_record(stream: StreamStatistics) -> StreamSummary:
    bounds = stream.bounds
    return StreamSummary(
        first=bounds.first,
        next=bounds.stop,
        last_time=bounds.last_time / 1_000_000 if bounds.last_time else None,
        segments=stream.segments,
        lags={sayable(group): lag for group, lag in stream.lags.items()},
    )


def _shorten_queue(record: QueueRecord, room: int) -> QueueRecord:
    """Leave the groups of a stream out."""
    if record.stream is None:
        return record
    return msgspec.structs.replace(record, stream=msgspec.structs.replace(record.stream, lags=None))


def _origin(origin: str) -> str | None:
    return sayable(origin) if origin else None


def _shorten_message(record: MessageRecord, room: int) -> MessageRecord:
    """Cut the body, and if that is not enough leave the properties out."""
    bare = msgspec.structs.replace(record, body=b"")
    free = room - len(encode(bare))
    if free < 0:
        return msgspec.structs.replace(bare, properties=None)
    return msgspec.structs.replace(record, body=record.body[: free // 4 * 3])  # base64: four letters for three bytes
