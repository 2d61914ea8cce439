"""Where a RestMS broker is and as whom to come, read from a URL.

``http://user:password@host:port/restms/domain/NAME``, ``https://`` for TLS, ``http+unix://user:password@/path/to/socket``
for a Unix socket. Without a path it is the domain ``default``.
"""

from base64 import b64encode
from typing import Final
from urllib.parse import unquote

import msgspec

from triomq.clients.url_options import place_of, read_credentials, read_options, read_seconds, split_url
from triomq.errors import ConfigError
from triomq.protocols.restms import DEFAULT_DOMAIN, RequestRoute, route
from triomq.shown import shown

_PORT, _TLS_PORT = 8080, 8443

_EXAMPLE = (
    "write http://user:password@host:port/restms/domain/NAME, https:// for TLS, or "
    "http+unix://user:password@/path/to/socket"
)


class RestMSUrl(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a broker is, as whom to log in, and in which domain to work.

    Args:
        host: Name or address; empty for a Unix socket.
        port: TCP port.
        path: The Unix socket's path; empty for TCP.
        user: Who logs in by HTTP Basic; empty for nobody.
        password: With what; never shown.
        domain: Where to work.
        timeout: Seconds that connecting may take, and an answer that is not waited for on purpose.
        silence: Seconds after which a broker counts as gone that says nothing where a message is waited for. It is
            asked for a sign of life three times as often, but at most every second.
        tls: Whether to speak TLS.
    """

    host: str = "127.0.0.1"
    port: int = _PORT
    path: str = ""
    user: str = ""
    password: str = ""
    domain: str = DEFAULT_DOMAIN
    timeout: float = 30.0
    silence: float = 45.0
    tls: bool = False

    @property
    def place(self) -> str:
        """Where it is, for texts, which never show the password."""
        return place_of(self.host, self.port, self.path)

    @property
    def wait(self) -> int:
        """Whole seconds after which the broker is to say something where a message is waited for (RFC 7240)."""
        return max(1, int(self.silence / 3))

    @property
    def headers(self) -> dict[str, str]:
        """The fields of each request."""
        found = {"Host": "localhost" if self.path else self.place}
        if self.user:
            # RFC 7617: a user's name has no colon in it.
            found["Authorization"] = f"Basic {b64encode(f'{self.user}:{self.password}'.encode()).decode()}"
        return found

    def __repr__(self) -> str:
        """Show no password: representations end up in logs."""
        return f"RestMSUrl({shown(self.user)} at {self.place} in {shown(self.domain)})"


_READERS: Final = {"timeout": read_seconds, "silence": read_seconds}


def parse_restms_url(url: str) -> RestMSUrl:
    """Read a URL.

    Raises:
        ConfigError: It is none, or something in it is not allowed; the text never shows the password.
    """
    parts, port = split_url(url, ("http", "https", "http+unix"), "RestMS", _EXAMPLE)
    found = RestMSUrl(**read_credentials(parts), **read_options(parts.query, _READERS))  # type: ignore[arg-type]
    if parts.scheme == "http+unix":
        if parts.hostname or not parts.path.strip("/"):
            raise ConfigError("a Unix socket's URL has no host and an absolute path: http+unix:///run/triomq.sock")
        return msgspec.structs.replace(found, host="", path=unquote(parts.path))
    tls = parts.scheme == "https"
    domain = DEFAULT_DOMAIN
    if parts.path.strip("/"):
        place = route(parts.path)
        if not isinstance(place, RequestRoute) or place.kind != "domain":
            raise ConfigError(f"the URL's path is {shown(parts.path)}, which is no domain; {_EXAMPLE}")
        domain = place.name
    return msgspec.structs.replace(
        found,
        host=unquote(parts.hostname or "127.0.0.1"),
        port=port if port is not None else _TLS_PORT if tls else _PORT,
        domain=domain,
        tls=tls,
    )
