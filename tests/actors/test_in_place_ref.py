import tracemalloc
from collections.abc import Callable

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from triomq.actors import ChildSpec, DynamicSupervisor, Exited, InPlaceActor, Message, Ref, System, open_system
from triomq.errors import ActorStopped, HandlerFailed, NotFound

from .cast import Add, AskBoom, Boom, Counter, Find, Log, Note, Several


async def dynamic(system: System, **options: int) -> DynamicSupervisor:
    ref = await system.start(lambda: DynamicSupervisor(**options), name="dynamic")  # type: ignore[arg-type]
    assert isinstance(ref.actor, DynamicSupervisor)
    return ref.actor


async def settled() -> None:
    """Wait until nothing more happens; with a virtual clock that includes all restarts that were put off."""
    await trio.sleep(60)


async def test_idle_actor_has_no_task_and_answers_in_the_turn_of_the_asker(system: System) -> None:
    parent = await dynamic(system)
    before = trio.lowlevel.current_statistics().tasks_living
    ref = parent.start_child_nowait(ChildSpec(Counter, name="a"))
    assert ref.ask_nowait(Add(2)) == 2
    assert await ref.ask(Add(2)) == 4
    assert trio.lowlevel.current_statistics().tasks_living == before


async def test_on_start_has_run_when_a_child_is_started_without_waiting(system: System) -> None:
    log = Log()
    parent = await dynamic(system)
    ref = parent.start_child_nowait(ChildSpec(lambda: Counter(log), name="a"))
    assert log == ["start 1"]
    assert (ref.state, ref.epoch) == ("running", 1)


async def test_failing_on_start_comes_out_and_leaves_no_child(system: System) -> None:
    class Fails(InPlaceActor):
        def on_start(self) -> None:
            raise LookupError("no luck")

    parent = await dynamic(system)
    with pytest.raises(LookupError, match="no luck"):
        parent.start_child_nowait(ChildSpec(Fails, name="a"))
    assert not parent.children
    parent.start_child_nowait(ChildSpec(Counter, name="a"))


async def test_actor_may_tell_itself_while_it_starts(system: System) -> None:
    class Eager(Counter):
        def on_start(self) -> None:
            self.ref.tell_nowait(Note("first"))
            self.log.append("starting")

    log = Log()
    await system.start(lambda: Eager(log))
    assert log == ["starting", "first"]


async def test_crash_is_never_the_tellers_business(system: System, autojump_clock: MockClock) -> None:
    ref = await system.start(Counter)
    ref.tell_nowait(Boom())
    assert ref.state == "backing_off"


async def test_messages_told_during_a_restart_wait_in_order(system: System, autojump_clock: MockClock) -> None:
    log = Log()
    ref = await system.start(lambda: Counter(log))
    ref.tell_nowait(Boom())
    for text in "abc":
        ref.tell_nowait(Note(text))
    with pytest.raises(trio.WouldBlock):
        ref.ask_nowait(Add(1))
    await settled()
    assert log == ["start 1", "start 2", "start 3", "a", "b", "c"]
    assert (ref.epoch, ref.state) == (3, "running")


async def test_crashed_message_is_tried_again_in_parts_and_only_the_poison_is_given_up(
    system: System, autojump_clock: MockClock
) -> None:
    log = Log()
    ref = await system.start(lambda: Counter(log))
    ref.tell_nowait(Several(("a", "poison", "b")))
    ref.tell_nowait(Note("later"))
    await settled()
    assert [line for line in log if "start" not in line] == ["a", "b", "later"]
    (letter,) = system.dead_letters.recent()
    assert letter.message == Several(("poison",))
    assert letter.reason == "crashed"
    assert str(letter.error) == "poison"


async def test_request_that_was_asked_without_waiting_is_not_tried_again(
    system: System, autojump_clock: MockClock
) -> None:
    ref = await system.start(Counter)
    with pytest.raises(HandlerFailed, match="crashed while it handled AskBoom"):
        ref.ask_nowait(AskBoom())
    await settled()
    assert ref.epoch == 2
    assert [letter.reason for letter in system.dead_letters.recent()] == ["crashed"]


async def test_refused_is_an_answer_and_no_crash(system: System) -> None:
    ref = await system.start(Counter)
    with pytest.raises(NotFound, match="no x"):
        ref.ask_nowait(Find("x"))
    with pytest.raises(NotFound, match="no y"):
        await ref.ask(Find("y"))
    assert system.dead_letters.count == 0
    ref.tell_nowait(Find("z"))
    assert [letter.reason for letter in system.dead_letters.recent()] == ["refused"]
    assert (ref.epoch, ref.state) == (1, "running")


async def test_new_incarnation_is_touched_by_messages_alone(system: System, autojump_clock: MockClock) -> None:
    """An ``after_batch`` that always crashes costs one restart per batch, not one after the other for ever."""

    class Broken(Counter):
        def after_batch(self) -> None:
            raise ValueError("after")

    ref = await system.start(Broken)
    ref.tell_nowait(Note("a"))
    await settled()
    assert (ref.epoch, ref.state) == (2, "running")


