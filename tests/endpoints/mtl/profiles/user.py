"""A client of one profile: a control session, and flows on its leases."""

from typing import Any

from endpoints.mtl.conftest import Served
from endpoints.mtl.raw import RawControl, RawData
from peers.mtl_peer import Command


class ProfileUser:
    """A session that has chosen a profile.

    Args:
        served: The broker.
        control: The session.
    """

    def __init__(self, served: Served, control: RawControl) -> None:
        self.served = served
        self.control = control

    async def does(self, name: str, /, **fields: object) -> dict[str, Any]:
        """Have a command done; ``_`` in a field's name stands for a hyphen."""
        return await self.control.done(name, **{key.replace("_", "-"): value for key, value in fields.items()})

    async def refused(self, name: str, /, **fields: object) -> int:
        """Have a command refused, and return the code."""
        reply = await self.control.ask(name, **{key.replace("_", "-"): value for key, value in fields.items()})
        assert reply.code >= 400, reply
        assert isinstance(reply.body["reason"], str)
        return reply.code

    async def leasing(self, direction: str, *resources: str, **fields: object) -> int:
        """Ask for a lease, and return the code."""
        reply = await self.control.ask(f"Connection.{direction}", resources=list(resources), **fields)
        return reply.code

    async def writer(self, *resources: str, confirm: str = "none") -> RawData:
        return await self.served.claimed(await self.control.lease("Writer", *resources, confirm=confirm))

    async def reader(self, *resources: str, confirm: str = "none", **fields: object) -> RawData:
        """Return a flow that has summoned the resources."""
        peer = await self.served.claimed(await self.control.lease("Reader", *resources, confirm=confirm, **fields))
        for number, resource in enumerate(resources):
            assert await peer.ask("summon", 2 + number, resource) == 200
        return peer


async def choose(served: Served, profile: str, user: str = "guest") -> ProfileUser:
    return ProfileUser(served, await served.control().work_with(profile, user))


def content(number: int, resource: str, body: bytes = b"", **properties: object) -> Command:
    named = {name.replace("_", "-"): value for name, value in properties.items()}
    return Command("content", number, resource, named, body=body)


def bodies(contents: list[Command]) -> list[bytes]:
    return [each.body for each in contents]
