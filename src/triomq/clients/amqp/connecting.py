"""From a URL to a broker that has let us in, and when to try again.

The steps: TCP or a Unix socket (``dial``), TLS where the URL asks for it, the AMQP handshake (``connect``) with what
``settings_for`` makes of the URL. Deadline for all of them together is the URL's ``timeout``.
"""

import random
import ssl
from collections.abc import Mapping
from typing import Protocol

import trio

from triomq.checked import Checked
from triomq.clients.amqp.link import Link
from triomq.clients.url import AMQPUrl
from triomq.clients.url_options import place_of
from triomq.errors import ConfigError, Disconnected
from triomq.keepalive import keep_alive
from triomq.process import close_in_forks
from triomq.protocols import FieldValue
from triomq.protocols.amqp import LOST_CAPABILITY, Connected, Login, Settings, plain
from triomq.transports import RECEIVE_SIZE, Poller, RawSocket, StreamTransport, Transport, accept_raw

HEARTBEAT = 60
"""Seconds, where the URL has none: what RabbitMQ offers."""

MESSAGE_MOST = 512 * 1024 * 1024
"""Bytes of a body; no RabbitMQ sends more."""


class Reconnect(Checked, frozen=True, kw_only=True, gc=False):
    """What a connection does when it is lost; given to ``open_amqp``.

    Args:
        delay: Seconds before the first new try; each further one waits twice as long.
        max_delay: Seconds that it waits at most.
        jitter: Which part of the wait is left to chance, so that a thousand clients do not come back at one moment.
        attempts: How many tries in a row may fail before the connection is given up; None for any number.
        resend: Whether publishes that were not confirmed are sent again, so that a broker may have them twice; without
            it they raise ``Disconnected``, and it may have them or not.
    """

    delay: float = 0.1
    max_delay: float = 30.0
    jitter: float = 0.5
    attempts: int | None = None
    resend: bool = True

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        super().__post_init__()
        if not 0 <= self.delay <= self.max_delay:
            raise ConfigError(f"delay is {self.delay} s; it must be between 0 and max_delay, {self.max_delay} s")
        if not 0 <= self.jitter <= 1:
            raise ConfigError(f"jitter is {self.jitter}; it must be a part, from 0 to 1")
        if self.attempts is not None and self.attempts < 1:
            raise ConfigError(f"attempts is {self.attempts}; it must be 1 or more, or None for any number")

    def seconds(self, failures: int) -> float:
        """Return how long to wait after so many failures in a row, 0 for none yet."""
        wait = min(self.max_delay, self.delay * 2.0 ** min(failures, 64))
        return wait * (1 - self.jitter * random.random())


async def connect(
    url: AMQPUrl,
    ssl_context: ssl.SSLContext | None,
    nursery: trio.Nursery,
    properties: Mapping[str, FieldValue] | None = None,
) -> tuple[Link, Connected]:
    """Connect and log in.

    Args:
        url: Where to, as whom, and how many seconds it may take.
        ssl_context: Whom to trust and who we are; None trusts what the system trusts.
        nursery: Where the connection runs, until it ends or this is cancelled.
        properties: Further properties of the client.

    Raises:
        Disconnected: Nobody listens there, or lets us in in time.
        TriomqError: The broker refuses us.
    """
    poller = Poller()
    with trio.move_on_after(url.timeout):
        try:
            transport = await dial(url, ssl_context, poller)
        except BaseException:
            poller.close()
            raise
        link = Link(transport, poller, settings_for(url, properties), url.place)
        nursery.start_soon(link.run)
        try:
            return link, await link.opened.wait()
        except trio.Cancelled:
            link.end(Disconnected("no task waits for this connection any more"))
            raise
    raise Disconnected(
        f"the broker at {url.place} does not let us in within {url.timeout:g} s; see whether it is busy, or raise "
        "?timeout= in the URL"
    )


def settings_for(url: AMQPUrl, properties: Mapping[str, FieldValue] | None = None) -> Settings:
    """Return the engine's settings for a URL, with further properties of the client."""
    known: dict[str, FieldValue] = {**Settings().client_properties, **(properties or {})}
    capabilities = known["capabilities"]
    assert isinstance(capabilities, dict)
    known["capabilities"] = {**capabilities, LOST_CAPABILITY: True}
    if url.name:
        known["connection_name"] = url.name
    external = url.auth_mechanism == "external"
    return Settings(
        heartbeat=HEARTBEAT if url.heartbeat is None else url.heartbeat,
        frame_max=url.frame_max,
        channel_max=url.channel_max,
        max_message_size=MESSAGE_MOST,
        handshake_timeout=2 * url.timeout,  # our own deadline comes first, and its error has more words
        client_properties=known,
        login=Login("EXTERNAL", b"") if external else plain(url.user, url.password),
        virtual_host=url.virtual_host,
    )


