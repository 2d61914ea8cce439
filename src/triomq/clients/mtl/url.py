"""Where an MTL broker is and as whom to come, read from a URL.

``mtl://user:password@host:port/virtual%2Fhost?profile=queue``; with ``?keys=ada.key_secret&server_key=broker.key`` it
is encrypted, and who we are is what our keys say (CURVE); ``mtls://`` for TLS. Options stand behind the question mark.
"""

from collections.abc import Callable
from urllib.parse import unquote

import msgspec

from triomq.clients.url_options import (
    one_of,
    read_credentials,
    read_file_name,
    read_options,
    read_seconds,
    require_both_keys,
    split_url,
    virtual_host_of,
    zmq_address,
)
from triomq.errors import ConfigError
from triomq.protocols.mtl import MTLSettings
from triomq.shown import shown

DEFAULT_PORT = 5975

_EXAMPLE = (
    "write mtl://user:password@host:port/virtual-host, or mtl://host:port?keys=FILE&server_key=FILE; mtls:// for TLS"
)

_MESSAGE_MOST = 512 * 1024 * 1024
"""Bytes of a content; a broker's own limit is lower."""


class MTLUrl(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a broker is, as whom to log in, and what to work with.

    Args:
        host: Name or address.
        port: TCP port of control flows; the broker says where data flows go.
        tls: Whether to speak TLS, on all of them.
        ca: A file with the certificates of whom to trust with TLS; empty trusts whom the system trusts.
        user: Who logs in by a password; empty for nobody.
        password: With what; never shown.
        virtual_host: Where to work.
        profile: What to work with: ``queue``, ``restms``, ``amqp``, ``test``, or one of the broker's own.
        auth_mechanism: ``plain``, ``scram-sha-256``, ``scram-sha-512`` or ``external``; empty for the best one that
            the broker offers.
        keys: A file with our keys, for CURVE.
        server_key: A file with the broker's public key.
        heartbeat: Seconds of own silence after which a data flow says that it is there.
        silence: Seconds of the broker's silence after which it counts as gone.
        timeout: Seconds that the broker may take to let us in, and to answer a command.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    tls: bool = False
    ca: str = ""
    user: str = ""
    password: str = ""
    virtual_host: str = "/"
    profile: str = "queue"
    auth_mechanism: str = ""
    keys: str = ""
    server_key: str = ""
    heartbeat: float = 5.0
    silence: float = 15.0
    timeout: float = 10.0

    def address(self, port: int = 0) -> str:
        """Return the address for ZeroMQ of control flows, or of another port of the same host."""
        return zmq_address(self.host, port or self.port)

    def __repr__(self) -> str:
        """Show no password: representations end up in logs."""
        return f"MTLUrl({shown(self.user)} at {self.address()} in {shown(self.virtual_host)}, {shown(self.profile)})"

    @property
    def trouble(self) -> str:
        """What may be wrong if no broker answers in time."""
        keys = (
            "takes these keys" if self.keys else "takes peers without keys; for CURVE write ?keys=FILE&server_key=FILE"
        )
        return (
            f"no broker at {self.address()} answers within {self.timeout:g} s; see that one listens for MTL there, and "
            f"that it {keys}"
        )

    def settings(self) -> MTLSettings:
        """Return what the engines have to know."""
        return MTLSettings(heartbeat=self.heartbeat, silence=self.silence, max_message_size=_MESSAGE_MOST)


def parse_mtl_url(url: str) -> MTLUrl:
    """Read a URL.

    Raises:
        ConfigError: It is none, or something in it is not allowed; the text never shows the password.
    """
    parts, port = split_url(url, ("mtl", "mtls"), "MTL", _EXAMPLE)
    found = {**read_options(parts.query, _READERS), **read_credentials(parts)}
    require_both_keys(found)
    found |= {
        "host": unquote(parts.hostname or "127.0.0.1"),
        "port": DEFAULT_PORT if port is None else port,
        "tls": parts.scheme == "mtls",
        "virtual_host": virtual_host_of(parts),
    }
    made = msgspec.convert(found, MTLUrl)
    if made.heartbeat >= made.silence:
        raise ConfigError(
            f"the URL's silence is {made.silence:g} s; it must be longer than heartbeat, {made.heartbeat:g} s"
        )
    return made


_READERS: dict[str, Callable[[str], object]] = {
    "profile": str,
    "auth_mechanism": one_of("plain", "scram-sha-256", "scram-sha-512", "external"),
    "ca": read_file_name,
    "keys": read_file_name,
    "server_key": read_file_name,
    "heartbeat": read_seconds,
    "silence": read_seconds,
    "timeout": read_seconds,
}
