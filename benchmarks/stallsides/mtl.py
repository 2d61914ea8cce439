"""Attacks by MTL: JSON of its control flow, tables of its data flow, sessions with many queues."""

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

import trio

from stallsides.attacked import Attacked
from triomq.clients import open_mtl
from triomq.clients.mtl.connection import MTLConnection
from triomq.errors import TriomqError


def run(broker: Attacked, work: Callable[[MTLConnection], Awaitable[None]], profile: str = "amqp") -> str:
    """Do something on a connection as eve; return what was refused."""
    said = ""

    async def main() -> None:
        nonlocal said
        with trio.move_on_after(60):
            try:
                async with open_mtl(f"mtl://eve:eve@127.0.0.1:{broker.ports['MTL']}/?profile={profile}") as connection:
                    await work(connection)
            except TriomqError as error:
                said = str(error)[-80:]

    trio.run(main)
    return said or "accepted"


def documents(broker: Attacked, size: float) -> Iterator[str]:
    """Call commands with a megabyte of JSON: keys, lists, numbers, texts."""
    count = int(80_000 * size)
    bodies: dict[str, object] = {
        "keys": {f"k{number}": 1 for number in range(count)},
        "texts": {f"k{number}": "é" for number in range(count // 2)},
        "numbers": {"a": list(range(count))},
        "lists": {"a": [[] for _ in range(count * 3)]},
        "objects": {"a": [{} for _ in range(count * 3)]},
    }
    for what, arguments in bodies.items():

        async def call(connection: MTLConnection, arguments: object = arguments) -> None:
            for command, filled in (
                ("Queue.Declare", {"name": "q", "arguments": arguments}),
                ("Queue.Bind", {"queue": "q", "exchange": "amq.headers", "arguments": arguments}),
                ("Queue.Declare", arguments),
                ("Nothing.Known", {"a": arguments}),
            ):
                with suppress(TriomqError):
                    await connection.call(command, filled)  # type: ignore[arg-type]

        yield f"{what}, {len(json.dumps(arguments)):,} octets"
        yield run(broker, call)


def session_queues(broker: Attacked, size: float) -> Iterator[str]:
    """Declare 10,000 queues of the session, bind them, list them, and go."""

    async def declare(connection: MTLConnection) -> None:
        for number in range(int(10_000 * size)):
            await connection.call("Queue.Declare", {"name": f"m{number}", "exclusive": True})
            await connection.call("Queue.Bind", {"queue": f"m{number}", "exchange": "amq.fanout"})
        broker.ask("reset")
        for _ in range(3):
            with suppress(TriomqError):
                await connection.call("Queue.List", {"limit": 1_000})

    yield "declare, list"
    yield f"{run(broker, declare)}; the end"
    trio.run(trio.sleep, 2)


ATTACKS = (documents, session_queues)