class DialledUrl(Protocol):
    """The URL of any protocol over a stream: where to connect."""

    @property
    def host(self) -> str:
        """Name or address; empty for a Unix socket."""

    @property
    def port(self) -> int:
        """TCP port."""

    @property
    def path(self) -> str:
        """The Unix socket's path; empty for TCP."""

    @property
    def tls(self) -> bool:
        """Whether to speak TLS."""

    @property
    def websocket(self) -> str:
        """The path that is asked for over WebSocket; empty for none of it."""

    @property
    def place(self) -> str:
        """Where that is, for texts."""


_MOST_OF_A_FRAME = 1 << 40
"""Bytes of a frame of WebSocket from a broker: it is passed on as it comes, so nothing has to be bounded here."""


async def dial(
    url: DialledUrl, ssl_context: ssl.SSLContext | None, poller: Poller, *, subprotocol: str = "amqp"
) -> Transport:
    """Connect, with TLS and WebSocket where the URL asks for them.

    Args:
        url: Where to.
        ssl_context: Whom to trust and who we are; None trusts what the system trusts.
        poller: Who watches the socket, where there is nothing between it and us.
        subprotocol: What is spoken over WebSocket.

    Raises:
        Disconnected: Nobody listens there, or their certificate is not to be trusted, or they refuse WebSocket.
    """
    try:
        stream = await _connect(url)
    except OSError as error:
        raise Disconnected(
            f"no broker can be reached at {url.place}: {reason_of(error)}; see whether it runs there"
        ) from None
    if not url.tls:
        rest = await _open_websocket(stream, url, subprotocol)
        try:
            return _framed(accept_raw(stream, poller), url, rest)
        except OSError as error:
            raise Disconnected(f"the connection to {url.place} broke at once: {reason_of(error)}") from None
    secure = await shake_hands(stream, ssl_context, url.host, url.place)
    rest = await _open_websocket(secure, url, subprotocol)
    return _framed(StreamTransport(secure, url.place), url, rest)


async def _open_websocket(stream: trio.abc.Stream, url: DialledUrl, subprotocol: str) -> bytes:
    """Shake hands where the URL asks for WebSocket; return what has come behind that. What is refused is closed."""
    if not url.websocket:
        return b""
    from triomq.transports.websocket import ClientHandshake  # with wsproto and h11

    usual = 443 if url.tls else 80
    handshake = ClientHandshake(
        url.host if url.port == usual else place_of(url.host, url.port, ""), url.websocket, subprotocol
    )
    try:
        await stream.send_all(handshake.request)
        answer = None
        while answer is None:
            answer = handshake.receive(bytes(await stream.receive_some(RECEIVE_SIZE)))
        rest, refusal = answer.rest, answer.refusal
    except trio.BrokenResourceError:
        rest, refusal = b"", "it hung up"
    except trio.Cancelled:
        await trio.aclose_forcefully(stream)
        raise
    if refusal:
        await trio.aclose_forcefully(stream)
        raise Disconnected(f"no WebSocket at {url.place}: {refusal}; see whether the broker listens for it there")
    return rest


def _framed(transport: RawSocket | StreamTransport, url: DialledUrl, rest: bytes) -> Transport:
    if not url.websocket:
        return transport
    from triomq.transports.websocket import WebSocketTransport

    return WebSocketTransport(transport, None, max_frame_size=_MOST_OF_A_FRAME, rest=rest)


async def _connect(url: DialledUrl) -> trio.SocketStream:
    return await open_stream(url.path, url.host, url.port)


async def open_stream(path: str, host: str, port: int) -> trio.SocketStream:
    """Connect with a Unix socket, or over TCP with its probes; the connection is not for forks of this process.

    Raises:
        OSError: Nobody listens there.
    """
    if path:
        stream = await trio.open_unix_socket(path)
    else:
        stream = await trio.open_tcp_stream(host, port)
        keep_alive(stream)
    close_in_forks(stream.socket)
    return stream


async def shake_hands(
    stream: trio.SocketStream, context: ssl.SSLContext | None, host: str, place: str
) -> trio.SSLStream[trio.SocketStream]:
    """Speak TLS from now on; a stream with which that fails is closed.

    Args:
        stream: To the server.
        context: Whom to trust and who we are; None trusts what the system trusts.
        host: The name that the server's certificate must have.
        place: Where that is, for texts.

    Raises:
        Disconnected: Its certificate is not to be trusted, or it speaks something else.
    """
    # AMQP has a close of its own, and messages of HTTP say how long they are (RFC 9112, section 9.8): so TLS needs no
    # close, and brokers shut the socket without its close_notify.
    trusted = context or ssl.create_default_context()
    secure = trio.SSLStream(stream, trusted, server_hostname=host, https_compatible=True)
    try:
        await secure.do_handshake()
    except trio.BrokenResourceError as error:
        await trio.aclose_forcefully(stream)
        reason = error.__cause__ or "it hung up"
        raise Disconnected(
            f"TLS with {place} failed: {reason}; see that it speaks TLS there, and that ssl_context trusts it"
        ) from None
    except BaseException:  # also when it is cancelled: nobody else would close the socket
        await trio.aclose_forcefully(stream)
        raise
    return secure


def reason_of(error: OSError) -> str:
    """Return the system's text for an error, the first one where several addresses were tried."""
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    found = cause if isinstance(cause, OSError) else error
    return found.strerror or str(found)
