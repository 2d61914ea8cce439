"""A profile of one's own for MTL: boxes that anybody drops letters into, and that their owner alone empties."""

from collections.abc import Iterable

import msgspec
import trio

from triomq import MTL, open_broker
from triomq.clients import open_mtl
from triomq.core import DeclareQueue, NoSuchQueue, QueueOptions
from triomq.endpoints import mtl

PREFIX = "letterbox-"


class OpenBox(msgspec.Struct, frozen=True, rename="kebab"):
    name: str
    most_letters: int | None = None


class NamedBox(msgspec.Struct, frozen=True):
    name: str


@mtl.profile("letterboxes")
class Letterboxes(mtl.ResourceProfile):
    """Resources are boxes, for both directions; who reads one has to be the only one."""

    writer_confirms = reader_confirms = frozenset({mtl.FULL_CONFIRMS})

    @mtl.command("Box.Open", OpenBox)
    def open(self, work: mtl.DomainWork, arguments: OpenBox) -> dict[str, object]:
        """Make a box, or find that there is one which is the same."""
        if not arguments.name.isidentifier():
            raise mtl.BadRequest(f"name is {arguments.name!r}; it has letters, digits and underscores")
        options = QueueOptions(max_length=arguments.most_letters)
        # ``ask`` requires the rights of the client's user: here to configure queues of this name.
        work.ask(work.domain, DeclareQueue(PREFIX + arguments.name, options, work.session))
        return {"resource": arguments.name}

    @mtl.command("Box.Count", NamedBox)
    def count(self, work: mtl.DomainWork, arguments: NamedBox) -> dict[str, object]:
        """Count the letters in a box."""
        return {"letters": work.directory.queue(PREFIX + arguments.name, work.session).ready_count()}

    def target(self, work: mtl.DomainWork, resource: str) -> mtl.ContentTarget:
        """Return where letters for a box go: the right to write there is asked when they are published."""
        if PREFIX + resource not in work.directory.queues:
            raise NoSuchQueue(resource)  # 404
        return mtl.ContentTarget("", key=PREFIX + resource, queue=PREFIX + resource)

    def require_reader(self, work: mtl.DomainWork, resource: str) -> None:
        """See, before there is a lease, that a client may empty a box."""
        work.directory.queue(PREFIX + resource, work.session)
        work.require(work.access.may_read, PREFIX + resource)

    def source(self, work: mtl.DomainWork, resource: str) -> mtl.ContentSource:
        """Return where letters of a box come from, when it is summoned."""
        return mtl.ContentSource(PREFIX + resource, exclusive=True)

    def resources(self, work: mtl.DomainWork, *, reading: bool) -> Iterable[str]:
        """List the boxes."""
        return [name.removeprefix(PREFIX) for name in work.directory.queues if name.startswith(PREFIX)]


async def main() -> None:
    async with open_broker() as broker:
        listening = await broker.listen(MTL(port=0, profiles=(Letterboxes, "queue")))
        url = f"mtl://guest:guest@127.0.0.1:{listening.port}?profile=letterboxes"
        async with open_mtl(url) as connection:
            await connection.call("Box.Open", {"name": "ada", "most-letters": 100})
            async with connection.open_writer("ada") as writer:
                await writer.publish(b"Dear Ada")
            print(await connection.call("Box.Count", {"name": "ada"}))
            async with connection.open_reader("ada") as reader:
                async for letter in reader:
                    print(letter.body.decode())
                    letter.accept()
                    break


trio.run(main)
