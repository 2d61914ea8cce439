from collections.abc import Callable

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from triomq.actors import Actor, Exited, InPlaceActor, Message, Ref, Request, System, open_system
from triomq.actors.mailbox import BATCH
from triomq.errors import ActorStopped, HandlerFailed, MailboxFull, NotFound

from .cast import KINDS, Add, AskBoom, Boom, Find, Log, Note, PatientCounter, Several, TaskCounter


class Slow(Request[str], frozen=True):
    text: str


class SlowBoom(Message, frozen=True):
    pass


class Clerk(Actor):
    """Has async handlers beside plain ones."""

    limit = 4

    def __init__(self, log: Log) -> None:
        self.log = log

    async def slow(self, message: Slow) -> str:
        await trio.sleep(1)
        self.log.append(message.text)
        return message.text.upper()

    async def slow_boom(self, message: SlowBoom) -> None:
        await trio.sleep(1)
        raise ValueError("slow boom")

    def note(self, message: Note) -> None:
        self.log.append(message.text)

    def after_batch(self) -> None:
        self.log.append("after")

    async def on_stop(self) -> None:
        self.log.append("stop")


async def settled() -> None:
    await trio.sleep(60)


@pytest.mark.parametrize("kind", KINDS)
async def test_both_kinds_answer_refuse_and_crash_alike(kind: type[TaskCounter], autojump_clock: MockClock) -> None:
    log = Log()
    async with open_system(max_restarts=9) as system:
        ref = await system.start(lambda: kind(log))
        assert await ref.ask(Add(2)) == 2
        with pytest.raises(NotFound):
            await ref.ask(Find("x"))
        await ref.tell(Boom())
        await settled()
        assert (ref.epoch, ref.state) == (3, "running")  # a poisoned message costs two restarts
        with pytest.raises(HandlerFailed):
            await ref.ask(AskBoom())
        await ref.tell(Several(("a", "poison", "b")))
        await ref.tell(Find("y"))
        await settled()
        assert [line for line in log if "start" not in line] == ["a", "b"]
        assert [letter.reason for letter in system.dead_letters.recent()] == ["crashed"] * 3 + ["refused"]


async def test_plain_and_async_handlers_run_in_the_order_of_arrival(system: System, autojump_clock: MockClock) -> None:
    log = Log()
    ref = await system.start(lambda: Clerk(log))
    for message in (Note("a"), Slow("b"), Note("c"), Slow("d")):
        ref.tell_nowait(message)
    await settled()
    assert log == ["a", "b", "c", "d", "after"]


async def test_interrupted_async_message_is_not_run_again(system: System, autojump_clock: MockClock) -> None:
    log = Log()
    ref = await system.start(lambda: Clerk(log))
    for message in (Note("a"), SlowBoom(), Note("b")):
        ref.tell_nowait(message)
    await settled()
    assert log == ["a", "after", "b", "after"]
    assert [(letter.message, letter.reason) for letter in system.dead_letters.recent()] == [(SlowBoom(), "interrupted")]
    assert ref.epoch == 2


async def test_after_batch_runs_once_per_batch(system: System) -> None:
    log = Log()

    class Busy(TaskCounter):
        limit = 2 * BATCH

        def after_batch(self) -> None:
            self.log.append("after")

    ref = await system.start(lambda: Busy(log))
    for number in range(BATCH + 1):
        ref.tell_nowait(Note(str(number)))
    await trio.testing.wait_all_tasks_blocked()
    assert log.count("after") == 2
    assert log[BATCH + 1] == "after"


def with_after_batch(kind: type[TaskCounter], after_batch: Callable[[TaskCounter], None]) -> type[TaskCounter]:
    return type("Tidy", (kind,), {"after_batch": after_batch, "__annotations__": {}})


def crash_in_the_first_life(actor: TaskCounter) -> None:
    if actor.epoch == 1 and "b" in actor.log:
        raise ValueError("after")


@pytest.mark.parametrize("kind", KINDS)
async def test_crash_in_after_batch_runs_no_message_again(
    system: System, kind: type[TaskCounter], autojump_clock: MockClock
) -> None:
    log, fragile = Log(), with_after_batch(kind, crash_in_the_first_life)
    ref = await system.start(lambda: fragile(log))
    system.turn.run(lambda: [ref.tell_nowait(Note(text)) for text in "ab"])
    await settled()
    assert log == ["start 1", "a", "b", "start 2"]
    assert system.dead_letters.count == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_after_batch_that_a_crash_has_skipped_is_made_up_for(
    system: System, kind: type[TaskCounter], autojump_clock: MockClock
) -> None:
    log, tidy = Log(), with_after_batch(kind, lambda actor: actor.log.append(f"after {actor.epoch}"))
    ref = await system.start(lambda: tidy(log))
    ref.tell_nowait(Several(("a", "poison")))
    await settled()
    assert log == ["start 1", "start 2", "a", "start 3", "after 3"]


