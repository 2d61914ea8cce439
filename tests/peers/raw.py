"""One raw socket that speaks AMQP frame by frame; pamqp encodes and decodes the methods."""

import socket
import struct
from typing import NamedTuple, Self, TypeVar
from urllib.parse import urlsplit

from pamqp import commands, frame
from pamqp.base import Frame as Method
from pamqp.body import ContentBody
from pamqp.header import ContentHeader

DEADLINE = 100.0
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
Reply = TypeVar("Reply", bound=Method)


class RawFrame(NamedTuple):
    """One frame as it came."""

    kind: int
    channel: int
    payload: bytes

    def decode(self) -> Method:
        """The method in it."""
        head = struct.pack(">BHI", self.kind, self.channel, len(self.payload))
        return frame.unmarshal(head + self.payload + b"\xce")[2]


def encode(channel: int, *values: Method | ContentHeader | ContentBody) -> bytes:
    return b"".join(frame.marshal(value, channel) for value in values)


def raw_frame(kind: int, channel: int, payload: bytes, end: bytes = b"\xce") -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + end


def content(channel: int, body: bytes, properties: bytes = b"\0\0", *, frame_max: int = 131072) -> bytes:
    """Header and body frames of a content.

    Args:
        channel: channel number.
        body: the body, cut into frames of at most `frame_max`.
        properties: flags and values as octets (specification 4.2.6.1).
        frame_max: the negotiated size.
    """
    step = frame_max - 8
    parts = [raw_frame(HEADER, channel, struct.pack(">HHQ", 60, 0, len(body)) + properties)]
    parts += [raw_frame(BODY, channel, body[start : start + step]) for start in range(0, len(body), step)]
    return b"".join(parts)


def publish(channel: int, exchange: str, routing_key: str, body: bytes, properties: bytes = b"\0\0") -> bytes:
    """A whole publish."""
    method = commands.Basic.Publish(exchange=exchange, routing_key=routing_key)
    return encode(channel, method) + content(channel, body, properties)


class RawPeer:
    """A client that sends what it is told and shows what comes.

    Args:
        url: the broker.
        heartbeat: what tune-ok asks for, 0 for none.
        frame_max: what tune-ok asks for; None takes the broker's offer.
        channel_max: the same.
        capabilities: client capabilities.
        handshake: False leaves the socket as it was connected.
    """

    def __init__(
        self,
        url: str,
        *,
        heartbeat: int = 0,
        frame_max: int | None = None,
        channel_max: int | None = None,
        capabilities: dict[str, bool] | None = None,
        handshake: bool = True,
    ) -> None:
        parts = urlsplit(url)
        self.user, self.password = parts.username or "guest", parts.password or "guest"
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout=DEADLINE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = b""
        if handshake:
            self.start(capabilities)
            self.tune(heartbeat, frame_max, channel_max)
            self.call(0, commands.Connection.Open(), commands.Connection.OpenOk)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def start(self, capabilities: dict[str, bool] | None = None, **changes: str) -> None:
        """Greet and log in."""
        self.socket.sendall(PROTOCOL_HEADER)
        start = self.expect(commands.Connection.Start)
        self.server_properties = start.server_properties
        login = {"mechanism": "PLAIN", "response": f"\0{self.user}\0{self.password}", **changes}
        self.send(0, commands.Connection.StartOk({"capabilities": capabilities or {}}, **login))

    def tune(self, heartbeat: int = 0, frame_max: int | None = None, channel_max: int | None = None) -> None:
        """Answer the offer."""
        self.offer = self.expect(commands.Connection.Tune)
        self.frame_max = self.offer.frame_max if frame_max is None else frame_max
        channels = self.offer.channel_max if channel_max is None else channel_max
        self.send(0, commands.Connection.TuneOk(channels, self.frame_max, heartbeat))

    def send(self, channel: int, *values: Method | ContentHeader | ContentBody) -> None:
        self.socket.sendall(encode(channel, *values))

    def read(self) -> RawFrame | None:
        """The next frame, heartbeats left out; None when the broker has ended the stream."""
        while True:
            found = self.read_any()
            if found is None or found.kind != HEARTBEAT:
                return found

    def read_any(self) -> RawFrame | None:
        """The next frame of any kind."""
        head = self.take(7)
        if head is None:
            return None
        kind, channel, size = struct.unpack(">BHI", head)
        rest = self.take(size + 1)
        assert rest is not None, "the stream ended within a frame"
        assert rest.endswith(b"\xce"), f"a frame ends with {rest[-1:]!r}"
        return RawFrame(kind, channel, rest[:-1])

    def take(self, count: int) -> bytes | None:
        """Exactly `count` octets; None at the end of the stream or after a reset."""
        while len(self._unread) < count:
            try:
                chunk = self.socket.recv(1 << 18)
            except ConnectionResetError:
                return None
            if not chunk:
                return None
            self._unread += chunk
        octets, self._unread = self._unread[:count], self._unread[count:]
        return octets

    def read_method(self) -> Method:
        """The next frame, which must hold a method."""
        found = self.read()
        assert found is not None, "the broker ended the stream"
        assert found.kind == METHOD, f"expected a method, found {found}"
        return found.decode()

    def expect(self, kind: type[Reply]) -> Reply:
        """The next frame, which must hold this method."""
        found = self.read_method()
        assert isinstance(found, kind), f"expected {kind.name}, found {dict(found)} ({found.name})"
        return found

    def call(self, channel: int, request: Method, reply: type[Reply]) -> Reply:
        """Send a request; the next frame must be its reply."""
        self.send(channel, request)
        return self.expect(reply)

    def open_channel(self, channel: int) -> None:
        self.call(channel, commands.Channel.Open(), commands.Channel.OpenOk)

    def declare_queue(self, channel: int = 1, name: str = "", **options: object) -> str:
        """Declare a queue, an exclusive one when nothing else is said."""
        options = {"exclusive": True, **options}
        return self.call(channel, commands.Queue.Declare(queue=name, **options), commands.Queue.DeclareOk).queue

    def read_content(self) -> tuple[bytes, bytes]:
        """Properties and body of the content that comes next."""
        header = self.read()
        assert header is not None
        assert header.kind == HEADER, f"expected a content header, found {header}"
        size = struct.unpack_from(">Q", header.payload, 4)[0]
        parts, received = [], 0
        while received < size:
            part = self.read()
            assert part is not None
            assert part.kind == BODY, f"expected a body frame, found {part}"
            assert len(part.payload) <= self.frame_max - 8, "a body frame is larger than the negotiated size"
            parts.append(part.payload)
            received += len(part.payload)
        return header.payload[12:], b"".join(parts)

    def read_delivery(self) -> tuple[commands.Basic.Deliver, bytes]:
        """The next basic.deliver and its body."""
        method = self.expect(commands.Basic.Deliver)
        return method, self.read_content()[1]

    def ended(self) -> bool:
        """Whether the broker ends the stream now, without another frame."""
        return self.read() is None
