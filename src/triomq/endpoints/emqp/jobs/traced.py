"""Jobs, told to the tracer of their domain: what the book says of them, and what it does not know.

    Acceptance, schedules, requeued ones ─▶ submitted       by run
    WorkerSide.give ──────────────────────▶ started         by batch
    PROGRESS ─────────────────────────────▶ progressed
    the book ─▶ TracedFollowers ──────────▶ how attempts and jobs end

A book without a tracer has plain followers, and asks whether anybody follows any job before it tells of one: so it
costs nothing but a test for each run of jobs that come, and for each batch that goes.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from triomq.actors import Ref
from triomq.core import Directory, JobEvent, Tracer
from triomq.endpoints.emqp.dispatched import DispatchedJob
from triomq.endpoints.jobs import BookedJob, End, Follower, Followers
from triomq.protocols.emqp import Extension, call_name

_LONGEST: Final = 200
"""Characters of a job's name, of an error's type and of its text: what tells them apart. Peers may send any number; the
whole is in the answer, and with dead jobs."""

_ARGUMENTS: Final = b'"args"'

_FAR: Final = 1_000
"""Bytes of a payload in which its name is looked for."""

_EVENTS: Final[Mapping[End, JobEvent]] = {
    "ok": JobEvent.FINISHED,
    "failed": JobEvent.FAILED,
    "lost": JobEvent.FAILED,
    "timed-out": JobEvent.TIMED_OUT,
    "cancelled": JobEvent.CANCELLED,
    "expired": JobEvent.CANCELLED,
}

_ABOUT: Final[Mapping[End, str]] = {
    "cancelled": "JobCancelled",
    "expired": "JobExpired: its deadline came before a worker had room for it",
    "lost": "WorkerLost: its worker was lost",
    "timed-out": "TimeoutError: the job has run for too long",
}


class _Watched(dict[bytes, dict[Follower, None]]):
    """Followers by the id of a job, where every job is followed."""

    def __bool__(self) -> bool:
        """Return that there is somebody to tell."""
        return True


class TracedFollowers(Followers):
    """The followers of a book's jobs in a domain that is traced.

    Args:
        domain: The domain's name.
        tracer: Its tracer.
    """

    __slots__ = ("_domain", "_tracer")

    def __init__(self, domain: str, tracer: Tracer) -> None:
        super().__init__()
        self.by_job = _Watched()
        self._domain = domain
        self._tracer = tracer

    def tell(self, job: BookedJob, end: End | None = None, answer: object = None, *, failed: End | None = None) -> None:
        if (over := end or failed) is not None:
            event = _EVENTS[over] if end is not None else JobEvent.RETRIED
            error = "" if over == "ok" else _error(over, answer)
            self._tracer.jobs(self._domain, job.queue, event, (job.id,), attempts=(job.attempt,), error=error)
        super().tell(job, end, answer, failed=failed)


def followers_of(directory: Directory) -> Followers:
    """Return followers for the book of a domain."""
    tracer = directory.tracer
    return Followers() if tracer is None else TracedFollowers(directory.name, tracer)


def _error(end: End, answer: object) -> str:
    about = answer[1] if isinstance(answer, tuple) else None
    if not isinstance(about, Extension) or not (about.type or about.message):
        return _ABOUT.get(end, "")
    return f"{(about.type or end)[:_LONGEST]}: {about.message[:_LONGEST]}"


def trace_submitted(directory: Directory, queue: str, jobs: Sequence[bytes], payloads: Sequence[bytes]) -> None:
    """Tell of jobs that have come into the book."""
    if (tracer := directory.tracer) is not None:

        def name_of(place: int) -> str:
            return _name_in(payloads[place])

        tracer.jobs(directory.name, queue, JobEvent.SUBMITTED, jobs, name_of=name_of)


def trace_withdrawn(directory: Directory, queue: str, jobs: Sequence[bytes]) -> None:
    """Tell of jobs that have come into the book, and then found no room in their queue."""
    if (tracer := directory.tracer) is not None and jobs:
        tracer.jobs(directory.name, queue, JobEvent.CANCELLED, jobs, error="QueueFull: it could not be published")


def trace_started(directory: Directory, worker: Ref, jobs: Sequence[DispatchedJob]) -> None:
    """Tell of jobs of one batch that go to a worker."""
    tracer, booked = directory.tracer, [(job, job.entry) for job in jobs if job.entry is not None]
    if tracer is None or not booked:
        return

    def name_of(place: int) -> str:
        job, _ = booked[place]
        return _name_in(job.batch.message(job.position).body)

    tracer.jobs(
        directory.name,
        booked[0][1].queue,
        JobEvent.STARTED,
        [entry.id for _, entry in booked],
        attempts=[job.attempt for job, _ in booked],
        worker=worker,
        name_of=name_of,
    )


def trace_progressed(directory: Directory, job: BookedJob, worker: Ref) -> None:
    """Tell of a job whose worker has said something of it."""
    if (tracer := directory.tracer) is not None:
        attempts = (job.attempt,)
        tracer.jobs(directory.name, job.queue, JobEvent.PROGRESSED, (job.id,), attempts=attempts, worker=worker)


def _name_in(payload: bytes) -> str:
    """Return the beginning of what a payload calls; its arguments, which mostly come last, are not looked at."""
    stop = payload.find(_ARGUMENTS, 0, _FAR)
    return (_name_before(payload[:stop]) if stop > 0 else call_name(payload[:_FAR]))[:_LONGEST]


@lru_cache(maxsize=1024)
def _name_before(start: bytes) -> str:
    """Return the same for what stands before the arguments, which is alike in all that call the same."""
    return call_name(start + b'"args":[]}]')
