"""``open_amqp``: a connection that lives as long as a block."""

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec
import trio

from triomq.actors import require_trio
from triomq.clients.amqp.connecting import Reconnect
from triomq.clients.amqp.connection import AMQPConnection
from triomq.clients.url import AMQPUrl, parse_amqp_url
from triomq.errors import ConfigError


def _urls(url: str | AMQPUrl | Sequence[str | AMQPUrl], name: str) -> list[AMQPUrl]:
    given = [url] if isinstance(url, str | AMQPUrl) else list(url)
    if not given:
        raise ConfigError(
            "there is no URL to connect to; give one, such as amqp://localhost, or several to try in order"
        )
    urls = [parse_amqp_url(one) if isinstance(one, str) else one for one in given]
    return [msgspec.structs.replace(one, name=name) for one in urls] if name else urls


@asynccontextmanager
async def open_amqp(
    url: str | AMQPUrl | Sequence[str | AMQPUrl],
    *,
    ssl_context: ssl.SSLContext | None = None,
    name: str = "",
    reconnect: bool | Reconnect = False,
) -> AsyncIterator[AMQPConnection]:
    """Open a connection to an AMQP 0-9-1 broker; it lives until the block is left.

    An error in the block comes out of it bare. A connection that is lost, and does not come back, fails whatever waits
    for it, and whatever uses it next.

    Args:
        url: ``amqp://user:password@host:port/virtual-host?heartbeat=30``, ``amqps://`` for TLS, ``amqp+unix://`` for a
            Unix socket, ``ws://`` and ``wss://`` for WebSocket; see ``AMQPUrl`` for what else it may hold. Of several,
            the first that answers is taken.
        ssl_context: Whom to trust, and our own certificate; without it, whom the system trusts.
        name: What the broker shows this connection as.
        reconnect: Whether to connect again when the connection is lost, and how. Then everything that was declared,
            bound and consumed on it comes back with it. The first connection must succeed at once.

    Raises:
        ConfigError: A URL is wrong.
        RuntimeError: This does not run in Trio.
        Disconnected: No broker answers.
        AccessRefused: It does not let this user in.
    """
    require_trio(
        "open_amqp",
        asyncio_way="use a client for asyncio such as aio-pika, or open_asyncio_broker for a broker of your own",
        otherwise="call it in trio.run(main), or use triomq.clients.open_blocking",
    )
    policy = reconnect if isinstance(reconnect, Reconnect) else Reconnect() if reconnect else None
    connection = AMQPConnection(_urls(url, name), ssl_context, policy)
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        try:
            await connection.start(nursery)
            yield connection
            await connection.close()
        except trio.Cancelled:
            raise
        except BaseException as error:
            failure = error
            await connection.close()
        finally:
            connection.abandon()
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
