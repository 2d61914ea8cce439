"""Crashes at every message of a long exchange: nothing is lost and nothing doubled."""

from collections.abc import Callable

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from triomq.actors import Actor, Backoff, InPlaceActor, Message, Ref, Request, System, open_system
from triomq.errors import HandlerFailed

LENGTH = 24
ALWAYS = 10**9


class Told(Message, frozen=True):
    number: int


class Asked(Request[int], frozen=True):
    number: int


class Account:
    """What outlives incarnations: which messages took effect, and which crash their actor how often."""

    def __init__(self, crashes: dict[int, int]) -> None:
        self.crashes = crashes
        self.effects: list[int] = []

    def take(self, number: int) -> int:
        """Validate first, then change state."""
        if self.crashes.get(number, 0):
            self.crashes[number] -= 1
            raise ValueError(number)
        self.effects.append(number)
        return number


class Handlers:
    def __init__(self, account: Account) -> None:
        self.account = account

    def told(self, message: Told) -> None:
        self.account.take(message.number)

    def asked(self, message: Asked) -> int:
        return self.account.take(message.number)


class InPlace(Handlers, InPlaceActor):
    pass


class Plain(Handlers, Actor):
    pass


class Patient(Plain):
    answers_in_place = True


class Async(Actor):
    def __init__(self, account: Account) -> None:
        self.account = account

    async def told(self, message: Told) -> None:
        await trio.lowlevel.checkpoint()
        self.account.take(message.number)

    async def asked(self, message: Asked) -> int:
        await trio.lowlevel.checkpoint()
        return self.account.take(message.number)


class Mixed(Plain):
    async def asked(self, message: Asked) -> int:  # type: ignore[override]
        await trio.lowlevel.checkpoint()
        return self.account.take(message.number)


KINDS = [InPlace, Plain, Patient, Async, Mixed]
Kind = type[InPlace] | type[Plain] | type[Async]


async def exchange(kind: Kind, crashes: dict[int, int]) -> tuple[list[int], list[int], dict[int, object]]:
    """Tell and ask by turns; give what took effect, the dead letters, and the answers."""
    account = Account(crashes)
    answers: dict[int, object] = {}

    async def ask(ref: Ref, number: int) -> None:
        try:
            answers[number] = await ref.ask(Asked(number))
        except HandlerFailed as failed:
            answers[number] = failed.__cause__

    async with open_system(max_restarts=3 * LENGTH, backoff=Backoff(initial=0)) as system:
        ref = await system.start(lambda: kind(account))
        async with trio.open_nursery() as nursery:
            for number in range(LENGTH):
                if number % 3 == 1:
                    nursery.start_soon(ask, ref, number)
                    await trio.testing.wait_all_tasks_blocked() if number % 2 else None
                else:
                    ref.tell_nowait(Told(number))
        await trio.sleep(60)
        letters = [getattr(letter.message, "number", -1) for letter in system.dead_letters.recent()]
    return account.effects, letters, answers


def is_async(kind: Kind, number: int) -> bool:
    return kind is Async or (kind is Mixed and number % 3 == 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("position", range(LENGTH))
async def test_crash_that_does_not_come_back_loses_nothing(
    kind: Kind, position: int, autojump_clock: MockClock
) -> None:
    effects, letters, answers = await exchange(kind, {position: 1})
    lost = [position] if is_async(kind, position) else []  # an interrupted async message is not run again
    assert sorted(effects + lost) == list(range(LENGTH))
    assert letters == lost
    assert [number for number, answer in answers.items() if answer != number] == [
        number for number in lost if number % 3 == 1
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("position", range(LENGTH))
async def test_poisoned_message_is_given_up_alone(kind: Kind, position: int, autojump_clock: MockClock) -> None:
    effects, letters, answers = await exchange(kind, {position: ALWAYS})
    assert sorted([*effects, position]) == list(range(LENGTH))
    assert letters == [position]
    if position % 3 == 1:
        assert isinstance(answers[position], ValueError)


@pytest.mark.parametrize("kind", KINDS)
async def test_each_message_may_crash_its_actor_once(kind: Kind, autojump_clock: MockClock) -> None:
    effects, letters, _ = await exchange(kind, dict.fromkeys(range(LENGTH), 1))
    assert sorted(effects + letters) == list(range(LENGTH))
    assert sorted(letters) == [number for number in range(LENGTH) if is_async(kind, number)]


@pytest.mark.parametrize("kind", KINDS)
async def test_order_of_tells_survives_crashes(kind: Kind, autojump_clock: MockClock) -> None:
    effects, _, _ = await exchange(kind, {3: 1, 11: 1, 12: 1})
    tells = [number for number in effects if number % 3 != 1]
    assert tells == sorted(tells)


def in_one_turn(system_turn: Callable[[Callable[[], None]], None], ref: Ref) -> None:
    def body() -> None:
        for number in range(LENGTH):
            ref.tell_nowait(Told(number))

    system_turn(body)


@pytest.mark.parametrize("position", range(LENGTH))
async def test_rest_of_a_turn_survives_a_crash_in_it(system: System, position: int, autojump_clock: MockClock) -> None:
    account = Account({position: 1})
    ref = await system.start(lambda: InPlace(account))
    in_one_turn(system.turn.run, ref)
    assert ref.state == "backing_off"
    assert account.effects == list(range(position))
    await trio.sleep(60)
    assert account.effects == list(range(LENGTH))
