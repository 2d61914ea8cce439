"""MTL over raw pyzmq, for measuring: sides that block, each in a process of its own, with frames as 11/MTL writes them.

    Control    a REQ: Open, Authorize, Profile, leases, and the calls of a profile
    write      a DEALER with a lease that sends contents, with a window or without
    read       a DEALER with a lease that summons a resource, and takes contents
    be_router  a ROUTER that moves the same frames by the same calls, and knows nothing: what a broker cannot fall below

Nothing of triomq's engine is used here, so that both have to be right for a figure to come out.
"""

import json
import struct
import time
from base64 import b64encode
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import zmq
from zmq.auth.thread import ThreadAuthenticator
from zmq.backend import Socket as Backend

LEASE, RESPONSE, SUMMON, CONTENT, CONFIRM, PING, PONG = 1, 2, 3, 5, 6, 8, 9
PING_FRAMES, PONG_FRAMES = (b"\x08", b""), (b"\x09", b"")
TEXT = b"\x0ccontent-typeS" + struct.pack(">I", 10) + b"text/plain"
PROPERTIES = struct.pack(">I", len(TEXT)) + TEXT
MODE = b"\x0ddelivery-modeB\x02"
PERSISTENT = struct.pack(">I", len(TEXT + MODE)) + TEXT + MODE
BODY = b"x" * 100
WINDOW = 1000
"""Contents of a writer that are not confirmed yet."""
CONFIRM_EVERY = 100
"""Contents that a reader confirms at once."""
PATIENCE = 60_000
"""Milliseconds after which a side that hears nothing gives up."""

Socket = zmq.Socket[bytes]


