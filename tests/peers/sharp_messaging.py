"""Both sides of SharpMessaging as it was in January 2015, the one program that ever spoke MicroMsg2, by plain sockets.

They do what that program did, with its faults: what made it end is ``ProgramDied`` here. Nothing of ours is in them,
and nothing of its code.

- A handshake has 256 octets at most in each of its lists. If it comes in several pieces, a piece that begins with an
  octet that has bit 4 is taken for an ERROR.
- A client takes for granted that the server names again each extension that it required itself.
- What it receives has one property at most, no payload over 16,384 octets, no COMMAND, no LARGE frame of an extension,
  no extension that was not agreed on; an ERROR after the handshake is read as a message.
- A sender must not have more than its window outstanding. An ack of a number drops everything up to it, or everything
  if that number is not there; what is left then is sent again, by a client with new numbers.
- A receiver acks when it has as many as its window, or some time after the last ack.
"""

import socket
import struct
from typing import NamedTuple

from peers.micromsg_peer import (
    COMMAND,
    CONTINUED,
    DEADLINE,
    ERROR,
    EXTENSION,
    LARGE,
    Frame,
    Handshake,
    Reader,
    encode,
    encode_handshake,
    following,
    items,
    name_of,
)

WINDOW = 10
LARGEST = 16384
LONGEST = 256
TYPE = b"System.String, mscorlib, Version=4.0.0.0, Culture=neutral, PublicKeyToken=b77a5c561934e089"

ACK = b"ack:MessagesPerAck=10,AckExpireTime=1000"
REQUIRED, OPTIONAL = b"dotnet;json;" + ACK, b"json"
"""What its own programs offered, as it was recorded."""
KNOWN = (b"dotnet", b"json", b"ack")


class ProgramDied(AssertionError):
    """What came would have ended the program."""


class Delivered(NamedTuple):
    """A message as its handler gets it."""

    number: int
    destination: bytes
    properties: bytes
    payload: bytes
    type: bytes


