"""What the configuration of an endpoint tells of itself, so that code which reads or shows it knows no protocol.

Each protocol has a frozen Struct of its own, with a tag that a configuration file names::

    class Lines(Checked, EndpointConfig, frozen=True, forbid_unknown_fields=True, tag="lines"):
        protocol = "lines of text"
        host: str = "localhost"
        port: int = 7000
        …

A plain base class and no Struct: msgspec then asks ``isinstance`` of what programs write, and the registry for the
Struct that a table of a file becomes. A union of Structs could do neither for a package that is installed later.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Self, TypeAlias

import msgspec

from triomq.core import Amend, Properties, SinkKind
from triomq.endpoints.base.context import BrokerContext
from triomq.errors import ConfigError
from triomq.transports import TLS, WebSocket, hosts_in, make_context, name_of, read_curve_pair

if TYPE_CHECKING:
    from triomq.endpoints.base.endpoint import Endpoint


Hosts: TypeAlias = str | Annotated[Sequence[str], msgspec.Meta(min_length=1)]
"""The field ``host`` of a configuration: a name or an address, or a list of them."""


class Codec(msgspec.Struct, frozen=True):
    """How properties of messages are read that travel as a protocol writes them.

    Args:
        tag: The number that stands in each such message, on disk too; 0 and 1 are taken, none is ever given twice.
        decode: Returns the properties; raises ``ProtocolError`` when they cannot be read.
        amend: Returns them encoded with other headers.
    """

    tag: int
    decode: Callable[[bytes], Properties]
    amend: Amend


class EndpointConfig:
    """Base of the configurations of endpoints; a subclass is a ``Checked`` Struct with a tag as well."""

    __slots__ = ()

    protocol: ClassVar[str]
    """What people call the protocol, such as ``AMQP 0-9-1``."""

    codecs: ClassVar[tuple[Codec, ...]] = ()
    """How to read the messages that have come by this protocol, also when nothing listens for it any more."""

    standard_sinks: ClassVar[Mapping[str, SinkKind]] = {}
    """The sinks that the protocol expects in every domain from the start."""

    @property
    def name(self) -> str:
        """The endpoint's name in the tree of actors."""
        raise NotImplementedError

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts whose addresses it listens on; none if only this machine can reach it, by a Unix socket."""
        raise NotImplementedError

    @property
    def place(self) -> str:
        """Where it listens as configured, such as ``localhost:5672`` or the path of a Unix socket."""
        raise NotImplementedError

    @property
    def tls(self) -> TLS | None:
        """How it speaks TLS; None is not at all."""
        return None

    @property
    def websocket(self) -> WebSocket | None:
        """How it speaks WebSocket; None is not at all."""
        return None

    @property
    def is_encrypted(self) -> bool:
        """Whether what goes over the network can be read by its two ends alone."""
        return self.tls is not None

    @property
    def virtual_hosts(self) -> Mapping[str, str]:
        """The domain of each virtual host; empty where the protocol has none."""
        return {}

    @property
    def spoken(self) -> str:
        """The protocol, and what carries it where that is not usual."""
        return self.protocol if self.websocket is None else f"{self.protocol} over WebSocket"

    def bound_to(self, port: int) -> "EndpointConfig":
        """Return the same configuration with the port that was found, for the next incarnation."""
        raise NotImplementedError

    def make(self, broker: BrokerContext) -> "Endpoint":
        """Create the actor that listens."""
        raise NotImplementedError

    def with_virtual_hosts(self, domains: Mapping[str, str]) -> "EndpointConfig":
        """Return the configuration with further virtual hosts, below its own; itself where the protocol has none."""
        return self

    def beside(self, folder: Path) -> Self:
        """Return the configuration with the files that it names looked for in a folder."""
        if self.tls is None:
            return self
        assert isinstance(self, msgspec.Struct)
        return msgspec.structs.replace(self, tls=self.tls.beside(folder))

    def check(self, domains: Collection[str]) -> None:
        """Check what no single setting can show; begin a text with the setting that it is about.

        Args:
            domains: The domains of the broker.

        Raises:
            ConfigError: A virtual host leads to none of the domains, or a certificate cannot be read.
        """
        for virtual_host, domain in self.virtual_hosts.items():
            if domain not in domains:
                raise ConfigError(
                    f"virtual_hosts: {virtual_host!r} leads to the domain {domain!r}, but domains has "
                    f"{', '.join(map(repr, domains))}"
                )
        if self.tls is not None:
            make_context(self.tls)

    def describe(self) -> str:
        """Return a line for people: what it listens for, where, and whether with TLS."""
        return f"{self.spoken} on {self.place}{'' if self.tls is None else ' with TLS'}"

    def client_url(self, address: str, credentials: str) -> str:
        """Return what a client connects with, to be read by people behind the words "connect with".

        Args:
            address: Host and port, joined by a colon.
            credentials: Name and password, joined by a colon.
        """
        return f"a client for {self.protocol} to {address}, as {credentials}"


class SocketConfig(EndpointConfig):
    """Base of the configurations of endpoints that listen on TCP or a Unix socket: Structs with the fields below."""

    __slots__ = ()

    if TYPE_CHECKING:
        host: Hosts
        port: int | None
        path: str

    @property
    def name(self) -> str:
        """The protocol's tag, and where it listens."""
        assert isinstance(self, msgspec.Struct)
        where = self.path.strip("/").replace("/", "-") if self.path else f"{'-'.join(self.hosts)}-{self.port}"
        return f"{self.__struct_config__.tag}-{where}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts whose addresses it listens on; none with a ``path``."""
        return () if self.path else hosts_in(self.host)

    @property
    def place(self) -> str:
        """Where it listens as configured."""
        return self.path or places_of(self.hosts, self.port or 0)

    def bound_to(self, port: int) -> Self:
        """Return the same configuration with the port that was found."""
        assert isinstance(self, msgspec.Struct)
        return msgspec.structs.replace(self, port=port)


def places_of(hosts: Sequence[str], port: int) -> str:
    """Return the hosts with a port, for people."""
    return ", ".join(name_of((host, port)) for host in hosts)


def read_secret_key(key_file: str) -> str:
    """Return the broker's own key for CURVE; empty where no file is named.

    Raises:
        ConfigError: It cannot be read.
    """
    if not key_file:
        return ""
    return read_curve_pair(Path(key_file)).secret
