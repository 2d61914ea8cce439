"""One who declares, fills, empties and deletes queues: what was answered must be so in every later life."""

import random
from contextlib import suppress

from pamqp import commands

from .harness import Harness
from .message import body_of
from .wire import Answer, Gone, Refused, Wire, publish

__all__ = ["Declarer"]


class Declarer:
    """Works with one broker after the other; of what was not answered nothing is known.

    Args:
        house: Where.
        number: Its own, as a publisher.
        chance: Its own too.
    """

    def __init__(self, harness: Harness, number: int, chance: random.Random) -> None:
        self._harness = harness
        self._number = number
        self._chance = chance
        self._next = 0
        self._there: dict[str, int | None] = {}  # names, and how many messages there are, if that is known
        self._gone: list[str] = []

    async def run(self) -> None:
        """Work until it is time to stop."""
        while not self._harness.stopping:
            with suppress(Gone):
                async with self._harness.wire() as wire:
                    await wire.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
                    tag = 0
                    while not self._harness.stopping:
                        tag = await self._do_one(wire, tag)
                        self._harness.count_events()

    async def _do_one(self, wire: Wire, tag: int) -> int:
        """Declare a queue and publish to it, or empty or delete one that was declared before; give the last tag."""
        if len(self._there) < 20 or self._chance.random() < 0.5:
            self._next += 1
            name = f"declared.{self._next}"
            await wire.call(commands.Queue.Declare(queue=name, durable=True), commands.Queue.DeclareOk)
            self._there[name] = None
            await wire.send(publish("", name, body_of(self._number, self._next)))
            (answer,) = await wire.events()
            assert answer == Answer(tag + 1, False, True)
            self._there[name] = 1
            return tag + 1
        name = self._chance.choice(list(self._there))
        if self._there.pop(name) != 0 and self._chance.random() < 0.5:
            await wire.call(commands.Queue.Purge(queue=name), commands.Queue.PurgeOk)
            self._there[name] = 0
        else:
            await wire.call(commands.Queue.Delete(queue=name), commands.Queue.DeleteOk)
            self._gone.append(name)
        return tag

    async def look(self) -> None:
        """See in the end whether everything is so."""
        report = self._harness.oracle.report
        async with self._harness.wire() as wire:
            for name, expected in self._there.items():
                try:
                    found = await wire.call(_passive(name), commands.Queue.DeclareOk)
                except Refused:
                    report(f"{name} was declared and is not there")
                    return
                if expected not in (None, found.message_count):
                    report(f"{name} has {found.message_count} messages, not {expected}")
        for name in self._gone[-30:]:
            async with self._harness.wire() as wire:
                with suppress(Refused):
                    await wire.call(_passive(name), commands.Queue.DeclareOk)
                    report(f"{name} was deleted and is there")


def _passive(name: str) -> commands.Queue.Declare:
    return commands.Queue.Declare(queue=name, passive=True)