class SharpSide:
    """What its client and its server have in common, behind the handshake.

    Args:
        connection: The socket.
    """

    renumbers = False

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.reader = Reader(connection)
        self.extensions: list[bytes] = []
        self.peer = Handshake(b"", b"", b"")
        self.sent: list[int] = []
        """The numbers of all messages that were sent, also again."""
        self.repeated = 0
        """Messages that were sent again."""
        self._last = 0
        self._outstanding: list[Frame] = []
        self._their_type = b""
        self._our_type = b""
        self._received = 0
        self._unacked = 0

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> "SharpSide":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def outstanding(self) -> int:
        """How many messages are not acked."""
        return len(self._outstanding)

    def _number_of(self, extension: bytes) -> int:
        return self.extensions.index(extension) + 1

    def _receive_handshake(self, *, is_last: bool = False) -> Handshake:
        """Return the handshake that comes; messages may follow the last one in the same piece."""
        octets = b""
        while (found := self._parse_handshake(octets)) is None:
            piece = self.socket.recv(65536)
            if not piece:
                raise EOFError("the peer has hung up")
            if piece[0] & ERROR:
                if octets:
                    raise ProgramDied(f"a piece of a handshake that it takes for an ERROR: {piece!r}")
                raise ConnectionError(piece[2 : 2 + piece[1]].decode())
            octets += piece
        handshake, rest = found
        if rest and not is_last:
            raise ProgramDied(f"{len(rest)} octets behind a handshake, of which it waits for another one")
        self.reader.unread = rest
        for each in items(handshake.required) + items(handshake.optional):
            if not each or any(b"=" not in pair for pair in each.split(b":", 1)[1:]):
                raise ProgramDied(f"an extension that cannot be read: {each!r}")
        return handshake

    def _parse_handshake(self, octets: bytes) -> tuple[Handshake, bytes] | None:
        """Return a handshake and what stands behind it, once it is whole."""
        if len(octets) < 4:
            return None
        place, lists = 4 + octets[3], []
        identity = octets[4:place]
        for _ in range(2):
            if len(octets) < place + 2:
                return None
            (length,) = struct.unpack(">h", octets[place : place + 2])
            if not 0 <= length <= LONGEST:
                raise ProgramDied(f"a handshake with a list of {length} octets")
            lists.append(octets[place + 2 : place + 2 + length])
            place += 2 + length
        if len(octets) < place:
            return None
        return Handshake(identity, lists[0], lists[1], (octets[0], octets[1])), octets[place:]

    # Sending

    def send(self, payload: bytes, destination: bytes = b"", properties: bytes = b"", *, of_type: bytes = TYPE) -> None:
        """Send a message, with its type if that is another one than the last time.

        Raises:
            RuntimeError: There are as many that are not acked as may be.
        """
        if b"ack" in self.extensions and len(self._outstanding) >= WINDOW:
            raise RuntimeError("Cannot enqueue more messages that the given threshold.")
        if b"dotnet" in self.extensions and of_type != self._our_type:
            self._our_type = of_type
            self.socket.sendall(encode(Frame(EXTENSION, self._number_of(b"dotnet"), payload=of_type)))
        frame = Frame(0, 0, destination, properties, payload)
        self._deliver(frame)

    def _deliver(self, frame: Frame) -> None:
        self._last = following(self._last)
        self._put(frame._replace(number=self._last))

    def _put(self, frame: Frame) -> None:
        self._outstanding.append(frame)
        self.sent.append(frame.number)
        self.socket.sendall(encode(frame))

    def wait_acked(self, most: int = 0) -> None:
        """Wait until no more than so many messages are outstanding; all that comes is acks."""
        while len(self._outstanding) > most:
            frame = self._receive()
            if frame is not None:
                raise AssertionError(f"a message came: {frame}")

    def _take_ack(self, number: int) -> None:
        numbers = [frame.number for frame in self._outstanding]
        left = self._outstanding[numbers.index(number) + 1 :] if number in numbers else []
        self._outstanding = []
        for frame in left:
            self.repeated += 1
            if self.renumbers:
                self._deliver(frame)
            else:
                self._put(frame)

    # Receiving

    def read(self, count: int) -> list[Delivered]:
        """Return the messages that come next, and ack them as many at a time as the window has."""
        found: list[Delivered] = []
        while len(found) < count:
            delivered = self._receive()
            if delivered is not None:
                found.append(delivered)
                self._count(delivered.number)
        return found

    def _count(self, number: int) -> None:
        self._received = number
        self._unacked += 1
        if b"ack" in self.extensions and self._unacked >= WINDOW:
            self.ack()

    def ack(self) -> None:
        """Ack all that was received: its handler has had it, and the time for that has come."""
        self._unacked = 0
        self.socket.sendall(
            encode(Frame(EXTENSION, self._number_of(b"ack"), payload=struct.pack(">H", self._received)))
        )

    def _receive(self) -> Delivered | None:
        """Return a message, or None for something else that could be read."""
        flags = self.reader.number(">B")
        if flags & EXTENSION:
            return self._receive_extension(flags)
        if flags & COMMAND:
            raise ProgramDied("a COMMAND, at which it goes round in circles")
        if flags & CONTINUED:
            raise ProgramDied("a part of a message, which it takes for a message")
        if flags & ERROR:
            raise ProgramDied("an ERROR after the handshake, which it takes for a message")
        number = self.reader.number(">H")
        destination = self.reader.octets(self.reader.number(">B"))
        properties = self.reader.octets(self.reader.number(">h"))
        if properties.count(b":") > 1 or len(properties) > LONGEST:
            raise ProgramDied(f"properties that it cannot read: {properties!r}")
        length = self.reader.number(">i" if flags & LARGE else ">B")
        if length > LARGEST:
            raise ProgramDied(f"a payload of {length} octets, in the middle of which it stops")
        return Delivered(number, destination, properties, self.reader.octets(length), self._their_type)

    def _receive_extension(self, flags: int) -> None:
        number = self.reader.number(">B")
        if not 1 <= number <= len(self.extensions):
            raise ProgramDied(f"an extension that was not agreed on, {number}")
        if flags & LARGE:
            raise ProgramDied("a LARGE frame of an extension")
        payload = self.reader.octets(self.reader.number(">B"))
        name = self.extensions[number - 1]
        if name == b"ack":
            self._take_ack(*struct.unpack(">H", payload))
        elif name == b"dotnet":
            self._their_type = payload
        else:
            raise ProgramDied(f"a frame of {name!r}, which has none")


