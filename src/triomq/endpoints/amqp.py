"""The AMQP 0-9-1 endpoint: listens, and supervises one actor for each connection it accepts."""

import logging
from collections.abc import Mapping
from importlib.metadata import version

import msgspec
import trio

from triomq.actors import ChildSpec, DynamicSupervisor, Ref
from triomq.actors import Message as ActorMessage
from triomq.endpoints.amqp_connection import AMQPConnection, CloseConnection, Tick
from triomq.endpoints.base import House
from triomq.protocols import FieldValue
from triomq.protocols.amqp import AMQPEngine, Settings
from triomq.transports import Poller, StreamTransport, Transport, accept_raw, address_of, bind_tcp

__all__ = ["AMQP", "AMQPEndpoint", "StopListening"]

_log = logging.getLogger("triomq.amqp")

_TICK = 0.5  # seconds between two looks at the timers of all connections: heartbeats are whole seconds

_OUT_OF_FILES = 0.1  # seconds until accepting is tried again when the process has too many files open

_CAPABILITIES: dict[str, FieldValue] = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "authentication_failure_close": True,
    "per_consumer_qos": True,
}
"""What clients may use beyond the specification; nothing is announced that does not work."""


class AMQP(msgspec.Struct, frozen=True, tag="amqp"):
    """Where and how to listen for AMQP 0-9-1.

    Args:
        host: Name or address; ``localhost`` is both loopback addresses.
        port: Port; 0 takes one that is free.
        heartbeat: Seconds between heartbeats that the broker asks for; 0 asks for none.
        frame_max: Octets of the largest frame, from 4,096.
        channel_max: Open channels of one connection.
        max_message_size: Octets of the largest body.
        virtual_hosts: Which domain each virtual host is.
    """

    host: str = "localhost"
    port: int = 5672
    heartbeat: int = 60
    frame_max: int = 131072
    channel_max: int = 2047
    max_message_size: int = 128 * 1024 * 1024
    virtual_hosts: Mapping[str, str] = msgspec.field(default_factory=lambda: {"/": "default"})

    @property
    def name(self) -> str:
        """The endpoint's name in the tree of actors."""
        return f"amqp-{self.host}-{self.port}"

    def bound_to(self, port: int) -> "AMQP":
        """Give the same configuration with the port that was found."""
        return msgspec.structs.replace(self, port=port)

    def make(self, house: House) -> "AMQPEndpoint":
        """Make the actor that listens."""
        return AMQPEndpoint(self, house)

    def settings(self) -> Settings:
        """Say what the engine needs to know."""
        return Settings(
            channel_max=self.channel_max,
            frame_max=self.frame_max,
            heartbeat=self.heartbeat,
            max_message_size=self.max_message_size,
            server_properties={
                "product": "triomq",
                "version": version("triomq"),
                "platform": "Python",
                "capabilities": dict(_CAPABILITIES),
            },
        )


class StopListening(ActorMessage, frozen=True):
    """To an endpoint: take no new connections and ask those that are there to go."""


class AMQPEndpoint(DynamicSupervisor):
    """The actor that listens; a child of the broker's endpoints.

    Args:
        config: Where and how.
        house: What the broker lends.
    """

    def __init__(self, config: AMQP, house: House) -> None:
        """Prepare; ``on_start`` listens."""
        super().__init__()
        self.addresses: list[tuple[str, int]] = []
        self._config = config
        self._settings = config.settings()
        self._house = house
        self._listeners: list[trio.SocketListener] = []
        self._accepted = 0
        self._accepting: trio.CancelScope | None = None
        self._empty = trio.Event()
        self._poller = Poller()
        self._connections: dict[Ref, AMQPConnection] = {}

    async def on_start(self) -> None:
        """Listen on all addresses of the host."""
        await super().on_start()
        self._listeners = await bind_tcp(self._config.host, self._config.port)
        self.addresses = [address_of(listener) for listener in self._listeners]
        self._accepting = self.start_task(self._accept_all)
        self.start_task(self._poller.run)
        self.start_task(self._tick)

    async def on_stop(self) -> None:
        """Close what watches the sockets."""
        self._poller.close()
        await super().on_stop()

    async def _accept_all(self) -> None:
        """Accept until cancelled; also after a crash the port is then free for the next incarnation."""
        try:
            async with trio.open_nursery() as nursery:
                for listener in self._listeners:
                    nursery.start_soon(self._accept, listener)
        finally:
            for listener in self._listeners:
                listener.socket.close()

    async def _accept(self, listener: trio.SocketListener) -> None:
        while True:
            try:
                stream = await listener.accept()
            except OSError as error:
                _log.error("cannot accept a connection: %s", error)
                await trio.sleep(_OUT_OF_FILES)
            else:
                self._accept_one(stream)

    def _accept_one(self, stream: trio.SocketStream) -> None:
        try:
            transport = accept_raw(stream, self._poller)
        except OSError:
            return  # gone again already
        self.connect(transport)

    def connect(self, transport: Transport) -> Ref:
        """Serve a connection over a transport."""
        engine = AMQPEngine("server", now=trio.current_time(), settings=self._settings)
        hosts = self._config.virtual_hosts
        self._accepted += 1
        connection = AMQPConnection(transport, engine, self._house, hosts)
        spec = ChildSpec(lambda: connection, name=f"connection-{self._accepted}", restart="temporary")
        ref = self.start_child_nowait(spec)
        self._connections[ref] = connection
        return ref

    def connect_stream(self, stream: trio.abc.Stream, peer: str) -> Ref:
        """Serve a connection over any Trio stream, such as one end of a memory stream."""
        transport = StreamTransport(stream, peer)
        ref = self.connect(transport)
        self.start_task(transport.run)
        return ref

    async def _tick(self) -> None:
        """Let each connection look at its timers when one is due."""
        while True:
            await trio.sleep(_TICK)
            now = trio.current_time()
            for ref in list(self.ref.children.values()):
                if isinstance(ref.actor, AMQPConnection) and ref.actor.is_due(now):
                    ref.tell_nowait(Tick(now))

    def stop_listening(self, message: StopListening) -> None:
        """Take no new connections and ask those that are there to go."""
        if self._accepting is not None:
            self._accepting.cancel()
        self._accepting = None
        for ref in list(self.ref.children.values()):
            ref.tell_nowait(CloseConnection(320, "the broker is shutting down"))
        self._note_empty()

    async def wait_empty(self) -> None:
        """Wait until the last connection has gone, once ``StopListening`` was told."""
        await self._empty.wait()

    def child_exited(self, ref: Ref, error: BaseException | None) -> None:
        """Put back what a connection that crashed had out."""
        connection = self._connections.pop(ref, None)
        if error is not None and connection is not None:
            _log.error("%s crashed", ref.path, exc_info=error)
            connection.on_stop()
        self._note_empty()

    def _note_empty(self) -> None:
        if self._accepting is None and not self.ref.children:
            self._empty.set()
