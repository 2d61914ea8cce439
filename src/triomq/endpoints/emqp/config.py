"""The configuration of an eMQP endpoint; loads no pyzmq, since every broker knows this type."""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import msgspec

from triomq.checked import Checked
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.endpoint_config import Codec, EndpointConfig, Hosts, places_of, read_secret_key
from triomq.endpoints.emqp.content import EMQP_CODEC, amend_emqp, from_emqp
from triomq.endpoints.emqp.jobs.content import JOB_CODEC, amend_job, from_job
from triomq.errors import ConfigError, Refused
from triomq.protocols.emqp import Dialect, Settings
from triomq.timetable import Timetable
from triomq.transports import TLS, hosts_in, is_loopback

if TYPE_CHECKING:
    from triomq.endpoints.emqp.endpoint import EMQPEndpoint

_Port = Annotated[int, msgspec.Meta(ge=0, le=0xFFFF)]

_Seconds = Annotated[float, msgspec.Meta(gt=0)]


class EMQP(Checked, EndpointConfig, frozen=True, forbid_unknown_fields=True, tag="emqp"):
    """Where and how to listen for EventMQ's protocol.

    Args:
        host: An address, or a list of them; ``*`` is all of IPv4, ``localhost`` both loopback addresses.
        port: Port for clients, workers and schedulers; 0 takes one that is free, none is for code of this program
            alone, which needs no socket.
        worker_port: Another port for the same, for programs that look for workers there (47290); none is no other.
        publish_port: Another port for the same, for programs that publish there (47298); none is no other.
        admin_port: Another port for the same, on the loopback, where administrators may stop the endpoint by DISCONNECT
            (47293); none is none.
        topic_port: Port for plain ZeroMQ SUB sockets, which get what is published to topics (47299); none is none.
        path: Path of a Unix socket to listen on instead of ``port``; then there is no ``worker_port`` or
            ``publish_port``.
        tls: How to speak TLS on all of these; none is not at all.
        security: How peers say who they are: ``null`` not at all, as released programs do, on loopback addresses alone;
            ``plain`` by a password, ``curve`` by a key, encrypted.
        user: With ``null``: as whom all of them work.
        key_file: With ``curve``: the broker's keys, from the folder of the configuration; ``triomq user curve`` makes
            them.
        domain: Where the queues are.
        dialect: What is written to peers that have not announced our extensions: ``eventmq-0.3`` as the released
            programs do, or ``strict`` as the specification says.
        heartbeat: Seconds between heartbeats; released workers want one every five seconds.
        silence: Seconds of silence after which a worker or a scheduler counts as gone.
        max_message_size: Bytes of the largest payload.
        schedules: Who runs them: the ``broker`` itself, or the scheduler among its ``peers`` that came last.
        timezone: In which cron texts are meant that name none.
    """

    protocol: ClassVar[str] = "eMQP"
    codecs: ClassVar[tuple[Codec, ...]] = (
        Codec(EMQP_CODEC, from_emqp, amend_emqp),
        Codec(JOB_CODEC, from_job, amend_job),
    )

    host: Hosts = "127.0.0.1"
    port: _Port | None = 47291
    worker_port: _Port | None = None
    publish_port: _Port | None = None
    admin_port: _Port | None = None
    topic_port: _Port | None = None
    path: str = ""
    tls: TLS | None = None
    security: Literal["null", "plain", "curve"] = "null"
    user: str = "guest"
    key_file: str = ""
    domain: str = "default"
    dialect: Dialect = "eventmq-0.3"
    heartbeat: _Seconds = 3.0
    silence: _Seconds = 15.0
    max_message_size: Annotated[int, msgspec.Meta(ge=1, le=16 * 1024 * 1024)] = 2 * 1024 * 1024
    schedules: Literal["broker", "peers"] = "broker"
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        """Check the fields, and what two of them say together."""
        super().__post_init__()
        exposed = next((host for host in hosts_in(self.host) if not is_loopback(host)), None)
        if self.security == "null" and exposed is not None:
            raise ConfigError(
                f"host: {exposed!r} is open to other machines, and with security 'null' nobody says who it is; "
                "choose 'plain' or 'curve', or listen on 127.0.0.1"
            )
        if self.path and (self.worker_port is not None or self.publish_port is not None):
            raise ConfigError("path: there is a worker_port or a publish_port too; choose ports, or a Unix socket")
        if (self.security == "curve") != bool(self.key_file):
            raise ConfigError("key_file: it belongs to security 'curve', which needs one; `triomq user curve` makes it")
        try:
            Timetable(cron="* * * * *", timezone=self.timezone).check(0.0)
        except Refused as refused:
            raise ConfigError(f"timezone: {refused}") from None
        if self.heartbeat >= self.silence:
            raise ConfigError(f"silence: found {self.silence}; it must be longer than heartbeat, {self.heartbeat}")

    @property
    def name(self) -> str:
        """The endpoint's name in the tree of actors."""
        if self.path:
            return f"emqp-{self.path.strip('/').replace('/', '-')}"
        return f"emqp-{'-'.join(self.hosts)}-{self.port}" if self.ports else f"emqp-in-memory-{self.domain}"

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports for clients, workers and schedulers."""
        if self.path:
            return ()
        return tuple(port for port in (self.port, self.worker_port, self.publish_port) if port is not None)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that it listens on, for its peers or for those who read topics."""
        return hosts_in(self.host) if self.ports or self.topic_port is not None else ()

    @property
    def place(self) -> str:
        """Where it listens as configured."""
        return self.path or (places_of(self.hosts, self.port or 0) if self.ports else "memory")

    @property
    def is_encrypted(self) -> bool:
        """Whether it is, by CURVE or by TLS."""
        return self.security == "curve" or self.tls is not None

    def bound_to(self, port: int) -> "EMQP":
        """Return the same configuration with the port that was found."""
        return self if self.port is None else msgspec.structs.replace(self, port=port)

    def beside(self, folder: Path) -> "EMQP":
        """Return the configuration with the files that it names looked for in a folder."""
        here = super().beside(folder)
        return msgspec.structs.replace(here, key_file=str(folder / self.key_file)) if self.key_file else here

    def check(self, domains: Collection[str]) -> None:
        """Check that there is the domain, and that the keys can be read; see ``EndpointConfig``."""
        if self.domain not in domains:
            raise ConfigError(f"domain: found {self.domain!r}, but domains has {', '.join(map(repr, domains))}")
        read_secret_key(self.key_file)
        super().check(domains)

    def make(self, broker: BrokerContext) -> "EMQPEndpoint":
        """Create the actor that listens."""
        from triomq.endpoints.emqp.endpoint import EMQPEndpoint

        return EMQPEndpoint(self, broker)

    def client_url(self, address: str, credentials: str) -> str:
        """Return the URL that a client connects with."""
        scheme = "emqp" if self.tls is None else "emqps"
        return f"{scheme}://{address}" if self.security == "null" else f"{scheme}://{credentials}@{address}"

    def settings(self) -> Settings:
        """Return what engines have to know."""
        return Settings(
            dialect=self.dialect,
            heartbeat=self.heartbeat,
            silence=self.silence,
            max_message_size=self.max_message_size,
        )
