"""MicroMsg2 over plain sockets, for measuring: sides that block, each in a process of its own, with octets made before.

    write      a client that sends messages, as many unacknowledged as its window allows, and reads acks
    read       a client that subscribes, counts what comes, and acks every so many
    tick       a client that sends one message after another at a steady rate, with the time in it
    hear       the client that gets these, and says how long each was under way
    be_idle    so many clients that have shaken hands and do nothing

Nothing of triomq's engine is used here, so that both have to be right for a figure to come out. All messages of a side
have the same length, so what comes is counted by octets; the last message is looked at.
"""

import socket
import struct
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from urllib.parse import quote

import msgspec

COMMAND, EXTENSION, ERROR, LARGE = 1, 2, 4, 8
SEQUENCES = 65535
"""Numbers of messages on the wire: 1 to this, and 1 again."""
WINDOW = 1000
"""Messages that may be unacknowledged with ``batch-ack``."""
AT_ONCE = 1 << 18
"""Octets that are sent or received by one call."""
PATIENCE = 60.0
"""Seconds after which a side that hears nothing gives up."""
BATCH_ACK, SINGLE_ACK = "batch-ack:max-count=1000", "ack"

_ACK = struct.Struct(">BBBH")
_TIME = struct.Struct(">Q")


class Work(msgspec.Struct, frozen=True):
    """What a writer sends.

    Args:
        destination: Where to.
        count: How many messages.
        size: Octets of a body.
        acks: By which extension the broker acknowledges.
        customers: How many values the property ``customer`` takes in turn; 0 for no such property.
        own: Whether each message has a property that no other has.
    """

    destination: str
    count: int
    size: int = 100
    acks: str = BATCH_ACK
    customers: int = 0
    own: bool = False

    @property
    def window(self) -> int:
        """Messages that may be unacknowledged."""
        return 1 if self.acks == SINGLE_ACK else WINDOW


class Refused(Exception):
    """The other side has sent an ERROR."""


# Octets


def handshake(identity: str, required: str) -> bytes:
    """Write the first or the last handshake: version 1.0, nothing optional."""
    name = identity.encode()
    return bytes((1, 0, 0, len(name))) + name + struct.pack(">H", len(required)) + required.encode() + b"\0\0"


def frame(flags: int, payload: bytes) -> bytes:
    """Write a frame that has nothing but a length and a payload."""
    if len(payload) > 255:
        return bytes((flags | LARGE,)) + struct.pack(">I", len(payload)) + payload
    return bytes((flags, len(payload))) + payload


def subscribe(destination: str, name: str, condition: str = "") -> bytes:
    """Write the command that subscribes; ``condition`` is the text of a filter."""
    properties = {"destination": destination, "id": name} | ({"filter": condition} if condition else {})
    return frame(
        COMMAND, ("subscribe;" + ",".join(f"{key}={quote(value)}" for key, value in properties.items())).encode()
    )


def sequence_of(number: int) -> int:
    """Return the number on the wire of the nth message."""
    return (number - 1) % SEQUENCES + 1


def message(number: int, work: Work, body: bytes) -> bytes:
    """Write the nth message."""
    properties = ""
    if work.customers:
        properties += f"customer:Tc{number % work.customers:03};size:N50;"
    if work.own:
        properties += f"id:T{number:09};"
    destination = work.destination.encode()
    is_large = len(body) > 255
    return b"".join(
        (
            struct.pack(">BHB", LARGE if is_large else 0, sequence_of(number), len(destination)),
            destination,
            struct.pack(">H", len(properties)),
            properties.encode(),
            struct.pack(">I" if is_large else ">B", len(body)),
            body,
        )
    )


def messages(work: Work) -> tuple[memoryview, int]:
    """Write all messages; return their octets, and how many each has."""
    body = b"x" * work.size
    octets = b"".join([message(number, work, body) for number in range(1, work.count + 1)])
    return memoryview(octets), len(octets) // work.count


def length_of(data: bytes) -> int:
    """Return how many octets the first frame has, 0 if they are too few to tell."""
    position = 1
    if data[0] & EXTENSION:
        position = 2
    elif not data[0] & (COMMAND | ERROR):
        if len(data) < 4 or len(data) < 6 + data[3]:
            return 0
        position = 6 + data[3] + int.from_bytes(data[4 + data[3] : 6 + data[3]])
    start = position + (4 if data[0] & LARGE else 1)
    return start + int.from_bytes(data[position:start]) if len(data) >= start else 0


