"""WebSocket over another transport, in turns: no task for a connection, and no waiting in a turn.

    RawSocket, TLSSocket ── received ──▶ wsproto ─▶ driver.received(the payloads of a chunk, joined)
    RawSocket, TLSSocket ◀─ send_nowait ─ wsproto ◀─ send_nowait(plain buffers)

What goes over it is a stream of bytes, so where messages of WebSocket begin and end means nothing to who reads: they
are passed on as they come, frame by frame and in parts, and nothing is gathered. What is written is one binary message
for each call of ``send_nowait``; connections write whole frames of theirs, so that none of those is split.

- Text is refused with 1003, a frame that is too large with 1009, what is no WebSocket with 1002.
- Of several pings the last one is answered, and only when all that was written has left (RFC 6455 section 5.5.3): a
  peer that sends pings and reads nothing costs nothing.
- No extension is agreed on, so there is no compression: nothing small can unfold into something large.
- The end. ``end_sending`` sends a Close frame and leaves the other side time to answer, which then is the end of the
  stream for the driver. After an error of the peer ``close`` does not close at once: it might never read the reason.

wsproto takes 6 to 7 µs for a frame of 1 KiB. ``docs/topics/connections.rst`` has what else was measured.
"""

from collections.abc import Callable, Sequence
from typing import Final

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong
from wsproto.extensions import Extension
from wsproto.frame_protocol import CloseReason, FrameDecoder, FrameProtocol, Opcode, RsvBits

from triomq.transports.stream import Buffer, Driver, Transport
from triomq.transports.websocket.handshake import ServerHandshake

_SMALL_FRAME: Final = 64
"""Bytes of a chunk per frame below which the next chunk is smaller: 64 KiB of the smallest frames take 50 ms."""

_SMALL_RECEIVE_SIZE: Final = 16 * 1024
"""Bytes that are read at once from who sends small frames."""


