"""The book of a domain's jobs, put together: its records, its clock, and the way of its answers."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final, TypeAlias

import trio

from triomq.core import Directory, KeyedRecords, QueueState, Reason, RecordKind, Stretch
from triomq.endpoints.base.client import Client
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.emqp.jobs.content import JOB_CODEC, split_job
from triomq.endpoints.emqp.jobs.traced import followers_of
from triomq.endpoints.emqp.shared import SharedPeers, shared_peers
from triomq.endpoints.jobs import BookedJob, End, Endings, JobBook, ResultBook
from triomq.protocols.emqp import Extension

if TYPE_CHECKING:
    from triomq.endpoints.emqp.peer import EMQPPeer

_SWEEP: Final = 60.0
"""Seconds between looks for jobs whose messages have vanished."""

_ABOUT: Final[Mapping[End, tuple[str, str]]] = {
    "cancelled": ("JobCancelled", "the job was cancelled"),
    "expired": ("JobExpired", "its deadline came before a worker had room for it"),
    "lost": ("WorkerLost", "its worker was lost, as those before"),
    "timed-out": ("TimeoutError", "the job has run for too long"),
}

_REMOVED: Final[Mapping[Reason, End]] = {Reason.EXPIRED: "expired", Reason.DELIVERY_LIMIT: "lost"}
"""How jobs end whose messages a queue gives up; what it had to throw out, or a consumer did, is cancelled."""

Answer: TypeAlias = tuple[bytes, Extension]
"""A message, and what else is said of it."""


def broker_answer(end: End, text: str = "") -> Answer:
    """Return what the broker itself says of a job that has ended.

    Args:
        end: How.
        text: In other words than these are.
    """
    name, usual = _ABOUT.get(end, ("ResultForgotten", ""))
    about = Extension(state=end, type=name, message=text or usual, retry=False)
    return b'{"value": "%s"}' % name.encode(), about


def job_book(context: BrokerContext, directory: Directory) -> JobBook:
    """Return the book of a domain, which is read from the store once."""
    name = f"jobs of {directory.name}"
    book = context.lasting.get(name)
    if book is None:
        records, queues = KeyedRecords(directory, RecordKind.JOB), _Queues(directory)
        book = JobBook(
            context.unix_time,
            records=records,
            is_empty=queues.is_empty,
            followers=followers_of(directory),
            shares=directory.shares,
        )
        directory.report_removed(partial(queues.removed, book.endings))
        book.register.on_end = _Answers(shared_peers(context, directory.name)).ended
        context.lasting[name] = book
    assert isinstance(book, JobBook)
    return book


def result_book(context: BrokerContext, directory: Directory) -> ResultBook:
    """Return the results that a domain keeps."""
    name = f"results of {directory.name}"
    book = context.lasting.get(name)
    if book is None:
        book = context.lasting[name] = ResultBook(KeyedRecords(directory, RecordKind.RESULT), context.unix_time)
    assert isinstance(book, ResultBook)
    return book


def may_cancel(peer: "EMQPPeer", owner: str) -> bool:
    """Return whether a peer may cancel a job of some user's."""
    user = peer.context.users.get(peer.user)
    return peer.user == owner or (user is not None and user.is_administrator)


def may_look_at(peer: "EMQPPeer", owner: str) -> bool:
    """Return whether a peer may hear what became of a job of some user's."""
    user = peer.context.users.get(peer.user)
    return peer.user == owner or (user is not None and user.may_monitor)


class _Queues:
    """The queues of a domain, as the book knows them."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def is_empty(self, name: str) -> bool:
        """Return whether there is no message in a queue, or no such queue."""
        state = self._directory.queues.get(name)
        if state is None:
            return True
        found = state.statistics()
        return not (found.ready or found.unsettled or found.delayed)

    @staticmethod
    def removed(
        endings: Endings, queue: QueueState, messages: Stretch | None, reason: Reason | None, ids: Sequence[int]
    ) -> None:
        """End the jobs whose messages a queue has let go of; see ``Directory.on_removed``."""
        goes_on = reason is not None and queue.options.dead_letter_sink is not None
        if messages is None:
            endings.emptied(queue.name)
            return
        end = "cancelled" if reason is None else _REMOVED.get(reason, "cancelled")
        for part in messages.alike():
            start, stop = part.head.properties_start, part.head.properties_stop
            if part.head.traits.codec == JOB_CODEC:
                jobs = [split_job(content[start:stop])[0] for content in part.contents]
                endings.removed(jobs, end, goes_on=goes_on)


class _Answers:
    """The way of the book's own answers to requesters that are there."""

    def __init__(self, shared: SharedPeers) -> None:
        self._shared = shared

    def ended(self, job: BookedJob, end: End) -> None:
        """Tell the requester of a job how it has ended."""
        requester = self._shared.peers.get(job.requester)
        if requester is not None and requester.login == job.user:
            requester.reply_all([(job.id, *broker_answer(end))])


class JobClock(Client):
    """The actor that has the book do what is due; a child of an endpoint, with nobody behind it.

    Args:
        context: What the broker lends.
        book: The book.
        results: The results.
    """

    kind = "jobs"
    tag = "emqp"
    noun = "clock of jobs"

    def __init__(self, context: BrokerContext, book: JobBook, results: ResultBook) -> None:
        super().__init__(context)
        self._book = book
        self._results = results
        self._next_sweep = trio.current_time() + _SWEEP
        self.gone = trio.Event()
        """Set when it has ended, in order or not."""

    def started(self) -> None:
        """Look at the clock as soon as something is due earlier than what it waits for."""
        self._book.parking.clock.on_earlier = self._book.register.deadlines.on_earlier = self.reschedule

    def due_at(self) -> float:
        """Return when something is due, on Trio's clock."""
        now = self.context.unix_time()
        book = self._book
        due = min(book.parking.clock.next_deadline, book.register.deadlines.next, book.hold.until)
        return min(self._next_sweep, inf if due == inf else trio.current_time() + max(0.0, due - now))

    def due(self, now: float) -> None:
        """Do what is due."""
        book = self._book
        book.parking.look()
        book.endings.expire()
        if book.hold.until <= self.context.unix_time():
            book.hold.release()
        if now >= self._next_sweep:
            self._next_sweep = now + _SWEEP
            book.endings.sweep()
            self._results.sweep()

    def released(self) -> None:
        """Leave the clock to the next one."""
        self._book.parking.clock.on_earlier = self._book.register.deadlines.on_earlier = None
        self.gone.set()
