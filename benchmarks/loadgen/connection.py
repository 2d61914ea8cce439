"""One raw connection: handshake, declarations, and then a bare socket for the measured loop."""

import socket
import struct
from urllib.parse import unquote, urlsplit

import msgspec

from loadgen import frames

CHANNEL = 1


class Address(msgspec.Struct, frozen=True):
    """Where a broker listens and who may enter."""

    host: str
    port: int
    user: str = "guest"
    password: str = "guest"
    virtual_host: str = "/"

    @classmethod
    def parse(cls, url: str) -> "Address":
        """Read an amqp:// URL."""
        parts = urlsplit(url)
        return cls(
            host=parts.hostname or "127.0.0.1",
            port=parts.port or 5672,
            user=unquote(parts.username or "guest"),
            password=unquote(parts.password or "guest"),
            virtual_host=unquote(parts.path[1:]) or "/",
        )


class Connection:
    """An open connection with one open channel.

    Created by a load for each of its publishers and consumers; the load owns the socket and closes it.

    Args:
        address: where to connect.
        channel: number of the channel to open.
    """

    def __init__(self, address: Address, *, channel: int = CHANNEL) -> None:
        self.socket = self._connect(address)
        self._unread = b""
        self.frame_max = 131072
        self._enter(address, channel)

    def _connect(self, address: Address) -> socket.socket:
        """Connect; a subclass that has something between the socket and AMQP begins it here."""
        connected = socket.create_connection((address.host, address.port), timeout=30)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected

    def _send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def _receive(self) -> bytes:
        """Read once; nothing is the end of the stream."""
        return self.socket.recv(65536)

    def _enter(self, address: Address, channel: int) -> None:
        """Go through the handshake and open the channel (specification 2.2.4)."""
        self._send(frames.PROTOCOL_HEADER)
        self.wait_for(frames.CONNECTION_START)
        self._send(frames.start_ok(address.user, address.password))
        tune = self.wait_for(frames.CONNECTION_TUNE)
        channel_max, frame_max, _ = struct.unpack(">HIH", tune)
        self.frame_max = frame_max or self.frame_max
        self._send(frames.tune_ok(channel_max, self.frame_max) + frames.connection_open(address.virtual_host))
        self.wait_for(frames.CONNECTION_OPEN_OK)
        self.call(frames.channel_open(channel), frames.CHANNEL_OPEN_OK)

    def _read(self, count: int) -> bytes:
        """Take exactly `count` octets from the stream."""
        while len(self._unread) < count:
            chunk = self._receive()
            if not chunk:
                raise ConnectionError("the broker closed the connection")
            self._unread += chunk
        octets, self._unread = self._unread[:count], self._unread[count:]
        return octets

    def wait_for(self, expected: tuple[int, int]) -> bytes:
        """Read until a method arrives and give its arguments.

        Args:
            expected: class and method.

        Raises:
            RuntimeError: the broker closed the channel or the connection instead.
        """
        while True:
            kind, _, size = struct.unpack(">BHI", self._read(7))
            payload = self._read(size + 1)[:-1]
            if kind != frames.METHOD:
                continue
            found = struct.unpack_from(">HH", payload)
            if found == expected:
                return payload[4:]
            if found in (frames.CONNECTION_CLOSE, frames.CHANNEL_CLOSE):
                raise RuntimeError(f"expected {expected}, the broker closed: {payload[4:]!r}")

    def call(self, request: bytes, expected: tuple[int, int]) -> bytes:
        """Send a request and wait for its reply."""
        self._send(request)
        return self.wait_for(expected)

    def take_unread(self) -> bytes:
        """Hand over what was read beyond the last reply: the first deliveries may ride behind consume-ok."""
        octets, self._unread = self._unread, b""
        return octets

    def count_messages(self, queue: str) -> int:
        """Ask how many messages are ready in a queue."""
        reply = self.call(frames.queue_declare(CHANNEL, queue, passive=True), frames.QUEUE_DECLARE_OK)
        (count,) = struct.unpack_from(">I", reply, 1 + reply[0])
        return int(count)

    def close(self) -> None:
        """Close with the closing handshake, so that the broker has forgotten us when this returns."""
        try:
            self.socket.settimeout(30)
            self.call(frames.connection_close(), frames.CONNECTION_CLOSE_OK)
        except (OSError, RuntimeError):
            pass  # it may be gone already; the socket is closed in any case
        finally:
            self.socket.close()
