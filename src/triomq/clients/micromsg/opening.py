"""``open_micromsg``: a client of a MicroMsg2 peer that lives as long as a block."""

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from triomq.clients.amqp.connecting import Reconnect
from triomq.clients.block import run_in_block
from triomq.clients.micromsg.connecting import dial_by_url
from triomq.clients.micromsg.connection import ExtensionHandler, MicroMsgConnection
from triomq.clients.micromsg.url import MicroMsgUrl, parse_micromsg_url, with_identity
from triomq.protocols.micromsg import HandshakeExtension


@asynccontextmanager
async def open_micromsg(
    url: str | MicroMsgUrl,
    *,
    ssl_context: ssl.SSLContext | None = None,
    reconnect: Reconnect | None = None,
    extensions: Sequence[HandshakeExtension] = (),
    on_extension: ExtensionHandler | None = None,
) -> AsyncIterator[MicroMsgConnection]:
    """Open a client of a broker, or of any other peer, that speaks MicroMsg2; it lives until the block is left.

    An error in the block comes out of it bare. A connection that is lost comes back by itself.

    Args:
        url: ``micromsg://user:password@host:port/?identity=shop-3``, ``micromsgs://`` for TLS, ``micromsg+unix://`` for
            a Unix socket; see ``MicroMsgUrl`` for what else it may hold.
        ssl_context: Whom to trust, and our own certificate; without it, whom the system trusts.
        reconnect: How to try again when the peer is away; None is ``Reconnect()``. The first connection must succeed at
            once.
        extensions: Further ones, which the peer need not know: ``json`` and ``dotnet``, if all bodies are JSON and have
            a type, and one's own, whose names begin with ``x-``.
        on_extension: Called with the name and the payload of each frame of one's own; must not wait.

    Raises:
        ConfigError: The URL is wrong.
        RuntimeError: This does not run in Trio.
        Disconnected: Nobody answers.
        AccessRefused: The broker does not let this user in.
        RemoteProtocolError: What answers is not MicroMsg2.
    """
    parsed = with_identity(parse_micromsg_url(url) if isinstance(url, str) else url)
    connection = MicroMsgConnection(
        parsed, dial_by_url(parsed, ssl_context), reconnect or Reconnect(), extensions, on_extension
    )
    way = "use triomq.open_asyncio_broker, or any client of AMQP for asyncio"
    async with run_in_block(connection, "open_micromsg", asyncio_way=way):
        yield connection
