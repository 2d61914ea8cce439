"""A Trio relay between the two sides of MicroMsg2: it moves the same octets and knows nothing.

Numbers of messages begin with 1 on each connection, so what one peer sends is, octet for octet, what the other gets.
The relay shakes hands, answers commands, and then moves what the writer sends to the reader, and acks from the reader
to the writer. Without a reader it acks by itself; without a writer it sends messages that it has made before.
"""

import struct
from functools import partial
from multiprocessing.connection import Connection

import trio

from loadgen.micromsg import AT_ONCE, COMMAND, EXTENSION, WINDOW, Work, handshake, length_of, messages, sequence_of

_REPLY, _ACK = 3, 1
"""Numbers of extensions, as the sides require them."""


class Relay:
    """One writer or none, one reader or none.

    Args:
        work: What a reader gets if there is no writer; None if there is one.
    """

    def __init__(self, work: Work | None) -> None:
        self._writer: trio.SocketStream | None = None
        self._reader: trio.SocketStream | None = None
        self._made = None if work is None else messages(work)
        self._work = work

    async def serve(self, stream: trio.SocketStream) -> None:
        """Be the other end of a connection."""
        try:
            identity, rest = await self._shake_hands(stream)
            if identity == b"writer":
                self._writer = stream
                await self._forward(stream, rest)
            elif identity == b"reader":
                await self._answer(stream, rest)
                self._reader = stream
                await (self._forward_acks(stream) if self._made is None else self._send(stream))
            else:
                await trio.sleep_forever()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def _shake_hands(self, stream: trio.SocketStream) -> tuple[bytes, bytes]:
        """Return who this is, and what has come behind the handshake."""
        data = b""
        hands = 0
        while hands < 2:
            data += await stream.receive_some(AT_ONCE)
            while (length := _length_of_hands(data)) and len(data) >= length:
                identity, data = data[4 : 4 + data[3]], data[length:]
                hands += 1
                if hands == 1:
                    await stream.send_all(handshake("relay", ""))
        return identity, data

    async def _answer(self, stream: trio.SocketStream, data: bytes) -> None:
        """Say yes to the commands that a reader sends at once."""
        number = 0
        while not data:
            data = await stream.receive_some(AT_ONCE)
        while data:
            if data[0] & COMMAND and (length := length_of(data)) and len(data) >= length:
                number += 1
                data = data[length:]
                payload = struct.pack(">H", number) + b"200 OK"
                await stream.send_all(bytes((EXTENSION, _REPLY, len(payload))) + payload)
            else:
                data += await stream.receive_some(AT_ONCE)

    async def _forward(self, stream: trio.SocketStream, data: bytes) -> None:
        each = octets = 0
        data = data or await stream.receive_some(AT_ONCE)
        while data:
            if self._reader is not None:
                await self._reader.send_all(data)
            else:
                each = each or length_of(data)
                octets += len(data)
                await stream.send_all(struct.pack(">BBBH", EXTENSION, _ACK, 2, sequence_of(octets // each)))
            data = await stream.receive_some(AT_ONCE)

    async def _forward_acks(self, stream: trio.SocketStream) -> None:
        while data := await stream.receive_some(AT_ONCE):
            if self._writer is not None:
                await self._writer.send_all(data)

    async def _send(self, stream: trio.SocketStream) -> None:
        """Send what was made before, as the window allows; the reader acks half a window at once."""
        assert self._made is not None
        assert self._work is not None
        (octets, each), sent, acked = self._made, 0, 0
        while sent < self._work.count:
            many = min(WINDOW - sent + acked, max(1, AT_ONCE // each))
            if many:
                await stream.send_all(octets[sent * each : (sent + many) * each])
                sent += many
            else:
                acked += len(await stream.receive_some(AT_ONCE)) // 5 * (WINDOW // 2)
        await trio.sleep_forever()


def _length_of_hands(data: bytes) -> int:
    """Return how many octets a handshake has, 0 if they are too few to tell."""
    position = 4 + data[3] if len(data) > 3 else 0
    for _ in range(2):
        if not position or len(data) < position + 2:
            return 0
        position += 2 + int.from_bytes(data[position : position + 2])
    return position


def be_relay(work: Work | None, parent: Connection) -> None:
    """Relay until killed; a process gets it, which tells its port."""
    trio.run(_run, work, parent)


async def _run(work: Work | None, parent: Connection) -> None:
    async with trio.open_nursery() as nursery:
        relay = Relay(work)
        listeners = await nursery.start(partial(trio.serve_tcp, relay.serve, 0, host="127.0.0.1"))
        parent.send(listeners[0].socket.getsockname()[1])
