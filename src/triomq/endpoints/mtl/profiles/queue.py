"""The profile ``queue``: queues by their names, from each writer to one of the readers; the smallest that is of use."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from triomq.core import DeclareQueue, DeleteQueue, Forbidden, Overflow, Purge, QueueOptions, QueueState
from triomq.endpoints.base.domain_work import DomainWork
from triomq.endpoints.declaring import name_for_queue
from triomq.endpoints.feeds import PIPE_MARK
from triomq.endpoints.mtl.profile import ContentSource, ContentTarget, ResourceProfile, command, profile
from triomq.endpoints.mtl.profiles.names import Count, ListArguments, page_of, require_name
from triomq.errors import NotForStreams, QueueLocked


class NamedQueue(msgspec.Struct, frozen=True):
    """Of a command about one queue.

    Args:
        name: The queue's name.
    """

    name: str


class CreateQueue(msgspec.Struct, frozen=True, rename="kebab"):
    """Of ``Queue.Create``.

    Args:
        name: The queue's name.
        durable: Whether it is there again after a restart, with what was sent to it to be kept.
        max_length: Messages that it holds at most.
        overflow: What it does when it is full: content is rejected, to be sent again later, or the oldest gives way.
    """

    name: str
    durable: bool = True
    max_length: Count | None = None
    overflow: Literal["reject-publish", "drop-head"] = "reject-publish"


@profile("queue")
class QueueProfile(ResourceProfile):
    """Resources are queues, for both directions; a reader gets each message that no other one has."""

    @command("Queue.Create", CreateQueue)
    def create(self, work: DomainWork, arguments: CreateQueue) -> dict[str, object]:
        """Make a queue, or find that there is one which is the same."""
        require_name(arguments.name, "queue")
        name = name_for_queue(work.directory, arguments.name)
        is_bounded = arguments.max_length is not None
        options = QueueOptions(
            durable=arguments.durable,
            max_length=arguments.max_length,
            overflow=Overflow(arguments.overflow) if is_bounded else Overflow.DROP_HEAD,
        )
        is_new = name not in work.directory.queues
        work.ask(work.domain, DeclareQueue(name, options, work.session))
        return {"name": name, "created": is_new}

    @command("Queue.Delete", NamedQueue)
    def delete(self, work: DomainWork, arguments: NamedQueue) -> dict[str, object]:
        """Delete a queue with what is in it; nothing if there is none."""
        found = work.ask(work.domain, DeleteQueue(arguments.name, work.session))
        return {"deleted": found is not None, "messages": 0 if found is None else found.ready}

    @command("Queue.Purge", NamedQueue)
    def purge(self, work: DomainWork, arguments: NamedQueue) -> dict[str, object]:
        """Delete what is in a queue and no reader has."""
        queue = work.directory.queue(arguments.name, work.session)
        return {"messages": work.ask(queue.ref, Purge())}

    @command("Queue.List", ListArguments)
    def list(self, work: DomainWork, arguments: ListArguments) -> dict[str, object]:
        """List queues that the client may use."""
        names, more = page_of(work, work.directory.queues, arguments, lambda name: is_shown(work, name))
        return {"queues": [shown_queue(work.directory.queues[name]) for name in names], **more}

    @command("Queue.Stats", NamedQueue)
    def stats(self, work: DomainWork, arguments: NamedQueue) -> dict[str, object]:
        """Count what is in a queue, and what went through it."""
        queue = work.directory.queue(arguments.name, work.session)
        work.require(work.access.may_read, queue.name)
        found = queue.statistics()
        return {
            **shown_queue(queue),
            "bytes": found.ready_bytes,
            "unconfirmed": found.unsettled,
            "published": found.published,
            "delivered": found.delivered,
            "dropped": found.dropped,
            "expired": found.expired,
            "rejected": found.rejected,
        }

    def target(self, work: DomainWork, resource: str) -> ContentTarget:
        """Return the queue."""
        queue = work.directory.target(resource)  # a pipe of another user's can be written to by who knows its name
        if queue.owner not in (None, work.session):
            raise QueueLocked(queue.name)
        if not work.access.may_write(queue.name):
            raise Forbidden("queue or stream", queue.name)
        return ContentTarget("", key=queue.name, queue=queue.name)

    def require_reader(self, work: DomainWork, resource: str) -> None:
        """See that a client may read a queue."""
        source_of(work, resource)

    def source(self, work: DomainWork, resource: str) -> ContentSource:
        """Return the queue."""
        return source_of(work, resource)

    def resources(self, work: DomainWork, *, reading: bool) -> Iterable[str]:
        """List the queues that the client may use."""
        may = work.access.may_read if reading else work.access.may_write
        names, _ = page_of(
            work, work.directory.queues, ListArguments(), lambda name: may(name) and is_shown(work, name)
        )
        return names


def source_of(work: DomainWork, queue: str) -> ContentSource:
    """Return a queue as the source of content.

    Raises:
        NoSuchQueue: There is none of that name.
        QueueLocked: It is another session's.
        NotForStreams: It is a stream, which keeps what was read.
        Forbidden: The user may not read it.
    """
    found = work.directory.queue(queue, work.session)
    if found.declared.stream is not None:
        raise NotForStreams(queue, "a lease")
    if not work.access.may_read(queue):
        raise Forbidden("queue", queue)
    return ContentSource(queue)


def is_shown(work: DomainWork, name: str) -> bool:
    """Return whether a queue is to be listed for a user: it may use it, and it is nobody's own."""
    queue = work.directory.queues[name]
    if queue.owner not in (None, work.session) or queue.declared.remarks == PIPE_MARK:
        return False
    access = work.access
    return access.may_read(name) or access.may_write(name) or access.may_configure(name)


def shown_queue(queue: QueueState) -> dict[str, object]:
    """Return a queue as lists have it."""
    return {
        "name": queue.name,
        "durable": queue.declared.durable,
        "messages": queue.ready_count(),
        "consumers": len(queue.feeds or ()),
    }