# Connections


def open_peer(port: int, identity: str, required: str) -> socket.socket:
    """Connect, and shake hands; what is required is what is agreed, numbered in its order."""
    peer = socket.create_connection(("127.0.0.1", port))
    peer.settimeout(PATIENCE)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    hands = handshake(identity, required)
    peer.sendall(hands)
    head = receive_exactly(peer, 4)
    if head[0] & ERROR:
        raise Refused(head + peer.recv(300))
    receive_exactly(peer, head[3])
    for _ in range(2):
        receive_exactly(peer, int.from_bytes(receive_exactly(peer, 2)))
    peer.sendall(hands)
    return peer


def receive_exactly(peer: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = peer.recv(count - len(data))
        if not more:
            raise EOFError("the connection has ended")
        data += more
    return data


class Acks:
    """Counts what the other side has acknowledged; all frames that it sends are acks."""

    def __init__(self, peer: socket.socket) -> None:
        self.acked = 0
        self._peer = peer
        self._rest = b""

    def take(self) -> None:
        """Wait for acks."""
        data = self._rest + self._peer.recv(1 << 16)
        if not data or data[0] != EXTENSION:
            raise Refused(data[:300])
        whole = len(data) // _ACK.size * _ACK.size
        self._rest = data[whole:]
        if whole:
            *_, sequence = _ACK.unpack_from(data, whole - _ACK.size)
            self.acked += (sequence - sequence_of(self.acked + 1)) % SEQUENCES + 1


class Reader:
    """A connection that subscribes, and takes messages that all have the same length.

    Args:
        port: Where to connect.
        destination: What to subscribe to.
        conditions: Texts of filters, one for each subscription; empty for one that takes everything.
        acks: By which extension it acknowledges.
    """

    def __init__(self, port: int, destination: str, conditions: Sequence[str] = (), acks: str = BATCH_ACK) -> None:
        self.peer = open_peer(port, "reader", f"{acks};pub-sub;x-reply")
        self.count = 0
        self.each = 0
        self.last = b""  # octets of the last message
        self._every = 1 if acks == SINGLE_ACK else WINDOW // 2
        self._acked = 0
        self._octets = 0
        self._buffer = memoryview(bytearray(AT_ONCE))
        texts = conditions or ("",)
        self._commands = [subscribe(destination, f"s{number}", text) for number, text in enumerate(texts)]

    def subscribe(self) -> None:
        """Send the commands, and wait for their answers."""
        for command in self._commands:
            self.peer.sendall(command)
        answers, data = 0, b""
        while answers < len(self._commands):
            more = self.peer.recv(1 << 16)
            if not more:
                raise EOFError("the connection has ended")
            data += more
            while data and data[0] == EXTENSION and (length := length_of(data)) and len(data) >= length:
                if data[5:8] != b"200":
                    raise Refused(data[:length])
                answers += 1
                data = data[length:]
            if data and data[0] == ERROR:
                raise Refused(data)
        self._take(data)

    def take(self) -> None:
        """Receive what there is, and acknowledge what is due."""
        size = self.peer.recv_into(self._buffer)
        if not size:
            raise EOFError("the connection has ended")
        if self.each:
            self._count(size)
            self.last = (self.last + bytes(self._buffer[max(0, size - self.each) : size]))[-self.each :]
        else:
            self._take(bytes(self._buffer[:size]))

    def _take(self, data: bytes) -> None:
        """Take octets while it is not known how long the messages are."""
        data = self.last + data
        if not data:
            return
        if data[0] & ~LARGE:
            raise Refused(data[:300])
        self.each = length_of(data)
        self.last = data[-self.each :] if self.each else data
        if self.each:
            self._count(len(data))

    def _count(self, more: int) -> None:
        self._octets += more
        self.count = self._octets // self.each
        if self.count - self._acked >= self._every:
            self.acknowledge()

    def acknowledge(self) -> None:
        """Acknowledge all."""
        self._acked = self.count
        self.peer.sendall(_ACK.pack(EXTENSION, 1, 2, sequence_of(self.count)))

    def check(self) -> None:
        """See that the last message is one, with the number that is due."""
        flags, sequence = struct.unpack_from(">BH", self.last)
        assert not flags & ~LARGE, f"no message: {self.last[:40]!r}"
        assert sequence == sequence_of(self.count), f"message {self.count} has the number {sequence}"
        assert length_of(self.last) == self.each


# Sides, each for a process of its own


def wait_to_begin(parent: Connection) -> None:
    parent.send(None)
    parent.recv()


def write(port: int, work: Work, parent: Connection) -> None:
    """Write messages when told, and tell in how many seconds all were acknowledged."""
    peer = open_peer(port, "writer", work.acks)
    octets, each = messages(work)
    acks, sent = Acks(peer), 0
    wait_to_begin(parent)
    parent.send(None)
    began = time.perf_counter()
    while acks.acked < work.count:
        many = min(work.window - sent + acks.acked, work.count - sent, max(1, AT_ONCE // each))
        if many:
            peer.sendall(octets[sent * each : (sent + many) * each])
            sent += many
        if sent == work.count or sent - acks.acked == work.window:
            acks.take()
    parent.send(time.perf_counter() - began)
    parent.recv()
    peer.close()


def read(port: int, destination: str, count: int, conditions: Sequence[str], acks: str, parent: Connection) -> None:
    """Read messages when told, and tell in how many seconds they came."""
    reader = Reader(port, destination, conditions, acks)
    wait_to_begin(parent)
    began = time.perf_counter()
    reader.subscribe()
    parent.send(None)
    while reader.count < count:
        reader.take()
    seconds = time.perf_counter() - began
    reader.acknowledge()
    reader.check()
    parent.send(seconds)
    parent.recv()
    reader.peer.close()


def stall(port: int, destination: str, conditions: Sequence[str], parent: Connection) -> None:
    """Subscribe, and read nothing."""
    reader = Reader(port, destination, conditions)
    wait_to_begin(parent)
    reader.subscribe()
    parent.send(None)
    parent.recv()
    reader.peer.close()


def tick(port: int, destination: str, count: int, rate: float, parent: Connection) -> None:
    """Send so many messages a second when told, each with the time in it."""
    work = Work(destination, count)
    peer = open_peer(port, "writer", work.acks)
    acks = Acks(peer)
    wait_to_begin(parent)
    parent.send(None)
    began = time.monotonic()
    for number in range(1, count + 1):
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
        peer.sendall(message(number, work, _TIME.pack(time.monotonic_ns()).ljust(work.size)))
        if number - acks.acked == WINDOW:
            acks.take()
    while acks.acked < count:
        acks.take()
    parent.send(time.monotonic() - began)
    parent.recv()
    peer.close()


def hear(port: int, destination: str, count: int, parent: Connection) -> None:
    """Hear these messages, and tell for how many milliseconds each was under way."""
    reader = Reader(port, destination)
    wait_to_begin(parent)
    reader.subscribe()
    parent.send(None)
    taken: list[float] = []
    data = b""
    while len(taken) < count:
        data += reader.peer.recv(1 << 16)
        now = time.monotonic_ns()
        while data and (length := length_of(data)) and len(data) >= length:
            (sent,) = _TIME.unpack_from(data, length - 100)
            taken.append((now - sent) / 1e6)
            data = data[length:]
            if len(taken) % (WINDOW // 2) == 0 or len(taken) == count:
                reader.count = len(taken)
                reader.acknowledge()
    parent.send(taken)
    parent.recv()
    reader.peer.close()


def be_idle(port: int, count: int, parent: Connection) -> None:
    """Be so many clients that do nothing."""
    peers = [open_peer(port, f"idle{number}", f"{BATCH_ACK};pub-sub") for number in range(count)]
    wait_to_begin(parent)
    for peer in peers:
        peer.close()


class Side:
    """A process that does one side's part.

    Args:
        part: ``write``, ``read`` or another of them, which gets the arguments and a pipe.
        arguments: Of it.
    """

    def __init__(self, part: Callable[..., None], *arguments: object) -> None:
        spawn = get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        self._process = spawn.Process(target=part, args=(*arguments, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self._pipe.recv()

    def begin(self) -> None:
        """Have it begin, and wait until it does: until a reader has subscribed."""
        self._pipe.send(None)
        self._pipe.recv()

    def seconds(self) -> float:
        taken: float = self._pipe.recv()
        return taken

    def times(self) -> list[float]:
        """Return what ``hear`` has to tell."""
        taken: list[float] = self._pipe.recv()
        return taken

    def end(self) -> None:
        self._pipe.send(None)
        self._process.join()
        assert self._process.exitcode == 0
