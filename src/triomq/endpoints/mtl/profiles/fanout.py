"""The profile ``test`` (11/MTL, "The Test Profile"): one resource, from all writers to all readers, never confirmed.

It is a fanout sink. Whoever summons the resource gets a queue of its own, which goes when it is dismissed. A reader
that is slow loses what is oldest, and holds up nobody.
"""

from collections.abc import Iterable
from typing import Final

from triomq.core import (
    Bind,
    DeclareQueue,
    DeclareSink,
    DeleteQueue,
    QueueOptions,
    SinkKind,
    SinkOptions,
    Target,
    make_binding,
)
from triomq.endpoints.base.domain_work import DomainWork
from triomq.endpoints.declaring import generated_name
from triomq.endpoints.mtl.profile import NO_CONFIRMS, ContentSource, ContentTarget, ResourceProfile, profile
from triomq.errors import NotFound, Refused

RESOURCE: Final = "resource"

SINK: Final = "mtl.test"
"""The sink's name; what readers have begins with it and a hyphen, so that permissions can be given for both."""

_QUEUE_PREFIX: Final = f"{SINK}-"

_SINK: Final = SinkOptions(kind=SinkKind.FANOUT, durable=False)

_QUEUE: Final = QueueOptions(
    durable=False, exclusive=True, auto_delete=True, max_length=10_000, max_bytes=64 * 1024 * 1024
)
"""A reader holds no more than what one may leave unread elsewhere."""

_NONE: Final = frozenset((NO_CONFIRMS,))


@profile("test")
class FanoutProfile(ResourceProfile):
    """One resource, called ``resource``, for tests and to try out a client."""

    reader_confirms = writer_confirms = _NONE

    def prepare(self, work: DomainWork) -> None:
        """Declare the sink, unless it is there."""
        found = work.directory.sinks.get(SINK)
        if found is None or found.declared.kind is not SinkKind.FANOUT:
            work.ask(work.domain, DeclareSink(SINK, _SINK, work.session))

    def require_reader(self, work: DomainWork, resource: str) -> None:
        """See that a client may read the resource, and make what that takes."""
        _require_reader(work, resource, generated_name(_QUEUE_PREFIX))

    def target(self, work: DomainWork, resource: str) -> ContentTarget:
        """Return the sink."""
        _require_resource(resource)
        work.require(work.access.may_write, SINK)
        return ContentTarget(SINK, must_route=False)

    def source(self, work: DomainWork, resource: str) -> ContentSource:
        """Make the queue of one who summons."""
        name = generated_name(_QUEUE_PREFIX)
        _require_reader(work, resource, name)
        work.ask(work.domain, DeclareQueue(name, _QUEUE, work.session))
        try:
            work.ask(work.domain, Bind(make_binding(SINK, Target.QUEUE, name), work.session))
        except Refused:
            work.ask_unguarded(work.domain, DeleteQueue(name, work.session))
            raise
        return ContentSource(name)

    def resources(self, work: DomainWork, *, reading: bool) -> Iterable[str]:
        """List the one."""
        return (RESOURCE,)


def _require_resource(resource: str) -> None:
    if resource != RESOURCE:
        raise NotFound(f"profile 'test' has no resource {resource!r}, but {RESOURCE!r} alone")


def _require_reader(work: DomainWork, resource: str, queue: str) -> None:
    _require_resource(resource)
    work.require(work.access.may_read, SINK)
    for may in (work.access.may_configure, work.access.may_write, work.access.may_read):
        work.require(may, queue)
