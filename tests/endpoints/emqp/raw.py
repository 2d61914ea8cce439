"""A peer of plain frames: a DEALER that remembers what comes, and can write what no engine would."""

import json
from collections.abc import Awaitable, Callable
from itertools import count
from typing import NamedTuple

import trio
import zmq

from triomq.transports.zmq import Frames, ZMQSocket, close_context, make_context


class Heard(NamedTuple):
    """A message of the broker's: its command, its id, and what follows."""

    command: bytes
    msgid: bytes
    rest: list[bytes]


class RawPeer:
    """Made by a test, which starts ``run`` in a task.

    Args:
        port: The broker's, on the loopback.
        identity: Which it chooses; empty leaves it to libzmq.
        prepare: Sets options of its socket.
    """

    def __init__(
        self,
        port: int,
        identity: bytes = b"",
        *,
        prepare: Callable[[zmq.Socket[bytes]], None] = lambda socket: None,
    ) -> None:
        self._context = make_context()
        self._socket = ZMQSocket(self._context, zmq.DEALER)
        if identity:
            self._socket.socket.setsockopt(zmq.IDENTITY, identity)
        prepare(self._socket.socket)
        self._port = port
        self._changed = trio.Event()
        self._numbers = count(1)
        self._running = trio.CancelScope()
        self._reading = trio.CancelScope()
        self.closed = trio.Event()
        self.heard: list[Heard] = []

    async def run(self) -> None:
        """Receive until ``close``, or until the task is cancelled."""
        self._socket.connect(f"tcp://127.0.0.1:{self._port}")
        try:
            with self._running:
                with self._reading:
                    while True:
                        for frames in await self._socket.receive():
                            self._take(frames)
                        self._changed.set()
                        self._changed = trio.Event()
                await trio.sleep_forever()
        finally:
            self._socket.close()
            await close_context(self._context)
            self.closed.set()

    def _take(self, frames: Frames) -> None:
        assert frames[:2] == [b"", b"eMQP/1.0"], frames
        self.heard.append(Heard(frames[2], frames[3], frames[4:]))
        self.took(self.heard[-1])

    def took(self, heard: Heard) -> None:
        """Hear a message; for subclasses."""

    def monitor(self) -> Callable[[], Awaitable[bool]]:
        """Begin to watch the handshake; what is returned waits for its end, and returns whether the peer was let in."""
        # libzmq takes only its own misspelling of ERROR for a refusal, and the one of the specification for a fault.
        refused = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
        watch = self._socket.socket.get_monitor_socket(refused | zmq.EVENT_HANDSHAKE_SUCCEEDED)

        async def outcome() -> bool:
            while not watch.poll(0):  # a thread of libzmq works
                await trio.lowlevel.wait_readable(watch.FD)
            event = int.from_bytes(watch.recv_multipart()[0][:2], "little")
            self._socket.socket.disable_monitor()
            watch.close(0)
            return event == zmq.EVENT_HANDSHAKE_SUCCEEDED

        return outcome

    def stop_reading(self) -> None:
        self._reading.cancel()

    async def read_again(self, command: bytes, count: int) -> None:
        """Read until there are so many messages of a command, after ``stop_reading``."""
        with trio.fail_after(60):
            while len(self.of(command)) < count:
                for frames in await self._socket.receive():
                    self._take(frames)

    async def close(self) -> None:
        """Go away without a word."""
        self._running.cancel()
        await self.closed.wait()

    # What it says

    async def say(self, *frames: bytes) -> None:
        """Send any frames."""
        await self._socket.send(frames)

    async def send(self, command: bytes, *frames: bytes, msgid: bytes = b"") -> bytes:
        """Send a command, and return its id."""
        msgid = msgid or b"m%d" % next(self._numbers)
        await self.say(b"", b"eMQP/1.0", command, msgid, *frames)
        return msgid

    async def work(self, *queues: str, weight: int = 10, ready: int = 0, extended: bool = False) -> None:
        """Inform as a worker, wait for the ACK, and offer slots."""
        names = ", ".join(f'[{weight}, "{name}"]' for name in queues)
        about = [b'{"v": 1, "capabilities": ["jobs"]}'] if extended else []
        msgid = await self.send(b"INFORM", f"[{names}]".encode(), b"worker", *about)
        await self.answer_to(msgid)
        for _ in range(ready):
            await self.send(b"READY")

    async def join(self) -> None:
        """Inform as a client with extensions, and wait for the ACK."""
        msgid = await self.send(b"INFORM", b"", b"client", b'{"v": 1, "capabilities": ["jobs"]}')
        await self.answer_to(msgid)

    async def request(self, payload: bytes, queue: str = "q", headers: bytes = b"", msgid: bytes = b"") -> bytes:
        return await self.send(b"REQUEST", queue.encode(), headers, payload, msgid=msgid)

    async def reply(self, request: Heard, value: bytes = b'{"value": true}') -> None:
        await self.send(b"REPLY", value, request.msgid)

    # What it hears

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for what is to come."""
        with trio.fail_after(60):
            while not condition():
                await self._changed.wait()

    def of(self, command: bytes) -> list[Heard]:
        """List the messages of a command."""
        return [heard for heard in self.heard if heard.command == command]

    async def hear(self, command: bytes, count: int = 1) -> list[Heard]:
        """Wait for so many messages of a command, and list them."""
        await self.until(lambda: len(self.of(command)) >= count)
        return self.of(command)

    async def answer_to(self, msgid: bytes) -> Heard:
        """Wait for ACK, ERROR or REPLY of what has that id."""
        found: list[Heard] = []

        def is_here() -> bool:
            found[:] = [heard for heard in self.heard if is_answer(heard, msgid)]
            return bool(found)

        await self.until(is_here)
        return found[0]

    async def ask(self, question: bytes = b"STATUS") -> dict[str, dict[str, object]]:
        """Ask what administrators ask, and return the answer."""
        answer = await self.answer_to(await self.send(question))
        assert answer.command == b"REPLY"
        found: dict[str, dict[str, object]] = json.loads(answer.rest[0])
        return found


def is_answer(heard: Heard, msgid: bytes) -> bool:
    place = 1 if heard.command == b"REPLY" else 0
    return heard.command in (b"ACK", b"ERROR", b"REPLY") and len(heard.rest) > place and heard.rest[place] == msgid
