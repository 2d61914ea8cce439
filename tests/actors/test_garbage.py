"""Nothing is left for the collector of actors that came and went, and their supervisor has forgotten them."""

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
import trio.testing

from triomq.actors import (
    Actor,
    ChildSpec,
    Down,
    DynamicSupervisor,
    InPlaceActor,
    Message,
    Ref,
    Request,
    System,
)


class Note(Message, frozen=True):
    text: str


class Question(Request[str], frozen=True):
    text: str


class Clerk(InPlaceActor):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: Note) -> None:
        self.notes.append(message.text)

    def question(self, message: Question) -> str:
        return message.text


class Worker(Actor):
    async def note(self, message: Note) -> None:
        await trio.lowlevel.checkpoint()

    async def question(self, message: Question) -> str:
        return message.text

    def down(self, message: Down) -> None:
        pass


class Office(DynamicSupervisor):
    async def on_start(self) -> None:
        await super().on_start()
        await self.start_child(ChildSpec(Clerk, name="clerk"))


@contextmanager
def collector_off() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def ours() -> Counter[str]:
    return Counter(
        type(one).__qualname__ for one in gc.get_objects() if str(type(one).__module__).startswith("triomq.")
    )


def garbage() -> Counter[str]:
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        found = [one for one in gc.garbage if type(one).__module__.startswith(("triomq.", "actors."))]
        return Counter(type(one).__qualname__ for one in found)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


@pytest.mark.parametrize("kind", [Clerk, Worker, Office])
async def test_child_that_has_ended_is_forgotten(system: System, kind: type[InPlaceActor] | type[Actor]) -> None:
    top = await system.start(DynamicSupervisor, name="top")
    watcher = await system.start(Worker, name="watcher")
    supervisor = top.actor
    assert isinstance(supervisor, DynamicSupervisor)

    def make(known: list[Ref]) -> InPlaceActor | Actor:
        return kind()

    async def play() -> None:
        known: list[Ref] = []
        ref = await supervisor.start_child(ChildSpec(partial(make, known)))
        known.append(ref)  # as a store knows its actor: its factory leads to the Ref
        ref.watch(watcher)
        if kind is not Office:
            ref.tell_nowait(Note("one"))
            assert await ref.ask(Question("who?")) == "who?"
        await supervisor.stop_child(ref)
        assert ref.actor is None

    await play()
    await trio.testing.wait_all_tasks_blocked()
    with collector_off():
        before = ours()
        for _ in range(10):
            await play()
        await trio.testing.wait_all_tasks_blocked()
        assert garbage() == Counter()
        assert ours() - before == Counter()
    assert not top.children


async def test_watched_actor_drops_watchers_that_have_ended(system: System) -> None:
    top = await system.start(DynamicSupervisor, name="top")
    watched = await system.start(Clerk, name="watched")
    supervisor = top.actor
    assert isinstance(supervisor, DynamicSupervisor)
    with collector_off():
        before = ours()["TaskRef"]
        for _ in range(50):
            ref = await supervisor.start_child(ChildSpec(Worker))
            watched.watch(ref)
            await supervisor.stop_child(ref)
        assert ours()["TaskRef"] - before <= 4
