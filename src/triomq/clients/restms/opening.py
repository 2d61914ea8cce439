"""``open_restms``: a client of a RestMS broker that lives as long as a block."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from triomq.clients.amqp.connecting import Reconnect
from triomq.clients.block import run_in_block
from triomq.clients.restms.connection import RestMSConnection
from triomq.clients.restms.url import RestMSUrl, parse_restms_url


@asynccontextmanager
async def open_restms(
    url: str | RestMSUrl, *, ssl_context: ssl.SSLContext | None = None, reconnect: bool | Reconnect = False
) -> AsyncIterator[RestMSConnection]:
    """Open a client of a broker that speaks RestMS; it lives until the block is left.

    An error in the block comes out of it bare.

    Args:
        url: ``http://user:password@host:port/restms/domain/NAME``, ``https://`` for TLS, ``http+unix://`` for a Unix
            socket; see ``RestMSUrl`` for what else it may hold.
        ssl_context: Whom to trust, and our own certificate; without it, whom the system trusts.
        reconnect: Whether to try again when the broker is away, and how. Then pipes, joins and feeds that were made
            here are made again where a broker has lost them. The first request must succeed at once.

    Raises:
        ConfigError: The URL is wrong.
        RuntimeError: This does not run in Trio.
        Disconnected: No broker answers.
        AccessRefused: It does not let this user in.
        NotFound: It has no such domain.
        RemoteProtocolError: What answers is not RestMS, or a domain without the profile 3/Defaults.
    """
    policy = reconnect if isinstance(reconnect, Reconnect) else Reconnect() if reconnect else None
    parsed = parse_restms_url(url) if isinstance(url, str) else url
    connection = RestMSConnection(parsed, ssl_context, policy)
    async with run_in_block(connection, "open_restms", asyncio_way="use any client of HTTP, such as aiohttp"):
        yield connection
