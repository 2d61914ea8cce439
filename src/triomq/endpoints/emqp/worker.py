"""The worker's side of a peer: what it has asked for, what is out with it, and what becomes of that.

    READY ──> slots ──> queues deliver ──> give: REQUEST, with an id that is unique here ──> out
    REPLY ──> out.pop ─┬─ failed, and its retry-count allows it: requeued, marked
                       └─ settled; the requester gets the answer, if it wanted one
    death ──> lost: each job that is out is requeued, marked, or given up

Rules:

- A released worker gives one sign that it is done with a job: REPLY, and that only if the job wants one. So every job
  goes to a worker with ``reply-requested``, and answers that nobody asked for end here.
- Ids come from requesters, of which two may choose the same. The second one goes out under an id of the broker's own.
- A job with ``guarantee`` goes to another worker when its own is lost, as often as that happens, or until its queue's
  delivery limit. One without was perhaps done already, and nobody said that it may be done twice: it goes to another
  one as often as ``retry-count`` allows, and then is given up (a dead letter, where its queue has a sink for these).
  What came over another wire goes back, as it would from a consumer there.
- A job that has a timeout, and is not answered some seconds after it, counts as failed: its worker does not end it.
  What the worker says of it later is dropped.
- Answers still come from a worker that has said goodbye. It is let go when nothing is out with it any more.
"""

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Final, TypeAlias

import trio

from triomq.core import (
    Batch,
    DeclareQueue,
    Directory,
    Head,
    Outcome,
    Slots,
    Subscription,
    body_of,
    settle,
)
from triomq.endpoints.base.statistics import Work
from triomq.endpoints.emqp.answers import answer, answer_all
from triomq.endpoints.emqp.content import EMQP_CODEC, Origin, RequestProperties, as_request, split_request
from triomq.endpoints.emqp.dispatched import DispatchedJob
from triomq.endpoints.emqp.jobs.booked import BookedSide
from triomq.endpoints.emqp.jobs.content import JOB_CODEC
from triomq.endpoints.emqp.jobs.traced import trace_started
from triomq.endpoints.emqp.queues import JOB_PRIORITIES, options_of
from triomq.protocols.emqp import (
    NO_EXTENSION,
    Extension,
    Frames,
    WeightedQueue,
    call_problem,
    encode_extension,
    is_text,
    job_frames,
    name_frame,
)

if TYPE_CHECKING:
    from triomq.core import Domain
    from triomq.endpoints.emqp.peer import EMQPPeer

_TIMES: Final = 100
"""Jobs of each queue whose times are remembered."""

_LOST_AT_ONCE: Final = 100
"""Jobs of a lost worker that are put back in one step."""

_LOST_COST: Final = 3
"""What each of them counts against the turn's budget, in queue pushes."""

_GRACE: Final = 5.0
"""Seconds that a worker has to end a job itself, and to say so."""

TIMED_OUT: Final = Extension(state="timed-out", type="TimeoutError", message="the job has run for too long")

LOST: Final = Extension(state="lost", type="WorkerLost", message="the worker was lost", retry=False)


_NO_ORIGIN: Final = Origin(RequestProperties(b""))
"""Of jobs that came over another wire."""

_BY_PRIORITY: Final = [
    Origin(RequestProperties(b"", extension=encode_extension(Extension(priority=priority))))
    for priority in range(JOB_PRIORITIES + 1)
]
"""The same of those that have a priority."""


class Tally:
    """What workers have done for one queue, for administrators."""

    __slots__ = ("done", "times")

    def __init__(self) -> None:
        self.done = 0
        """Jobs that are answered; those that went back to their queue are not."""
        self.times: deque[float] = deque(maxlen=_TIMES)
        """Milliseconds that the last of them took."""


_Deadline: TypeAlias = tuple[float, int, bytes, DispatchedJob]
"""When a job that is out is to be given up, on Trio's clock; a number; what the worker calls it; the job."""

_SPARE: Final = 64
"""Deadlines of answered jobs that are always tolerated: below it a clean-up costs more than it saves."""

_Maker: TypeAlias = Callable[[Batch, int, bytes, Head, float], DispatchedJob | None]
"""Makes a job of what came at a position of a batch: its bytes, its head, the time; None if it is not to be done."""


