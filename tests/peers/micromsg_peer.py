"""Peers of MicroMsg2 made of plain sockets and ``struct``, written from the specification: nothing of ours is in them.

``MicroMsgPeer`` is a client that keeps to it. All of them block, and fail when nothing comes.
"""

import socket
import struct
from typing import NamedTuple
from urllib.parse import quote

DEADLINE = 60.0
COMMAND, EXTENSION, ERROR, LARGE, CONTINUED = 1, 2, 4, 8, 16


class Handshake(NamedTuple):
    identity: bytes
    required: bytes
    optional: bytes
    version: tuple[int, int] = (1, 0)

    @property
    def names(self) -> list[bytes]:
        """The names of its extensions in the order of their numbers."""
        listed = [name_of(each) for each in (*items(self.required), *items(self.optional))]
        return list(dict.fromkeys(listed))


class Frame(NamedTuple):
    """A frame; what its kind has not is empty."""

    flags: int
    number: int = 0
    """The sequence number of a message, or an extension's."""
    destination: bytes = b""
    properties: bytes = b""
    payload: bytes = b""

    @property
    def kind(self) -> int:
        return self.flags & (COMMAND | EXTENSION | ERROR)


def items(extensions: bytes) -> list[bytes]:
    return extensions.split(b";") if extensions else []


def name_of(extension: bytes) -> bytes:
    return extension.partition(b":")[0]


def encode_handshake(handshake: Handshake) -> bytes:
    identity, required, optional, version = handshake
    return b"".join(
        [
            struct.pack(">BBBB", *version, 0, len(identity)) + identity,
            struct.pack(">H", len(required)) + required,
            struct.pack(">H", len(optional)) + optional,
        ]
    )


def encode(frame: Frame) -> bytes:
    is_large = len(frame.payload) > 255
    flags = frame.flags | LARGE if is_large else frame.flags
    pieces = [bytes([flags])]
    if not frame.kind:
        pieces.append(struct.pack(">HB", frame.number, len(frame.destination)) + frame.destination)
        pieces.append(struct.pack(">H", len(frame.properties)) + frame.properties)
    elif frame.kind == EXTENSION:
        pieces.append(bytes([frame.number]))
    pieces.append(struct.pack(">I" if is_large else ">B", len(frame.payload)))
    return b"".join([*pieces, frame.payload])


