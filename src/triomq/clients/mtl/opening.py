"""``open_mtl``: a client of an MTL broker that lives as long as a block."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from triomq.clients.amqp.connecting import Reconnect
from triomq.clients.block import run_in_block
from triomq.clients.mtl.connection import MTLConnection
from triomq.clients.mtl.url import MTLUrl, parse_mtl_url


@asynccontextmanager
async def open_mtl(url: str | MTLUrl, *, reconnect: Reconnect | None = None) -> AsyncIterator[MTLConnection]:
    """Open a client of a broker that speaks MTL (11/MTL); it lives until the block is left.

    An error in the block comes out of it bare. What is lost comes back by itself, as connections of ZeroMQ do.

    Args:
        url: ``mtl://user:password@host:port/virtual-host?profile=queue``; see ``MTLUrl`` for what else it may hold.
        reconnect: How to try again when the broker is away; None is ``Reconnect()``. The first login must succeed at
            once.

    Raises:
        ConfigError: The URL is wrong, or a file of keys cannot be read.
        RuntimeError: This does not run in Trio.
        Disconnected: No broker answers.
        AccessRefused: It does not let this user in.
        NotFound: It has no such virtual host.
        Refused: It has no such profile.
        RemoteProtocolError: What answers is not MTL.
    """
    parsed = parse_mtl_url(url) if isinstance(url, str) else url
    connection = MTLConnection(parsed, reconnect or Reconnect())
    async with run_in_block(connection, "open_mtl", asyncio_way="use pyzmq's own sockets for asyncio"):
        yield connection
