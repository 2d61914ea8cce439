"""REQUESTs of peers with our extensions, before they are published: the book says which of them are new.

REQUESTs ──> accept ─┬─ new: entered, and published in this turn
                     ├─ known, or sent again: ACK once what is there is safe
                     ├─ the unique key is held: ACK that names the job that holds it
                     └─ ended already: ACK, and an answer that says how
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from triomq.endpoints.emqp.jobs.book import broker_answer
from triomq.endpoints.emqp.jobs.content import JobProperties, terms_of
from triomq.endpoints.emqp.jobs.traced import trace_submitted, trace_withdrawn
from triomq.endpoints.jobs import BookedJob, JobSender, Standing, Terms
from triomq.protocols.emqp import NO_EXTENSION, RequestRun, encode_extension

if TYPE_CHECKING:
    from triomq.endpoints.emqp.peer import EMQPPeer


class AcceptedJobs(msgspec.Struct):
    """Jobs that were accepted and have all terms in common."""

    terms: Terms
    ids: list[bytes] = []
    messages: list[bytes] = []

    @property
    def deadline(self) -> float:
        """Unix time after which they are not begun any more; 0 is never."""
        return self.terms.deadline


class Acceptance:
    """How a peer's jobs come into the book; made with its intake.

    Args:
        peer: The peer.
    """

    __slots__ = ("_book", "_no_requester", "_peer", "_sender", "_terms")

    def __init__(self, peer: "EMQPPeer") -> None:
        self._peer = peer
        self._book = peer.hub.jobs
        self._sender = JobSender(peer.user, peer.known_as)
        self._no_requester = JobSender(peer.user)
        self._terms: tuple[object, object, Terms] | None = None  # those of the last run, and of what they were made

    def accept(self, run: RequestRun, alike: RequestRun, queue: str) -> list[AcceptedJobs]:
        """Enter jobs, all that are new or, if it raises, none; answer the others.

        Args:
            run: The jobs.
            alike: The same ``without_deadline``.
            queue: Where they go.

        Returns:
            Those that are to be published; if that fails, ``withdraw`` them.

        Raises:
            Refused: What is asked for them makes no sense, or one has the id of another user's job.
        """
        book, extension = self._book, run.extension
        now = book.register.tick()
        due = now + extension.delay / 1000 if extension.delay else 0.0
        terms = self._terms_of(alike)
        if extension.deadline is not None:
            terms = msgspec.structs.replace(terms, deadline=book.register.now() + extension.deadline / 1000)
        sender = self._sender if self._requester(run) else self._no_requester
        accepted: list[AcceptedJobs] = []
        jobs = AcceptedJobs(terms)
        try:
            for name, message in zip(run.msgids, run.messages, strict=True):
                job = BookedJob(name, queue, sender, terms, run.headers.guarantee, due, now)
                standing = book.accept(job)
                if standing is not None:
                    self._answer(name, standing)
                    continue
                if not accepted or jobs.terms is not job.terms:
                    jobs = AcceptedJobs(job.terms)
                    accepted.append(jobs)
                jobs.ids.append(name)
                jobs.messages.append(message)
        except BaseException:
            self._forget([job for jobs in accepted for job in jobs.ids])
            raise
        for found in accepted:
            trace_submitted(self._peer.directory, queue, found.ids, found.messages)
        return accepted

    def withdraw(self, jobs: Sequence[bytes]) -> None:
        """Forget jobs that could not be published."""
        if jobs and (found := self._book.jobs.get(jobs[0])) is not None:
            trace_withdrawn(self._peer.directory, found.queue, jobs)
        self._forget(jobs)

    def _forget(self, jobs: Sequence[bytes]) -> None:
        for job in jobs:
            self._book.withdraw(job)

    def properties(self, run: RequestRun) -> JobProperties:
        """Return what stands before the payload of jobs, without their ids and their deadlines."""
        extension = run.extension
        return JobProperties(
            b"",
            run.headers.frame,
            self._requester(run),
            self._peer.user,
            b"" if extension is NO_EXTENSION else encode_extension(extension),
            priority=extension.priority or 0,
        )

    def _requester(self, run: RequestRun) -> bytes:
        """Return whom to answer, or whose leaving ends the jobs."""
        return self._peer.known_as if run.headers.reply_requested or run.extension.tie else b""

    def _terms_of(self, run: RequestRun) -> Terms:
        """Return what is asked for jobs without deadlines: the same object as long as it is the same."""
        headers, extension = run.headers, run.extension
        if self._terms is None or self._terms[0] is not headers or self._terms[1] != extension:
            self._terms = (headers, extension, terms_of(extension, headers, 0.0))
        return self._terms[2]

    def _answer(self, name: bytes, standing: Standing) -> None:
        """Answer a job in whose place there is another one, or itself."""
        duplicate_of = standing.job if standing.job != name else b""
        self._peer.acknowledge_when_safe(name, duplicate_of=duplicate_of)
        if standing.end is not None:
            text = f"the job had ended before it was sent again ({standing.end}), and its answer is forgotten"
            found = broker_answer(standing.end, "" if standing.end == "cancelled" else text)
            self._peer.reply_all([(name, *found)])


def without_deadline(run: RequestRun) -> RequestRun:
    """Return jobs without what each may have another one of."""
    if run.extension.deadline is None:
        return run
    return msgspec.structs.replace(run, extension=msgspec.structs.replace(run.extension, deadline=None))