class Reader:
    """Octets of a socket, as many as are asked for.

    Args:
        connection: The socket.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self.unread = b""

    def octets(self, count: int) -> bytes:
        while len(self.unread) < count:
            octets = self._socket.recv(65536)
            if not octets:
                raise EOFError(f"the end, {len(self.unread)} octets of {count} before it")
            self.unread += octets
        found, self.unread = self.unread[:count], self.unread[count:]
        return found

    def number(self, layout: str) -> int:
        (found,) = struct.unpack(layout, self.octets(struct.calcsize(layout)))
        return int(found)

    def handshake(self) -> Handshake:
        """Return the handshake that comes; an ERROR in its place is a ``ConnectionError``."""
        major = self.number(">B")
        if major & ERROR:
            raise ConnectionError(self.octets(self.number(">I" if major & LARGE else ">B")).decode())
        minor, flags = self.number(">B"), self.number(">B")
        assert flags == 0
        identity = self.octets(self.number(">B"))
        required = self.octets(self.number(">H"))
        return Handshake(identity, required, self.octets(self.number(">H")), (major, minor))

    def frame(self) -> Frame:
        flags = self.number(">B")
        assert not flags & 0xE0, f"reserved bits: {flags:#x}"
        assert (flags & 7) in (0, COMMAND, EXTENSION, ERROR), f"several kinds: {flags:#x}"
        number, destination, properties = 0, b"", b""
        if not flags & 7:
            number = self.number(">H")
            destination = self.octets(self.number(">B"))
            properties = self.octets(self.number(">H"))
        elif flags & EXTENSION:
            number = self.number(">B")
        payload = self.octets(self.number(">I" if flags & LARGE else ">B"))
        return Frame(flags & ~LARGE, number, destination, properties, payload)


def following(number: int) -> int:
    """Return the sequence number behind one: 0 is none."""
    return number % 65535 + 1


class MicroMsgPeer:
    """A client, past its handshake.

    Args:
        port: The broker's.
        required: Extensions that it needs.
        optional: Extensions that it would like to have.
        identity: What it calls itself.
    """

    def __init__(
        self,
        port: int,
        required: bytes = b"",
        optional: bytes = b"",
        *,
        identity: bytes = b"peer",
    ) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), DEADLINE)
        self.reader = Reader(self.socket)
        self.socket.sendall(encode_handshake(Handshake(identity, required, optional)))
        self.offered = self.reader.handshake()
        theirs = self.offered.names
        wanted = [each for each in items(optional) if name_of(each) in theirs]
        self.chosen = Handshake(identity, required, b";".join(wanted))
        self.socket.sendall(encode_handshake(self.chosen))
        self._last = 0
        self.unacked: list[int] = []
        """What was sent and is not acked yet."""

    def number_of(self, extension: bytes) -> int:
        return self.chosen.names.index(extension) + 1

    def send(self, frame: Frame) -> None:
        self.socket.sendall(encode(frame))

    # Messages

    def publish(self, destination: bytes, payload: bytes, **properties: str | int) -> int:
        """Send a message, and return its sequence number."""
        self._last = following(self._last)
        self.send(Frame(0, self._last, destination, encode_properties(properties), payload))
        self.unacked.append(self._last)
        return self._last

    def wait_acked(self, most: int = 0) -> None:
        """Wait until no more than so many are not acked."""
        while len(self.unacked) > most:
            frame = self.reader.frame()
            assert self.is_ack(frame), frame
            self.take_ack(frame)

    def is_ack(self, frame: Frame) -> bool:
        return frame.kind == EXTENSION and self.chosen.names[frame.number - 1] in (b"ack", b"batch-ack")

    def take_ack(self, frame: Frame) -> None:
        (number,) = struct.unpack(">H", frame.payload)
        assert number in self.unacked, f"{number} is acked, and was not sent or is acked already"
        del self.unacked[: self.unacked.index(number) + 1]

    def ack(self, number: int) -> None:
        """Ack all messages up to one."""
        extension = b"batch-ack" if b"batch-ack" in self.chosen.names else b"ack"
        self.send(Frame(EXTENSION, self.number_of(extension), payload=struct.pack(">H", number)))

    def read(self, count: int) -> list[Frame]:
        """Return the messages that come next."""
        frames = [self.reader.frame() for _ in range(count)]
        assert not any(frame.kind for frame in frames), frames
        return frames

    # Subscriptions

    def command(self, name: bytes, **values: str) -> None:
        pairs = ",".join(f"{key}={quote(value, safe='')}" for key, value in values.items())
        self.send(Frame(COMMAND, payload=name + b";" + pairs.encode()))

    def ask(self, name: bytes, **values: str) -> tuple[int, str]:
        """Send a command of which the broker has to say what became, and return that."""
        self.command(name, **values)
        frame = self.reader.frame()
        assert (frame.kind, frame.number) == (EXTENSION, self.number_of(b"x-reply")), frame
        _, code, text = struct.unpack(">H", frame.payload[:2])[0], frame.payload[2:5], frame.payload[6:]
        return int(code), text.decode()

    # The end

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> "MicroMsgPeer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def encode_properties(properties: "dict[str, str | int]") -> bytes:
    """Encode texts and numbers; underscores of Python's names are hyphens."""
    return "".join(
        f"{key.replace('_', '-')}:{f'N{value}' if isinstance(value, int) else 'T' + quote(value, safe='')};"
        for key, value in properties.items()
    ).encode()


def decode_properties(octets: bytes) -> dict[str, str]:
    """Return values by keys as they stand there, with the letters of their types."""
    return dict(pair.split(":", 1) for pair in octets.decode("ascii").split(";") if pair)  # type: ignore[misc]
