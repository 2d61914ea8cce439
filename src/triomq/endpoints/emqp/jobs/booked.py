"""What a worker's side does with jobs of the book: it asks what becomes of each, and does that.

    delivery ──> admit ── the book admits it ──> out, with its attempt
    REPLY ─────> replied ─┬─ tried again: published with a pause and settled, in one turn
                          └─ ended: settled, a dead letter where it failed; the requester gets the answer
    time ──────> timed_out       death ──> lost       RETURN ──> returned       CANCEL ──> cancel

``triomq.endpoints.jobs`` has the rules.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

import msgspec
import trio

from triomq.core import Batch, Directory, Head, Outcome, Publish, settle
from triomq.endpoints.emqp.answers import answer
from triomq.endpoints.emqp.dispatched import DispatchedJob
from triomq.endpoints.emqp.jobs.book import broker_answer
from triomq.endpoints.emqp.jobs.content import JobOrigin, encode_job, job_properties, split_job
from triomq.endpoints.emqp.jobs.dead_letters import publish_dead_letter
from triomq.endpoints.jobs import REQUEUED, BookedJob, End, Fate, Held, Result
from triomq.protocols.emqp import NO_EXTENSION, Extension, encode_extension

if TYPE_CHECKING:
    from triomq.endpoints.emqp.peer import EMQPPeer
    from triomq.endpoints.emqp.worker import WorkerSide

_ENDS: Final[Mapping[str, End]] = {
    "": "ok",
    "ok": "ok",
    "failed": "failed",
    "cancelled": "cancelled",
    "timed-out": "timed-out",
    "expired": "expired",
    "lost": "lost",
}
"""What a worker's word for a state means; any other one is a failure."""

_GRACE: Final = 5.0
"""Seconds that a worker has to end a job that is cancelled, if its requester does not say; it may take as long again to
say so."""


