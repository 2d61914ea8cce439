"""From a URL to a connected transport: TCP, TLS or a Unix socket."""

import ssl

import trio

from triomq.clients.url import AMQPUrl
from triomq.errors import Disconnected
from triomq.transports import Poller, StreamTransport, Transport, accept_raw


async def dial(url: AMQPUrl, ssl_context: ssl.SSLContext | None, poller: Poller) -> Transport:
    """Connect, and speak TLS where the URL says so.

    Args:
        url: Where to.
        ssl_context: Whom to trust and who we are; None trusts what the system trusts.
        poller: Who watches the socket, where there is nothing between it and us.

    Raises:
        Disconnected: Nobody listens there, or their certificate is not to be trusted.
    """
    try:
        stream = await _connect(url)
    except OSError as error:
        raise Disconnected(
            f"no broker can be reached at {url.place}: {_reason(error)}; see whether it runs there"
        ) from None
    if not url.tls:
        try:
            return accept_raw(stream, poller)
        except OSError as error:
            raise Disconnected(f"the connection to {url.place} broke at once: {_reason(error)}") from None
    return StreamTransport(await _greet(stream, url, ssl_context or ssl.create_default_context()), url.place)


async def _connect(url: AMQPUrl) -> trio.SocketStream:
    if url.path:
        return await trio.open_unix_socket(url.path)
    return await trio.open_tcp_stream(url.host, url.port)


async def _greet(stream: trio.SocketStream, url: AMQPUrl, context: ssl.SSLContext) -> trio.abc.Stream:
    """Do the handshake of TLS."""
    # AMQP says goodbye itself, so TLS need not: brokers hang up without its close_notify.
    secure = trio.SSLStream(stream, context, server_hostname=url.host, https_compatible=True)
    try:
        await secure.do_handshake()
    except trio.BrokenResourceError as error:
        await trio.aclose_forcefully(stream)
        reason = error.__cause__ or "it hung up"
        raise Disconnected(
            f"TLS with {url.place} failed: {reason}; see that it speaks TLS there, and that ssl_context trusts it"
        ) from None
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return secure


def _reason(error: OSError) -> str:
    """Say what the system says, the first of it where several addresses were tried."""
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    found = cause if isinstance(cause, OSError) else error
    return found.strerror or str(found)
