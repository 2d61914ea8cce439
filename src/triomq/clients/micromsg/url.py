"""Where a peer that speaks MicroMsg2 is and as whom to come, read from a URL.

``micromsg://user:password@host:port/?identity=shop-3`` over TCP, ``micromsgs://`` the same over TLS,
``micromsg+unix://user:password@/path/to/socket`` over a Unix socket, ``ws://user:password@host:port/path`` and
``wss://`` over WebSocket. Options stand behind the question mark.
"""

from collections.abc import Callable
from secrets import token_hex
from urllib.parse import unquote

import msgspec

from triomq.clients.url_options import one_of, place_of, read_credentials, read_options, read_seconds, split_url
from triomq.errors import ConfigError
from triomq.shown import shown

DEFAULT_PORT = 8334
"""What the specification's own programs used; nobody has registered one."""
DEFAULT_TLS_PORT = 8335

_EXAMPLE = (
    "write micromsg://user:password@host:port, micromsgs:// for TLS, micromsg+unix://user:password@/path/to/socket, or "
    "ws:// and wss:// for WebSocket"
)


class MicroMsgUrl(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a peer is, as whom to log in, and what to agree on.

    Args:
        host: Name or address; empty for a Unix socket.
        port: TCP port.
        path: The Unix socket's path; empty for TCP.
        user: Who logs in, by ``x-sasl``; empty for nobody.
        password: With what; never shown.
        identity: What this program is called, in ASCII. It proves nothing; but a broker of ours ends an older
            connection of the same user with the same one, and keeps subscriptions for it. Empty for one of our own.
        window: Messages that may be on their way unacknowledged, in each direction; 0 for no acks.
        max_message: Bytes of the largest message, in each direction. A broker ends a connection on which it gets a
            larger one than it takes; then this is to be as small as its own limit.
        heartbeat: Seconds of silence after which a heartbeat is sent, or what the peer wants if that is more; three
            times that and the peer is gone. 0 for none.
        timeout: Seconds that the peer may take to let us in.
        auth_mechanism: ``plain``, ``scram-sha-256``, ``scram-sha-512`` or ``external``; empty for the best one that the
            broker offers.
        peer: ``sharpmessaging`` if that is a server of SharpMessaging, whose process ends at much that is allowed.
        tls: Whether to speak TLS.
        websocket: The path to ask for over WebSocket; empty for MicroMsg2 without it.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    path: str = ""
    user: str = ""
    password: str = ""
    identity: str = ""
    window: int = 1000
    max_message: int = 16 * 1024 * 1024
    heartbeat: float = 10.0
    timeout: float = 10.0
    auth_mechanism: str = ""
    peer: str = "micromsg"
    tls: bool = False
    websocket: str = ""

    @property
    def place(self) -> str:
        """Where it is, for texts, which never show the password."""
        return place_of(self.host, self.port, self.path)

    @property
    def is_sharpmessaging(self) -> bool:
        """Whether to write only what SharpMessaging can read."""
        return self.peer == "sharpmessaging"

    def __repr__(self) -> str:
        """Show no password: representations end up in logs."""
        return f"MicroMsgUrl({shown(self.user)} at {self.place} as {shown(self.identity)})"


def parse_micromsg_url(url: str) -> MicroMsgUrl:
    """Read a URL.

    Raises:
        ConfigError: It is none, or something in it is not allowed; the text says what, and never shows the password.
    """
    parts, port = split_url(url, ("micromsg", "micromsgs", "micromsg+unix", "ws", "wss"), "MicroMsg2", _EXAMPLE)
    found = msgspec.convert({**read_credentials(parts), **read_options(parts.query, _READERS)}, MicroMsgUrl)
    if parts.scheme == "micromsg+unix":
        if parts.hostname or not parts.path.strip("/"):
            raise ConfigError("a Unix socket's URL has no host and an absolute path: micromsg+unix:///run/triomq.sock")
        return msgspec.structs.replace(found, host="", path=unquote(parts.path))
    if parts.scheme in ("ws", "wss"):
        found = msgspec.structs.replace(found, websocket=parts.path or "/")
    elif parts.path.strip("/"):
        raise ConfigError(
            f"the URL's path is {shown(parts.path)}; MicroMsg2 has none: where one works is up to the port"
        )
    tls = parts.scheme in ("micromsgs", "wss")
    return msgspec.structs.replace(
        found,
        host=unquote(parts.hostname or "127.0.0.1"),
        port=_usual_port(parts.scheme) if port is None else port,
        tls=tls,
    )


def _usual_port(scheme: str) -> int:
    return {"micromsgs": DEFAULT_TLS_PORT, "ws": 80, "wss": 443}.get(scheme, DEFAULT_PORT)


def with_identity(url: MicroMsgUrl) -> MicroMsgUrl:
    """Return the URL with an identity that nobody else has, unless it has one."""
    return url if url.identity else msgspec.structs.replace(url, identity=f"triomq-{token_hex(8)}")


def _read_identity(text: str) -> str:
    if not (text.isascii() and text.isprintable() and 0 < len(text) <= 255):
        raise ValueError("1 to 255 printable characters of ASCII")
    return text


def _read_window(text: str) -> int:
    if not text.isdecimal() or int(text) > 32767:
        raise ValueError("a whole number from 0 (no acks) to 32767")
    return int(text)


def _read_size(text: str) -> int:
    if not text.isdecimal() or not 256 <= int(text) <= 0xFFFFFFFF:
        raise ValueError("bytes, from 256 to 4294967295")
    return int(text)


def _read_heartbeat(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if seconds != 0 and not 0.1 <= seconds <= 86_400:
        raise ValueError("seconds, from 0.1 to 86400, or 0 for none")
    return seconds


_READERS: dict[str, Callable[[str], object]] = {
    "identity": _read_identity,
    "window": _read_window,
    "max_message": _read_size,
    "heartbeat": _read_heartbeat,
    "timeout": read_seconds,
    "auth_mechanism": one_of("plain", "scram-sha-256", "scram-sha-512", "external"),
    "peer": one_of("micromsg", "sharpmessaging"),
}
