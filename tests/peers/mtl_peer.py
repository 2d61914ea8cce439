"""Peers of MTL made of plain pyzmq sockets, written from the specification (11/MTL) alone: nothing of ours is in them.

A control peer is a REQ, a REQ that correlates, or a DEALER without a delimiter; a data peer is a DEALER. Field tables
are AMQP's, so pika encodes and decodes them. All of them block, and fail when nothing comes.
"""

import json
import struct
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import zmq
from pika.data import decode_table, encode_table

DEADLINE = 60.0
NAMES = {
    1: "lease",
    2: "response",
    3: "summon",
    4: "dismiss",
    5: "content",
    6: "confirm",
    7: "reject",
    8: "ping",
    9: "pong",
}
KINDS = {name: kind for kind, name in NAMES.items()}
OPEN = {"protocol": {"name": "MTL", "version": 1}}


class Reply(NamedTuple):
    code: int
    body: dict[str, Any]


class Command(NamedTuple):
    """A data command; fields that its kind has not are as they are here."""

    kind: str
    sequence: int = 0
    name: str = ""
    properties: dict[str, Any] | None = None
    multiple: bool = False
    recycle: bool = False
    body: bytes = b""


def short(text: str) -> bytes:
    octets = text.encode()
    return bytes([len(octets)]) + octets


def table(properties: dict[str, Any] | None) -> bytes:
    pieces: list[bytes] = []
    encode_table(pieces, properties or {})
    return b"".join(pieces)


def encode(command: Command) -> list[bytes]:
    """Return the frames of a command."""
    header = bytes([KINDS[command.kind]])
    if command.kind not in ("ping", "pong"):
        header += struct.pack(">Q", command.sequence)
    if command.kind in ("lease", "summon", "dismiss", "content"):
        header += short(command.name)
    if command.kind == "content":
        header += table(command.properties)
    if command.kind in ("confirm", "reject"):
        header += bytes([command.multiple])
    if command.kind == "reject":
        header += bytes([command.recycle])
    return [header, command.body]


def decode(frames: list[bytes]) -> Command:
    """Return the command that these frames are; whatever is wrong with them is an AssertionError or an IndexError."""
    header, body = frames
    kind = NAMES[header[0]]
    if kind in ("ping", "pong"):
        assert len(header) == 1
        return Command(kind)
    (sequence,) = struct.unpack(">Q", header[1:9])
    rest = header[9:]
    if kind == "response":
        assert not rest
        assert len(body) == 3
        return Command(kind, sequence, body=body)
    if kind in ("confirm", "reject"):
        assert len(rest) == (1 if kind == "confirm" else 2)
        assert set(rest) <= {0, 1}
        return Command(kind, sequence, multiple=bool(rest[0]), recycle=kind == "reject" and bool(rest[1]))
    name = rest[1 : 1 + rest[0]].decode()
    if kind != "content":
        assert len(rest) == 1 + rest[0]
        return Command(kind, sequence, name)
    properties, end = decode_table(rest, 1 + rest[0])
    assert end == len(rest)
    return Command(kind, sequence, name, properties, body=body)


