"""A server of MTL that does what a test says: plain frames over our ROUTER, one socket for both flows."""

import json
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import trio

from peers.mtl_peer import Command, decode, encode
from ports import free_port
from triomq.transports.zmq import Received, Router, close_context, make_context

Answer: TypeAlias = tuple[int, dict[str, Any]]

READY: Answer = (201, {"status": "Ready", "profiles": ["queue"]})
DONE: Answer = (200, {"status": "OK"})


def unauthorized(*mechanisms: str) -> Answer:
    return 401, {"status": "Unauthorized", "mechanisms": list(mechanisms)}


def challenge(mechanism: str, text: str) -> Answer:
    encoded = b64encode(text.encode()).decode()
    return 402, {"status": "Challenged", "mechanism": mechanism, "challenge": encoded}


class StubServer:
    """Answers commands as ``answers`` says, or else well, and keeps what data flows say.

    Made by ``open_stub``.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.answers: dict[str, list[Answer | None]] = {}
        """By the name of a command what it is answered, one after the other; None is not at all."""
        self.asked: list[tuple[str, dict[str, Any]]] = []
        """Commands, in order."""
        self.decide: Callable[[str, dict[str, Any]], Answer | None] = lambda command, arguments: None
        """Asked first; what it answers None is answered otherwise."""
        self.is_deaf = False
        """Whether Pings are not answered."""
        self.leases = 0
        self.flow = b""
        """The identity of the newest data flow."""
        self.codes: dict[str, list[bytes]] = {}
        """By the kind of a data command what it is answered, one after the other, in place of 200."""
        self.react: Callable[[Command], None] = lambda command: None
        """Called with each data command that is not answered."""
        self._new = trio.lowlevel.ParkingLot()
        self._context = make_context()
        self._commands, self._heard = trio.open_memory_channel[Command](10_000)
        self._router: Router | None = None
        self._nursery: trio.Nursery | None = None

    # Life

    def listen(self) -> None:
        assert self._nursery is not None
        self._router = Router(self._context, self._received, outbox_bytes=1 << 30)
        self._router.bind(f"tcp://127.0.0.1:{self.port}")
        self._nursery.start_soon(self._router.run)

    def hang_up(self) -> None:
        """Close the socket, with all connections to it."""
        assert self._router is not None
        self._router.close()

    async def restart(self) -> None:
        """Lose all connections, and take new ones."""
        await self.close()
        self._context = make_context()
        self.listen()

    async def run(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.listen()

    async def close(self) -> None:
        self.hang_up()
        await close_context(self._context)

    # What comes

    def _received(self, found: Received) -> None:
        for (identity, _), messages in found.items():
            for frames in messages:
                if frames[0][:1] < b"\x0a" and len(frames) == 2:
                    self._take(identity, decode(frames))
                else:
                    self._answer(identity, frames)

    def _answer(self, identity: bytes, frames: list[bytes]) -> None:
        envelope, (name, body) = frames[:-2], frames[-2:]
        command, arguments = name.decode(), json.loads(body)
        self.asked.append((command, arguments))
        self._new.unpark_all()
        given = self.answers.get(command)
        answer = given.pop(0) if given else self.decide(command, arguments) or self._usual(command, arguments)
        if answer is not None:
            self._send(identity, [*envelope, b"%d" % answer[0], json.dumps(answer[1]).encode()])

    def _usual(self, command: str, arguments: dict[str, Any]) -> Answer:
        if command in ("Connection.Open", "Connection.Authorize"):
            return READY
        if command in ("Connection.Reader", "Connection.Writer"):
            self.leases += 1
            return 202, {"status": "Data Lease", "port": self.port, "lease": f"lease {self.leases}"}
        return DONE

    def _take(self, identity: bytes, command: Command) -> None:
        if command.kind in ("lease", "summon", "dismiss"):
            self.flow = identity
            codes = self.codes.get(command.kind)
            self._send(identity, encode(Command("response", command.sequence, body=codes.pop(0) if codes else b"200")))
        elif command.kind == "ping" and not self.is_deaf:
            self._send(identity, encode(Command("pong")))
        if command.kind != "pong":
            self._commands.send_nowait(command)
            self.react(command)

    async def heard(self, kind: str) -> Command:
        """Return the next command of a kind on any data flow."""
        while True:
            command = await self._heard.receive()
            if command.kind == kind:
                return command

    def tell(self, command: Command) -> None:
        """Send a command to the newest data flow."""
        self._send(self.flow, encode(command))

    def _send(self, identity: bytes, frames: list[bytes]) -> None:
        assert self._router is not None
        self._router.send_to(identity, frames)

    def count(self, command: str) -> int:
        return sum(name == command for name, _ in self.asked)

    async def wait_asked(self, command: str, count: int = 1) -> None:
        """Wait until a command was asked so often."""
        while self.count(command) < count:
            await self._new.park()


@asynccontextmanager
async def open_stub() -> AsyncIterator[StubServer]:
    stub = StubServer(free_port())
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            await stub.run(nursery)
            try:
                yield stub
            finally:
                nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await stub.close()