class WebSocketTransport:
    """A transport with WebSocket on it; a ``Transport`` once ``opened`` was called.

    Args:
        below: What carries it; owned from now on, and read at once.
        handshake: How it begins; None if it is done, as the client.
        max_frame_size: Bytes of a frame at most.
        opened: Called once, when the handshake is done; it calls ``start``, or ``close``.
        failed: Called with the reason when the handshake has failed, or when ``close`` is called after the peer broke
            the protocol; the reason is empty if the peer has gone. It calls ``close``, now or a little later.
        is_leaving: Whether connections end because this program does.
        rest: What has come behind a handshake that is done.
    """

    def __init__(
        self,
        below: Transport,
        handshake: ServerHandshake | None,
        *,
        max_frame_size: int,
        opened: "Callable[[WebSocketTransport], object]" = lambda _: None,
        failed: "Callable[[WebSocketTransport, str], object]" = lambda transport, _: transport.close(),
        is_leaving: Callable[[], bool] = lambda: False,
        rest: bytes = b"",
    ) -> None:
        self.below = below
        self.peer = below.peer
        self.receive_size = below.receive_size
        self._handshake = handshake
        self._rules = _Rules(max_frame_size)
        role = ConnectionType.CLIENT if handshake is None else ConnectionType.SERVER
        self._connection = Connection(role, [self._rules])
        self._early = rest
        self._opened = opened
        self._failed = failed
        self._is_leaving = is_leaving
        self._driver: Driver | None = None
        self._at_end = False  # the peer's words count no more
        self._fault = ""  # what the peer has done wrong, until it is left time to read about it
        self._taken = True  # whether all that was written has left
        self._ping: Ping | None = None  # to be answered when it has
        below.start(self)

    @property
    def progress(self) -> int:
        """Grows whenever some of what could not be sent at once has left."""
        return self.below.progress

    @progress.setter
    def progress(self, count: int) -> None:
        self.below.progress = count

    @property
    def bottom(self) -> Transport:
        """What is below all layers."""
        return self.below.bottom

    @property
    def is_encrypted(self) -> bool:
        """Whether it stands on TLS."""
        return self.below.is_encrypted

    def client_name(self, kind: str) -> str:
        """Return the name in the client's certificate; see ``TLSSocket``."""
        return self.below.client_name(kind)

    # Called by the transport below

    def received(self, data: bytes) -> None:
        """Process frames, or the handshake."""
        if self._at_end:
            if not data:
                self.close()  # it has read our last words, or never will
        elif not data:
            self._end()
        elif self._handshake is None:
            self._read(data)
        else:
            self._shake_hands(self._handshake, data)

    def drained(self) -> None:
        """Answer a ping that had to wait, and tell the driver that all bytes have left."""
        self._taken = True
        self._answer_ping()
        if self._driver is not None:
            self._driver.drained()

    def _shake_hands(self, handshake: ServerHandshake, data: bytes) -> None:
        answer = handshake.receive(data)
        if answer is None:
            return
        if answer.reply:
            self._write(answer.reply)
        if answer.refusal:
            self._at_end = True
            self.below.end_sending()
            self._failed(self, answer.refusal)
            return
        self._handshake = None
        self._opened(self)
        if answer.rest:
            self.received(answer.rest)

    def _read(self, data: bytes) -> None:
        """Pass on the payloads of a chunk, in one piece."""
        self._rules.frames = 0
        self._connection.receive_data(data)
        found: list[bytes | bytearray] = []
        close: CloseConnection | None = None
        for event in self._connection.events():
            if isinstance(event, BytesMessage):
                found.append(event.data)
            elif isinstance(event, Ping):
                self._ping = event
            elif isinstance(event, CloseConnection):
                close = event
        self._choose_appetite(len(data))
        self._answer_ping()
        payload = b"".join(found)
        if payload and self._driver is not None and self._is_open:
            self._driver.received(payload)
        if close is not None:
            self._finish(close)

    @property
    def _is_open(self) -> bool:
        """Whether this side has not ended the stream."""
        return self._connection.state in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING)

    def _choose_appetite(self, size: int) -> None:
        small = self._rules.frames * _SMALL_FRAME > size
        wanted = min(self.receive_size, _SMALL_RECEIVE_SIZE) if small else self.receive_size
        if wanted != self.below.receive_size:
            self.below.receive_size = wanted

    def _answer_ping(self) -> None:
        ping, self._ping = self._ping, None
        if ping is None or self._connection.state is not ConnectionState.OPEN:
            return
        if self._taken:
            self._write(self._connection.send(Pong(payload=bytes(ping.payload))))
        else:
            self._ping = ping

    def _finish(self, close: CloseConnection) -> None:
        """Answer a Close frame, or tell the peer what it did wrong; then it is over (RFC 6455 section 7.1)."""
        if self._connection.state is ConnectionState.OPEN:  # no Close frame has come
            self._fault = _FAULTS.get(close.code) or close.reason or "no WebSocket"
            close = CloseConnection(code=close.code, reason=self._fault)
        if self._is_open:
            self._write(self._connection.send(close))
        self.below.end_sending()
        self._end()

    def _end(self) -> None:
        """Pass on the end of the stream, once."""
        if self._at_end:
            return
        self._at_end = True
        if self._handshake is not None:
            self._failed(self, "")
        elif self._driver is not None:
            self._driver.received(b"")

    def _write(self, data: bytes) -> bool:
        self._taken = self.below.send_nowait((data,))
        return self._taken

    # Called by the driver

    def start(self, driver: Driver) -> None:
        """Pass data on to a driver from now on."""
        self._driver = driver
        early, self._early = self._early, b""
        if early:
            self._read(early)

    def send_nowait(self, buffers: Sequence[Buffer]) -> bool:
        """Send buffers as one message; the transport below holds what is not taken."""
        data = buffers[0] if len(buffers) == 1 else b"".join(buffers)
        if self._connection.state is not ConnectionState.OPEN:
            return self._taken  # the other side has closed, or this one has
        if not data:
            return self._write(b"")
        return self._write(self._connection.send(BytesMessage(data=bytes(data))))

    def notify_drained(self) -> None:
        """Call ``drained`` as soon as more would be taken."""
        self.below.notify_drained()

    def pause_reading(self) -> None:
        """Read nothing until ``resume_reading``, no pings either."""
        self.below.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        self.below.resume_reading()

    def end_sending(self) -> None:
        """Send a Close frame after all bytes so far; its answer is the end of the stream."""
        if self._connection.state is ConnectionState.OPEN and not self._at_end and self._handshake is None:
            code = CloseReason.GOING_AWAY if self._is_leaving() else CloseReason.NORMAL_CLOSURE
            self._write(self._connection.send(CloseConnection(code=code)))

    def lend(self) -> int | None:
        """Return None: what is sent here has to be framed."""
        return None

    def close(self) -> None:
        """Close what is below; after an error of the peer, leave it a while to read what it was."""
        self.end_sending()
        self._driver = None
        self._at_end = True
        fault, self._fault = self._fault, ""
        if fault:
            self._failed(self, fault)
        else:
            self.below.close()


_NO_BITS: Final = RsvBits(rsv1=False, rsv2=False, rsv3=False)

_FAULTS: Final[dict[int, str]] = {
    CloseReason.UNSUPPORTED_DATA: "text was sent; send binary messages",
    CloseReason.MESSAGE_TOO_BIG: "a frame is too large; split the message into smaller ones",
}
"""What is wrong where the rules below are broken; of everything else wsproto says what it is."""


class _Rules(Extension):
    """Limits that wsproto does not have: an extension, for those see the header of each frame before the rest."""

    name = "limits"

    def __init__(self, max_frame_size: int) -> None:
        self.frames = 0
        self._most = max_frame_size

    def enabled(self) -> bool:
        """Return that it is in use; it is never offered to the other side."""
        return True

    def offer(self) -> bool:
        """Return that there is nothing to offer."""
        return False

    def frame_inbound_header(
        self, proto: FrameDecoder | FrameProtocol, opcode: Opcode, rsv: RsvBits, payload_length: int
    ) -> CloseReason | RsvBits:
        """Count a frame, and judge it."""
        self.frames += 1
        if opcode is Opcode.TEXT:
            return CloseReason.UNSUPPORTED_DATA
        if payload_length > self._most:
            return CloseReason.MESSAGE_TOO_BIG
        return _NO_BITS
