"""Jobs that workers may still have when their broker, or they, come back; ``endpoints.jobs.hold`` has the rules.

start ──> hold_delivered: jobs whose messages are marked as delivered      INFORM ``running`` ──> claim_running
delivery ──> BookedSide.admit ──> arrived ──> adopted by the worker that has claimed it, or parked
"""

from typing import TYPE_CHECKING

from triomq.core import Browse, Directory, Entry, NotResident, QueueState, QueueUnreadable
from triomq.endpoints.emqp.jobs.content import JOB_CODEC, JobOrigins, split_job
from triomq.endpoints.jobs import JobBook
from triomq.protocols.emqp import Informed

if TYPE_CHECKING:
    from triomq.endpoints.emqp.peer import EMQPPeer

_PAGE = 500
"""Messages that are looked at in one turn."""


async def hold_delivered(directory: Directory, book: JobBook, origins: JobOrigins) -> None:
    """Hold the jobs that were perhaps with workers when the broker ended; before any worker comes."""
    if book.hold.is_begun:
        return
    book.hold.is_after_restart = any(queue.backlog.paged for queue in directory.queues.values())
    for queue in list(directory.queues.values()):
        last = queue.backlog.delivered_before
        if last:
            for entry in await _delivered(queue, last):
                _hold(entry, queue.name, book, origins)
    book.hold.is_begun = True


async def _delivered(queue: QueueState, last: int) -> list[Entry]:
    """Return the messages up to an id that are marked as delivered."""
    found: list[Entry] = []
    after = 0
    while after < last:
        try:
            page = await queue.ref.ask(Browse(after, _PAGE))
        except NotResident as error:
            await error.wait_over()
            continue
        except QueueUnreadable:
            break  # whoever wants to take them out hears of it
        if not page:
            break
        found += [entry for entry in page if entry.attempts and entry.id <= last]
        after = page[-1].id
    return found


def _hold(entry: Entry, queue: str, book: JobBook, origins: JobOrigins) -> None:
    head, content = entry.message.head, entry.message.content
    if head.traits.codec != JOB_CODEC:
        return
    name, alike, deadline = split_job(content[head.properties_start : head.properties_stop])
    origin = origins.find(alike)
    job = book.register.recall(origin.entry(name, queue, deadline, durable=True))
    if job is not None and job.stage == "queued":
        book.hold.begin(job, origin.begun + entry.attempts)


def claim_running(peer: "EMQPPeer", event: Informed) -> None:
    """Have a worker go on with the jobs that it says it has; those that went elsewhere it is to end."""
    worker, book = peer.worker, peer.hub.jobs
    assert worker is not None
    claimed = 0
    for text, attempt in event.extension.running:
        job = text.encode("utf-8", "replace")
        if job in worker.out:
            continue
        held = book.claim(job, attempt, worker.booked)
        if held is not None:
            claimed += 1
            if held.batch is not None:
                worker.booked.adopt(held)
        elif job in book.jobs or book.register.ended.get(job) is not None:
            peer.engine.cancel(job)
    if claimed:
        peer.count("claimed", "")
