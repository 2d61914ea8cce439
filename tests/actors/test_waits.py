import pytest
import trio
import trio.testing

from triomq.actors import Actor, Message, Ref, Request, System
from triomq.actors.testing import open_test_system

from .cast import Add, Counter, TaskCounter


class Relay(Request[int], frozen=True):
    """Asks each of the following actors to relay to the rest."""

    chain: tuple[Ref, ...]


class Push(Message, frozen=True):
    ref: Ref


class Relayer(Actor):
    """Waits for whoever it is sent to."""

    limit = 1

    async def relay(self, message: Relay) -> int:
        if not message.chain:
            return 0
        return 1 + await message.chain[0].ask(Relay(message.chain[1:]))

    async def add(self, message: Add) -> int:
        return message.amount

    async def push(self, message: Push) -> None:
        for _ in range(3):
            await message.ref.tell(Push(message.ref))


Relayer.waits_for = (Relayer,)


async def test_actor_that_asks_itself_is_told_what_to_do(system: System) -> None:
    """Trap 4."""
    ref = await system.start(Relayer, name="relayer")
    with pytest.raises(Exception, match="crashed while it handled Relay") as caught:
        await ref.ask(Relay((ref,)))
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert "/relayer waits for itself" in str(caught.value.__cause__)
    assert "call the method directly, or use tell_nowait" in str(caught.value.__cause__)


async def test_actors_that_ask_each_other_in_a_circle_are_found(system: System) -> None:
    refs = [await system.start(Relayer, name=name) for name in "abc"]
    assert await refs[0].ask(Relay((refs[1], refs[2]))) == 2
    with pytest.raises(Exception, match="crashed while it handled Relay") as caught:
        await refs[0].ask(Relay((refs[1], refs[2], refs[0])))
    found: BaseException | None = caught.value
    while found is not None and not isinstance(found, RuntimeError):
        found = found.__cause__
    assert "for ever: /c → /a → /b → /c" in str(found)


async def test_actor_that_waits_for_room_in_its_own_mailbox_is_told_so(system: System) -> None:
    ref = await system.start(Relayer, name="relayer")
    events = system.dead_letters.feed()
    ref.tell_nowait(Push(ref))
    async for letter in events:
        assert "/relayer waits for itself" in str(letter.error)
        break


async def test_wait_that_is_not_declared_is_an_error_under_test() -> None:
    class Sneaky(Actor):
        waits_for = (Relayer,)

        async def relay(self, message: Relay) -> int:
            return await message.chain[0].ask(Add(1))

    async with open_test_system() as system:
        fine = await system.start(Relayer, name="fine")
        counter = await system.start(TaskCounter, name="counter")
        sneaky = await system.start(Sneaky, name="sneaky")
        assert await sneaky.ask(Relay((fine,))) == 1
        with pytest.raises(Exception, match="crashed") as caught:
            await sneaky.ask(Relay((counter,)))
        assert "waits_for does not name TaskCounter; add it, or use tell_nowait" in str(caught.value.__cause__)


async def test_tell_is_checked_even_while_there_is_room() -> None:
    class Sneaky(Actor):
        async def push(self, message: Push) -> None:
            await message.ref.tell(Push(message.ref))

    async with open_test_system() as system:
        target = await system.start(Relayer, name="target")
        sneaky = await system.start(Sneaky, name="sneaky")
        letters = system.dead_letters.feed()
        sneaky.tell_nowait(Push(target))
        async for letter in letters:
            assert "waits_for does not name Relayer" in str(letter.error)
            break


async def test_task_of_no_actor_may_wait_for_any_actor() -> None:
    async with open_test_system() as system:
        for kind in (Counter, TaskCounter):
            ref = await system.start(kind)
            assert await ref.ask(Add(1)) == 1


async def test_wait_is_forgotten_when_it_is_given_up(system: System) -> None:
    scope, released = trio.CancelScope(), trio.Event()

    class Impatient(Actor):
        waits_for = (Actor,)

        async def relay(self, message: Relay) -> int:
            if message.chain:
                with scope:
                    await message.chain[0].ask(Relay(()))
            return -1

    class Held(Relayer):
        async def relay(self, message: Relay) -> int:
            await released.wait()
            return await super().relay(message)

    impatient = await system.start(Impatient, name="impatient")
    held = await system.start(Held, name="held")
    answers: list[int] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_into, answers, impatient, Relay((held,)))
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert answers == [-1]
        released.set()
    assert await held.ask(Relay((impatient,))) == 0


async def ask_into(answers: list[int], ref: Ref, request: Relay) -> None:
    answers.append(await ref.ask(request))
