"""The AMQP 0-9-1 endpoint, and its configuration."""

from collections.abc import Mapping
from socket import gethostname
from typing import Annotated, ClassVar, Literal

import msgspec
import trio

from triomq.checked import Checked
from triomq.core import LEASE_SECONDS, Leases, SinkKind
from triomq.endpoints.amqp.closed_sockets import ClosedSockets
from triomq.endpoints.amqp.connection import AMQPServerConnection
from triomq.endpoints.amqp.login import MECHANISMS, PLAIN_MECHANISMS
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.endpoint import Endpoint
from triomq.endpoints.base.endpoint_config import Codec, Hosts, SocketConfig
from triomq.endpoints.base.login import offered_mechanisms
from triomq.endpoints.base.stream_listener import StreamListener
from triomq.endpoints.content import AMQP_CODEC, amend_amqp, from_amqp
from triomq.endpoints.declaring import STANDARD_EXCHANGES
from triomq.endpoints.direct import LARGEST_MESSAGE, DirectLimits
from triomq.protocols import FieldValue
from triomq.protocols.amqp import (
    BROKER_METHODS,
    CONTROL_CAPABILITY,
    DIRECT_PROPERTY,
    INDIRECT_METHODS,
    RESTMS_CAPABILITY,
    AMQPEngine,
    Settings,
)
from triomq.security import MakeMechanism
from triomq.transports import TLS, Transport, WebSocket
from triomq.version import __version__

_CAPABILITIES: dict[str, FieldValue] = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "authentication_failure_close": True,
    "per_consumer_qos": True,
    "connection.blocked": True,
    "consumer_priorities": True,
    "direct_reply_to": True,
    CONTROL_CAPABILITY: True,
    RESTMS_CAPABILITY: True,
}
"""What clients may use beyond the specification; nothing is announced that does not work."""

_Short = Annotated[int, msgspec.Meta(ge=0, le=0xFFFF)]
"""What fits 16 bits, as ports and the wire's own heartbeats do; checked where it comes from a file."""

_PORT, _TLS_PORT = 5672, 5671  # as registered with IANA: amqp, amqps

_WEBSOCKET_PORT, _WEBSOCKET_TLS_PORT = 15670, 15669  # nothing is registered; the first is that of CloudAMQP's relay


class AMQP(Checked, SocketConfig, frozen=True, forbid_unknown_fields=True, tag="amqp"):
    """Where and how to listen for AMQP 0-9-1.

    Args:
        host: Name or address, or a list of them; ``localhost`` is both loopback addresses.
        port: Port; 0 takes one that is free. Without it 5672, or 5671 with ``tls``; with ``websocket`` 15670, or 15669.
        path: Path of a Unix socket to listen on instead; host and port are not used then.
        heartbeat: Seconds between heartbeats that the broker asks for; 0 asks for none.
        frame_max: Octets of the largest frame, from 4,096.
        channel_max: Open channels of one connection.
        max_message_size: Octets of the largest body; never over a quarter of the broker's memory mark.
        virtual_hosts: Which domain each virtual host is.
        consumer_timeout: Seconds that a client may leave a delivery unsettled before its channel is closed, unless the
            queue has a limit of its own; 0 for ever.
        compatibility: Whose answers are given where AMQP's ``specification`` and ``rabbitmq`` differ: by the former
            immediate, the flow of a channel, recover without requeue and sizes of windows work; RabbitMQ refuses them.
        tls: How to speak TLS; none is not at all.
        websocket: How to speak WebSocket, which then is all that is spoken on this port; none is not at all.
        allow_plain_insecure: Let clients on other machines send their passwords in plain text, without TLS.
        direct: What is announced of direct connections: 1 asks for them where they can be used, 0 allows them.
        direct_connections: Whether there are any.
        direct_heartbeat: Seconds between null messages on a direct feed that is quiet; 0 for none.
        direct_message_size: Octets of the largest message on a direct connection, its size word aside; as above.
        direct_lease: Seconds that a lease may be unused.
    """

    protocol: ClassVar[str] = "AMQP 0-9-1"
    codecs: ClassVar[tuple[Codec, ...]] = (Codec(AMQP_CODEC, from_amqp, amend_amqp),)
    standard_sinks: ClassVar[Mapping[str, SinkKind]] = STANDARD_EXCHANGES

    host: Hosts = "localhost"
    port: _Short | None = None
    path: str = ""
    heartbeat: _Short = 60
    frame_max: Annotated[int, msgspec.Meta(ge=4096, le=0xFFFFFFFF)] = 131072
    channel_max: Annotated[int, msgspec.Meta(ge=1, le=0xFFFF)] = 2047
    max_message_size: Annotated[int, msgspec.Meta(ge=1)] = 128 * 1024 * 1024
    virtual_hosts: Mapping[str, str] = msgspec.field(default_factory=lambda: {"/": "default"})
    consumer_timeout: Annotated[float, msgspec.Meta(ge=0)] = 1800.0
    compatibility: Literal["specification", "rabbitmq"] = "specification"
    tls: TLS | None = None
    websocket: WebSocket | None = None
    allow_plain_insecure: bool = True
    direct: Annotated[int, msgspec.Meta(ge=0, le=1)] = 0
    direct_connections: bool = True
    direct_heartbeat: Annotated[float, msgspec.Meta(ge=0)] = 5.0
    direct_message_size: Annotated[int, msgspec.Meta(ge=8, le=LARGEST_MESSAGE)] = 2 * 1024 * 1024
    direct_lease: Annotated[float, msgspec.Meta(ge=0)] = LEASE_SECONDS

    def __post_init__(self) -> None:
        """Check the fields, and choose the port that clients expect."""
        super().__post_init__()
        if self.port is None:
            ports = (_PORT, _TLS_PORT) if self.websocket is None else (_WEBSOCKET_PORT, _WEBSOCKET_TLS_PORT)
            msgspec.structs.force_setattr(self, "port", ports[self.tls is not None])

    def make(self, broker: BrokerContext) -> "AMQPEndpoint":
        """Return the actor that listens."""
        return AMQPEndpoint(self, broker)

    def with_virtual_hosts(self, domains: Mapping[str, str]) -> "AMQP":
        """Return the configuration with further virtual hosts; its own count more."""
        return msgspec.structs.replace(self, virtual_hosts={**domains, **self.virtual_hosts})

    def client_url(self, address: str, credentials: str) -> str:
        """Return the URL that a client connects with."""
        if self.websocket is not None:
            return f"{'ws' if self.tls is None else 'wss'}://{credentials}@{address}{self.websocket.path}"
        return f"{'amqp' if self.tls is None else 'amqps'}://{credentials}@{address}"

    def settings(self, mechanisms: tuple[str, ...]) -> Settings:
        """Return what the engine needs to know; ``mechanisms`` are those that are offered, best first."""
        return Settings(
            mechanisms=mechanisms,
            channel_max=self.channel_max,
            frame_max=self.frame_max,
            heartbeat=self.heartbeat,
            max_message_size=self.max_message_size,
            server_properties={
                "product": "triomq",
                "version": __version__,
                "platform": "Python",
                "cluster_name": f"triomq@{gethostname()}",
                "capabilities": dict(_CAPABILITIES),
                # Here, for older clients read no other types of fields than those of these four.
                **({DIRECT_PROPERTY: self.direct} if self.direct_connections else {}),
            },
        )