class ControlPeer:
    """A client's control flow.

    Args:
        context: Where its socket lives.
        address: Where to connect.
        kind: ``REQ``, ``REQ_CORRELATE`` or ``DEALER``.
    """

    def __init__(self, context: "zmq.Context[Any]", address: str, kind: str = "REQ") -> None:
        self.socket = context.socket(zmq.DEALER if kind == "DEALER" else zmq.REQ)
        self.socket.linger = 0
        self.socket.rcvtimeo = int(DEADLINE * 1000)
        if kind == "REQ_CORRELATE":
            self.socket.req_correlate = True
        self.socket.connect(address)

    def ask(self, name: str, /, **body: object) -> Reply:
        self.socket.send_multipart([name.encode(), json.dumps(body).encode()])
        code, text = self.socket.recv_multipart()
        reply = json.loads(text)
        assert isinstance(reply.pop("status"), str)
        return Reply(int(code), reply)

    def done(self, name: str, /, **body: object) -> dict[str, Any]:
        """Ask for something that is to be done."""
        reply = self.ask(name, **body)
        assert reply.code in (200, 202), f"{name}: {reply}"
        return reply.body

    def log_in(self, user: str = "guest", password: str = "guest", **fields: object) -> Reply:
        """Open, and authorize by PLAIN where that is asked for."""
        reply = self.ask("Connection.Open", **OPEN, **fields)
        if reply.code == 401:
            assert "PLAIN" in reply.body["mechanisms"]
            response = b64encode(f"\0{user}\0{password}".encode()).decode()
            reply = self.ask("Connection.Authorize", mechanism="PLAIN", response=response)
        return reply

    def work_with(self, profile: str) -> "ControlPeer":
        """Log in, and choose a profile."""
        reply = self.log_in()
        assert reply.code == 201, reply
        assert profile in reply.body["profiles"]
        self.done("Connection.Profile", profile=profile)
        return self

    def answer_challenges(self, mechanism: str, client: Any) -> Reply:
        """Authorize by a dialogue of scramp's ``ScramClient``."""
        encoded = b64encode(client.get_client_first().encode()).decode()
        reply = self.ask("Connection.Authorize", mechanism=mechanism, response=encoded)
        assert reply.code == 402, reply
        client.set_server_first(b64decode(reply.body["challenge"]).decode())
        encoded = b64encode(client.get_client_final().encode()).decode()
        reply = self.ask("Connection.Authorize", mechanism=mechanism, response=encoded)
        if reply.code != 402:
            return reply
        client.set_server_final(b64decode(reply.body["challenge"]).decode())
        return self.ask("Connection.Authorize", mechanism=mechanism, response="")


class DataPeer:
    """A client's data flow.

    Args:
        context: Where its socket lives.
        address: Where the lease is for.
    """

    def __init__(self, context: "zmq.Context[Any]", address: str) -> None:
        self.socket = context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.rcvtimeo = self.socket.sndtimeo = int(DEADLINE * 1000)
        self.socket.connect(address)
        self._last = 0
        self.unconfirmed: set[int] = set()
        """Contents that are written, and neither confirmed nor rejected."""

    def send(self, command: Command) -> None:
        self.socket.send_multipart(encode(command))

    def ask(self, kind: str, name: str) -> str:
        """Send a command that is answered next, and return the code."""
        self._last += 1
        self.send(Command(kind, self._last, name))
        response = self.receive()
        assert (response.kind, response.sequence) == ("response", self._last), response
        return response.body.decode()

    def write(self, name: str, body: bytes, **properties: object) -> int:
        """Send a content, and return its sequence."""
        self._last += 1
        named = {key.replace("_", "-"): value for key, value in properties.items()}
        self.send(Command("content", self._last, name, named, body=body))
        self.unconfirmed.add(self._last)
        return self._last

    def receive(self) -> Command:
        """Return what comes next, but for heartbeats."""
        while (command := decode(self.socket.recv_multipart())).kind in ("ping", "pong"):
            if command.kind == "ping":
                self.send(Command("pong"))
        if command.kind in ("confirm", "reject"):
            self.unconfirmed -= {
                number
                for number in self.unconfirmed
                if number == command.sequence or (command.multiple and number < command.sequence)
            }
        return command

    def read(self, count: int) -> list[Command]:
        """Return the contents that come next."""
        contents = [self.receive() for _ in range(count)]
        assert {content.kind for content in contents} <= {"content"}
        return contents

    def is_silent(self) -> bool:
        """Whether nothing comes before a Pong does that is asked for now."""
        self.send(Command("ping"))
        while (command := decode(self.socket.recv_multipart())).kind == "ping":
            pass
        return command.kind == "pong"

    def wait_confirmed(self) -> None:
        """Wait until all that was written is confirmed."""
        while self.unconfirmed:
            command = self.receive()
            assert command.kind == "confirm", command


@contextmanager
def open_proxy(address: str) -> Iterator[str]:
    """Run a proxy that puts an identity before each message of its clients, and yield its address."""
    context = zmq.Context()
    front, back = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
    front.linger = back.linger = 0
    port = front.bind_to_random_port("tcp://127.0.0.1")
    back.connect(address)

    def run() -> None:
        with suppress(zmq.ContextTerminated), front, back:
            zmq.proxy(front, back)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield f"tcp://127.0.0.1:{port}"
    finally:
        context.term()
        thread.join()