async def test_stopping_drains_the_mailbox(system: System, autojump_clock: MockClock) -> None:
    log = Log()
    ref = await system.start(lambda: Clerk(log))
    for text in "abc":
        ref.tell_nowait(Slow(text))
    await system.stop(ref)
    assert log == ["a", "b", "c", "after", "stop"]
    assert ref.state == "stopped"


async def test_when_its_time_is_up_a_draining_actor_is_cancelled(system: System, autojump_clock: MockClock) -> None:
    log = Log()
    ref = await system.start(lambda: Clerk(log), shutdown=1.5)
    start = trio.current_time()

    async def ask(text: str) -> None:
        with pytest.raises(ActorStopped):
            await ref.ask(Slow(text))

    async with trio.open_nursery() as nursery:
        ref.tell_nowait(Slow("a"))
        nursery.start_soon(ask, "b")
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(ask, "c")
        await trio.testing.wait_all_tasks_blocked()
        await system.stop(ref)
    assert trio.current_time() - start == pytest.approx(1.5)
    assert [line for line in log if line != "after"] == ["a", "stop"]
    assert sorted(letter.reason for letter in system.dead_letters.recent()) == ["interrupted", "stopped"]


async def test_asking_fails_at_once_when_the_actor_has_stopped(system: System) -> None:
    ref = await system.start(TaskCounter)
    await system.stop(ref)
    with trio.fail_after(1), pytest.raises(ActorStopped, match="has stopped for good"):
        await ref.ask(Add(1))
    ref.tell_nowait(Note("x"))
    await ref.tell(Note("y"))
    assert [letter.reason for letter in system.dead_letters.recent()] == ["stopped"] * 2


async def test_askers_get_an_error_when_the_actor_stops_for_good(system: System, autojump_clock: MockClock) -> None:
    """Trap 5: an exit path that does not fail them makes every waiter sit out the grace period."""
    ref = await system.start(lambda: Clerk(Log()), restart="temporary")
    start = trio.current_time()

    async def ask() -> None:
        with pytest.raises(ActorStopped):
            await ref.ask(Slow("never"))

    async with trio.open_nursery() as nursery:
        ref.tell_nowait(SlowBoom())
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(ask)
    assert trio.current_time() - start == pytest.approx(1)


async def test_cancelled_asker_does_no_harm(system: System, autojump_clock: MockClock) -> None:
    log = Log()
    ref = await system.start(lambda: Clerk(log))
    with trio.move_on_after(0.5) as scope:
        await ref.ask(Slow("a"))
    assert scope.cancelled_caught
    assert await ref.ask(Slow("b")) == "B"
    assert log[:2] == ["a", "after"]


async def test_full_mailbox_makes_tellers_wait(system: System, autojump_clock: MockClock) -> None:
    log = Log()
    ref = await system.start(lambda: Clerk(log))
    ref.tell_nowait(Slow("first"))
    await trio.testing.wait_all_tasks_blocked()
    for number in range(4):
        ref.tell_nowait(Note(str(number)))
    with pytest.raises(trio.WouldBlock):
        ref.tell_nowait(Note("too many"))
    await ref.tell(Note("4"))
    await settled()
    assert [line for line in log if line != "after"] == ["first", "0", "1", "2", "3", "4"]


