"""Where the broker of some jobs is, and how a connection with it is opened."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol, TypeAlias

from triomq.actors import require_trio
from triomq.clients import EMQPConnector, EMQPUrl, open_emqp
from triomq.jobs.link import JobLink, TrioLink


class LocalBroker(Protocol):
    """A broker of this Trio program: ``Broker`` is one."""

    async def emqp_connector(self) -> EMQPConnector:
        """Return how code of this program speaks eMQP with it, without a socket."""
        ...


Where: TypeAlias = str | EMQPUrl | EMQPConnector | LocalBroker


@asynccontextmanager
async def open_link(where: Where, shown: str) -> AsyncIterator[JobLink]:
    """Open a connection in this Trio run.

    Args:
        where: The URL of a broker, or one of this program.
        shown: The same for people.

    Raises:
        ConfigError: The URL is wrong.
        Disconnected: No broker lets us in.
        RuntimeError: This does not run in Trio.
    """
    require_trio(
        "jobs.connect",
        asyncio_way="write `async with jobs.connect_asyncio(url):` here",
        otherwise="call it in trio.run(main), or write `with jobs.connect_blocking(url):` and f.blocking.send(…)",
    )
    async with open_emqp(await connector_of(where)) as connection:
        yield TrioLink(shown, connection)


async def connector_of(where: Where) -> str | EMQPConnector:
    """Return what ``open_emqp`` takes."""
    find = getattr(where, "emqp_connector", None)
    if find is None:
        return where  # type: ignore[return-value]  # it is no LocalBroker
    found: EMQPConnector = await find()
    return found
