"""The recorder: the tracer of a broker's domains, which turns what it is called with into records.

It is called in the turns of queues, so it costs what a run or a batch costs, never waits and never raises. Where few
messages are traced, most calls end when no id of the run is among them.
"""

from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from time import time_ns
from typing import TypeAlias, cast

from triomq.actors import Ref
from triomq.core import Batch, Head, JobEvent, MovedFrom, Outcome, QueueState, Reason, Stretch
from triomq.tracelog.config import Trace
from triomq.tracelog.ids import JOB_CODEC, job_in, may_have_ids
from triomq.tracelog.outbox import TraceOutbox
from triomq.tracelog.records import (
    CONSUMER,
    DELIVERED,
    EVENT,
    FORGET,
    HAPPENED,
    HEAD,
    JOBS,
    MOVED,
    ONE,
    PURGED,
    QUEUE,
    QUEUED,
    pack_ids,
)
from triomq.tracelog.sampling import LEAST, JobSampling, QueueSampling

_MOST_NAMES = 10_000
"""Heads, consumers and queues that have numbers; when there are more, all numbers begin anew."""

_MOST_ENDED = 10_000
"""Sessions of a domain that have ended and whose protocol is known: their messages may become dead letters now."""

_KnownHead: TypeAlias = tuple[int, int, int]
"""The number of a head, and where in contents the properties begin and stop that are recorded; 0 if none are."""


def _now() -> int:
    return time_ns() // 1000


class _Domain:
    """What is known of a domain: the numbers of heads in it, and by which protocol its sessions publish."""

    __slots__ = ("_ended", "heads", "protocols")

    def __init__(self) -> None:
        self.heads: dict[Head, _KnownHead] = {}
        self.protocols: dict[int, str] = {}
        self._ended: deque[int] = deque()

    def end(self, session: int) -> None:
        """Forget a session that has ended, when many others have."""
        self._ended.append(session)
        if len(self._ended) > _MOST_ENDED:
            self.protocols.pop(self._ended.popleft(), None)


class _Queue:
    """What is known of a queue: its number, as long as the process knows it, and which of its messages are traced."""

    __slots__ = ("domain", "number", "recovered", "sampling")

    def __init__(self, sampling: QueueSampling, domain: _Domain, recovered: int) -> None:
        self.number = 0
        self.sampling = sampling
        self.domain = domain
        self.recovered = recovered  # ids below are of messages that were stored before, which nothing has looked into