async def test_actor_with_its_handler_on_the_stack_cannot_answer(system: System) -> None:
    class Reach(Message, frozen=True):
        ref: Ref

    seen: list[str] = []

    class Curious(Counter):
        def reach(self, message: Reach) -> None:
            try:
                message.ref.ask_nowait(Add(1))
            except trio.WouldBlock:
                seen.append("busy")

    ref = await system.start(Curious)
    other = await system.start(Counter)
    ref.tell_nowait(Reach(ref))
    assert seen == ["busy"]
    ref.tell_nowait(Reach(other))
    assert seen == ["busy"]
    assert other.ask_nowait(Add(1)) == 2


async def test_actor_with_messages_waiting_cannot_answer_before_them(system: System) -> None:
    class Reach(Message, frozen=True):
        ref: Ref

    seen: list[object] = []

    class Curious(Counter):
        def reach(self, message: Reach) -> None:
            message.ref.tell_nowait(Add(1))
            try:
                message.ref.ask_nowait(Add(1))
            except trio.WouldBlock:
                seen.append("waiting")

    ref = await system.start(Curious)
    other = await system.start(Counter)
    ref.tell_nowait(Reach(other))
    assert seen == ["waiting"]
    assert other.ask_nowait(Add(0)) == 1


async def test_stopped_child_is_gone_at_once(system: System) -> None:
    log = Log()
    parent = await dynamic(system)
    ref = parent.start_child_nowait(ChildSpec(lambda: Counter(log), name="a"))
    parent.stop_child_nowait(ref)
    assert log == ["start 1", "stop"]
    assert (ref.state, ref.actor) == ("stopped", None)
    assert not parent.children
    with pytest.raises(ActorStopped, match="/dynamic/a has stopped for good"):
        ref.ask_nowait(Add(1))
    with pytest.raises(ActorStopped):
        await ref.ask(Add(1))
    with pytest.raises(ActorStopped):
        await ref.wait_running()
    ref.tell_nowait(Note("late"))
    assert [letter.reason for letter in system.dead_letters.recent()] == ["stopped"]


async def in_a_handler(system: System, action: Callable[[], None]) -> None:
    class Act(Message, frozen=True):
        pass

    class Agent(InPlaceActor):
        def run_in_turn(self, message: Act) -> None:
            action()

    (await system.start(Agent)).tell_nowait(Act())


async def test_stop_drains_what_waits_first(system: System) -> None:
    log = Log()
    parent = await dynamic(system)
    ref = parent.start_child_nowait(ChildSpec(lambda: Counter(log), name="a"))

    def tell_and_stop() -> None:
        ref.tell_nowait(Note("last words"))
        parent.stop_child_nowait(ref)
        assert ref.state == "stopped"

    await in_a_handler(system, tell_and_stop)
    assert log == ["start 1", "last words", "stop"]
    assert system.dead_letters.count == 0


async def test_actor_that_its_own_handler_stops_ends_when_that_has_returned(
    system: System, autojump_clock: MockClock
) -> None:
    log = Log()

    class Suicidal(Counter):
        def note(self, message: Note) -> None:
            parent.stop_child_nowait(self.ref)
            self.log.append(f"{message.text} {self.ref.state}")

    parent = await dynamic(system)
    ref = parent.start_child_nowait(ChildSpec(lambda: Suicidal(log), name="a"))
    ref.tell_nowait(Note("x"))
    assert log == ["start 1", "x draining", "stop"]
    await settled()
    assert ref.state == "stopped"
    assert not parent.children


class Stops(Counter):
    """Has its supervisor stop it."""

    def note(self, message: Note) -> None:
        assert self.ref.parent is not None
        parent = self.ref.parent.actor
        assert isinstance(parent, DynamicSupervisor)
        parent.stop_child_nowait(self.ref)


async def test_system_that_is_cancelled_ends_though_an_actor_has_just_been_stopped_by_its_own_handler() -> None:
    with trio.fail_after(5):
        with trio.CancelScope() as scope:
            async with open_system() as system:
                parent = await dynamic(system)
                ref = parent.start_child_nowait(ChildSpec(Stops, name="a"))
                ref.tell_nowait(Note("x"))
                scope.cancel()
                await trio.sleep_forever()
    assert scope.cancelled_caught


