"""What actors cost: telling, asking, batches, switches, starts, restarts, memory; in place against with a task.

``python benchmarks/actors.py [--quick]``. Times are the best of several runs, in microseconds; read them as ratios.
"""

import logging
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from importlib.metadata import version

import trio

from triomq.actors import (
    Actor,
    Backoff,
    ChildSpec,
    DynamicSupervisor,
    InPlaceActor,
    Message,
    Ref,
    Request,
    System,
    open_system,
)

QUICK = "--quick" in sys.argv
RUNS = 2 if QUICK else 5
MANY = 10_000 if QUICK else 100_000


class Tick(Message, frozen=True, gc=False):
    """Something told."""

    number: int


class Count(Request[int], frozen=True, gc=False):
    """Something asked."""


class Pass(Message, frozen=True, gc=False):
    """Told on by one actor to the next."""

    number: int


class InPlace(InPlaceActor):
    """Counts, in the turn of whoever tells it."""

    __slots__ = ("next", "total")

    def __init__(self, following: Ref | None = None) -> None:
        """Begin with nothing."""
        self.total = 0
        self.next = following

    def tick(self, message: Tick) -> None:
        """Count."""
        self.total += message.number

    def count(self, message: Count) -> int:
        """Say the count."""
        return self.total

    def pass_on(self, message: Pass) -> None:
        """Tell the next one."""
        if self.next is not None:
            self.next.tell_nowait(message)


class WithTask(Actor):
    """Counts, in a task of its own."""

    limit = float("inf")

    def __init__(self) -> None:
        """Begin with nothing."""
        self.total = 0

    def tick(self, message: Tick) -> None:
        """Count."""
        self.total += message.number

    def count(self, message: Count) -> int:
        """Say the count."""
        return self.total


def best(work: Callable[[], object], count: int) -> float:
    """Give the microseconds that one of ``count`` takes, in the best run."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times) / count * 1e6


async def best_of(work: Callable[[], Awaitable[object]], count: int) -> float:
    """Do the same for work that waits."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        await work()
        times.append(time.perf_counter() - start)
    return min(times) / count * 1e6


def show(what: str, figure: float, unit: str = "µs", *, beside: float | None = None) -> None:
    """Print a line, with the ratio to another figure."""
    ratio = "" if beside is None else f"   × {figure / beside:.1f}"
    print(f"{what:<58}{figure:10.3f} {unit}{ratio}")


async def telling(system: System) -> None:
    """Measure one message, told in the ways there are."""
    place, following = await system.start(InPlace), await system.start(InPlace)
    first = await system.start(lambda: InPlace(following))
    task = await system.start(WithTask)
    actor, message, passed = InPlace(), Tick(1), Pass(1)

    def bare() -> None:
        for _ in range(MANY):
            actor.tick(message)

    def in_place() -> None:
        for _ in range(MANY):
            place.tell_nowait(message)

    def in_turn() -> None:
        system.turn.run(in_place)

    def passing() -> None:
        for _ in range(MANY):
            first.tell_nowait(passed)

    async def batches() -> None:
        for _ in range(MANY):
            task.tell_nowait(message)
        await task.ask(Count())

    base = best(bare, MANY)
    show("a method call", base)
    show("tell in place, in a turn", best(in_turn, MANY), beside=base)
    show("tell in place, each a turn of its own", best(in_place, MANY), beside=base)
    show(
        "tell in place and from there to another, in a turn", best(lambda: system.turn.run(passing), MANY), beside=base
    )
    show("tell to a task, in batches of 256", await best_of(batches, MANY), beside=base)


async def asking(system: System) -> None:
    """Measure one question and its answer."""
    place, task, request, count = await system.start(InPlace), await system.start(WithTask), Count(), MANY // 10

    def at_once() -> None:
        for _ in range(count):
            place.ask_nowait(request)

    async def ask_all(ref: Ref) -> None:
        for _ in range(count):
            await ref.ask(request)

    async def checkpoints() -> None:
        for _ in range(count):
            await trio.lowlevel.checkpoint()

    base = best(lambda: system.turn.run(at_once), count)
    show("ask_nowait in place, in a turn", base)
    show("one checkpoint of Trio", await best_of(checkpoints, count), beside=base)
    show("ask in place", await best_of(lambda: ask_all(place), count), beside=base)
    show("ask a task: two switches", await best_of(lambda: ask_all(task), count), beside=base)