class WorkerSide:
    """What a peer is as a worker; made when it says so, and again when it says so again.

    Args:
        peer: The peer.
        queues: From which it takes jobs.
    """

    __slots__ = (
        "_deadlines",
        "_number",
        "_peer",
        "_positions",
        "_settled",
        "_subscriptions",
        "booked",
        "done",
        "out",
        "queues",
        "slots",
    )

    def __init__(self, peer: "EMQPPeer", queues: tuple[WeightedQueue, ...]) -> None:
        self._peer = peer
        self.queues = queues
        self.slots = Slots()
        self.booked = BookedSide(peer, self)
        """What it does with jobs of the book."""
        self.out: dict[bytes, DispatchedJob] = {}
        self.done = 0
        self._subscriptions: list[Subscription] = []
        self._deadlines: list[_Deadline] = []  # a heap
        self._number = 0  # of the last deadline
        self._settled: Batch | None = None  # a batch, and the positions of it that are settled at the end of the turn
        self._positions: list[int]

    def begin(self) -> None:
        """Subscribe to the queues, those that are not there yet are declared; raises as ``Client.ask`` does."""
        for weight, name in self.queues:
            self._require_queue(name)
            gate = self._peer.hub.jobs.parking.gate(name)
            subscription = self._peer.subscribe(name, weight=weight, shared=(self.slots,), gate=gate)
            self._subscriptions.append(subscription)

    def _require_queue(self, name: str) -> None:
        peer = self._peer
        if not peer.directory.has_for(peer.user, name):  # of another user's, the domain refuses that
            peer.ask(peer.domain, DeclareQueue(name, options_of(peer.engine), peer.session))

    def work(self) -> Work:
        """Return what it has asked for and got."""
        return Work(self.queues, self.slots.free, len(self.out), self.done)

    @property
    def is_done(self) -> bool:
        """Whether nothing is out with it, nor claimed."""
        return not self.out and not self._peer.hub.jobs.hold.waits_for(self.booked)

    def stop(self) -> None:
        """Take no more jobs; those that are out stay so."""
        for subscription in self._subscriptions:
            if subscription.open:
                self._peer.unsubscribe(subscription)
        self._subscriptions.clear()

    # Jobs

    def give(self, batch: Batch) -> None:
        """Give the worker the jobs of a batch."""
        make: _Maker = self._foreign_job
        head, queue, now = None, b"", trio.current_time()
        out, engine, fits, unfit = self.out, self._peer.engine, self._fits, []
        messages: list[Frames] = []
        for position, content in enumerate(batch.contents):
            if content is None:
                continue
            if head is not (here := batch.head_at(position)):
                head, queue = here, name_frame(here.routing_key)
                make = self._maker(here.traits.codec)
            body = body_of(here, content)
            if not fits(body):
                unfit.append(position)
                continue
            job = make(batch, position, content, here, now)
            if job is None:
                continue
            msgid = job.request if job.request not in out else self._peer.new_id()
            out[msgid] = job
            if job.timeout or job.deadline:
                self._set_deadline(msgid, job)
            messages.append(job_frames(msgid, queue, job.replying, body, self._extension(job)))
        engine.request_all(messages)
        if self._peer.directory.tracer is not None:
            newest = list(islice(reversed(out.values()), len(messages)))
            trace_started(self._peer.directory, self._peer.ref, newest[::-1])
        if self.booked.spare:
            self.slots.offer(self.booked.take_spare())
        if unfit:
            self._turn_away(batch, unfit)

    def _maker(self, codec: int) -> _Maker:
        if codec == JOB_CODEC:
            self.booked.register.tick()
            return self.booked.admit
        return self._own_job if codec == EMQP_CODEC else self._foreign_job

    def take_over(self, msgid: bytes, job: DispatchedJob) -> None:
        """Have a job out that the worker has already."""
        self.out[msgid] = job
        if job.timeout or job.deadline:
            self._set_deadline(msgid, job)

    def hand_over(self, running: Sequence[tuple[str, int]], successor: "WorkerSide") -> None:
        """Leave to the successor what the worker says that it still has, as it informs again."""
        for text, attempt in running:
            msgid = text.encode("utf-8", "replace")
            job = self.out.get(msgid)
            if job is None or (job.entry is not None and job.attempt != attempt):
                continue
            del self.out[msgid]
            if job.entry is not None:
                job.entry.runner = successor.booked
            successor.take_over(msgid, job)

    def _own_job(self, batch: Batch, position: int, content: bytes, head: Head, now: float) -> DispatchedJob:
        request, suffix = split_request(content[head.properties_start : head.properties_stop])
        origin = self._peer.hub.origins.find(suffix)
        return DispatchedJob(
            batch, position, request, origin.headers, origin.replying, now, origin, origin.headers.timeout
        )

    def _foreign_job(self, batch: Batch, position: int, content: bytes, head: Head, now: float) -> DispatchedJob:
        """Make a job of what came over another wire."""
        properties = self._peer.directory.codecs.decode(batch.message(position))
        request, headers = as_request(properties, self._peer.new_id())
        reply_to, correlation_id = properties.reply_to or "", properties.correlation_id
        replying = headers.replying().frame
        job = DispatchedJob(
            batch, position, request, headers, replying, now, None, headers.timeout, reply_to, correlation_id
        )
        job.priority = properties.priority
        return job

    def _fits(self, body: bytes) -> bool:
        """Return whether the worker can be given a job: what released ones cannot run would end them."""
        engine = self._peer.engine
        return engine.is_extended or (engine.carries(body) and not call_problem(body))

    def _turn_away(self, batch: Batch, positions: list[int]) -> None:
        """Give up jobs that this worker cannot run."""
        rejected: list[int] = []
        for position in positions:
            message, head = batch.message(position), batch.head_at(position)
            problem = call_problem(message.body) if is_text(message.body) else "it is not UTF-8"
            self._peer.count("unfit", f"a job cannot be given to this worker: {problem}", queue=head.routing_key)
            if head.traits.codec == JOB_CODEC:
                self.booked.turn_away(batch, position, problem)
            else:
                rejected.append(position)
        if rejected:
            settle(batch, Outcome.REJECT, rejected)
        self.slots.offer(len(rejected) + self.booked.take_spare())

    def _extension(self, job: DispatchedJob) -> bytes | None:
        if not self._peer.engine.is_extended:
            return None
        if job.entry is not None:
            return self.booked.frame(job)
        origin = job.origin
        if origin is None:
            # As in a queue of such priorities: one that is higher counts as the highest.
            origin = _NO_ORIGIN if job.priority is None else _BY_PRIORITY[min(job.priority, JOB_PRIORITIES)]
        return origin.extension_frame(job.batch.attempts + 1)

    def _set_deadline(self, msgid: bytes, job: DispatchedJob) -> None:
        left = job.timeout or inf
        if job.deadline:
            left = min(left, job.deadline - self._peer.context.unix_time())
        self.give_up_at(job.given + left + _GRACE, msgid, job)

    def give_up_at(self, when: float, msgid: bytes, job: DispatchedJob) -> None:
        """Give up a job at a time, on Trio's clock, if it is not answered by then."""
        self._number += 1
        entry = (when, self._number, msgid, job)
        heappush(self._deadlines, entry)
        if len(self._deadlines) > 2 * len(self.out) + _SPARE:  # most are answered long before
            self._deadlines = [entry for entry in self._deadlines if self._is_out(entry)]
            heapify(self._deadlines)
        if self._deadlines[0] is entry:
            self._peer.reschedule()

    def replied(self, replies: Sequence[tuple[bytes, bytes, Extension]]) -> None:
        """Settle jobs, or put them back for another attempt; answer their requesters.

        Args:
            replies: The request, the message and the extension of each REPLY.
        """
        now, out = trio.current_time(), self.out
        self.booked.register.tick()
        origin: Origin | None = None
        answers: list[tuple[bytes, bytes, Extension]] = []  # to jobs of that origin
        batch: Batch | None = None
        tally = Tally()
        for request, message, extension in replies:
            job = out.pop(request, None)
            if job is None:
                if not self.booked.answered_early(request, message, extension):
                    self._peer.count("late", "REPLY to no job that is out with this worker")
                continue
            if job.entry is not None:
                about = self.booked.replied(request, job, message, extension)
                if about is None:
                    continue
                extension = about  # as its requester is to have it
            elif extension is not NO_EXTENSION and job.may_be_tried_again(extension):
                settle(job.batch, Outcome.REQUEUE, (job.position,))
                continue
            if job.origin is None:
                answer(self._peer, job, message, extension)
            elif job.headers.reply_requested:
                if job.origin is not origin:
                    if origin is not None:
                        answer_all(self._peer, origin, answers)
                    origin, answers = job.origin, []
                answers.append((job.request, message, extension))
            if job.batch is not batch:
                batch = job.batch
                tally = self._tally(batch)
                positions = self._settled_positions(batch)
            positions.append(job.position)
            tally.done += 1
            tally.times.append((now - job.given) * 1000)
            self.done += 1
        if origin is not None:
            answer_all(self._peer, origin, answers)

    def _tally(self, batch: Batch) -> Tally:
        return Tally() if batch.queue is None else self._peer.hub.tallies[Directory.name_of(batch.queue)]

    def _settled_positions(self, batch: Batch) -> list[int]:
        """Return where positions of a batch are gathered that are settled at the end of the turn."""
        if batch is not self._settled:
            self.settle()
            self._settled, self._positions = batch, []
        return self._positions

    @property
    def next_deadline(self) -> float:
        """When the next job is to be given up, on Trio's clock; infinity if none is."""
        heap = self._deadlines
        while heap and not self._is_out(heap[0]):
            heappop(heap)
        return heap[0][0] if heap else inf

    def _is_out(self, deadline: _Deadline) -> bool:
        return self.out.get(deadline[2]) is deadline[3]

    def give_up_late(self, now: float) -> None:
        """Give up jobs that have run for too long."""
        while self._deadlines and self._deadlines[0][0] <= now:
            _, _, msgid, job = heappop(self._deadlines)
            if self.out.get(msgid) is not job:
                continue  # it is answered
            del self.out[msgid]
            if job.entry is not None:
                self.booked.timed_out(msgid, job)
                continue
            self._peer.count("late", "a job has run for longer than its timeout", request=_shown(job.request))
            if not job.has_retries:
                answer(self._peer, job, b'{"value": "TimeoutError"}', TIMED_OUT)
            settle(job.batch, Outcome.REQUEUE if job.has_retries else Outcome.REJECT, (job.position,))

    def settle(self) -> None:
        """Settle what is done, at the end of a turn."""
        if self._settled is not None:
            batch, self._settled = self._settled, None
            settle(batch, Outcome.ACCEPT, self._positions)

    def lost(self) -> None:
        """Put back the jobs that are out with a worker that is lost, or give them up; very many in several turns."""
        self.settle()
        if hold := self._peer.hub.jobs.hold:
            hold.gone(self.booked)
        lost = _LostJobs(self, list(self.out.values()))
        self.out = {}
        if self._peer.hub.is_stopping:
            while lost.go_on():
                pass
        elif lost.go_on():
            self._peer.directory.chores.add(lost)

    def lose(self, job: DispatchedJob) -> None:
        """Put back a job of a worker that is lost, or give it up."""
        if job.entry is not None:
            self.booked.lost(job)
            return
        if not job.may_be_repeated:
            self._peer.count("lost", "a job was lost with its worker", request=_shown(job.request))
            answer(self._peer, job, b'{"value": "WorkerLost"}', LOST)
        settle(job.batch, Outcome.REQUEUE if job.may_be_repeated else Outcome.REJECT, (job.position,))


class _LostJobs:
    """A chore: put back what was out with a worker, which may have had ten thousand slots.

    Args:
        side: The worker's.
        jobs: What was out.
    """

    def __init__(self, side: WorkerSide, jobs: list[DispatchedJob]) -> None:
        self._side = side
        self._jobs = iter(jobs)

    def go_on(self) -> bool:
        """Put back some; return whether there may be more."""
        some = list(islice(self._jobs, _LOST_AT_ONCE))
        for job in some:
            self._side.lose(job)
        return len(some) == _LOST_AT_ONCE

    def step(self, domain: "Domain") -> bool:
        """Put back some, as a chore."""
        domain.system.turn.charge(_LOST_AT_ONCE * _LOST_COST)
        return self.go_on()


def _shown(msgid: bytes) -> str:
    return msgid[:40].decode("utf-8", "replace")
