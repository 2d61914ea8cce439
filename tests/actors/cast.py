"""The cast of these tests: small actors and messages that many of them use."""

from collections.abc import Sequence

from triomq.actors import Actor, Down, InPlaceActor, Message, Request
from triomq.errors import NotFound


class Add(Request[int], frozen=True):
    amount: int


class Note(Message, frozen=True):
    text: str


class Several(Message, frozen=True):
    """A message of many parts, as a run of publishes is."""

    texts: tuple[str, ...]

    def split(self) -> Sequence[Message]:
        return [Several((text,)) for text in self.texts]


class Boom(Message, frozen=True):
    pass


class AskBoom(Request[int], frozen=True):
    pass


class Find(Request[str], frozen=True):
    name: str


class Log(list[str]):
    """What a test's actors did, in order; outlives their incarnations as a parent's table would."""


class Handlers:
    """Adds up, refuses to find, crashes when told so."""

    __slots__ = ()

    log: Log
    total: int

    def add(self, message: Add) -> int:
        self.total += message.amount
        return self.total

    def note(self, message: Note) -> None:
        self.log.append(message.text)

    def boom(self, message: Boom) -> None:
        raise ValueError("boom")

    def ask_boom(self, message: AskBoom) -> int:
        raise ValueError("boom")

    def several(self, message: Several) -> None:
        for text in message.texts:
            if text == "poison":
                raise ValueError("poison")
        self.log.extend(message.texts)

    def find(self, message: Find) -> str:
        raise NotFound(f"no {message.name}")

    def down(self, message: Down) -> None:
        self.log.append(f"down {message.ref.name} {message.reason!r}")


class Counter(Handlers, InPlaceActor):
    """In place."""

    __slots__ = ("log", "total")

    def __init__(self, log: Log | None = None) -> None:
        self.total = 0
        self.log = Log() if log is None else log

    def on_start(self) -> None:
        self.log.append(f"start {self.epoch}")

    def on_stop(self) -> None:
        self.log.append("stop")


class TaskCounter(Handlers, Actor):
    """With a task of its own."""

    def __init__(self, log: Log | None = None) -> None:
        self.total = 0
        self.log = Log() if log is None else log

    async def on_start(self) -> None:
        self.log.append(f"start {self.epoch}")

    async def on_stop(self) -> None:
        self.log.append("stop")


class PatientCounter(TaskCounter):
    """A task actor that answers in place while it idles."""

    answers_in_place = True


KINDS = [Counter, TaskCounter, PatientCounter]