async def channels(count: int) -> None:
    """Measure a switch: one message at a time through Trio's memory channel."""
    send, receive = trio.open_memory_channel[int](0)

    async def consume() -> None:
        async for _ in receive:
            pass

    async def produce() -> None:
        for number in range(count):
            await send.send(number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(consume)
        show("a memory channel of size 0, one at a time", await best_of(produce, count))
        send.close()


async def starting(parent: DynamicSupervisor) -> None:
    """Measure starts and stops of children."""
    count = MANY // 10
    started: list[Ref] = []

    def start() -> None:
        started.extend(parent.start_child_nowait(ChildSpec(InPlace)) for _ in range(count))

    def stop() -> None:
        for _ in range(count):
            parent.stop_child_nowait(started.pop())

    async def with_tasks() -> None:
        for _ in range(count // 10):
            started.append(await parent.start_child(ChildSpec(WithTask)))

    base = best(start, count)
    show("start_child_nowait in place", base)
    show("stop_child_nowait in place", best(stop, count), beside=base)
    show("start_child with a task", await best_of(with_tasks, count // 10), beside=base)
    for ref in started:
        await parent.stop_child(ref)


async def restarting(parent: DynamicSupervisor) -> None:
    """Measure the time from a crash in ``after_batch`` until the next incarnation runs."""

    class Fragile(InPlace):
        def after_batch(self) -> None:
            raise ValueError

    class FragileTask(WithTask):
        def after_batch(self) -> None:
            raise ValueError

    async def crash(ref: Ref) -> None:
        epoch = ref.epoch
        ref.tell_nowait(Tick(1))
        while ref.epoch == epoch or ref.state != "running":
            await trio.lowlevel.checkpoint()

    for kind in (Fragile, FragileTask):
        ref = await parent.start_child(ChildSpec(kind))
        await trio.sleep(0.01)
        where = "in place" if kind is Fragile else "with a task"
        show(f"crash and restart {where}", await best_of(lambda ref=ref: crash(ref), 1))  # type: ignore[misc]
        await parent.stop_child(ref)


async def memory(parent: DynamicSupervisor, kind: Callable[[], Actor | InPlaceActor], where: str, count: int) -> None:
    """Measure what an idle actor holds, its Ref and its place in the tree included."""
    await parent.start_child(ChildSpec(kind, "first"))
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(count):
        parent.start_child_nowait(ChildSpec(kind, f"idle.{number}"))
    await trio.sleep(0.05)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    show(f"an idle actor {where}", (after - before) / count, "B ")
    for ref in list(parent.children.values()):
        await parent.stop_child(ref)


def tell_each(refs: list[Ref]) -> None:
    """Tell each once."""
    for ref in refs:
        ref.tell_nowait(Tick(1))


async def hundred_thousand(parent: DynamicSupervisor) -> None:
    """Start very many actors in place, tell each, stop all."""
    start = time.perf_counter()
    refs = [parent.start_child_nowait(ChildSpec(InPlace, f"one.{number}")) for number in range(MANY)]
    told = time.perf_counter()
    parent.system.turn.run(tell_each, refs)
    stopped = time.perf_counter()
    for ref in refs:
        parent.stop_child_nowait(ref)
    end = time.perf_counter()
    show(f"{MANY:,} actors in place: start all", told - start, "s ")
    show(f"{MANY:,} actors in place: tell each once", stopped - told, "s ")
    show(f"{MANY:,} actors in place: stop all", end - stopped, "s ")


async def main() -> None:
    """Print all figures."""
    logging.disable()
    print(f"Python {sys.version.split()[0]}, trio {version('trio')}\n")
    async with open_system() as system:
        await telling(system)
        print()
        await asking(system)
        await channels(MANY // 10)
        print()
        ref = await system.start(lambda: DynamicSupervisor(max_restarts=1_000_000, backoff=Backoff(initial=0)))
        parent = ref.actor
        assert isinstance(parent, DynamicSupervisor)
        await starting(parent)
        await restarting(parent)
        print()
        await memory(parent, InPlace, "in place", MANY // 10)
        await memory(parent, WithTask, "with a task", MANY // 100)
        print()
        await hundred_thousand(parent)


if __name__ == "__main__":
    trio.run(main)
