"""Where the broker of some jobs is, and how a connection with it is opened."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias

from triomq.clients import EMQPUrl, open_emqp
from triomq.jobs.link import Link, TrioLink

Where: TypeAlias = str | EMQPUrl


@asynccontextmanager
async def open_link(where: Where, shown: str) -> AsyncIterator[Link]:
    """Open a connection in this Trio run.

    Args:
        where: The URL of a broker, or one of this program.
        shown: The same for people.

    Raises:
        ConfigError: The URL is wrong.
        Disconnected: No broker lets us in.
    """
    async with open_emqp(where) as connection:
        yield TrioLink(shown, connection)
