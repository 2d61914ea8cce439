"""WebSocket from the client's side, by wsproto on any stream, and AMQP on it for the contract."""

import trio
from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Ping, Request

from endpoints.client import Client
from endpoints.contract import AMQPConfirming, AMQPConsuming, DirectPublishing, Party
from endpoints.micromsg.client import listening
from endpoints.micromsg.party import MicroMsgConsuming
from triomq.actors import ChildSpec
from triomq.endpoints import AMQP, AMQPEndpoint, WebSocket


class WebSocketStream(trio.abc.Stream):
    """The bytes of binary messages; it shakes hands when something is sent first.

    Args:
        stream: What carries it; closed with it.
        subprotocol: What it asks for, and must get.
        fields: Further fields of the request.
    """

    def __init__(self, stream: trio.abc.Stream, *, subprotocol: str = "amqp", **fields: str) -> None:
        self.below = stream
        self.closed_with: int | None = None
        self._subprotocol = subprotocol
        self._fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()]
        self._connection = WSConnection(ConnectionType.CLIENT)

    async def _shake_hands(self) -> None:
        request = Request(host="localhost", target="/", subprotocols=[self._subprotocol], extra_headers=self._fields)
        await self.below.send_all(self._connection.send(request))
        while self._connection.state is ConnectionState.CONNECTING:
            await self._receive()
            for event in self._connection.events():
                assert isinstance(event, AcceptConnection), event
                assert event.subprotocol == self._subprotocol

    async def _receive(self) -> None:
        data = bytes(await self.below.receive_some(65536))
        if not data:
            raise trio.BrokenResourceError("the other side has hung up without a Close")
        self._connection.receive_data(data)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if self._connection.connection is None:
            await self._shake_hands()
        if self._connection.state is not ConnectionState.OPEN:
            raise trio.BrokenResourceError("the connection is closed")
        for start in range(0, len(data), 1 << 20):
            await self.below.send_all(self._connection.send(BytesMessage(bytes(data[start : start + (1 << 20)]))))

    async def wait_send_all_might_not_block(self) -> None:
        await self.below.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if self._connection.connection is None:
            await self._shake_hands()
        if self.closed_with is not None:
            return b""
        while True:
            found = b""
            for event in self._connection.events():
                match event:
                    case BytesMessage(data=data):
                        found += data
                    case Ping():
                        await self.below.send_all(self._connection.send(event.response()))
                    case CloseConnection(code=code):
                        self.closed_with = code
                        if self._connection.state is ConnectionState.REMOTE_CLOSING:
                            await self.below.send_all(self._connection.send(event.response()))
                    case _:
                        raise AssertionError(event)
            if found or self.closed_with is not None:
                return found
            await self._receive()

    async def aclose(self) -> None:
        """Hang up without a Close, as a machine that fails."""
        await self.below.aclose()


class OverWebSocket(Party):
    """A client over AMQP that comes over WebSocket, to an endpoint which a test opens with its first client."""

    @property
    def endpoint(self) -> AMQPEndpoint:
        actor = self.broker.endpoints.children["websocket"].actor
        assert isinstance(actor, AMQPEndpoint)
        return actor

    async def principal(self) -> Client:
        if "websocket" not in self.broker.endpoints.children:
            config = AMQP(host="127.0.0.1", port=0, websocket=WebSocket())
            spec = ChildSpec(lambda: config.make(self.broker.context), name="websocket")
            await self.broker.endpoints.start_child(spec)
        return await super().principal()

    def connect(self) -> trio.abc.Stream:
        return WebSocketStream(super().connect())


class WebSocketPublishing(OverWebSocket, AMQPConfirming):
    """With confirms."""


class WebSocketDirectPublishing(OverWebSocket, DirectPublishing):
    """A direct connection, which is WebSocket too."""


class WebSocketConsuming(OverWebSocket, AMQPConsuming):
    """With acks."""


class MicroMsgOverWebSocket(MicroMsgConsuming):
    """A subscriber of MicroMsg2."""

    async def open_endpoint(self) -> None:
        if "micromsg" not in self.broker.endpoints.children:
            config = listening(user="", websocket=WebSocket())
            spec = ChildSpec(lambda: config.make(self.broker.context), name="micromsg")
            await self.broker.endpoints.start_child(spec)

    def connect(self) -> trio.abc.Stream:
        return WebSocketStream(super().connect(), subprotocol="micromsg")
