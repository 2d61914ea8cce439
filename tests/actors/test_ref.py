import pytest
import trio
import trio.testing
from trio.testing import MockClock

from triomq.actors import Down, InPlaceActor, System, open_system
from triomq.errors import ActorStopped

from .cast import KINDS, Add, Boom, Counter, Log, Note, TaskCounter


@pytest.mark.parametrize("kind", KINDS)
async def test_watcher_is_told_when_an_actor_stops_for_good(kind: type[TaskCounter]) -> None:
    for watcher_kind in KINDS:
        log = Log()
        async with open_system() as system:
            watcher = await system.start(lambda: watcher_kind(log))  # type: ignore[return-value]  # noqa: B023
            ref = await system.start(kind, name="watched")
            ref.watch(watcher)
            ref.watch(watcher)
            await system.stop(ref)
            await trio.testing.wait_all_tasks_blocked()
            assert log == ["start 1", "down watched None"]


@pytest.mark.parametrize("kind", KINDS)
async def test_restart_is_no_down(system: System, kind: type[TaskCounter], autojump_clock: MockClock) -> None:
    log = Log()
    watcher = await system.start(lambda: Counter(log))
    ref = await system.start(kind)
    ref.watch(watcher)
    ref.tell_nowait(Boom())
    await trio.sleep(60)
    assert (ref.epoch, log) == (3, ["start 1"])


async def test_watcher_of_a_stopped_actor_is_told_at_once(system: System) -> None:
    log = Log()
    watcher = await system.start(lambda: Counter(log))
    ref = await system.start(Counter, name="watched")
    await system.stop(ref)
    ref.watch(watcher)
    assert log == ["start 1", "down watched None"]


async def test_watcher_can_stop_watching(system: System) -> None:
    log = Log()
    watcher = await system.start(lambda: Counter(log))
    ref = await system.start(Counter)
    ref.unwatch(watcher)
    ref.watch(watcher)
    ref.unwatch(watcher)
    await system.stop(ref)
    assert log == ["start 1"]


async def test_watcher_must_have_a_handler_for_down(system: System) -> None:
    class Blind(InPlaceActor):
        pass

    blind = await system.start(Blind)
    ref = await system.start(Counter)
    with pytest.raises(TypeError, match="Blind has no handler for Down"):
        ref.watch(blind)


async def test_down_gets_into_a_full_mailbox(system: System) -> None:
    class Small(TaskCounter):
        limit = 1
        overflow = "reject"

    log = Log()
    watcher = await system.start(lambda: Small(log))
    ref = await system.start(Counter, name="watched")
    ref.watch(watcher)
    watcher.tell_nowait(Note("last words"))
    await system.stop(ref)
    await trio.testing.wait_all_tasks_blocked()
    assert log == ["start 1", "last words", "down watched None"]


async def test_down_for_a_watcher_that_has_stopped_is_a_dead_letter() -> None:
    for kind in (Counter, TaskCounter):
        async with open_system() as system:
            watcher = await system.start(kind)
            ref = await system.start(Counter)
            ref.watch(watcher)
            await system.stop(watcher)
            await system.stop(ref)
            assert [letter.message for letter in system.dead_letters.recent()] == [Down(ref, None)]


async def test_the_present_incarnation_can_be_read(system: System, autojump_clock: MockClock) -> None:
    ref = await system.start(Counter)
    first = ref.actor
    assert isinstance(first, Counter)
    ref.ask_nowait(Add(3))
    assert first.total == 3
    ref.crash(None, ValueError())
    await trio.sleep(60)
    assert isinstance(ref.actor, Counter)
    assert ref.actor is not first
    await system.stop(ref)
    assert ref.actor is None


async def test_ref_shows_itself(system: System) -> None:
    ref = await system.start(TaskCounter, name="a")
    assert repr(ref) == "<TaskRef /a running>"
    assert ref.actor_class is TaskCounter
    assert ref.parent is system.registry.find("/")
    await ref.ask(Add(1))
    assert ref.statistics().handled == 1
    assert ref.statistics().path == "/a"


@pytest.mark.parametrize("kind", KINDS)
async def test_wait_running_ends_with_the_actor(kind: type[TaskCounter], autojump_clock: MockClock) -> None:
    async with open_system(max_restarts=9) as system:
        ref = await system.start(kind)
        ref.tell_nowait(Boom())
        await ref.wait_running()
        assert ref.state == "running"
        dying = await system.start(kind, restart="temporary")
        dying.tell_nowait(Boom())
        with pytest.raises(ActorStopped):
            await dying.wait_running()
