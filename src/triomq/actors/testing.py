"""For tests of actors: a system that checks waits, an actor that records messages, a check of declared waits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

import trio
import trio.testing

from triomq.actors.actor import InPlaceActor
from triomq.actors.backoff import Backoff
from triomq.actors.messages import Message
from triomq.actors.system import System, open_system


@asynccontextmanager
async def open_test_system(
    *, max_restarts: int = 3, period: float = 5.0, backoff: Backoff | None = None
) -> AsyncIterator[System]:
    """Open a system in which a wait that a class does not declare in ``waits_for`` is an error."""
    async with open_system(max_restarts=max_restarts, period=period, backoff=backoff, check_waits=True) as system:
        yield system


async def wait_idle(system: System) -> None:
    """Wait until no actor has anything left to do, except restarts that wait for their delay.

    All that was told before has been handled when it returns.
    """
    while True:
        await trio.testing.wait_all_tasks_blocked()
        if not any(node.waiting for node in system.tree().walk() if node.state == "running"):
            return


class Probe(InPlaceActor):
    """An actor that records the messages that it is told; its class is made by :func:`probe_for`."""

    def __init__(self) -> None:
        self.seen: list[Message] = []

    def take(self) -> list[Message]:
        """Take the messages since the last call."""
        seen, self.seen = self.seen, []
        return seen


def probe_for(*message_classes: type[Message]) -> type[Probe]:
    """Return a class of probes with a handler for each of these messages."""

    def handler_for(message_class: type[Message]) -> object:
        def remember(self: Probe, message: Message) -> None:
            self.seen.append(message)

        remember.__annotations__ = {"message": message_class, "return": None}
        return remember

    return type("ProbeFor", (Probe,), {f"on_{one.__name__}": handler_for(one) for one in message_classes})


def find_wait_cycle(actor_classes: Iterable[type]) -> Sequence[type]:
    """Return the first cycle of declared waits: a class, those between, and the class again; empty if there is none.

    A declared wait for a class is one for all its subclasses.
    """
    classes = list(actor_classes)
    waits = {one: [other for other in classes if issubclass(other, getattr(one, "waits_for", ()))] for one in classes}
    done: set[type] = set()
    for one in classes:
        circle = _walk(one, waits, [], done)
        if circle:
            return circle
    return ()


def _walk(one: type, waits: dict[type, list[type]], path: list[type], done: set[type]) -> list[type]:
    if one in path:
        return [*path[path.index(one) :], one]
    if one in done:
        return []
    for other in waits[one]:
        circle = _walk(other, waits, [*path, one], done)
        if circle:
            return circle
    done.add(one)
    return []
