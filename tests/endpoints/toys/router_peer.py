"""The other side of the ROUTER toy: a DEALER that remembers what comes."""

from collections.abc import Callable
from itertools import count

import trio
import zmq
from zmq.utils.monitor import parse_monitor_message

from triomq.transports.zmq import Frames, ZMQSocket, close_context, make_context

# libzmq takes only its own misspelling of ERROR for a refusal, and the one of the specification for a fault.
_DECIDED = (zmq.EVENT_HANDSHAKE_SUCCEEDED, zmq.EVENT_HANDSHAKE_FAILED_AUTH, zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL)


class RouterPeer:
    """A peer of the toy; made by a test, which starts ``run`` in a task.

    Args:
        port: The toy's, on the loopback.
        user: As whom it logs in, with the name for a password.
        identity: Which it chooses; empty leaves it to libzmq.
        came: Called with each message.
        prepare: Sets options of its socket.
    """

    def __init__(
        self,
        port: int,
        user: str = "guest",
        *,
        identity: bytes = b"",
        came: Callable[[Frames], None] = lambda frames: None,
        prepare: Callable[[zmq.Socket[bytes]], None] = lambda socket: None,
    ) -> None:
        self._context = make_context()
        self._socket = ZMQSocket(self._context, zmq.DEALER, high_water=10)
        options = self._socket.socket
        if user:
            options.setsockopt_string(zmq.PLAIN_USERNAME, user)
            options.setsockopt_string(zmq.PLAIN_PASSWORD, user)
        prepare(options)
        options.setsockopt(zmq.RCVBUF, 4096)
        if identity:
            options.setsockopt(zmq.IDENTITY, identity)
        self._monitor = options.get_monitor_socket()
        self._socket.connect(f"tcp://127.0.0.1:{port}")
        self._came = came
        self._numbers = count(1)
        self._changed = trio.Event()
        self._reading = trio.CancelScope()
        self._running = trio.CancelScope()
        self.closed = trio.Event()
        self.answers: dict[bytes, Frames] = {}  # by number
        self.got: list[tuple[bytes, bytes]] = []  # deliveries, and their bodies
        self.ends: list[bytes] = []  # queues from which nothing more comes
        self.bye = b""

    async def run(self) -> None:
        """Receive until ``close``, or until the task is cancelled."""
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
            self._socket.socket.disable_monitor()
            self._monitor.close(0)
            self._socket.close()
            await close_context(self._context)
            self.closed.set()

    def stop_reading(self) -> None:
        self._reading.cancel()

    async def close(self) -> None:
        self._running.cancel()
        await self.closed.wait()

    def _take(self, frames: Frames) -> None:
        kind, *rest = frames
        if kind == b"MSG":
            self.got.append((rest[0], rest[1]))
        elif kind == b"END":
            self.ends.append(rest[0])
        elif kind == b"BYE":
            self.bye = rest[0] or b"no reason"
        else:
            self.answers[rest[0]] = frames
        self._came(frames)

    async def is_let_in(self) -> bool:
        """Wait until the broker has decided."""
        while True:
            while self._monitor.poll(0):
                event = parse_monitor_message(self._monitor.recv_multipart())["event"]
                if event in _DECIDED:
                    return event == zmq.EVENT_HANDSHAKE_SUCCEEDED
            await trio.lowlevel.wait_readable(self._monitor.FD)

    async def say(self, *frames: bytes) -> None:
        """Send any frames."""
        await self._socket.send(frames)

    async def send(self, command: bytes, *arguments: bytes) -> bytes:
        """Send a command, and return its number."""
        number = b"%d" % next(self._numbers)
        await self.say(command, number, *arguments)
        return number

    async def call(self, command: bytes, *arguments: bytes) -> Frames:
        """Send a command, and return its answer, which may be BYE."""
        number = await self.send(command, *arguments)
        await self.until(lambda: number in self.answers or bool(self.bye))
        return self.answers.get(number, [b"BYE", self.bye])

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for what is to come."""
        while not condition():
            await self._changed.wait()