class Recorder:
    """The tracer of a broker's domains; made with the broker, outlives the processes that it sends to.

    Args:
        trace: What is traced.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.outbox = TraceOutbox(_now, self._forget_names)
        self._queues: dict[QueueState, _Queue] = {}
        self._jobs: dict[str, JobSampling] = {}  # by queue
        self._domains: dict[str, _Domain] = {}
        self._clients: dict[Ref, str] = {}  # their protocols
        self._consumers: dict[Ref, int] = {}
        self._names = 0
        self._numbers = 0

    # What happens to messages, see ``core.Tracer``

    def queued(
        self,
        queue: QueueState,
        first: int,
        head: Head,
        contents: Sequence[bytes],
        heads: Sequence[Head] | None = None,
        moved_from: MovedFrom | None = None,
    ) -> None:
        """Record that a queue has stored a run."""
        traced = self._queues.get(queue) or self._meet(queue)
        sampling = traced.sampling
        if heads is not None or head.properties_stop - head.properties_start >= LEAST:
            sampling.look(first, head, contents, heads)
        if sampling.is_part and head.traits.codec == JOB_CODEC:
            self._follow_jobs(sampling, queue.name, first, Stretch(head, contents, heads))
        if moved_from is None and len(contents) == 1:
            if sampling.has(first):
                self._add_one(traced, queue, first, head, contents[0])
        else:
            self._add_run(traced, queue, first, Stretch(head, contents, heads), moved_from)

    def _add_one(self, traced: _Queue, queue: QueueState, number: int, head: Head, content: bytes) -> None:
        """Record that a queue has stored a message; half of them all come alone, so this takes as little as it can."""
        if self._names > _MOST_NAMES:
            self._forget_all()
        known, start, stop = traced.domain.heads.get(head) or self._meet_head(traced.domain, head)
        properties = content[start:stop] if stop else None
        where = traced.number or self._number_queue(traced, queue)
        self.outbox.add((ONE, time_ns() // 1000, where, number, known, len(content), properties), 1)

    def _add_run(
        self, traced: _Queue, queue: QueueState, first: int, messages: Stretch, moved_from: MovedFrom | None
    ) -> None:
        """Record that a queue has stored those of a run that are traced."""
        sampling, count = traced.sampling, len(messages.contents)
        if moved_from is not None and moved_from.traced:
            followed = set(moved_from.traced)
            sampling.include([first + place for place, number in enumerate(moved_from.ids) if number in followed])
        chosen = sampling.choose(range(first, first + count))
        if not chosen:
            return
        if len(chosen) == 1 and moved_from is None:
            place = chosen[0] - first
            head = messages.head if messages.heads is None else messages.heads[place]
            self._add_one(traced, queue, chosen[0], head, messages.contents[place])
            return
        if len(chosen) < count:
            messages = _some(messages, [number - first for number in chosen])
        if isinstance(chosen, range):
            self._add_part(traced, queue, chosen, messages, _kind(first, chosen, moved_from))
            return
        for part, those in _parts(messages, chosen):
            self._add_part(traced, queue, part, those, _kind(first, part, moved_from))

    def _add_part(
        self, traced: _Queue, queue: QueueState, ids: range, messages: Stretch, kind: tuple[object, ...]
    ) -> None:
        """Record messages whose ids have equal distances."""
        if self._names > _MOST_NAMES:
            self._forget_all()
        head, contents, heads = messages
        domain = traced.domain
        sizes = array("I", map(len, contents)).tobytes()
        numbers: int | list[int]
        properties: list[bytes] | None
        if heads is None:
            numbers, start, stop = domain.heads.get(head) or self._meet_head(domain, head)
            properties = [content[start:stop] for content in contents] if stop else None
        else:
            known = list(map(domain.heads.get, heads))
            if None in known:
                known = [domain.heads.get(one) or self._meet_head(domain, one) for one in heads]
            found = cast("list[_KnownHead]", known)
            numbers = [number for number, _, _ in found]
            properties = [content[start:stop] for (_, start, stop), content in zip(found, contents, strict=True)]
        where = traced.number or self._number_queue(traced, queue)
        record = (*kind, time_ns() // 1000, where, ids.start, ids.step, len(contents), numbers, sizes, properties)
        self.outbox.add(record, len(contents))

    def _follow_jobs(self, sampling: QueueSampling, queue: str, first: int, messages: Stretch) -> None:
        """Trace messages of jobs that are traced, and no others."""
        heads = repeat(messages.head) if messages.heads is None else messages.heads
        found = zip(heads, messages.contents, strict=False)
        jobs = [job_in(content[head.properties_start : head.properties_stop]) for head, content in found]
        sampling.choose_instead(range(first, first + len(jobs)), self._sampling_of(queue).choose(jobs))

    def _look_into(self, sampling: QueueSampling, queue: str, batch: Batch) -> None:
        """See which messages are traced that were stored before the broker was started."""
        heads = repeat(batch.head) if batch.heads is None else batch.heads
        for number, head, content in zip(batch.ids, heads, batch.contents, strict=False):
            if content is not None:
                sampling.look(number, head, (content,))
                if sampling.is_part and head.traits.codec == JOB_CODEC:
                    self._follow_jobs(sampling, queue, number, Stretch(head, [content]))

    def _sampling_of(self, queue: str) -> JobSampling:
        found = self._jobs.get(queue)
        if found is None:
            if len(self._jobs) >= _MOST_NAMES:  # anybody may send jobs to queues of any names
                self._jobs.clear()
            found = self._jobs[queue] = JobSampling(self._trace.rate_of(queue))
        return found

    def appended(self, queue: QueueState, first: int, count: int) -> None:
        """Record that a stream has stored so many records, of which neither keys nor sizes are known here."""
        traced = self._queues.get(queue) or self._meet(queue)
        if chosen := traced.sampling.choose(range(first, first + count)):
            self._add(traced, queue, chosen, "queued")

    def handed_out(self, queue: QueueState, batch: Batch) -> None:
        """Record that a batch goes to a consumer."""
        traced = self._queues.get(queue) or self._meet(queue)
        if batch.ids[0] < traced.recovered:
            self._look_into(traced.sampling, queue.name, batch)
        ids = traced.sampling.choose(batch.ids)
        if ids:
            if self._names > _MOST_NAMES:
                self._forget_all()
            consumer = 0 if batch.feed is None else self._number_consumer(batch.feed.consumer)
            where = traced.number or self._number_queue(traced, queue)
            self.outbox.add((DELIVERED, time_ns() // 1000, where, pack_ids(ids), consumer, batch.attempts), len(ids))

    def settled(self, queue: QueueState, ids: Sequence[int], outcome: Outcome) -> None:
        """Record that deliveries were settled, rejected or requeued."""
        traced = self._queues.get(queue) or self._meet(queue)
        sampling = traced.sampling
        if chosen := sampling.choose(ids):
            self._add(traced, queue, chosen, outcome.value)
        if outcome is Outcome.ACCEPT and sampling.has_marks:
            sampling.forget(ids)

    def removed(self, queue: QueueState, ids: Sequence[int] | None, reason: Reason | None) -> None:
        """Record that messages have left a queue otherwise."""
        traced = self._queues.get(queue) or self._meet(queue)
        if ids is None:
            self.outbox.add((PURGED, _now(), self._number_queue(traced, queue)), 1)
            traced.sampling.forget_all()
        else:
            chosen = traced.sampling.choose(ids)
            if chosen and reason is not Reason.REJECTED:  # else it was settled so
                self._add(traced, queue, chosen, "" if reason is None else reason.value)
            if traced.sampling.has_marks:
                traced.sampling.forget(ids)

    def _add(self, traced: _Queue, queue: QueueState, ids: Sequence[int], word: str) -> None:
        """Record the same of some messages."""
        where = traced.number or self._number_queue(traced, queue)
        self.outbox.add((HAPPENED, time_ns() // 1000, where, pack_ids(ids), word), len(ids))

    def traces(self, queue: QueueState, ids: Sequence[int]) -> Sequence[int]:
        """Return which of some messages are traced."""
        return (self._queues.get(queue) or self._meet(queue)).sampling.choose(ids)

    def ended(self, queue: QueueState) -> None:
        """Forget a queue, which is deleted."""
        self._queues.pop(queue, None)

    # Clients

    def entered(self, domain: str, session: int, client: Ref | None, protocol: str) -> None:
        """Record by which protocol a session publishes, and one of its clients consumes."""
        self._domain(domain).protocols[session] = protocol
        if client is not None:
            self._clients[client] = protocol

    def left(self, client: Ref) -> None:
        """Forget a client."""
        self._clients.pop(client, None)

    def lost(self, domain: str, session: int, client: Ref, reason: str, unsettled: int) -> None:
        """Record that a client is gone without a word, or silent, and how many deliveries it had."""
        protocol = self._clients.get(client, "")
        self._add_event(
            "peer-lost", domain=domain, session=session, consumer=client.path, protocol=protocol, error=reason,
            size=unsettled,
        )  # fmt: skip

    def actor_restarted(self, path: str, error: str) -> None:
        """Record that an actor was restarted after an error."""
        self._add_event("actor-restarted", consumer=path, error=error)

    def _add_event(self, kind: str, **columns: str | int) -> None:
        self.outbox.add((EVENT, _now(), kind, columns), 1)

    def session_ended(self, domain: str, session: int) -> None:
        """Forget a session, some time later."""
        self._domain(domain).end(session)

    # Jobs

    def jobs(
        self,
        domain: str,
        queue: str,
        event: JobEvent,
        jobs: Sequence[bytes],
        *,
        attempts: Sequence[int] = (),
        worker: Ref | None = None,
        name_of: Callable[[int], str] | None = None,
        error: str = "",
    ) -> None:
        """Record what has happened to jobs of a queue."""
        places = self._sampling_of(queue).choose(jobs)
        if not places:
            return
        if self._names > _MOST_NAMES:
            self._forget_all()
        consumer = 0 if worker is None else self._number_consumer(worker)
        names = None if name_of is None else [name_of(place) for place in places]
        made = [attempts[place] for place in places] if attempts else None
        ids = [jobs[place] for place in places]
        self.outbox.add((JOBS, _now(), event.value, domain, queue, ids, made, consumer, names, error), len(ids))

    # Names

    def _meet(self, queue: QueueState) -> _Queue:
        sampling = QueueSampling(self._trace.rate_of(queue.name), lasting=queue.declared.stream is not None)
        traced = self._queues[queue] = _Queue(sampling, self._domain(queue.directory.name), queue.backlog.next_id)
        return traced

    def _domain(self, name: str) -> _Domain:
        found = self._domains.get(name)
        if found is None:
            found = self._domains[name] = _Domain()
        return found

    def _number_queue(self, traced: _Queue, queue: QueueState) -> int:
        """Return the number of a queue that may have none; most callers look at it themselves."""
        if not traced.number:
            traced.number = self._next_number()
            self.outbox.add((QUEUE, traced.number, queue.directory.name, queue.name))
        return traced.number

    def _meet_head(self, domain: _Domain, head: Head) -> _KnownHead:
        traits, protocol = head.traits, domain.protocols.get(head.traits.publisher, "")
        start, stop, number = head.properties_start, head.properties_stop, self._next_number()
        about = head.exchange, head.routing_key, traits.codec, traits.publisher, head.overhead, protocol
        self.outbox.add((HEAD, number, *about))
        known = (number, start, stop) if may_have_ids(traits.codec, head.flags, stop - start) else (number, 0, 0)
        domain.heads[head] = known
        return known

    def _number_consumer(self, consumer: Ref) -> int:
        number = self._consumers.get(consumer)
        if number is None:
            number = self._consumers[consumer] = self._next_number()
            self.outbox.add((CONSUMER, number, consumer.path, self._clients.get(consumer, "local")))
        return number

    def _next_number(self) -> int:
        self._numbers += 1
        self._names += 1
        return self._numbers

    def _forget_all(self) -> None:
        """Let all numbers begin anew, since there are very many; before a record is made, which may have several."""
        self._forget_names()
        self.outbox.add((FORGET,))

    def _forget_names(self) -> None:
        """Name everything again from now on."""
        self._names = 0
        for domain in self._domains.values():
            domain.heads.clear()
        self._consumers.clear()
        for traced in self._queues.values():
            traced.number = 0


def _some(messages: Stretch, places: Sequence[int]) -> Stretch:
    """Return the messages at some places of a run."""
    contents = [messages.contents[place] for place in places]
    if messages.heads is None:
        return Stretch(messages.head, contents)
    heads = [messages.heads[place] for place in places]
    return Stretch(heads[0], contents, heads)


def _parts(messages: Stretch, ids: Sequence[int]) -> Iterator[tuple[range, Stretch]]:
    """Cut a run where ids leave equal distances."""
    start = 0
    for place, number in enumerate(ids, 1):
        if place == len(ids) or ids[place] != number + 1:
            yield range(ids[start], number + 1), _some(messages, range(start, place))
            start = place


def _kind(first: int, ids: range, moved_from: MovedFrom | None) -> tuple[object, ...]:
    """Return how the record of messages begins whose run has come from somewhere, or from nowhere."""
    if moved_from is None:
        return (QUEUED,)
    before = [moved_from.ids[number - first] for number in ids] if moved_from.ids else []
    return MOVED, moved_from.queue, pack_ids(before) if before else None, moved_from.reason
