"""The configuration of an MTL endpoint; loads no pyzmq, since every broker knows this type."""

from collections.abc import Collection, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import msgspec

from triomq.checked import Checked
from triomq.core import SinkKind
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.endpoint_config import Codec, Hosts, SocketConfig, read_secret_key
from triomq.endpoints.declaring import STANDARD_EXCHANGES
from triomq.endpoints.mtl.content import MTL_CODEC, amend_mtl, from_mtl
from triomq.endpoints.mtl.profile import ResourceProfile
from triomq.endpoints.mtl.profiles import BUILT_IN
from triomq.errors import ConfigError
from triomq.transports import TLS, is_loopback

if TYPE_CHECKING:
    from triomq.endpoints.mtl.endpoint import MTLEndpoint

_PORT = 5975
"""Where the first implementations listened; the data port is the next one."""

_Port = Annotated[int, msgspec.Meta(ge=0, le=0xFFFF)]
_Seconds = Annotated[float, msgspec.Meta(gt=0)]
_Count = Annotated[int, msgspec.Meta(ge=1)]

MechanismName = Literal["SCRAM-SHA-256", "SCRAM-SHA-512", "EXTERNAL", "PLAIN"]


class MTL(Checked, SocketConfig, frozen=True, forbid_unknown_fields=True, tag="mtl"):
    """Where and how to listen for 11/MTL.

    Args:
        host: An address, or a list of them; ``*`` is all of IPv4, ``localhost`` both loopback addresses.
        port: Port for control; 0 takes one that is free.
        data_port: Port for data; 0 takes one that is free. Without it the one behind ``port``.
        shared: Whether control and data have one socket, at ``port``.
        security: What ZeroMQ asks of peers before any log-in: ``null`` nothing; ``plain`` a user's password; ``curve``
            the key of a user, and all is encrypted.
        key_file: With ``curve``: the broker's keys, from the folder of the configuration; ``triomq user curve`` makes
            them.
        old_zeromq: Whether peers of ZeroMQ before 4.0 may come, with ``null`` on loopback addresses alone. Nothing
            tells connections apart then but the identities that ZeroMQ gives them.
        tls: How to speak TLS on all ports; none is not at all.
        mechanisms: How clients may log in (SASL), best first. EXTERNAL is offered with ``plain`` and ``curve``, PLAIN
            with ``curve`` and to clients on this machine.
        anonymous: As whom clients work that log in by ANONYMOUS; empty if none may.
        guest: As whom clients work that do not log in at all; empty if none may.
        virtual_hosts: Which domain each virtual host is.
        profiles: Those that clients may choose, by their names; one of your own by its class, or as
            ``"package.module:Class"``.
        heartbeat: Seconds without a word to a data peer after which it is sent a ping.
        silence: Seconds of silence after which a data peer counts as gone.
        session_seconds: How long a control session may be idle.
        lease_seconds: How long a lease may be unused, and how long it lasts when its data peer is gone.
        most_sessions: Control sessions at once.
        most_leases: Leases of one session.
        prefetch: Contents that a reader may leave unconfirmed, unless it asks for fewer or more.
        max_message_size: Bytes of the body of the largest content; ZeroMQ cuts off who sends more than 16 MiB.
    """

    protocol: ClassVar[str] = "MTL"
    codecs: ClassVar[tuple[Codec, ...]] = (Codec(MTL_CODEC, from_mtl, amend_mtl),)
    standard_sinks: ClassVar[Mapping[str, SinkKind]] = STANDARD_EXCHANGES  # for the profile amqp

    path: ClassVar[str] = ""  # type: ignore[misc]  # there are no Unix sockets here, so it is no field
    host: Hosts = "127.0.0.1"
    port: _Port = _PORT
    data_port: _Port | None = None
    shared: bool = False
    security: Literal["null", "plain", "curve"] = "null"
    key_file: str = ""
    old_zeromq: bool = False
    tls: TLS | None = None
    mechanisms: tuple[MechanismName, ...] = ("SCRAM-SHA-256", "SCRAM-SHA-512", "EXTERNAL", "PLAIN")
    anonymous: str = ""
    guest: str = ""
    virtual_hosts: Mapping[str, str] = msgspec.field(default_factory=lambda: {"/": "default"})
    profiles: tuple[object, ...] = tuple(BUILT_IN)  # names and classes: msgspec has no union for these
    heartbeat: _Seconds = 5.0
    silence: _Seconds = 15.0
    session_seconds: _Seconds = 600.0
    lease_seconds: _Seconds = 60.0
    most_sessions: _Count = 10_000
    most_leases: _Count = 64
    prefetch: _Count = 1_000
    max_message_size: Annotated[int, msgspec.Meta(ge=1, le=16 * 1024 * 1024)] = 2 * 1024 * 1024

    def __post_init__(self) -> None:
        """Check the fields, and what two of them say together; choose the data port."""
        super().__post_init__()
        if self.data_port is None:
            msgspec.structs.force_setattr(self, "data_port", self.port + 1 if 0 < self.port < 0xFFFF else 0)
        if not self.shared and self.port and self.data_port == self.port:
            raise ConfigError(
                f"data_port: found {self.data_port}, which is port as well; choose another, or set shared"
            )
        if (self.security == "curve") != bool(self.key_file):
            raise ConfigError("key_file: it belongs to security 'curve', which needs one; `triomq user curve` makes it")
        if self.old_zeromq and not (self.security == "null" and all(map(is_loopback, self.hosts))):
            raise ConfigError(
                f"old_zeromq: those peers say nothing of themselves, so it needs security 'null' and a loopback "
                f"address; found {self.security!r} and {', '.join(map(repr, self.hosts))}"
            )
        if self.heartbeat >= self.silence:
            raise ConfigError(f"silence: found {self.silence}; it must be longer than heartbeat, {self.heartbeat}")
        if not (self.mechanisms or self.anonymous or self.guest):
            raise ConfigError("mechanisms: found none, and neither anonymous nor guest is set; nobody could log in")
        if not self.profiles:
            raise ConfigError(f"profiles: found none; name some of {', '.join(map(repr, BUILT_IN))}, or your own")
        for named in self.profiles:
            _check_form(named)

    @property
    def is_encrypted(self) -> bool:
        """Whether it is, by CURVE or by TLS."""
        return self.security == "curve" or self.tls is not None

    def with_virtual_hosts(self, domains: Mapping[str, str]) -> "MTL":
        """Return the configuration with further virtual hosts; its own count more."""
        return msgspec.structs.replace(self, virtual_hosts={**domains, **self.virtual_hosts})

    def beside(self, folder: Path) -> "MTL":
        """Return the configuration with the files that it names looked for in a folder."""
        here = super().beside(folder)
        return msgspec.structs.replace(here, key_file=str(folder / self.key_file)) if self.key_file else here

    def check(self, domains: Collection[str]) -> None:
        """Check that profiles can be imported and keys can be read, and what all configurations have to check."""
        super().check(domains)
        self.find_profiles()
        read_secret_key(self.key_file)

    def find_profiles(self) -> dict[str, type[ResourceProfile]]:
        """Return the profiles by their names in lower case.

        Raises:
            ConfigError: One cannot be imported or is none, or two have one name.
        """
        found: dict[str, type[ResourceProfile]] = {}
        for named in self.profiles:
            kind = named if isinstance(named, type) else _find_profile(str(named))
            assert issubclass(kind, ResourceProfile)
            if found.setdefault(kind.name.lower(), kind) is not kind:
                raise ConfigError(f"profiles: two are called {kind.name!r}; clients choose them by their names")
        return found

    def make(self, broker: BrokerContext) -> "MTLEndpoint":
        """Create the actor that listens."""
        from triomq.endpoints.mtl.endpoint import MTLEndpoint

        return MTLEndpoint(self, broker)

    def client_url(self, address: str, credentials: str) -> str:
        """Return the URL that a client connects with."""
        return f"mtl://{credentials}@{address}"


def _check_form(named: object) -> None:
    if isinstance(named, type):
        _require_profile(named, named.__qualname__)
    elif not isinstance(named, str):
        raise ConfigError(f"profiles: found {named!r}; name a profile, or give a class that mtl.profile has made one")
    elif ":" not in named and named not in BUILT_IN:
        raise ConfigError(
            f"profiles: found {named!r}, allowed are {', '.join(map(repr, BUILT_IN))}, and 'package.module:Class' for "
            "one of your own"
        )


def _find_profile(named: str) -> type[ResourceProfile]:
    if named in BUILT_IN:
        return BUILT_IN[named]
    module, _, name = named.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"profiles: {named!r} cannot be imported: {error}") from error
    return _require_profile(found, named)


def _require_profile(found: object, shown: str) -> type[ResourceProfile]:
    if not (isinstance(found, type) and issubclass(found, ResourceProfile) and found.name):
        raise ConfigError(f"profiles: {shown} is no profile; derive it from mtl.ResourceProfile, below @mtl.profile(…)")
    return found
