import pytest
import trio
import trio.testing
from trio.testing import MockClock

from triomq.actors import Message, Ref, System, open_system
from triomq.actors.deadletters import RECENT
from triomq.errors import ActorStopped

from .cast import Boom, Counter, Log, Note


class Returnable(Message, frozen=True):
    """Goes back to its sender when it is not handled."""

    sender: Ref

    def abandoned(self, error: BaseException) -> None:
        self.sender.tell_nowait(Note(f"back: {type(error).__name__}"))


class Clumsy(Message, frozen=True):
    def abandoned(self, error: BaseException) -> None:
        raise LookupError("clumsy")


class Receiver(Counter):
    def returnable(self, message: Returnable) -> None:
        raise ValueError("not mine")

    def clumsy(self, message: Clumsy) -> None:
        pass


async def test_dead_letter_has_its_actor_reason_and_time(system: System, autojump_clock: MockClock) -> None:
    ref = await system.start(Counter)
    await system.stop(ref)
    ref.tell_nowait(Note("x"))
    (letter,) = system.dead_letters.recent()
    assert (letter.message, letter.ref, letter.reason) == (Note("x"), ref, "stopped")
    assert isinstance(letter.error, ActorStopped)
    assert letter.time == trio.current_time()


async def test_abandoned_is_called_once(system: System, autojump_clock: MockClock) -> None:
    log = Log()
    sender = await system.start(lambda: Counter(log))
    ref = await system.start(Receiver)
    ref.tell_nowait(Returnable(sender))
    await trio.sleep(60)
    await system.stop(ref)
    ref.tell_nowait(Returnable(sender))
    assert log == ["start 1", "back: ValueError", "back: ActorStopped"]


async def test_error_in_abandoned_is_logged_and_goes_no_further(caplog: pytest.LogCaptureFixture) -> None:
    async with open_system() as system:
        ref = await system.start(Receiver)
        await system.stop(ref)
        ref.tell_nowait(Clumsy())
        assert system.dead_letters.count == 1
    assert "Clumsy.abandoned crashed" in caplog.text


async def test_only_the_last_dead_letters_are_held_but_all_are_counted(system: System) -> None:
    ref = await system.start(Counter)
    await system.stop(ref)
    for number in range(RECENT + 5):
        ref.tell_nowait(Note(str(number)))
    assert system.dead_letters.count == RECENT + 5
    assert len(system.dead_letters.recent()) == RECENT
    assert system.dead_letters.recent()[0].message == Note("5")


async def test_dead_letters_can_be_followed(system: System) -> None:
    ref = await system.start(Counter)
    await system.stop(ref)
    with system.dead_letters.feed() as feed:
        ref.tell_nowait(Note("a"))
        ref.tell_nowait(Boom())
        assert [letter.message for letter in feed.get_nowait()] == [Note("a"), Boom()]


async def test_messages_for_a_restart_that_never_comes_are_dead_letters(
    system: System, autojump_clock: MockClock
) -> None:
    ref = await system.start(Counter, restart="temporary")
    ref.tell_nowait(Boom())
    ref.tell_nowait(Note("kept"))
    await trio.sleep(1)
    assert [(letter.message, letter.reason) for letter in system.dead_letters.recent()] == [
        (Boom(), "stopped"),
        (Note("kept"), "stopped"),
    ]
    assert isinstance(system.dead_letters.recent()[0].error.__cause__, ValueError)
