"""Actors without a broker: a supervised counter, and a crash that it survives."""

import logging
import sys

import trio

from triomq.actors import Actor, Message, Request, open_system
from triomq.errors import HandlerFailed


class Add(Request[int], frozen=True):
    amount: int


class Divide(Request[int], frozen=True):
    by: int


class Note(Message, frozen=True):
    text: str


class Ledger:
    """What must survive a crash belongs outside of the actor that crashes."""

    def __init__(self) -> None:
        self.total = 0


class Counter(Actor):
    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def add(self, message: Add) -> int:  # no await: state is never seen half-changed
        self.ledger.total += message.amount
        return self.ledger.total

    def divide(self, message: Divide) -> int:
        self.ledger.total //= message.by  # by 0: crashes this actor, and no other
        return self.ledger.total

    async def note(self, message: Note) -> None:  # may wait
        await trio.sleep(0.01)
        print("noted:", message.text)


async def main() -> None:
    ledger = Ledger()
    async with open_system() as system:
        counter = await system.start(lambda: Counter(ledger), name="counter", restart="permanent")
        print("40 + 2 =", await counter.ask(Add(2 + 40)))
        await counter.tell(Note("so far so good"))
        try:
            await counter.ask(Divide(0))
        except HandlerFailed as failed:
            print("crashed:", repr(failed.__cause__))
        print("still there:", await counter.ask(Add(0)), "in incarnation", counter.epoch)
        for letter in system.dead_letters.recent():
            print("given up:", letter.message, letter.reason)
        print(system.tree())


logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s", level=logging.CRITICAL)
trio.run(main)
