import signal

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from triomq.actors import Actor, ChildSpec, DynamicSupervisor, Supervisor, System, open_system
from triomq.errors import ActorStopped, RestartLimitExceeded

from .cast import Add, Boom, Counter, Log, Note, TaskCounter


async def test_counter_counts(system: System) -> None:
    """The example of the design, word for word."""
    counter = await system.start(TaskCounter, name="counter", restart="permanent")
    assert await counter.ask(Add(2)) == 2


async def test_leaving_the_block_drains() -> None:
    log = Log()
    async with open_system() as system:
        ref = await system.start(lambda: TaskCounter(log))
        for text in "abc":
            ref.tell_nowait(Note(text))
    assert log == ["start 1", "a", "b", "c", "stop"]
    assert ref.state == "stopped"


async def test_top_level_actors_stop_in_the_reverse_order_of_their_start() -> None:
    log = Log()

    class Last(TaskCounter):
        async def on_stop(self) -> None:
            self.log.append(f"{self.ref.name} stops")

    async with open_system() as system:
        for name in "abc":
            await system.start(lambda: Last(log), name=name)
    assert log[3:] == ["c stops", "b stops", "a stops"]


async def test_the_bodys_own_exception_leaves_bare() -> None:
    """Trap 10: it came out wrapped in two ExceptionGroups."""
    error = LookupError("mine")
    with pytest.raises(LookupError) as caught:  # noqa: PT012
        async with open_system() as system:
            await system.start(TaskCounter)
            await system.start(Counter)
            raise error
    assert caught.value is error


async def test_error_in_the_body_gives_no_actor_time_to_drain(autojump_clock: MockClock) -> None:
    class Slow(TaskCounter):
        async def slow(self, message: Boom) -> None:
            await trio.sleep(100)

        boom = None  # type: ignore[assignment]

    log = Log()
    start = trio.current_time()
    with pytest.raises(LookupError):  # noqa: PT012
        async with open_system() as system:
            top = await system.start(lambda: Supervisor([ChildSpec(lambda: Slow(log), name="slow")]), name="top")
            top.children["slow"].tell_nowait(Boom())
            await trio.testing.wait_all_tasks_blocked()
            raise LookupError
    assert trio.current_time() == start
    assert log == ["start 1", "stop"]


async def test_error_that_supervision_gives_up_on_ends_the_body_without_a_group(autojump_clock: MockClock) -> None:
    with pytest.raises(RestartLimitExceeded) as caught:  # noqa: PT012
        async with open_system(max_restarts=0) as system:
            ref = await system.start(Counter, name="counter")
            ref.tell_nowait(Boom())
            await trio.sleep_forever()
    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.__cause__.args == ("boom",)


async def test_when_both_fail_the_bodys_error_comes_out_and_names_the_other() -> None:
    with pytest.raises(LookupError) as caught:  # noqa: PT012
        async with open_system(max_restarts=0) as system:
            ref = await system.start(Counter, name="counter")
            ref.tell_nowait(Boom())
            try:
                await trio.sleep_forever()
            finally:
                raise LookupError("in my finally")
    assert "The actor system failed too: RestartLimitExceeded" in caught.value.__notes__[0]


async def test_failure_while_draining_comes_out() -> None:
    class BadEnd(TaskCounter):
        async def on_stop(self) -> None:
            raise OSError("disk full")

    log = Log()
    async with open_system() as system:
        watcher = await system.start(lambda: Counter(log))
        ref = await system.start(BadEnd, name="bad")
        ref.watch(watcher)
    assert "down bad OSError('disk full')" in log


async def test_system_that_stops_starts_no_actor() -> None:
    class Late(TaskCounter):
        async def on_stop(self) -> None:
            with pytest.raises(ActorStopped):
                await self.system.start(Counter)
            self.log.append("refused")

    log = Log()
    async with open_system() as system:
        await system.start(lambda: Late(log))
    assert log[-1] == "refused"


async def test_cancelling_the_owner_cancels_all(autojump_clock: MockClock) -> None:
    log = Log()
    with trio.move_on_after(1) as scope:
        async with open_system() as system:
            top = await system.start(lambda: Supervisor([ChildSpec(lambda: TaskCounter(log), name="a")]), name="top")
            ref = top.children["a"]
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert ref.state == "stopped"
    assert log == ["start 1", "stop"]


async def test_on_stop_is_shielded_but_not_for_ever(autojump_clock: MockClock) -> None:
    class Slow(TaskCounter):
        async def on_stop(self) -> None:
            await trio.sleep(1)
            self.log.append("almost")
            await trio.sleep(100)
            self.log.append("never")

    log = Log()
    start = trio.current_time()
    with trio.CancelScope() as scope:
        async with open_system() as system:
            await system.start(lambda: Slow(log), shutdown=3)
            scope.cancel()
            await trio.sleep_forever()
    assert log == ["start 1", "almost"]
    assert trio.current_time() - start == pytest.approx(3)


async def test_single_actor_can_be_stopped_anywhere_in_the_tree(system: System) -> None:
    top = await system.start(DynamicSupervisor, name="top")
    assert isinstance(top.actor, DynamicSupervisor)
    ref = await top.actor.start_child(ChildSpec(Counter, name="a"))
    await system.stop(ref)
    await system.stop(ref)
    assert not top.children
    with pytest.raises(ValueError, match="the root ends with its block"):
        await system.stop(system.registry.find("/"))


def test_ctrl_c_comes_out_bare_and_stops_all() -> None:
    log = Log()

    class Interrupted(Actor):
        async def boom(self, message: Boom) -> None:
            signal.raise_signal(signal.SIGINT)
            await trio.sleep_forever()

    async def main() -> None:
        async with open_system() as system:
            await system.start(lambda: TaskCounter(log))
            ref = await system.start(Interrupted)
            ref.tell_nowait(Boom())
            await trio.sleep_forever()

    with pytest.raises(KeyboardInterrupt):
        trio.run(main)
    assert log == ["start 1", "stop"]


async def test_actors_find_their_system_and_their_epoch(system: System) -> None:
    for kind in (Counter, TaskCounter):
        ref = await system.start(kind)
        assert isinstance(ref.actor, Counter | TaskCounter)
        assert ref.actor.system is system
        assert ref.actor.epoch == 1
