"""Peers of plain frames under Trio: a control peer that asks, and a data peer that remembers what comes.

The frames are those of ``peers.mtl_peer``, which is written from the specification alone.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

import trio
import zmq
from scramp import ScramClient

from peers.mtl_peer import OPEN, Command, Reply, decode, encode
from triomq.transports.zmq import Frames, ZMQSocket, close_context, make_context

Prepare = Callable[[zmq.Socket[bytes]], None]


def nothing(socket: zmq.Socket[bytes]) -> None:
    """Set no option."""


class _RawSocket:
    def __init__(self, kind: int, port: int, prepare: Prepare) -> None:
        self._context = make_context()
        self.socket = ZMQSocket(self._context, kind)
        prepare(self.socket.socket)
        self.socket.connect(f"tcp://127.0.0.1:{port}")

    async def close(self) -> None:
        """Go away without a word."""
        self.socket.close()
        await close_context(self._context)


class RawControl(_RawSocket):
    """A control peer.

    Args:
        port: The broker's, on the loopback.
        kind: ``zmq.REQ`` or ``zmq.DEALER``.
        prepare: Sets options of its socket.
    """

    def __init__(self, port: int, kind: int = zmq.REQ, prepare: Prepare = nothing) -> None:
        super().__init__(kind, port, prepare)

    async def say(self, name: str, /, **body: object) -> None:
        """Send a command, and wait for nothing."""
        await self.socket.send([name.encode(), json.dumps(body).encode()])

    async def hear(self) -> Reply:
        """Wait for a reply."""
        with trio.fail_after(60):
            (frames,) = await self.socket.receive(1)
        code, text = frames
        reply = json.loads(text)
        assert isinstance(reply.pop("status"), str)
        return Reply(int(code), reply)

    async def ask(self, name: str, /, **body: object) -> Reply:
        """Send a command, and wait for its reply."""
        await self.say(name, **body)
        return await self.hear()

    async def done(self, name: str, /, **body: object) -> dict[str, Any]:
        """Ask for something that is to be done."""
        reply = await self.ask(name, **body)
        assert reply.code in (200, 202), f"{name}: {reply}"
        return reply.body

    async def open(self, **fields: object) -> Reply:
        return await self.ask("Connection.Open", **OPEN, **fields)

    async def authorize(self, user: str = "guest", password: str = "", **fields: object) -> Reply:
        """Log in by PLAIN."""
        response = b64encode(f"\0{user}\0{password or user}".encode()).decode()
        return await self.ask("Connection.Authorize", mechanism="PLAIN", response=response, **fields)

    async def scram(self, user: str = "guest", password: str = "", mechanism: str = "SCRAM-SHA-256") -> Reply:
        """Log in by SCRAM, up to the last reply."""
        client = ScramClient([mechanism], user, password or user)
        first = b64encode(client.get_client_first().encode()).decode()
        reply = await self.ask("Connection.Authorize", mechanism=mechanism, response=first)
        if reply.code == 402:
            client.set_server_first(b64decode(reply.body["challenge"]).decode())
            final = b64encode(client.get_client_final().encode()).decode()
            reply = await self.ask("Connection.Authorize", mechanism=mechanism, response=final)
        if reply.code == 402:
            client.set_server_final(b64decode(reply.body["challenge"]).decode())
            reply = await self.ask("Connection.Authorize", mechanism=mechanism, response="")
        return reply

    async def log_in(self, user: str = "guest", **fields: object) -> "RawControl":
        assert (await self.open(**fields)).code == 401
        reply = await self.authorize(user)
        assert reply.code == 201, reply
        return self

    async def work_with(self, profile: str, user: str = "guest") -> "RawControl":
        """Log in, and choose a profile."""
        await self.log_in(user)
        await self.done("Connection.Profile", profile=profile)
        return self

    async def lease(self, direction: str, *resources: str, confirm: str = "none", **fields: object) -> dict[str, Any]:
        """Ask for a lease."""
        return await self.done(f"Connection.{direction}", resources=list(resources), confirm=confirm, **fields)


class RawData(_RawSocket):
    """A data peer; a test starts ``run`` in a task.

    Args:
        port: The broker's, on the loopback.
        prepare: Sets options of its socket.
    """

    def __init__(self, port: int, prepare: Prepare = nothing) -> None:
        super().__init__(zmq.DEALER, port, prepare)
        self.heard: list[Command] = []
        self.pongs = True
        """Whether it answers pings."""
        self._changed = trio.Event()
        self._reading = trio.CancelScope()

    async def run(self) -> None:
        """Receive until ``close`` or ``stop_reading``; after that it may be called again."""
        try:
            with trio.CancelScope() as self._reading:
                while True:
                    for frames in await self.socket.receive():
                        await self._take(frames)
                    self._changed.set()
                    self._changed = trio.Event()
        except trio.ClosedResourceError:
            return

    async def _take(self, frames: Frames) -> None:
        command = decode(frames)
        self.heard.append(command)
        if command.kind == "ping" and self.pongs:
            await self.send(Command("pong"))

    def stop_reading(self) -> None:
        """Read nothing any more."""
        self._reading.cancel()

    async def say(self, *frames: bytes) -> None:
        """Send any frames."""
        await self.socket.send(frames)

    async def send(self, *commands: Command) -> None:
        """Send commands."""
        for command in commands:
            await self.socket.send(encode(command))

    def of(self, kind: str) -> list[Command]:
        """Return what has come of a kind."""
        return [command for command in self.heard if command.kind == kind]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something to have come."""
        with trio.fail_after(60):
            while not condition():
                await self._changed.wait()

    async def ask(self, kind: str, sequence: int, name: str) -> int:
        """Send a command, and return the code of its Response."""
        before = len(self.heard)
        await self.send(Command(kind, sequence, name))
        return await self.response(sequence, before)

    async def response(self, sequence: int, after: int = 0) -> int:
        """Wait for a Response, and return its code."""

        def found() -> list[Command]:
            return [each for each in self.heard[after:] if (each.kind, each.sequence) == ("response", sequence)]

        await self.until(lambda: bool(found()))
        return int(found()[0].body)

    async def contents(self, count: int) -> list[Command]:
        """Wait for so many contents."""
        await self.until(lambda: len(self.of("content")) >= count)
        return self.of("content")

    async def answered(self) -> None:
        """Wait until all that was sent before is handled: a Dismiss of nothing is answered behind it."""
        number = 1_000_000 + len(self.heard)
        await self.send(Command("dismiss", number, "nothing"))
        await self.response(number)
