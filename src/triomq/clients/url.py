"""Where a broker is and as whom to come, read from a URL.

``amqp://user:password@host:port/virtual%2Fhost?heartbeat=30`` over TCP, ``amqps://`` the same over TLS,
``amqp+unix://user:password@/path/to/socket`` over a Unix socket; ``ws://user:password@host:port/path?virtual_host=/``
and ``wss://`` over WebSocket. What is left out has AMQP's usual value.
"""

from collections.abc import Callable
from urllib.parse import SplitResult, unquote

import msgspec

from triomq.clients.url_options import (
    one_of,
    place_of,
    read_credentials,
    read_options,
    read_seconds,
    split_url,
    virtual_host_of,
)
from triomq.errors import ConfigError
from triomq.shown import shown

DEFAULT_PORT = 5672
DEFAULT_TLS_PORT = 5671
DEFAULT_PATIENCE = 10.0
FRAME_MIN_SIZE = 4096


class AMQPUrl(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a broker is, as whom to log in, and what to wish for.

    Args:
        host: Name or address; empty for a Unix socket.
        port: TCP port.
        path: The Unix socket's path; empty for TCP.
        user: Who logs in.
        password: With what; never shown.
        virtual_host: Where to work.
        heartbeat: Seconds between heartbeats; 0 asks for none, None leaves it to the client.
        frame_max: Bytes of the largest frame.
        channel_max: How many channels may be open at once.
        timeout: Seconds that the broker may take to let us in; for the blocking client, also for any one answer.
        name: What the broker shows this connection as.
        auth_mechanism: ``plain``, or ``external``: who we are is what our TLS certificate says.
        tls: Whether to speak TLS.
        websocket: The path to ask for over WebSocket; empty for AMQP without it.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    path: str = ""
    user: str = "guest"
    password: str = "guest"
    virtual_host: str = "/"
    heartbeat: int | None = None
    frame_max: int = 131072
    channel_max: int = 2047
    timeout: float = DEFAULT_PATIENCE
    name: str = ""
    auth_mechanism: str = "plain"
    tls: bool = False
    websocket: str = ""

    @property
    def place(self) -> str:
        """Where it is, for texts, which never show the password."""
        return place_of(self.host, self.port, self.path)

    def __repr__(self) -> str:
        """Show no password: representations end up in logs."""
        return f"AMQPUrl({shown(self.user)} at {self.place} in {shown(self.virtual_host)})"


def parse_amqp_url(url: str) -> AMQPUrl:
    """Read a URL.

    Raises:
        ConfigError: It is none, or something in it is not allowed; the text says what, and never shows the password.
    """
    parts, port = split_url(url, _SCHEMES, "AMQP", _EXAMPLE)
    return msgspec.structs.replace(
        _SCHEMES[parts.scheme](parts, port), **read_credentials(parts), **read_options(parts.query, _OPTIONS)
    )


_EXAMPLE = (
    "write amqp://user:password@host:port/virtual-host, amqps:// for TLS, amqp+unix://user:password@/path/to/socket, "
    "or ws:// and wss:// for WebSocket"
)


def _tcp(parts: SplitResult, port: int | None) -> AMQPUrl:
    host = unquote(parts.hostname or "127.0.0.1")
    return AMQPUrl(host=host, port=DEFAULT_PORT if port is None else port, virtual_host=virtual_host_of(parts))


def _unix(parts: SplitResult, port: int | None) -> AMQPUrl:
    if parts.hostname or not parts.path.strip("/"):
        raise ConfigError("a Unix socket's URL has no host and an absolute path: amqp+unix:///run/triomq.sock")
    return AMQPUrl(host="", path=unquote(parts.path))


def _tls(parts: SplitResult, port: int | None) -> AMQPUrl:
    return msgspec.structs.replace(_tcp(parts, DEFAULT_TLS_PORT if port is None else port), tls=True)


def _websocket(parts: SplitResult, port: int | None) -> AMQPUrl:
    tls = parts.scheme == "wss"
    usual = 443 if tls else 80  # RFC 6455 section 3
    host = unquote(parts.hostname or "127.0.0.1")
    return AMQPUrl(host=host, port=usual if port is None else port, tls=tls, websocket=parts.path or "/")


_SCHEMES: dict[str, Callable[[SplitResult, int | None], AMQPUrl]] = {
    "amqp": _tcp,
    "amqp+unix": _unix,
    "amqps": _tls,
    "ws": _websocket,
    "wss": _websocket,
}


def _whole(most: int, least: int = 0) -> Callable[[str], int]:
    """Make a reader of whole numbers within bounds."""

    def read(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return int(text)

    return read


_OPTIONS: dict[str, Callable[[str], int | float | str]] = {
    "heartbeat": _whole(65535),
    "frame_max": _whole(2**32 - 1, FRAME_MIN_SIZE),
    "channel_max": _whole(65535, 1),
    "timeout": read_seconds,
    "virtual_host": str,
    "name": str,
    "auth_mechanism": one_of("plain", "external"),
}
