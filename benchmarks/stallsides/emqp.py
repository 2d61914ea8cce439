"""Attacks by eMQP: states, schedules, jobs, topics, and peers that come and go."""

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from functools import partial

import trio

from stallsides.attacked import Attacked, rest
from triomq.clients import open_emqp, open_emqp_worker
from triomq.clients.emqp.connection import EMQPConnection
from triomq.errors import TriomqError
from triomq.protocols.emqp import Extension

CALL = b'["run",{"path":"a","callable":"b","args":[],"kwargs":{}}]'


def run(broker: Attacked, work: Callable[[EMQPConnection], Awaitable[None]], peers: int = 1) -> str:
    """Do something as each of some peers, at the same time; return what was refused."""
    said = ""

    async def one() -> None:
        nonlocal said
        try:
            async with open_emqp(f"emqp://127.0.0.1:{broker.ports['EMQP']}") as connection:
                await work(connection)
        except TriomqError as error:
            said = str(error)[-80:]

    async def main() -> None:
        with trio.move_on_after(60):
            async with trio.open_nursery() as nursery:
                for _ in range(peers):
                    nursery.start_soon(one)

    trio.run(main)
    return said or "accepted"


async def send(connection: EMQPConnection, count: int, extension: Extension, message: bytes = CALL) -> list[bytes]:
    """Send jobs; return their ids."""
    requests = []
    for _ in range(count):
        await connection.wait_room()
        requests.append(connection.begin("q", message, extension=extension))
    connection.flush()
    for request in requests:
        await request.accepted()
    return [request.id for request in requests]


def states(broker: Attacked, size: float) -> Iterator[str]:
    """Ask 40 times at once for the states of 1,000 jobs, again and again."""
    jobs: list[bytes] = []

    async def give(connection: EMQPConnection) -> None:
        jobs.extend(await send(connection, int(1_000 * size) + 1, Extension(keep=3_600_000)))

    async def ask(connection: EMQPConnection) -> None:
        for _ in range(5):
            await connection.states(jobs, results=True)

    yield "send"
    yield f"{run(broker, give)}; states"
    said = run(broker, ask, 40)

    async def follow(connection: EMQPConnection) -> None:
        async with connection.follow(jobs):
            await trio.sleep(1)

    yield f"{said}; follow"
    said = run(broker, follow, 40)
    yield f"{said}; unknown ids"
    jobs[:] = [b"%036d" % number for number in range(1_000)]
    run(broker, ask, 40)


def chains(broker: Attacked, size: float) -> Iterator[str]:
    """Send 15,000 children of a job and a chain of 4,000, and cancel the tree."""

    async def children(connection: EMQPConnection) -> None:
        (parent,) = await send(connection, 1, Extension())
        await send(connection, int(15_000 * size), Extension(parent=(parent.decode(), 1)))
        broker.ask("reset")
        await connection.cancel(parent, tree=True)
        await trio.sleep(2)

    async def chain(connection: EMQPConnection) -> None:
        (parent,) = root = await send(connection, 1, Extension())
        for _ in range(int(2_000 * size)):
            (parent,) = await send(connection, 1, Extension(parent=(parent.decode(), 1)))
        broker.ask("reset")
        await connection.cancel(root[0], tree=True)
        await trio.sleep(1)

    yield "15,000 children"
    said = run(broker, children)
    yield f"{said}; a chain"
    yield run(broker, chain)


