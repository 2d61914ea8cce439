"""A small profile as a user would write it: resources are queues, which are declared by a command."""

from collections.abc import Iterable

import msgspec

from triomq.core import DeclareQueue, QueueOptions
from triomq.endpoints import mtl
from triomq.endpoints.base.domain_work import DomainWork
from triomq.errors import AccessRefused, NotFound


class Make(msgspec.Struct, frozen=True):
    name: str
    durable: bool = False


@mtl.profile("plain")
class PlainQueues(mtl.ResourceProfile):
    @mtl.command("Thing.Make", Make)
    def make(self, work: DomainWork, arguments: Make) -> dict[str, object]:
        work.ask(work.domain, DeclareQueue(arguments.name, QueueOptions(durable=arguments.durable), work.session))
        return {"name": arguments.name}

    @mtl.command("Thing.Fail")
    def fail(self, work: DomainWork, arguments: mtl.NoArguments) -> dict[str, object]:
        raise mtl.BadRequest("it never works")

    def require_writer(self, work: DomainWork, resource: str) -> None:
        self._require(work, resource)
        if not work.access.may_write(resource):
            raise AccessRefused(f"you may not write to {resource!r}")

    def require_reader(self, work: DomainWork, resource: str) -> None:
        self._require(work, resource)
        if not work.access.may_read(resource):
            raise AccessRefused(f"you may not read {resource!r}")

    def target(self, work: DomainWork, resource: str) -> mtl.ContentTarget:
        if "/" in resource:
            sink, _, key = resource.partition("/")
            return mtl.ContentTarget(sink, key, by_address=True)
        self._require(work, resource)
        return mtl.ContentTarget("", resource, queue=resource)

    def source(self, work: DomainWork, resource: str) -> mtl.ContentSource:
        return mtl.ContentSource(resource)

    def resources(self, work: DomainWork, *, reading: bool) -> Iterable[str]:
        return sorted(work.directory.queues)

    def _require(self, work: DomainWork, resource: str) -> None:
        if "/" not in resource and resource not in work.directory.queues:
            raise NotFound(f"no queue {resource!r}")
