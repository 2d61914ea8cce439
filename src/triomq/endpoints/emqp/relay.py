"""What requesters and workers say to each other of jobs that are out: progress, items, how far they are read, CANCEL.

The broker knows where a job is out, and keeps nothing of what it hands on here.
"""

from typing import TYPE_CHECKING

from triomq.core import Outcome, settle
from triomq.errors import NotFound
from triomq.protocols.emqp import CancelAsked, JobsReturned, Progressed, StatesAsked

if TYPE_CHECKING:
    from triomq.endpoints.emqp.peer import EMQPPeer


def hand_on_progress(peer: "EMQPPeer", event: Progressed) -> None:
    """Hand a worker's values and items to the requester, and how far it has read them to the worker."""
    if peer.worker is None:
        found = _worker_of(peer, event.request)
        if found is not None:
            worker, request = found
            worker.engine.progress(request, b"", event.extension)
            worker.ref.touch()
        return
    job = peer.worker.out.get(event.request)
    if job is None or job.origin is None:
        return
    requester = peer.hub.peers.get(job.origin.identity)
    if requester is not None and requester.login == job.origin.user:
        requester.engine.progress(job.request, event.message, event.extension)
        requester.ref.touch()


def cancel_job(peer: "EMQPPeer", event: CancelAsked) -> None:
    """Have the worker end a job that has it."""
    found = _worker_of(peer, event.request)
    if found is None:
        raise NotFound(f"no job {event.request[:40]!r} of yours is out with a worker")
    worker, request = found
    if not worker.engine.cancel(request, event.extension):
        raise NotFound("the worker that has the job cannot be told to end it")
    worker.ref.touch()
    peer.engine.acknowledge(event.msgid)


def take_back(peer: "EMQPPeer", event: JobsReturned) -> None:
    """Put jobs back to their places that a worker has not begun."""
    assert peer.worker is not None, "only workers say RETURN"
    for request in event.requests:
        job = peer.worker.out.pop(request, None)
        if job is not None:
            settle(job.batch, Outcome.RETURN, (job.position,))
    peer.end_when_done()


def refuse_states(peer: "EMQPPeer", event: StatesAsked) -> None:
    """Say that nobody has noted what became of jobs."""
    raise NotFound("this broker keeps no states of jobs")


def _worker_of(peer: "EMQPPeer", request: bytes) -> "tuple[EMQPPeer, bytes] | None":
    """Return the worker that has a job of this peer's user, and what it calls it there."""
    for other in peer.hub.peers.values():
        job = None if other.worker is None else other.worker.out.get(request)
        if job is not None and job.origin is not None and job.origin.user == peer.login:
            return other, request
    return None