def jobs(broker: Attacked, size: float) -> Iterator[str]:
    """Send jobs with large arguments, delays that end at once, keys and limits; a worker leaves with many."""

    async def large(connection: EMQPConnection) -> None:
        arguments = json.dumps(["run", {"path": "a", "callable": "b", "args": list(range(250_000))}]).encode()
        await send(connection, 10, Extension(), arguments[: 2 * 1024 * 1024])
        await send(connection, 10, Extension(), b'["run",{' + b",".join(b'"k%d":1' % n for n in range(140_000)) + b"}]")
        await send(connection, 10, Extension(), b"[" * 1_000_000)

    async def delayed(connection: EMQPConnection) -> None:
        await send(connection, int(20_000 * size), Extension(delay=4_000, unique=""))
        broker.ask("reset")
        await trio.sleep(6)

    async def expiring(connection: EMQPConnection) -> None:
        await send(connection, int(20_000 * size), Extension(deadline=5_000))
        broker.ask("reset")
        await trio.sleep(7)

    async def limited(connection: EMQPConnection) -> None:
        await send(connection, int(10_000 * size), Extension(key="k" * 255, limit=1))

    async def worker(connection: EMQPConnection) -> None:
        async with open_emqp_worker(f"emqp://127.0.0.1:{broker.ports['EMQP']}", ["q"], slots=10_000):
            await send(connection, int(10_000 * size), Extension(retries=3))
            await trio.sleep(2)
            broker.ask("reset")
        await trio.sleep(2)

    yield "large arguments"
    for what, work in {"delays": delayed, "deadlines": expiring, "limits": limited, "a worker leaves": worker}.items():
        said = run(broker, large if what == "delays" else work)
        yield f"{said}; {what}"
        run(broker, work)


def schedules(broker: Attacked, size: float) -> Iterator[str]:
    """Make 3,000 schedules of each kind, and end all of them by one command."""
    texts = {
        "cron that never comes": "0 0 30 2 *",
        "cron that comes seldom": "0 0 29 2 1",
        "long cron": ",".join(map(str, range(60))) + " " + ",".join(["*/1"] * 2_000) + " * * *",
        "many ranges": ",".join(["0-59"] * 4_000) + " * * * *",
    }

    async def each(connection: EMQPConnection, cron: str, count: int) -> None:
        extension = Extension(timezone="America/New_York", name="n")
        for number in range(count):
            message = CALL.replace(b'"a"', b'"a%d"' % number)
            await connection.schedule("q", message, cron=cron, extension=extension)

    for what, text in texts.items():
        yield what
        yield run(broker, partial(each, cron=text, count=30))

    async def intervals(connection: EMQPConnection) -> None:
        for number in range(int(3_000 * size)):
            message = CALL.replace(b'"a"', b'"b%d"' % number)
            await connection.schedule("q", message, interval=3, extension=Extension(name="n"))
        broker.ask("reset")
        await trio.sleep(4)

    async def end(connection: EMQPConnection) -> None:
        await connection.unschedule_others("n", [])

    yield "3,000 intervals that are over"
    yield f"{run(broker, intervals)}; end all"
    run(broker, end)


def topics(broker: Attacked, size: float) -> Iterator[str]:
    """Subscribe to 3,000 topics on a connection, publish to 100 subscribers, and go."""

    async def subscribe(connection: EMQPConnection, count: int) -> None:
        async with AsyncExitStack() as stack:
            for number in range(count):
                await stack.enter_async_context(connection.subscribe(f"t.{number}.*"))
            await connection.publish("t.1.a", b"x")

    async def everything(connection: EMQPConnection) -> None:
        async with connection.subscribe("#"):
            for _ in range(5):
                await connection.publish("t.1.a", b"x" * 100)

    yield "subscribe"
    said = run(broker, partial(subscribe, count=int(3_000 * size)))
    yield f"{said}; publish to all"
    said = run(broker, everything, int(100 * size) + 1)
    yield f"{said}; the end"
    rest()


def peers(broker: Attacked, size: float) -> Iterator[str]:
    """Come as 500 workers of 100 queues at once, and go without a word."""

    async def main() -> None:
        with trio.move_on_after(60):
            async with AsyncExitStack() as stack:
                names = [f"w{number}" for number in range(100)]
                for _ in range(int(100 * size) + 1):
                    url = f"emqp://127.0.0.1:{broker.ports['EMQP']}"
                    await stack.enter_async_context(open_emqp_worker(url, names, slots=10))
                broker.ask("reset")

    yield "workers of 100 queues, and their end"
    try:
        trio.run(main)
    except* TriomqError as group:
        yield str(group.exceptions[0])[-80:]


ATTACKS = (states, chains, jobs, schedules, topics, peers)