class SharpClient(SharpSide):
    """Its client, past the handshake.

    Args:
        port: The server's.
        required: Extensions that it needs.
        optional: Extensions that it knows besides.
        identity: What it calls itself.
    """

    renumbers = True

    def __init__(
        self, port: int, required: bytes = REQUIRED, optional: bytes = OPTIONAL, *, identity: bytes = b"mono"
    ) -> None:
        super().__init__(socket.create_connection(("127.0.0.1", port), DEADLINE))
        try:
            self._shake_hands(identity, required, optional)
        except BaseException:
            self.close()
            raise

    def _shake_hands(self, identity: bytes, required: bytes, optional: bytes) -> None:
        self.socket.sendall(encode_handshake(Handshake(identity, required, optional, (1, 1))))
        self.peer = self._receive_handshake()
        chosen = list(items(required))
        for each in items(self.peer.required):
            if each not in chosen:
                if name_of(each) not in KNOWN:
                    raise ProgramDied(f"the server requires {each!r}, which it does not know")
                if name_of(each) not in map(name_of, chosen):
                    chosen.append(each)
        theirs = [name_of(each) for each in items(self.peer.required)]
        for each in chosen:
            if name_of(each) == b"ack" and b"ack" not in theirs:
                raise ProgramDied("the server does not name `ack` again")
        self.socket.sendall(encode_handshake(Handshake(identity, b";".join(chosen), b"", (1, 1))))
        self.extensions = [name_of(each) for each in chosen]


class SharpServer(SharpSide):
    """Its server, past the handshake with one client.

    Args:
        connection: What was accepted.
        required: Extensions that it needs.
        optional: Extensions that it knows besides.
    """

    def __init__(self, connection: socket.socket, required: bytes = b"", optional: bytes = REQUIRED) -> None:
        super().__init__(connection)
        connection.settimeout(DEADLINE)
        try:
            self._shake_hands(required, optional)
        except BaseException:
            self.close()
            raise

    def _shake_hands(self, required: bytes, optional: bytes) -> None:
        self.asked = self._receive_handshake()
        ours = [name_of(each) for each in items(required) + items(optional)]
        asked = items(self.asked.required)
        unknown = [each.decode() for each in asked if name_of(each) not in ours]
        missing = [each.decode() for each in items(required) if name_of(each) not in self.asked.names]
        if unknown or missing:
            words = "Server to not support" if unknown else "Server requires"
            text = f"{words} the following extensions: {', '.join(unknown or missing)}".encode()
            self.socket.sendall(bytes([ERROR, len(text)]) + text)
            raise ConnectionError(text.decode())
        need = unite(items(required), asked)
        more = unite(items(optional), items(self.asked.optional))
        more = [each for each in more if name_of(each) not in map(name_of, need)]
        reply = Handshake(b"FastSocket v1.1", b";".join(need), b";".join(more), (1, 1))
        self.socket.sendall(encode_handshake(reply))
        self.peer = self._receive_handshake(is_last=True)
        self.extensions = self.peer.names
        for name in self.extensions:
            if name not in ours:
                raise ProgramDied(f"the client chooses {name!r}, which it does not know")


def unite(first: list[bytes], second: list[bytes]) -> list[bytes]:
    """Return what is in one or the other, by names."""
    return list({name_of(each): each for each in reversed(first + second)}.values())[::-1]
