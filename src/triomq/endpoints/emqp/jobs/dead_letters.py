"""Dead letters of jobs: those that have failed for good wait in a queue for somebody to look at them.

    last attempt failed, timed out, lost ──> ``jobs.dead``: the same payload, and what went wrong in headers ──> requeue

They are no jobs any more: whoever consumes the queue, over any wire, gets them as messages.
"""

from typing import TYPE_CHECKING, Final

from triomq.core import (
    DeclareQueue,
    Head,
    HeaderValue,
    Overflow,
    QueueOptions,
    Restarting,
    pack_arguments,
    publish_of,
    traits_of,
    where_from,
)
from triomq.endpoints.emqp.content import EMQP_CODEC, RequestProperties, encode_request, unpack_added
from triomq.endpoints.emqp.jobs.content import job_properties
from triomq.endpoints.jobs import End
from triomq.protocols.emqp import Extension

if TYPE_CHECKING:
    from triomq.endpoints.emqp.dispatched import DispatchedJob
    from triomq.endpoints.emqp.peer import EMQPPeer

DEAD_JOBS: Final = "jobs.dead"
"""Their queue."""

OPTIONS: Final = QueueOptions(max_length=10_000, max_bytes=256 * 1024 * 1024, overflow=Overflow.DROP_HEAD)
"""Of their queue: the oldest give way, since nobody may ever look at them."""


def publish_dead_letter(peer: "EMQPPeer", job: "DispatchedJob", end: End, about: Extension) -> None:
    """Publish a job that has failed for good to where dead letters are, in this turn.

    Args:
        peer: The peer of the worker that had it.
        job: The job, which is out still.
        end: How it has ended.
        about: What is said of that.
    """
    directory = peer.directory
    properties, payload = job_properties(job.batch, job.position)
    if DEAD_JOBS not in directory.queues:
        try:
            peer.ask_unguarded(peer.domain, DeclareQueue(DEAD_JOBS, OPTIONS, peer.session))
        except Restarting:
            peer.count("dead", "a dead letter was dropped, since the domain is being restarted", job=properties.msgid)
            return
    described: dict[str, HeaderValue] = {
        "x-job-id": job.request.decode("utf-8", "replace"),
        "x-job-queue": job.entry.queue if job.entry is not None else "",
        "x-job-state": end,
        "x-job-type": about.type,
        "x-job-message": about.message,
        "x-job-traceback": about.traceback,
        "x-job-attempts": job.attempt,
        "x-job-time": round(peer.context.unix_time(), 3),
    }
    added = {**unpack_added(properties.added), **described}
    encoded = encode_request(
        RequestProperties(
            properties.msgid,
            properties.headers,
            user=properties.user,
            extension=properties.extension,
            added=pack_arguments(added),
        )
    )
    traits = traits_of(codec=EMQP_CODEC, persistent=job.headers.guarantee)
    head = Head("", DEAD_JOBS, 0, len(encoded), len(encoded), traits=traits)
    assert job.batch.queue is not None
    state = directory.queues.get(directory.name_of(job.batch.queue))  # it may have been deleted
    moved_from = None if state is None else where_from(state, (job.batch.ids[job.position],), end)
    directory.queues[DEAD_JOBS].ref.tell_nowait(publish_of(head, encoded + payload, moved_from))