async def test_teller_that_waits_for_room_learns_of_the_stop(system: System, autojump_clock: MockClock) -> None:
    ref = await system.start(lambda: Clerk(Log()), shutdown=0)
    ref.tell_nowait(Slow("first"))
    await trio.testing.wait_all_tasks_blocked()
    for number in range(4):
        ref.tell_nowait(Note(str(number)))

    async def ask() -> None:
        with pytest.raises(ActorStopped):
            await ref.ask(Slow("x"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        nursery.start_soon(ref.tell, Note("y"))
        await trio.testing.wait_all_tasks_blocked()
        assert ref.statistics().waiting == 6
        await system.stop(ref)
    assert system.dead_letters.count == 7


async def test_overflow_policies_end_in_an_error_or_the_dead_letters(system: System) -> None:
    class Rejecting(TaskCounter):
        limit = 1
        overflow = "reject"

    class DropOldest(TaskCounter):
        limit = 1
        overflow = "drop_oldest"

    rejecting = await system.start(Rejecting)
    rejecting.tell_nowait(Note("a"))
    with pytest.raises(MailboxFull):
        rejecting.tell_nowait(Note("b"))
    log = Log()
    dropping = await system.start(lambda: DropOldest(log))
    for text in "abc":
        dropping.tell_nowait(Note(text))
    await trio.testing.wait_all_tasks_blocked()
    assert log == ["start 1", "c"]
    assert [(letter.message, letter.reason) for letter in system.dead_letters.recent()] == [
        (Note("a"), "mailbox full"),
        (Note("b"), "mailbox full"),
    ]


async def test_asker_of_a_dropped_request_gets_an_error(system: System) -> None:
    class DropOldest(TaskCounter):
        limit = 1
        overflow = "drop_oldest"

    ref = await system.start(DropOldest)

    async def ask() -> None:
        with pytest.raises(MailboxFull):
            await ref.ask(Add(1))

    async with trio.open_nursery() as nursery:
        ref.tell_nowait(Note("wakes it"))
        await trio.testing.wait_all_tasks_blocked()

        @nursery.start_soon
        async def both() -> None:
            async with trio.open_nursery() as inner:
                inner.start_soon(ask)
                await trio.lowlevel.checkpoint()
                if ref.waiting:
                    ref.tell_nowait(Note("drops it"))
                else:
                    inner.cancel_scope.cancel()


async def test_error_of_an_actor_that_does_not_answer_in_place_explains_how_to_ask(system: System) -> None:
    ref = await system.start(TaskCounter)
    with pytest.raises(TypeError, match=r"TaskCounter does not answer in place: `await ref.ask"):
        ref.ask_nowait(Add(1))


class Domain(PatientCounter):
    """Answers in place, and has an async handler too."""

    async def slow(self, message: Slow) -> str:
        await trio.sleep(1)
        self.log.append(message.text)
        return message.text

    def after_batch(self) -> None:
        self.log.append("after")


async def test_actor_that_answers_in_place_does_so_in_the_askers_turn(system: System) -> None:
    log = Log()
    ref = await system.start(lambda: Domain(log))
    await trio.testing.wait_all_tasks_blocked()

    def body() -> None:
        assert ref.ask_nowait(Add(1)) == 1
        ref.tell_nowait(Note("a"))
        assert log == ["start 1", "a"]

    system.turn.run(body)
    assert log == ["start 1", "a", "after"]
    with pytest.raises(TypeError, match=r"Slow in an async handler: `await ask`"):
        ref.ask_nowait(Slow("x"))


async def test_busy_actor_does_not_answer_in_place_and_order_holds(system: System, autojump_clock: MockClock) -> None:
    log = Log()
    ref = await system.start(lambda: Domain(log))
    await trio.testing.wait_all_tasks_blocked()
    ref.tell_nowait(Slow("a"))
    ref.tell_nowait(Note("b"))
    with pytest.raises(trio.WouldBlock):
        ref.ask_nowait(Add(1))
    await settled()
    assert [line for line in log if line != "after"] == ["start 1", "a", "b"]
    assert ref.ask_nowait(Add(1)) == 1


async def test_order_holds_when_a_handler_tells_an_async_and_then_a_plain_message(autojump_clock: MockClock) -> None:
    class Go(Message, frozen=True):
        ref: Ref

    class Teller(InPlaceActor):
        def go(self, message: Go) -> None:
            for told in (Note("a"), Slow("b"), Note("c")):
                message.ref.tell_nowait(told)

    class Selfteller(Domain):
        def go(self, message: Go) -> None:
            Teller.go(self, message)  # type: ignore[arg-type]

    for teller in (Teller, Selfteller):
        log = Log()
        async with open_system() as system:
            ref = await system.start(lambda log=log: Selfteller(log))  # type: ignore[misc]
            sender = ref if teller is Selfteller else await system.start(teller)
            await trio.testing.wait_all_tasks_blocked()
            sender.tell_nowait(Go(ref))
            await settled()
            assert [line for line in log if line != "after"] == ["start 1", "a", "b", "c"]


async def test_crash_in_someone_elses_turn_ends_the_incarnation(system: System, autojump_clock: MockClock) -> None:
    log = Log()
    ref = await system.start(lambda: Domain(log))
    await trio.testing.wait_all_tasks_blocked()
    events = system.events()
    with pytest.raises(HandlerFailed):
        ref.ask_nowait(AskBoom())
    assert ref.state == "backing_off"
    ref.tell_nowait(Note("kept"))
    await settled()
    assert (ref.epoch, ref.state) == (2, "running")
    assert "kept" in log
    assert [type(event) for event in events.get_nowait()].count(Exited) == 1


async def test_async_handler_meets_ctrl_c_like_any_trio_code() -> None:
    seen: list[bool] = []

    class Watchful(Actor):
        async def slow(self, message: Slow) -> str:
            seen.append(trio.lowlevel.currently_ki_protected())
            return ""

        def note(self, message: Note) -> None:
            seen.append(trio.lowlevel.currently_ki_protected())

    async with open_system() as system:
        ref = await system.start(Watchful)
        await ref.ask(Slow(""))
        await ref.tell(Note(""))
    assert seen == [False, True]
