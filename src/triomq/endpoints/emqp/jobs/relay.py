"""What requesters and workers say to each other of jobs that are out: progress, items, how far they are read, CANCEL,
RETURN.
"""

from typing import TYPE_CHECKING

from triomq.core import Outcome, settle
from triomq.endpoints.emqp.jobs.book import may_cancel
from triomq.endpoints.emqp.jobs.booked import BookedSide
from triomq.endpoints.emqp.jobs.traced import trace_progressed
from triomq.errors import AccessRefused, NotFound
from triomq.protocols.emqp import CancelAsked, JobsReturned, Progressed

if TYPE_CHECKING:
    from triomq.endpoints.emqp.peer import EMQPPeer


def hand_on_progress(peer: "EMQPPeer", event: Progressed) -> None:
    """Hand a worker's values and items to the requester, and how far it has read them to the worker."""
    worker, book = peer.worker, peer.hub.jobs
    if worker is None:
        _hand_to_worker(peer, event)
        return
    job = worker.out.get(event.request)
    if job is not None and job.origin is not None and event.extension.attempt in (0, job.attempt):
        entry, name, identity, user = job.entry, job.request, job.origin.identity, job.origin.user
    elif book.hold.has(event.request, worker.booked) and event.request in book.jobs:  # its message is still to come
        entry, name = book.jobs[event.request], event.request
        identity, user = entry.requester, entry.user
    else:
        return
    if entry is not None:
        trace_progressed(peer.directory, entry, peer.ref)
    requester = peer.hub.peers.get(identity)
    if requester is not None and requester.login == user:
        requester.engine.progress(name, event.message, event.extension)
        requester.ref.touch()
        if event.extension.item and entry is not None:
            book.register.unrepeatable.add(entry.id)
    elif event.extension.item and entry is not None and peer.hub.has_requesters:
        book.endings.cancel(entry, tree=True)  # nobody reads its items, and it would wait for that


def _hand_to_worker(peer: "EMQPPeer", event: Progressed) -> None:
    book = peer.hub.jobs
    job = book.jobs.get(event.request)
    if job is None or job.user != peer.user or not isinstance(job.runner, BookedSide):
        return
    found = job.runner.find(job)
    if found is not None or book.hold.has(event.request, job.runner):
        name = event.request if found is None else found[0]
        job.runner.peer.engine.progress(name, b"", event.extension)
        job.runner.peer.ref.touch()


def cancel_job(peer: "EMQPPeer", event: CancelAsked) -> None:
    """Cancel a job; ACK says that it will not begin, or that its worker was told to end it."""
    book = peer.hub.jobs
    job = book.jobs.get(event.request)
    if job is None:
        raise NotFound(f"there is no job {event.request[:40]!r}, or not any more")
    if not may_cancel(peer, job.user):
        raise AccessRefused("the job is another user's, and you are no administrator")
    grace = event.extension.grace
    book.endings.cancel(job, tree=event.extension.tree, grace=None if grace is None else grace / 1000)
    peer.acknowledge_when_safe(event.msgid)


def take_back(peer: "EMQPPeer", event: JobsReturned) -> None:
    """Put jobs back to their places that a worker has not begun."""
    worker = peer.worker
    assert worker is not None, "only workers say RETURN"
    for request in event.requests:
        job = worker.out.pop(request, None)
        if job is None:
            peer.hub.jobs.hold.returned(request, worker.booked)
            continue
        if job.entry is not None:
            worker.booked.returned(job)
        else:
            settle(job.batch, Outcome.RETURN, (job.position,))
    peer.end_when_done()