_SUBPROTOCOL = "amqp"
"""What clients over WebSocket may ask for."""

_LEASE_TICK = 1.0
"""Seconds between two looks at leases that are not used: they last for thirty."""


class AMQPEndpoint(Endpoint):
    """The actor that listens for AMQP.

    Args:
        config: Where and how.
        context: What the broker lends.
        mechanisms: How one may log in, best first.
    """

    def __init__(
        self, config: AMQP, context: BrokerContext, *, mechanisms: Mapping[str, MakeMechanism] = MECHANISMS
    ) -> None:
        self.listener = StreamListener(
            self.make_client,
            config.host,
            config.port or 0,
            path=config.path,
            tls=config.tls,
            websocket=config.websocket,
            subprotocols=(_SUBPROTOCOL,),
        )
        super().__init__(context, self.listener)
        self._config = config
        self._tls = config.tls
        self._settings: dict[tuple[tuple[str, ...], int], Settings] = {}
        self._mechanisms = mechanisms
        self._secret_mechanisms = {name: make for name, make in mechanisms.items() if name not in PLAIN_MECHANISMS}
        self._plain_to_all = config.allow_plain_insecure
        self._virtual_hosts = config.virtual_hosts
        self._consumer_timeout = config.consumer_timeout
        self._methods = BROKER_METHODS if config.direct_connections else INDIRECT_METHODS
        self._has_direct = config.direct_connections
        self._direct_limits = DirectLimits(config.direct_message_size, config.direct_heartbeat)
        self._leases = Leases(trio.current_time, config.direct_lease)
        self._closed_sockets = ClosedSockets(self.timers)

    async def on_start(self) -> None:
        """Listen, and expire leases that are not used."""
        await super().on_start()
        self.start_task(self._expire_leases)

    async def on_stop(self) -> None:
        """Close the sockets that were left to their clients, and end sessions that only have a lease left."""
        self._closed_sockets.close()
        self._leases.close()
        await super().on_stop()

    async def _expire_leases(self) -> None:
        while True:
            await trio.sleep(_LEASE_TICK)
            self._leases.expire()

    def make_client(self, transport: Transport) -> AMQPServerConnection:
        """Return the actor that serves a connection over a transport."""
        mechanisms = offered_mechanisms(
            transport, self._mechanisms, self._secret_mechanisms, tls=self._tls, plain_to_all=self._plain_to_all
        )
        offered = tuple(mechanisms)
        largest = self.context.unfinished.largest(self._config.max_message_size)
        settings = self._settings.get((offered, largest))
        if settings is None:  # connections that are offered the same share them
            settings = msgspec.structs.replace(self._config.settings(offered), max_message_size=largest)
            self._settings[offered, largest] = settings
        engine = AMQPEngine("server", now=trio.current_time(), settings=settings, methods=self._methods)
        return AMQPServerConnection(
            transport,
            engine,
            self.context,
            virtual_hosts=self._virtual_hosts,
            mechanisms=mechanisms,
            consumer_timeout=self._consumer_timeout,
            as_rabbitmq=self._config.compatibility == "rabbitmq",
            leases=self._leases,
            fork=self._fork,
            part=self._closed_sockets.add,
        )

    def _fork(self, transport: Transport, data: bytes) -> None:
        """Serve a direct connection over a transport whose first octets have come."""
        leases = self._leases if self._has_direct else None
        connection = self.context.direct.connect(transport, self.context, leases, self._direct_limits)
        self.serve(connection)
        connection.received(data)
