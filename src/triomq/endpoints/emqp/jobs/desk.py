"""The jobs of a domain, as one who looks into the broker finds them: with workers, parked, in their queues, delayed.

The book does not know all of them: not those of released clients, and after a restart none that has not come out of
its queue. So jobs are looked for where their messages are, and the book is asked what has become of each.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec

from triomq.core import (
    Browse,
    CachedRoute,
    Directory,
    Entry,
    Head,
    NotResident,
    Publisher,
    PublishingPaused,
    QueueMessage,
    QueueState,
    body_of,
    traits_of,
)
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.job_desk import Browser, DeadJob, FoundJob, JobCounts
from triomq.endpoints.emqp.content import EMQP_CODEC, RequestProperties, decode_request, unpack_added
from triomq.endpoints.emqp.dispatched import DispatchedJob
from triomq.endpoints.emqp.jobs.content import (
    JOB_CODEC,
    JobOrigin,
    JobProperties,
    decode_job,
    encode_job,
)
from triomq.endpoints.emqp.jobs.dead_letters import DEAD_JOBS
from triomq.endpoints.emqp.jobs.traced import trace_submitted
from triomq.endpoints.emqp.queues import DEFAULT_QUEUE, JOB_PRIORITIES
from triomq.endpoints.emqp.shared import SharedPeers, shared_peers
from triomq.endpoints.jobs import BookedJob, JobBook
from triomq.errors import LimitExceeded, NotFound, Refused
from triomq.protocols.emqp import call_arguments, call_name, decode_extension, encode_extension, parse_headers

_PAGE: Final = 200
"""Messages that are asked of a queue at a time."""

_PEEKED: Final = 10_000
"""Jobs of the book whose queues are looked into, beside those of workers: a millisecond of work."""

_LOOKED_AT: Final = 20_000
"""Jobs that are looked at to find one: some 50 ms of work."""


class EMQPJobDesk:
    """The jobs of one domain; made by its endpoints, each in place of the one before.

    Args:
        context: What the broker lends.
        directory: The domain's.
        book: The jobs of peers with our extensions.
        new_id: Gives an id that no other job has.
    """

    dead_letters = DEAD_JOBS

    def __init__(
        self, context: BrokerContext, directory: Directory, book: JobBook, new_id: Callable[[], bytes]
    ) -> None:
        self._context = context
        self._directory = directory
        self._book = book
        self._new_id = new_id
        self._shared: SharedPeers = shared_peers(context, directory.name)

    def name_of(self, payload: bytes) -> str:
        """Return what a payload calls."""
        return call_name(payload)

    def arguments_of(self, payload: bytes) -> dict[str, object]:
        """Return the arguments in a payload."""
        return call_arguments(payload)

    def counts(self) -> JobCounts:
        """Return how the jobs do."""
        workers = [peer.worker for peer in self._shared.peers.values() if peer.worker is not None]
        dead = self._directory.queues.get(DEAD_JOBS)
        return JobCounts(
            running=sum(len(worker.out) for worker in workers),
            parked=len(self._book.parking),
            dead=0 if dead is None else dead.statistics().ready,
            happened=dict(self._book.register.counts),
        )

    # Those that have not ended

    def unended(self, browse: Browser, after: str = "", queue: str = "") -> Iterator[FoundJob]:
        """Yield the jobs behind a cursor: ``out NUMBER``, ``ready ID QUEUE`` or ``delayed NUMBER QUEUE``."""
        section, number, first = _parse(after)
        if section == "out":
            yield from (job for job in self._out(number) if queue in ("", job.queue))
            section, number, first = "ready", 0, ""
        queues = self._queues(queue)
        if section == "ready":
            yield from self._ready(browse, queues, number, first)
            section, number, first = "delayed", 0, ""
        yield from self._delayed(queues, number, first)

    def _out(self, after: int) -> Iterator[FoundJob]:
        """Yield those with workers, and those that are parked; they are numbered, and may move meanwhile."""
        dispatched = [job for peer in self._shared.peers.values() if peer.worker for job in peer.worker.out.values()]
        for number, job in enumerate(dispatched[after:], after + 1):
            yield self._with_worker(job, f"out {number}")
        passed = max(0, after - len(dispatched))
        first = len(dispatched) + passed + 1
        for number, (entry, payload) in enumerate(islice(self._book.parking.payloads(), passed, None), first):
            cursor = f"out {number}"
            yield FoundJob(cursor, _text(entry.id), entry.queue, "parked", entry.attempt, entry.user, payload)

    def _with_worker(self, job: DispatchedJob, cursor: str) -> FoundJob:
        content = job.batch.contents[job.position]
        payload = b"" if content is None else body_of(job.batch.head_at(job.position), content)
        queue = "" if job.batch.queue is None else Directory.name_of(job.batch.queue)
        state = "running" if job.entry is None else job.entry.stage
        user = "" if job.origin is None else job.origin.user
        return FoundJob(cursor, _text(job.request), queue, state, job.attempt or job.batch.attempts + 1, user, payload)

    def _ready(self, browse: Browser, queues: Sequence[str], after: int, first: str) -> Iterator[FoundJob]:
        """Yield those in their queues, of which those with anything but jobs at their heads are passed over."""
        for name in queues:
            if name < first:
                continue
            place = after if name == first else 0
            while entries := browse(self._directory.queues[name].ref, Browse(place, _PAGE)):
                if entries[0].message.head.traits.codec not in _CODECS:
                    break
                place = entries[-1].id
                yield from (job for entry in entries if (job := self._waiting(entry, name)) is not None)

    def _queues(self, only: str = "") -> list[str]:
        """List queues that have jobs, by name; other protocols may have very many, and long ones."""
        queues = self._directory.queues
        names = {only} if only else {name for name, state in queues.items() if _is_for_jobs(state)}
        if not only:
            workers = (peer.worker for peer in self._shared.peers.values())
            names |= {queue.name for worker in workers if worker is not None for queue in worker.queues}
            names |= {job.queue for job in islice(self._book.jobs.values(), _PEEKED)}
        return sorted(name for name in names if name in queues and name != DEAD_JOBS and _may_be_asked(queues[name]))

    def _waiting(self, entry: Entry, queue: str) -> FoundJob | None:
        found = self._of_message(entry.message, f"ready {entry.id} {queue}", queue, "waiting", entry.attempts)
        known = None if found is None else self._book.register.state_of(found.id.encode("latin-1", "replace"))
        return None if known is not None and known.has_ended else found

    def _of_message(
        self, message: QueueMessage, cursor: str, queue: str, state: str, attempts: int, due: float = 0.0
    ) -> FoundJob | None:
        """Return the job in a message; None if it has come over another wire."""
        codec = message.head.traits.codec
        if codec not in _CODECS:
            return None
        found: RequestProperties | JobProperties
        found = decode_job(message.properties) if codec == JOB_CODEC else decode_request(message.properties)
        begun = found.begun if isinstance(found, JobProperties) else 0
        return FoundJob(cursor, _text(found.msgid), queue, state, begun + attempts, found.user, message.body, due)

    def _delayed(self, queues: Sequence[str], after: int, first: str) -> Iterator[FoundJob]:
        """Yield those whose time has not come, by queue; they are numbered, and may move meanwhile."""
        now = self._directory.clock.now()
        for name in queues:
            if name < first:
                continue
            delayed = self._directory.queues[name].delayed
            messages = () if delayed is None else delayed.messages()
            for number, (due, message) in enumerate(messages, 1):
                if name == first and number <= after:
                    continue
                left = max(0.001, due - now)
                job = self._of_message(message, f"delayed {number} {name}", name, "delayed", 0, left)
                if job is None:
                    break
                yield job

    def summary(self, job: str) -> FoundJob | None:
        """Return what the book knows of a job."""
        found = self._book.register.state_of(job.encode("latin-1", "replace"))
        if found is None:
            return None
        state = "waiting" if found.state == "queued" else found.state
        due = max(0.0, found.due - self._context.unix_time())
        return FoundJob("", job, found.queue, state, found.attempt, found.user, b"", due)

    # Those that have failed for good

    def dead(self, browse: Browser, after: int = 0) -> Iterator[DeadJob]:
        """Yield the dead letters of jobs."""
        state = self._directory.queues.get(DEAD_JOBS)
        if state is None or not _may_be_asked(state):
            return
        while entries := browse(state.ref, Browse(after, _PAGE)):
            for entry in entries:
                if entry.message.head.traits.codec == EMQP_CODEC:
                    yield _dead(entry)
            after = entries[-1].id

    # What is done to one

    def cancel(self, browse: Browser, job: str, may: Callable[[str], None], *, tree: bool) -> bool:
        """Cancel a job; one that the book does not know yet is looked for in the queues."""
        entry = self._book.jobs.get(job.encode("latin-1", "replace")) or self._recalled(browse, job)
        if entry is None:
            raise NotFound(f"there is no job '{job}' that could be cancelled: it has ended, or is a released client's")
        may(entry.user)
        return self._book.endings.cancel(entry, tree=tree)

    def _recalled(self, browse: Browser, job: str) -> BookedJob | None:
        """Return a job of an earlier life of the broker, which is in the book from now on."""
        for name in self._queues():
            place = looked_at = 0
            ref = self._directory.queues[name].ref
            try:
                while looked_at < _LOOKED_AT and (entries := browse(ref, Browse(place, _PAGE))):
                    for entry in entries:
                        if entry.message.head.traits.codec == JOB_CODEC:
                            found = decode_job(entry.message.properties)
                            if _text(found.msgid) == job:
                                durable = entry.message.head.traits.persistent
                                return self._book.register.recall(
                                    JobOrigin(found).entry(found.msgid, name, found.deadline, durable=durable)
                                )
                    place, looked_at = entries[-1].id, looked_at + len(entries)
            except NotResident:
                if not place:
                    raise  # its first messages are being read
        return None

    def send_again(self, dead: DeadJob, publisher: Publisher) -> str:
        """Publish a dead job anew: without its requester, its deadline and its parent, which are gone."""
        found = decode_request(dead.properties)
        headers = parse_headers(found.headers)
        extension = b""
        if found.extension:
            told = decode_extension(found.extension)
            told = msgspec.structs.replace(told, deadline=None, parent=None, tie=False, attempt=0, delay=0)
            extension = encode_extension(told)
        msgid = self._new_id()
        properties = JobProperties(msgid, headers.frame, user=found.user, extension=extension)
        name = dead.queue
        if name not in self._directory.queues:
            raise NotFound(f"the job's queue '{name}' is not there any more; it comes back with a worker for it")
        entry = JobOrigin(properties).entry(msgid, name, 0.0, durable=headers.guarantee)
        entry.since = self._book.register.tick()
        standing = self._book.accept(entry)
        if standing is not None:
            raise Refused(f"the job {_text(standing.job)} has the same unique key, and has not ended")
        encoded = encode_job(properties)
        traits = traits_of(codec=JOB_CODEC, persistent=headers.guarantee)
        head = Head("", name, 0, len(encoded), len(encoded), traits=traits)
        content = encoded + dead.payload
        try:
            publisher.publish(CachedRoute("", name), head, [content], len(content))
        except Refused:
            self._book.withdraw(msgid)
            raise
        except PublishingPaused:
            self._book.withdraw(msgid)
            raise LimitExceeded("the broker is short of memory or of disk, or the queue is full; try again") from None
        trace_submitted(self._directory, name, (msgid,), (dead.payload,))
        return _text(msgid)


_CODECS: Final = (EMQP_CODEC, JOB_CODEC)


def _parse(cursor: str) -> tuple[str, int, str]:
    """Read a cursor; one that makes no sense is that of the beginning."""
    section, _, rest = cursor.partition(" ")
    number, _, queue = rest.partition(" ")
    if section not in ("out", "ready", "delayed") or not number.isdecimal():
        return "out", 0, ""
    return section, int(number), queue


def _is_for_jobs(state: QueueState) -> bool:
    """Return whether a queue is the default one, or was declared for our own peers."""
    return state.name == DEFAULT_QUEUE or state.declared.max_priority == JOB_PRIORITIES


def _may_be_asked(state: QueueState) -> bool:
    return state.owner is None and state.ref.state == "running"


def _text(job: bytes) -> str:
    """Return an id as it is shown: those of peers that are not ours may have any bytes."""
    return job.decode("latin-1")


def _dead(entry: Entry) -> DeadJob:
    found = decode_request(entry.message.properties)
    headers = unpack_added(found.added)

    def text(name: str) -> str:
        value = headers.get(f"x-job-{name}")
        return value if isinstance(value, str) else ""

    attempts, time = headers.get("x-job-attempts"), headers.get("x-job-time")
    return DeadJob(
        place=entry.id,
        id=_text(found.msgid),
        queue=text("queue"),
        state=text("state"),
        attempts=attempts if isinstance(attempts, int) else 0,
        user=found.user,
        payload=entry.message.body,
        type=text("type"),
        message=text("message"),
        traceback=text("traceback"),
        time=time if isinstance(time, float) else 0.0,
        properties=entry.message.properties,
    )