class Reader(InPlaceActor):
    """Has a task, as a connection has."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.end = trio.Event()
        self.error: Exception | None = None

    def note(self, message: Note) -> None:
        self.log.append(message.text)

    def boom(self, message: Boom) -> None:
        raise ValueError("boom")

    def on_stop(self) -> None:
        self.log.append("stop")

    async def run(self) -> None:
        try:
            await self.end.wait()
            if self.error is not None:
                self.turn(self.fail, self.error)
        finally:
            self.log.append("cleaned up")

    def fail(self, error: Exception) -> None:
        raise error


async def reader(system: System, log: Log) -> tuple[DynamicSupervisor, Ref, Reader]:
    parent = await dynamic(system)
    ref = parent.start_child_nowait(ChildSpec(lambda: Reader(log), name="reader", restart="temporary"))
    assert isinstance(ref.actor, Reader)
    await trio.testing.wait_all_tasks_blocked()
    return parent, ref, ref.actor


async def test_run_that_returns_ends_the_actor(system: System, autojump_clock: MockClock) -> None:
    log = Log()
    parent, ref, actor = await reader(system, log)
    ref.tell_nowait(Note("told in the teller's turn"))
    actor.end.set()
    await settled()
    assert log == ["told in the teller's turn", "cleaned up", "stop"]
    assert ref.state == "stopped"
    assert not parent.children


async def test_error_in_a_turn_of_run_crashes_the_actor(system: System, autojump_clock: MockClock) -> None:
    log = Log()
    watcher = await system.start(lambda: Counter(log))
    _, ref, actor = await reader(system, log)
    ref.watch(watcher)
    actor.error = LookupError("bad chunk")
    actor.end.set()
    await settled()
    assert log == ["start 1", "cleaned up", "down reader LookupError('bad chunk')"]


async def test_crashed_handler_cancels_run_and_the_crash_counts(system: System, autojump_clock: MockClock) -> None:
    log = Log()
    watcher = await system.start(lambda: Counter(log))
    _, ref, _ = await reader(system, log)
    ref.watch(watcher)
    ref.tell_nowait(Boom())
    assert log == ["start 1"]
    await settled()
    assert log == ["start 1", "cleaned up", "down reader ValueError('boom')"]


async def test_stopping_cancels_run_and_its_finally_cleans_up(system: System, autojump_clock: MockClock) -> None:
    log = Log()
    parent, ref, _ = await reader(system, log)
    parent.stop_child_nowait(ref)
    assert ref.state == "draining"
    ref.tell_nowait(Note("too late"))
    await settled()
    assert log == ["cleaned up", "stop"]
    assert ref.state == "stopped"
    assert [letter.message for letter in system.dead_letters.recent()] == [Note("too late")]


async def test_leaving_the_system_ends_run_too(autojump_clock: MockClock) -> None:
    log = Log()
    async with open_system() as system:
        await reader(system, log)
    assert log == ["cleaned up", "stop"]


async def test_acting_for_an_actor_is_the_body_of_a_turn(system: System) -> None:
    log = Log()
    ref = await system.start(lambda: Counter(log))
    assert isinstance(ref.actor, Counter)
    actor = ref.actor

    def body(text: str) -> None:
        actor.ref.tell_nowait(Note(text))
        assert log[-1] == text

    actor.ref.run_in_turn(body, "a")
    assert log == ["start 1", "a"]


async def test_error_in_acting_crashes_the_actor_and_not_the_caller(system: System, autojump_clock: MockClock) -> None:
    def fail() -> None:
        raise LookupError("bad octets")

    log = Log()
    events = system.events()
    ref = await system.start(lambda: Counter(log))
    assert isinstance(ref.actor, Counter)
    cell = ref.actor.ref
    cell.run_in_turn(fail)
    assert ref.state == "backing_off"
    cell.run_in_turn(fail)  # the actor does not run
    await settled()
    assert log == ["start 1", "start 2"]
    (exited,) = [event for event in events.get_nowait() if isinstance(event, Exited)]
    assert isinstance(exited.error, LookupError)


async def test_error_after_the_stop_does_not_bring_the_dead_back(system: System) -> None:
    parent = await dynamic(system)
    ref = parent.start_child_nowait(ChildSpec(Counter, name="a"))
    assert isinstance(ref.actor, Counter)

    def stop_and_fail() -> None:
        parent.stop_child_nowait(ref)
        raise LookupError("late")

    ref.actor.ref.run_in_turn(stop_and_fail)
    assert ref.state == "stopped"


async def test_wait_running_waits_through_a_restart(system: System, autojump_clock: MockClock) -> None:
    ref = await system.start(Counter)
    await ref.wait_running()
    ref.tell_nowait(Boom())
    assert ref.state == "backing_off"
    await ref.wait_running()
    assert ref.ask_nowait(Add(1)) == 1


async def test_idle_actor_with_its_ref_is_small() -> None:
    class Tiny(InPlaceActor):
        __slots__ = ()

    async with open_system() as system:
        parent = await dynamic(system)
        parent.start_child_nowait(ChildSpec(Tiny, name="first"))
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for number in range(1000):
            parent.start_child_nowait(ChildSpec(Tiny, name=f"tiny.{number}"))
        used = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
    assert used / 1000 < 1024