def short(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def content_tail(resource: str, *, persistent: bool = False) -> bytes:
    """What follows a content's sequence in its header."""
    return short(resource.encode()) + (PERSISTENT if persistent else PROPERTIES)


def sequence_of(header: bytes) -> int:
    return int.from_bytes(header[1:9])


def send(socket: Socket, header: bytes, body: bytes) -> None:
    """Send a data command by the backend's calls, which cost half of ``send_multipart``."""
    Backend.send(socket, header, zmq.SNDMORE)
    Backend.send(socket, body, 0)


def receive(socket: Socket) -> tuple[bytes, bytes]:
    """Receive a data command."""
    return Backend.recv(socket, 0), Backend.recv(socket, 0)


class Control:
    """A control flow, logged in and with a profile.

    Args:
        context: Where its socket lives.
        port: Of a broker.
        profile: What it works with.
    """

    def __init__(self, context: "zmq.Context[Any]", port: int, profile: str = "queue") -> None:
        self.socket: Socket = context.socket(zmq.REQ)
        self.socket.rcvtimeo = PATIENCE
        self.socket.linger = 0
        self.socket.connect(f"tcp://127.0.0.1:{port}")
        code, _ = self.ask("Connection.Open", protocol={"name": "MTL", "version": 1})
        if code == 401:
            response = b64encode(b"\0guest\0guest").decode()
            code, _ = self.ask("Connection.Authorize", mechanism="PLAIN", response=response)
        assert code == 201, f"not let in: {code}"
        self.call("Connection.Profile", profile=profile)

    def ask(self, name: str, /, **body: object) -> tuple[int, dict[str, Any]]:
        self.socket.send_multipart([name.encode(), json.dumps(body).encode()])
        code, text = self.socket.recv_multipart()
        return int(code), json.loads(text)

    def call(self, name: str, /, **body: object) -> dict[str, Any]:
        code, reply = self.ask(name, **body)
        assert code in (200, 202), f"{name} {body}: {code} {reply}"
        return reply

    def lease(self, direction: str, resource: str, confirm: str) -> tuple[int, str]:
        """Return the data port, and the lease."""
        reply = self.call(f"Connection.{direction}", resources=[resource], confirm=confirm)
        return reply["port"], reply["lease"]

    def writer(self, resource: str, count: int, confirm: str, *, persistent: bool = False) -> "Side":
        """Start a process that is to write so many contents."""
        window = WINDOW if confirm == "full" else 0
        return Side(write, *self.lease("Writer", resource, confirm), resource, count, window, persistent)

    def reader(self, resource: str, count: int, confirm: str) -> "Side":
        """Start a process that is to read so many."""
        return Side(read, *self.lease("Reader", resource, confirm), resource, count, confirm == "full")


def open_flow(context: "zmq.Context[Any]", port: int, lease: str) -> Socket:
    """Open a data flow, and claim a lease."""
    flow: Socket = context.socket(zmq.DEALER)
    flow.rcvtimeo = flow.sndtimeo = PATIENCE
    flow.linger = 1000
    flow.connect(f"tcp://127.0.0.1:{port}")
    command(flow, LEASE, lease)
    return flow


def command(flow: Socket, kind: int, name: str) -> None:
    """Send a Lease or a Summon, and see that it is answered well."""
    send(flow, struct.pack(">BQ", kind, 1) + short(name.encode()), b"")
    header, body = receive(flow)
    assert (header[0], body) == (RESPONSE, b"200"), f"command {kind} is answered by {header.hex()} {body!r}"


# Sides, each for a process of its own


def write(port: int, lease: str, resource: str, count: int, window: int, persistent: bool, parent: Connection) -> None:
    """Write contents when told, and tell in how many seconds the broker had them; a window of 0 is without confirms."""
    with zmq.Context() as context:
        flow, head = open_flow(context, port, lease), struct.Struct(">BQ").pack
        tail = content_tail(resource, persistent=persistent)
        wait_to_begin(parent)
        parent.send(None)
        began, confirmed = time.perf_counter(), 0
        for number in range(1, count + 1):
            send(flow, head(CONTENT, number) + tail, BODY)
            while window and (number - confirmed >= window or (number % 50 == 0 and flow.poll(0))):
                confirmed = max(confirmed, confirmed_by(flow))
        while window and confirmed < count:
            confirmed = max(confirmed, confirmed_by(flow))
        if not window:
            send(flow, *PING_FRAMES)  # comes behind everything else
            while receive(flow)[0][0] != PONG:
                pass
        parent.send(time.perf_counter() - began)
        parent.recv()
        flow.close()


def wait_to_begin(parent: Connection) -> None:
    parent.send(None)
    parent.recv()


def confirmed_by(flow: Socket) -> int:
    header, _ = receive(flow)
    if header[0] == PING:
        send(flow, *PONG_FRAMES)
    assert header[0] in (CONFIRM, PING, PONG), f"not confirmed: {header.hex()}"
    return sequence_of(header) if header[0] == CONFIRM else 0


def read(port: int, lease: str, resource: str, count: int, confirms: bool, parent: Connection) -> None:
    """Read contents when told, and tell in how many seconds they came."""
    with zmq.Context() as context:
        flow, got = open_flow(context, port, lease), 0
        wait_to_begin(parent)
        began = time.perf_counter()
        command(flow, SUMMON, resource)
        parent.send(None)
        while got < count:
            header, _ = receive(flow)
            if header[0] == CONTENT:
                got += 1
                if confirms and got % CONFIRM_EVERY == 0:
                    send(flow, b"\x06" + header[1:9] + b"\x01", b"")
            elif header[0] == PING:
                send(flow, *PONG_FRAMES)
        if confirms:
            send(flow, b"\x06" + header[1:9] + b"\x01", b"")
            send(flow, *PING_FRAMES)
            while receive(flow)[0][0] != PONG:
                pass
        parent.send(time.perf_counter() - began)
        parent.recv()
        flow.close()


def round_trips(control: Control, count: int, name: str) -> list[float]:
    """Return how long each call took, in milliseconds."""
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        control.call(name)
        taken.append((time.perf_counter() - began) * 1000)
    return taken


def be_peers(port: int, count: int, leases: bool, parent: Connection) -> None:
    """Be so many control flows, perhaps with a reader's lease and its data flow each."""
    context: zmq.Context[Socket] = zmq.Context()
    context.max_sockets = 2 * count + 10
    sockets = []
    for _ in range(count):
        control = Control(context, port)
        sockets.append(control.socket)
        if leases:
            sockets.append(open_flow(context, *control.lease("Reader", "q", "full")))
    wait_to_begin(parent)
    for socket in sockets:
        socket.close(0)
    context.term()


class Side:
    """A process that does one side's part.

    Args:
        part: ``write``, ``read`` or ``be_peers``, which gets the arguments and a pipe.
        arguments: Of it.
    """

    def __init__(self, part: Callable[..., None], *arguments: object) -> None:
        spawn = get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        self._process = spawn.Process(target=part, args=(*arguments, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def wait_ready(self) -> None:
        self._pipe.recv()

    def begin(self) -> None:
        """Have it begin, and wait until it does: until a reader has summoned what it reads."""
        self._pipe.send(None)
        self._pipe.recv()

    def seconds(self) -> float:
        taken: float = self._pipe.recv()
        return taken

    def end(self) -> None:
        self._pipe.send(None)
        self._process.join()
        assert self._process.exitcode == 0


# The floor


def be_router(count: int, asks: bool, parent: Connection) -> None:
    """Move the frames of such sides until killed; a process gets it.

    What is summoned at ``out`` comes from here, so many contents; all else comes from a writer. Control flows are on
    the same socket, and let everybody in.

    Args:
        count: Contents for each who summons ``out``.
        asks: Whether somebody is asked about each connection (ZAP), as brokers do.
        parent: Is told the port.
    """
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        router.router_mandatory = True
        if asks:
            ThreadAuthenticator(context).start()
            router.zap_domain = b"anyone"
        port = router.bind_to_random_port("tcp://127.0.0.1")
        reply = json.dumps({"port": port, "lease": "any"}).encode()
        parent.send(port)
        take, put, more = Backend.recv, Backend.send, zmq.SNDMORE
        reader, got = b"", 0
        tail, head = content_tail("out"), struct.Struct(">BQ").pack

        def answer(identity: bytes, header: bytes, body: bytes) -> None:
            put(router, identity, more)
            put(router, header, more)
            put(router, body, 0)

        while True:
            identity, header, frame = take(router, 0), take(router, 0), take(router, 0, False)
            kind = header[0] if header else 0
            if kind == CONTENT:
                got += 1
                if reader:
                    answer(reader, header, frame.bytes)
                if got % CONFIRM_EVERY == 0:
                    answer(identity, b"\x06" + header[1:9] + b"\x01", b"")
            elif kind in (LEASE, SUMMON):
                answer(identity, b"\x02" + header[1:9], b"200")
                if kind == SUMMON and header.endswith(b"out"):
                    for number in range(1, count + 1):
                        answer(identity, head(CONTENT, number) + tail, BODY)
                elif kind == SUMMON:
                    reader = identity
            elif kind == PING:
                answer(identity, *PONG_FRAMES)
            elif not header and frame.more:  # the delimiter of a REQ
                is_open = frame.bytes == b"Connection.Open"
                take(router, 0)
                put(router, identity, more)
                put(router, b"", more)
                put(router, b"201" if is_open else b"200", more)
                put(router, reply, 0)