class BookedSide:
    """The part of a worker's side that the book knows as a runner; made with that.

    Args:
        peer: The peer.
        worker: Its worker's side.
    """

    __slots__ = ("_attempts", "_book", "_origins", "_worker", "peer", "register", "spare")

    def __init__(self, peer: "EMQPPeer", worker: "WorkerSide") -> None:
        self.peer = peer
        self._worker = worker
        self._book = peer.hub.jobs
        self._attempts = self._book.attempts
        self.register = self._book.register
        self._origins = peer.hub.job_origins
        self.spare = 0
        """Jobs that were not admitted: so many slots are free again."""

    # Out

    def admit(self, batch: Batch, position: int, content: bytes, head: Head, now: float) -> DispatchedJob | None:
        """Return the job of a message, if the book admits it."""
        name, alike, deadline = split_job(content[head.properties_start : head.properties_stop])
        origin, book = self._origins.find(alike), self._book
        entry = self.register.knows(name)
        if entry is None:
            assert batch.queue is not None
            durable = head.traits.persistent
            entry = self.register.recall(origin.entry(name, Directory.name_of(batch.queue), deadline, durable=durable))
        if entry is None:
            settle(batch, Outcome.ACCEPT, (position,))
        elif book.hold and (held := book.hold.arrive(entry, batch, position, origin.begun)) is not None:
            self._arrived(held)
        else:
            attempt = origin.begun + batch.attempts + 1
            if book.admit(entry, attempt, self, batch, position):
                return DispatchedJob(
                    batch, position, name, origin.headers, origin.replying, now, origin, origin.timeout,
                    entry=entry, attempt=attempt, deadline=deadline,
                )  # fmt: skip
        self.spare += 1
        return None

    def _arrived(self, held: Held) -> None:
        """Hand the message of a job that is held to the worker that has claimed it, if one has."""
        if held.answer is not None:  # that one may have gone meanwhile
            held.runner = held.job.runner = self
        if isinstance(held.runner, BookedSide):
            held.runner.adopt(held)

    def adopt(self, held: Held) -> None:
        """Go on with a job that the worker had before its message came here."""
        batch, position, worker = held.batch, held.position, self._worker
        assert batch is not None
        head, content = batch.head_at(position), batch.contents[position]
        if content is None:  # its queue has taken it back
            return
        name, alike, deadline = split_job(content[head.properties_start : head.properties_stop])
        origin = self._origins.find(alike)
        worker.take_over(
            name,
            DispatchedJob(
                batch, position, name, origin.headers, origin.replying, trio.current_time(), origin,
                origin.timeout, entry=held.job, attempt=held.attempt, deadline=deadline,
            ),
        )  # fmt: skip
        if held.answer is not None:
            message, about = cast("tuple[bytes, Extension]", held.answer)
            worker.replied([(name, message, about)])
            worker.settle()

    def answered_early(self, name: bytes, message: bytes, about: Extension) -> bool:
        """Return whether an answer is to a job that the worker has claimed, and whose message has not come out."""
        hold = self._book.hold
        return bool(hold) and hold.answered(name, about.attempt, self, (message, about))

    def turn_away(self, batch: Batch, position: int, problem: str) -> None:
        """End a job that its worker cannot run, as one that has failed and would again."""
        content, head = batch.contents[position], batch.head_at(position)
        assert content is not None, "it is settled"
        job = self.admit(batch, position, content, head, trio.current_time())
        if job is None:
            return
        assert job.entry is not None
        about = Extension(state="failed", type="UnfitJob", message=problem, retry=False)
        message = b'{"value": "UnfitJob"}'
        answered = message, about
        fate = self._attempts.finish(job.entry, job.attempt, self, "failed", retry=False, answer=answered)
        answer(self.peer, job, message, about)
        self._note_end(job, fate, message, about)
        settle(batch, Outcome.ACCEPT, (position,))
        self.spare += 1

    def take_spare(self) -> int:
        """Return how many slots are free again, once."""
        spare, self.spare = self.spare, 0
        return spare

    def frame(self, job: DispatchedJob) -> bytes:
        """Return the extension frame of a job for its worker."""
        assert isinstance(job.origin, JobOrigin)
        return job.origin.frame(job.attempt, job.deadline, self.peer.context.unix_time() if job.deadline else 0.0)

    # What the book asks

    def holds(self, job: BookedJob) -> bool:
        """Return whether a job is out with the worker, and its queue has not taken it back."""
        found = self.find(job)
        return found is not None and found[1].batch.left > 0

    def find(self, job: BookedJob) -> tuple[bytes, DispatchedJob] | None:
        """Return a job that the worker has, and what it calls it."""
        out = self._worker.out
        found = out.get(job.id)
        if found is not None and found.entry is job:
            return job.id, found
        return next(((name, other) for name, other in out.items() if other.entry is job), None)

    def cancel(self, job: BookedJob, grace: float | None) -> bool:
        """Have the worker end a job; return whether it knows how."""
        found = self.find(job)
        if found is None:
            if not (self._book.hold.has(job.id, self) and self.peer.engine.cancel(job.id)):
                return False
            self.peer.ref.touch()
            return True
        name, dispatched = found
        about = NO_EXTENSION if grace is None else Extension(grace=round(grace * 1000))
        if not self.peer.engine.cancel(name, about):
            return False
        patience = (_GRACE if grace is None else grace) + _GRACE
        self._worker.give_up_at(trio.current_time() + patience, name, dispatched)
        self.peer.ref.touch()
        return True

    # Back

    def replied(self, name: bytes, job: DispatchedJob, message: bytes, about: Extension) -> Extension | None:
        """Note what the worker says of a job, which is not out any more.

        Returns:
            What its requester is told; None if nobody is told anything now, and its message is settled.
        """
        assert job.entry is not None
        if about.attempt and about.attempt != job.attempt:
            self._worker.out[name] = job  # it goes on
            self.peer.count("late", "REPLY of an attempt that is not the present one")
            return None
        end = _ENDS.get(about.state, "failed")
        answered = message, about
        if end == "lost":
            fate = self._attempts.crashed(job.entry, job.attempt, self)
        else:
            fate = self._attempts.finish(
                job.entry, job.attempt, self, end, retry=about.retry is not False, answer=answered
            )
        if fate is REQUEUED:
            settle(job.batch, Outcome.REQUEUE, (job.position,))
            return None
        if fate.end is None:
            self._put_aside(job, fate)
            return None
        if fate.end != end:
            about = msgspec.structs.replace(about, state=fate.end, retry=False)
        self._note_end(job, fate, message, about)
        return about

    def timed_out(self, name: bytes, job: DispatchedJob) -> None:
        """Give up a job that has run for too long, and is not out any more; its worker is to end it."""
        assert job.entry is not None
        is_cancelled = job.entry.stage == "cancelling"
        shown = name[:40].decode("utf-8", "replace")
        self.peer.count("late", "a job has run for longer than its timeout", request=shown)
        fate = self._attempts.finish(job.entry, job.attempt, self, "timed-out")
        if not is_cancelled:
            self.peer.engine.cancel(name)
            self.peer.ref.touch()
        self._end(job, fate)

    def lost(self, job: DispatchedJob) -> None:
        """Put back a job whose worker is lost, or give it up."""
        assert job.entry is not None
        deaths, goes_on = job.batch.attempts + 1, self.peer.hub.is_stopping
        fate = self._attempts.gone(job.entry, job.attempt, self, deaths, goes_on=goes_on)
        if fate.again_after is not None:
            settle(job.batch, Outcome.REQUEUE, (job.position,))
        else:
            self._end(job, fate)

    def returned(self, job: DispatchedJob) -> None:
        """Put back a job that the worker has not begun."""
        assert job.entry is not None
        fate = self._attempts.returned(job.entry, job.attempt, self)
        if fate.again_after is not None:
            settle(job.batch, Outcome.RETURN, (job.position,))
        else:
            self._end(job, fate)

    def _end(self, job: DispatchedJob, fate: Fate) -> None:
        """Do what follows from the end of an attempt of which no worker has said anything."""
        if fate.end is None:
            self._put_aside(job, fate)
            return
        message, about = broker_answer(fate.end)
        answer(self.peer, job, message, about)
        self._note_end(job, fate, message, about)
        settle(job.batch, Outcome.ACCEPT, (job.position,), in_exchange=True)

    def _note_end(self, job: DispatchedJob, fate: Fate, message: bytes, about: Extension) -> None:
        """Keep the answer to a job if that is wanted, and the job itself if somebody may want to look at it."""
        assert fate.end is not None
        assert isinstance(job.origin, JobOrigin)
        if job.origin.extension.keep:
            extension = b"" if about is NO_EXTENSION else encode_extension(about)
            result = Result(fate.end, message, extension, self.register.moment)
            self.peer.hub.results.keep(job.request, job.origin.user, job.origin.extension.keep / 1000, result)
        if fate.is_dead:
            publish_dead_letter(self.peer, job, fate.end, about)
        if fate.is_dead or job.origin.extension.keep:
            # Not with the others at the end of the turn: whoever has sent it is to know it safe when its end is.
            settle(job.batch, Outcome.ACCEPT, (job.position,), in_exchange=True)

    def _put_aside(self, job: DispatchedJob, fate: Fate) -> None:
        """Have a job tried again after a pause, or drop what is late."""
        batch, position = job.batch, job.position
        if fate.again_after is not None and batch.left and batch.contents[position] is not None:
            self._publish_again(job, fate.again_after)
        settle(batch, Outcome.ACCEPT, (position,), in_exchange=True)

    def _publish_again(self, job: DispatchedJob, pause: float) -> None:
        """Publish a job anew, as what was taken before: no guard may refuse it."""
        batch, head = job.batch, job.batch.head_at(job.position)
        properties, payload = job_properties(batch, job.position)
        encoded = encode_job(msgspec.structs.replace(properties, begun=job.attempt))
        size = len(encoded)
        again = Head(head.exchange, head.routing_key, 0, size, size, traits=head.traits)
        content = encoded + payload
        assert batch.queue is not None
        batch.queue.tell_nowait(Publish(again, [content], len(content), None, None, pause))
