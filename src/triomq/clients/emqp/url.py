"""Where an eMQP broker is and as whom to come, read from a URL.

``emqp://host:port`` where nobody says who it is, ``emqp://user:password@host:port`` with a password (PLAIN), and
``emqp://host:port?keys=ada.key_secret&server_key=broker.key`` encrypted, with keys (CURVE); ``emqps://`` for TLS, and
``emqp+unix://user:password@/path/to/socket`` over a Unix socket. Options stand behind the question mark.
"""

from collections.abc import Callable
from urllib.parse import unquote

import msgspec
import trio

from triomq.clients.dealer import Dealer, Place, dealer_settings
from triomq.clients.emqp.connector import EMQPSocket
from triomq.clients.url_options import (
    one_of,
    place_of,
    read_credentials,
    read_file_name,
    read_options,
    read_seconds,
    require_both_keys,
    split_url,
)
from triomq.errors import ConfigError
from triomq.protocols.emqp import EXTENSIONS, Dialect, Settings
from triomq.shown import shown

DEFAULT_PORT = 47291

_EXAMPLE = (
    "write emqp://host:port, emqp://user:password@host:port, or emqp://host:port?keys=FILE&server_key=FILE; emqps:// "
    "for TLS, and emqp+unix:///path/to/socket"
)


class EMQPUrl(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a broker is, as whom to log in, and how to speak.

    Args:
        host: Name or address; empty for a Unix socket.
        port: TCP port.
        path: The Unix socket's path; empty for TCP.
        tls: Whether to speak TLS.
        ca: A file with the certificates of whom to trust with TLS; empty trusts whom the system trusts.
        user: Who logs in by a password; empty for nobody.
        password: With what; never shown.
        keys: A file with our keys, to log in by these.
        server_key: A file with the broker's public key.
        dialect: What is written to a broker without our extensions: ``eventmq-0.3`` or ``strict``.
        extensions: Whether ours are announced; without, this is a peer as the released ones are.
        heartbeat: Seconds between heartbeats, ours and the broker's.
        silence: Seconds of silence after which the broker counts as gone, and a new connection is made; None is twice
            as long as ``heartbeat``.
        timeout: Seconds that the broker may take to let us in.
        name: How a person calls this peer.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    path: str = ""
    tls: bool = False
    ca: str = ""
    user: str = ""
    password: str = ""
    keys: str = ""
    server_key: str = ""
    dialect: Dialect = "eventmq-0.3"
    extensions: bool = True
    heartbeat: float = 3.0
    silence: float | None = None
    timeout: float = 10.0
    name: str = ""

    @property
    def place(self) -> str:
        """Where it is, for texts."""
        return place_of(self.host, self.port, self.path)

    def __repr__(self) -> str:
        return f"EMQPUrl({shown(self.user)} at {self.place})"

    @property
    def trouble(self) -> str:
        """What may be wrong if no broker lets us in in time."""
        if self.keys:
            takes = "takes these keys: it has security 'curve', and a user who owns them"
        elif self.user:
            takes = "takes this user: it has security 'plain'; with 'null' write the URL without a user"
        else:
            takes = "takes peers without a password: it has security 'null'; with 'plain' write emqp://user:password@…"
        return (
            f"no broker at {self.place} lets us in within {self.timeout:g} s; see that one listens for eMQP there "
            f"(triomq serve --emqp {self.port}), and {takes}"
        )

    def connect(self, identity: str, nursery: trio.Nursery) -> EMQPSocket:
        """Return a socket that has begun to connect; see ``EMQPConnector``."""
        settings = dealer_settings(
            self.keys, self.server_key, identity=identity.encode(), user=self.user, password=self.password
        )
        place = Place(host=self.host, port=self.port, path=self.path, tls=self.tls, ca=self.ca)
        return Dealer(place, settings, nursery)

    def settings(self) -> Settings:
        """Return what the engine has to know."""
        return Settings(
            dialect=self.dialect,
            capabilities=(EXTENSIONS,) if self.extensions else (),
            heartbeat=self.heartbeat,
            silence=2 * self.heartbeat if self.silence is None else self.silence,
        )


def parse_emqp_url(url: str) -> EMQPUrl:
    """Read a URL.

    Raises:
        ConfigError: It is none, or something in it is not allowed; the text never shows the password.
    """
    parts, port = split_url(url, ("emqp", "emqps", "emqp+unix"), "eMQP", _EXAMPLE)
    found = {**read_options(parts.query, _READERS), **read_credentials(parts)}
    require_both_keys(found)
    if parts.scheme == "emqp+unix":
        if parts.hostname or not parts.path.strip("/"):
            raise ConfigError("a Unix socket's URL has no host and an absolute path: emqp+unix:///run/triomq.sock")
        return msgspec.convert(found | {"host": "", "path": unquote(parts.path)}, EMQPUrl)
    if parts.path.strip("/"):
        raise ConfigError(f"the URL has something behind the port that it has no place for; {_EXAMPLE}")
    found |= {"host": unquote(parts.hostname or "127.0.0.1"), "port": DEFAULT_PORT if port is None else port}
    return msgspec.convert(found | {"tls": parts.scheme == "emqps"}, EMQPUrl)


def _flag(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError("yes or no")
    return text == "yes"


_READERS: dict[str, Callable[[str], object]] = {
    "ca": read_file_name,
    "keys": read_file_name,
    "server_key": read_file_name,
    "dialect": one_of("eventmq-0.3", "strict"),
    "extensions": _flag,
    "heartbeat": read_seconds,
    "silence": read_seconds,
    "timeout": read_seconds,
    "name": str,
}
