"""Where a broker listens for tap and as whom to come, read from a URL.

``tap://user:password@host:port/domain`` over TCP, ``taps://`` the same over TLS, and
``tap+unix://user:password@/path/to/socket?domain=shop`` over a Unix socket. Options stand behind the question mark.
"""

from collections.abc import Callable
from urllib.parse import SplitResult, unquote

import msgspec

from triomq.clients.url_options import one_of, place_of, read_credentials, read_options, read_seconds, split_url
from triomq.errors import ConfigError
from triomq.shown import shown

DEFAULT_PORT = 47280
DEFAULT_TLS_PORT = 47281
"""Not registered with anybody; beside the ports of eMQP."""

_EXAMPLE = "write tap://user:password@host:port/domain, taps:// for TLS, or tap+unix://user:password@/path/to/socket"


class TapUrl(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a broker is, and as whom to log in.

    Args:
        host: Name or address; empty for a Unix socket.
        port: TCP port.
        path: The Unix socket's path; empty for TCP.
        user: Who logs in.
        password: With what; never shown.
        domain: Where to work; empty is where the broker's endpoint works.
        timeout: Seconds that the broker may take to let us in, to begin any one answer beside what it is to wait, and
            between two pieces of a long one.
        name: What the broker is told of this program.
        auth_mechanism: ``plain``, or ``external``: who we are is what our TLS certificate says.
        tls: Whether to speak TLS.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    path: str = ""
    user: str = "guest"
    password: str = "guest"
    domain: str = ""
    timeout: float = 10.0
    name: str = "triomq"
    auth_mechanism: str = "plain"
    tls: bool = False

    @property
    def place(self) -> str:
        """Where it is, for texts, which never show the password."""
        return place_of(self.host, self.port, self.path)

    def __repr__(self) -> str:
        """Show no password: representations end up in logs."""
        return f"TapUrl({shown(self.user)} at {self.place} in {shown(self.domain or 'its domain')})"


def parse_tap_url(url: str) -> TapUrl:
    """Read a URL.

    Raises:
        ConfigError: It is none, or something in it is not allowed; the text says what, and never shows the password.
    """
    parts, port = split_url(url, _SCHEMES, "tap", _EXAMPLE)
    return msgspec.structs.replace(
        _SCHEMES[parts.scheme](parts, port), **read_credentials(parts), **read_options(parts.query, _OPTIONS)
    )


def _tcp(parts: SplitResult, port: int | None) -> TapUrl:
    host = unquote(parts.hostname or "127.0.0.1")
    return TapUrl(host=host, port=DEFAULT_PORT if port is None else port, domain=unquote(parts.path[1:]))


def _tls(parts: SplitResult, port: int | None) -> TapUrl:
    return msgspec.structs.replace(_tcp(parts, DEFAULT_TLS_PORT if port is None else port), tls=True)


def _unix(parts: SplitResult, port: int | None) -> TapUrl:
    if parts.hostname or not parts.path.strip("/"):
        raise ConfigError("a Unix socket's URL has no host and an absolute path: tap+unix:///run/triomq.sock")
    return TapUrl(host="", path=unquote(parts.path))


_SCHEMES: dict[str, Callable[[SplitResult, int | None], TapUrl]] = {"tap": _tcp, "taps": _tls, "tap+unix": _unix}

_OPTIONS: dict[str, Callable[[str], float | str]] = {
    "domain": str,
    "timeout": read_seconds,
    "name": str,
    "auth_mechanism": one_of("plain", "external"),
}
