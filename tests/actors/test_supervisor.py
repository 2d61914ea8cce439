import logging
from collections.abc import Sequence

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from triomq.actors import (
    Actor,
    Backoff,
    ChildSpec,
    DynamicSupervisor,
    Exited,
    InPlaceActor,
    Ref,
    RestartPolicy,
    Supervisor,
    System,
    open_system,
)
from triomq.errors import ActorStopped, NameTaken, RestartLimitExceeded

from .cast import KINDS, Add, AskBoom, Boom, Counter, Log, Note, TaskCounter


class Named(Actor):
    """Notes its name with what happens to it."""

    def __init__(self, log: Log) -> None:
        self.log = log

    async def on_start(self) -> None:
        await trio.sleep(0.1)
        self.log.append(f"{self.ref.name} starts")

    async def on_stop(self) -> None:
        await trio.sleep(0.1)
        self.log.append(f"{self.ref.name} stops")

    def boom(self, message: Boom) -> None:
        raise ValueError(self.ref.name)

    def note(self, message: Note) -> None:
        self.log.append(f"{self.ref.name} {message.text}")


class Prompt(Named):
    """As Named, but starts at once."""

    async def on_start(self) -> None:
        self.log.append(f"{self.ref.name} starts")


class Crowded(DynamicSupervisor):
    """Crashes slowly: it has children to stop first. Answers in place, so that it may crash while it starts."""

    answers_in_place = True

    async def on_start(self) -> None:
        for _ in range(5):
            self.start_child_nowait(ChildSpec(Counter))

    def boom(self, message: Boom) -> None:
        raise ValueError("crowded")


class NamedInPlace(InPlaceActor):
    def __init__(self, log: Log) -> None:
        self.log = log

    def on_start(self) -> None:
        self.log.append(f"{self.ref.name} starts")

    def on_stop(self) -> None:
        self.log.append(f"{self.ref.name} stops")

    def boom(self, message: Boom) -> None:
        raise ValueError(self.ref.name)

    def note(self, message: Note) -> None:
        self.log.append(f"{self.ref.name} {message.text}")


def specs(log: Log, names: str = "abc", restart: RestartPolicy = "permanent") -> list[ChildSpec]:
    """Children with a task, but for b, which is in place."""
    return [
        ChildSpec((lambda: NamedInPlace(log)) if name == "b" else (lambda: Named(log)), name=name, restart=restart)
        for name in names
    ]


def crash(ref: Ref) -> None:
    """Crash an actor once, with nothing left to be tried again."""
    ref.crash(None, ValueError(ref.name))


async def settled() -> None:
    await trio.sleep(60)


async def supervisor(system: System, log: Log, **options: object) -> Ref:
    return await system.start(lambda: Supervisor(specs(log), **options), name="top")  # type: ignore[arg-type]


def child(parent: Ref, name: str) -> Ref:
    return parent.children[name]


ALL_START = ["a starts", "b starts", "c starts"]


async def test_children_start_left_to_right_and_stop_right_to_left(autojump_clock: MockClock) -> None:
    log = Log()
    async with open_system() as system:
        ref = await supervisor(system, log)
        assert log == ["a starts", "b starts", "c starts"]
        assert [one.state for one in ref.children.values()] == ["running"] * 3
        log.clear()
    assert log == ["c stops", "b stops", "a stops"]


async def test_started_means_that_all_children_have_started(system: System, autojump_clock: MockClock) -> None:
    """Trap 1: otherwise the first look-up races."""
    log = Log()
    await supervisor(system, log)
    assert system.registry.find("/top/c").state == "running"


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("one_for_one", {"a": ["a starts"], "b": ["b starts"]}),
        ("one_for_all", {"a": ["c stops", "b stops", *ALL_START], "b": ["c stops", "a stops", *ALL_START]}),
        ("rest_for_one", {"b": ["c stops", "b starts", "c starts"], "c": ["c starts"]}),
    ],
)
async def test_strategy_decides_which_siblings_are_restarted_with_a_crashed_child(
    system: System, strategy: str, expected: dict[str, list[str]], autojump_clock: MockClock
) -> None:
    log = Log()
    ref = await supervisor(system, log, strategy=strategy)
    for name, events in expected.items():
        log.clear()
        crash(child(ref, name))
        await settled()
        assert log == events
    if strategy == "one_for_all":
        assert [one.epoch for one in ref.children.values()] == [3, 3, 3]


async def test_messages_of_siblings_wait_while_they_are_restarted(system: System, autojump_clock: MockClock) -> None:
    log = Log()
    ref = await supervisor(system, log, strategy="one_for_all")
    log.clear()
    crash(child(ref, "a"))
    await trio.sleep(0.05)
    assert child(ref, "c").state == "draining"
    for name in "abc":
        child(ref, name).tell_nowait(Note("kept"))
    await settled()
    assert {"a kept", "b kept"} < set(log)  # b still ran
    assert log[-2:] == ["c starts", "c kept"]
    assert system.dead_letters.count == 0


async def test_temporary_sibling_is_stopped_with_the_others_and_not_restarted(
    system: System, autojump_clock: MockClock
) -> None:
    log = Log()
    ref = await supervisor(system, log, strategy="one_for_all")
    assert isinstance(ref.actor, Supervisor)
    await ref.actor.start_child(ChildSpec(lambda: Named(log), name="d", restart="temporary"))
    log.clear()
    crash(child(ref, "a"))
    await settled()
    assert log == ["d stops", "c stops", "b stops", "a starts", "b starts", "c starts"]
    assert "d" not in ref.children


async def test_second_crash_during_a_restart_takes_the_restart_over(system: System, autojump_clock: MockClock) -> None:
    log = Log()
    ref = await supervisor(system, log, strategy="rest_for_one")
    log.clear()
    crash(child(ref, "b"))
    await trio.sleep(0.05)  # c is stopping
    crash(child(ref, "a"))
    await settled()
    assert [one.state for one in ref.children.values()] == ["running"] * 3
    assert log == ["c stops", "a starts", "b starts", "c starts"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("restart", "after_crash"), [("permanent", "running"), ("transient", "running"), ("temporary", "stopped")]
)
async def test_strategy_decides_which_children_are_restarted_after_a_crash(
    system: System, kind: type[TaskCounter], restart: RestartPolicy, after_crash: str, autojump_clock: MockClock
) -> None:
    ref = await system.start(kind, restart=restart)
    ref.tell_nowait(Boom())
    await settled()
    assert ref.state == after_crash


@pytest.mark.parametrize(
    ("restart", "after_end"), [("permanent", "running"), ("transient", "stopped"), ("temporary", "stopped")]
)
async def test_policy_decides_which_children_are_restarted_after_a_normal_end(
    system: System, restart: RestartPolicy, after_end: str, autojump_clock: MockClock
) -> None:
    class Leaver(TaskCounter):
        def note(self, message: Note) -> None:
            super().note(message)
            self.stop()

    log = Log()
    ref = await system.start(lambda: Leaver(log), restart=restart)
    ref.tell_nowait(Note("a"))
    ref.tell_nowait(Note("b"))
    await settled()
    assert ref.state == after_end
    assert log[:4] == ["start 1", "a", "b", "stop"]


async def test_too_many_restarts_travel_up_to_the_owner(autojump_clock: MockClock) -> None:
    ended: list[str] = []
    with pytest.raises(RestartLimitExceeded, match=r"/top would be restarted more than 3 times in 5.0 s") as caught:  # noqa: PT012
        async with open_system() as system:
            ref = await supervisor(system, Log(), max_restarts=1, period=5)
            try:
                while True:
                    crash(child(ref, "b"))
                    await trio.sleep(0.2)
            finally:
                ended.append(ref.state)
    inner = caught.value.__cause__
    assert isinstance(inner, RestartLimitExceeded)
    assert "/top/b would be restarted more than 1 times" in str(inner)
    assert isinstance(inner.__cause__, ValueError)


async def test_restarts_that_are_far_enough_apart_do_not_add_up(system: System, autojump_clock: MockClock) -> None:
    ref = await supervisor(system, Log(), max_restarts=1, period=5)
    for _ in range(5):
        crash(child(ref, "a"))
        await trio.sleep(6)
    assert child(ref, "a").epoch == 6


async def test_refs_of_declared_children_survive_a_restart_of_their_supervisor(
    system: System, autojump_clock: MockClock
) -> None:
    log = Log()
    ref = await supervisor(system, log, max_restarts=0)
    assert isinstance(ref.actor, Supervisor)
    children = dict(ref.children)
    extra = await ref.actor.start_child(ChildSpec(lambda: Named(log), name="extra"))
    crash(children["a"])
    await trio.sleep(0.01)
    children["c"].tell_nowait(Note("kept"))
    await settled()
    assert ref.epoch == 2
    assert dict(ref.children) == children
    assert [one.state for one in children.values()] == ["running"] * 3
    assert extra.state == "stopped"
    assert "c kept" in log


async def test_backoff_does_not_hold_up_a_siblings_restart(system: System, autojump_clock: MockClock) -> None:
    """Trap 2: asleep for one child, the supervisor's loop let another one wait."""
    log = Log()
    ref = await supervisor(system, log, backoff=Backoff(initial=60, maximum=60, jitter=0))
    for _ in range(2):
        crash(child(ref, "a"))
        await trio.sleep(1)
    assert child(ref, "a").state == "backing_off"
    log.clear()
    start = trio.current_time()
    crash(child(ref, "c"))
    await trio.sleep(0.2)
    assert log == ["c starts"]
    assert trio.current_time() - start < 1
    await trio.sleep(60)
    assert child(ref, "a").state == "running"


async def test_delays_grow_and_start_again_after_a_period_of_life(autojump_clock: MockClock) -> None:
    starts: list[float] = []

    class Restless(InPlaceActor):
        def on_start(self) -> None:
            starts.append(trio.current_time())

    backoff = Backoff(initial=1, factor=2, maximum=3, jitter=0)
    async with open_system(max_restarts=100, period=5, backoff=backoff) as system:
        ref = await system.start(Restless)
        begin = starts[0]
        for _ in range(5):
            await ref.wait_running()
            crash(ref)
            await trio.sleep(0.5)
        await trio.sleep(20)
        crash(ref)
        crashed = trio.current_time()
        await trio.sleep(0.5)
        assert [time - begin for time in starts[:6]] == pytest.approx([0, 0, 1.5, 4, 7, 10], abs=0.51)
        assert starts[-1] == crashed


async def test_dynamic_child_that_crashes_too_often_is_stopped_alone(system: System, autojump_clock: MockClock) -> None:
    log = Log()
    watcher = await system.start(lambda: Counter(log))
    top = await system.start(lambda: DynamicSupervisor(max_restarts=2), name="top")
    assert isinstance(top.actor, DynamicSupervisor)
    poisoned = top.actor.start_child_nowait(ChildSpec(Counter, name="poisoned"))
    healthy = top.actor.start_child_nowait(ChildSpec(Counter, name="healthy"))
    poisoned.watch(watcher)
    for _ in range(3):
        crash(poisoned)
        crash(healthy) if _ < 2 else None
        await trio.sleep(0.3)
    assert poisoned.state == "stopped"
    assert healthy.state == "running"
    assert (top.epoch, list(top.children)) == (1, ["healthy"])
    (down,) = (line for line in log if line.startswith("down"))
    assert "down poisoned RestartLimitExceeded" in down


class Domain(DynamicSupervisor):
    """Starts and stops children in its own plain handlers, in the asker's turn."""

    answers_in_place = True

    def __init__(self, log: Log) -> None:
        super().__init__()
        self.log = log

    def add(self, message: Add) -> int:
        ref = self.start_child_nowait(ChildSpec(lambda: NamedInPlace(self.log), name=str(message.amount)))
        ref.tell_nowait(Note("told"))
        return len(self.children)

    def note(self, message: Note) -> None:
        self.stop_child_nowait(self.children[message.text])
        self.log.append("stopped it")

    def child_exited(self, ref: Ref, error: BaseException | None) -> None:
        self.log.append(f"{ref.name} exited {ref.state} {error!r}")

    def child_restarted(self, ref: Ref) -> None:
        self.log.append(f"{ref.name} restarted")
        ref.tell_nowait(Note("told by its parent"))


async def test_supervisor_starts_and_stops_children_in_the_askers_turn(system: System) -> None:
    log = Log()
    ref = await system.start(lambda: Domain(log), name="domain")
    await trio.testing.wait_all_tasks_blocked()

    def body() -> None:
        assert ref.ask_nowait(Add(1)) == 1
        assert log == ["1 starts", "1 told"]
        ref.tell_nowait(Note("1"))
        assert log[2:] == ["1 stops", "1 exited stopped None", "stopped it"]

    system.turn.run(body)


async def test_hooks_are_called_for_crash_and_restart_before_waiting_messages_are_handled(
    system: System, autojump_clock: MockClock
) -> None:
    log = Log()
    ref = await system.start(lambda: Domain(log), name="domain")
    await trio.testing.wait_all_tasks_blocked()
    ref.ask_nowait(Add(1))
    log.clear()
    crash(child(ref, "1"))
    child(ref, "1").tell_nowait(Note("kept"))
    await settled()
    assert log == [
        "1 exited backing_off ValueError('1')",
        "1 starts",
        "1 restarted",
        "1 kept",
        "1 told by its parent",
    ]


async def test_hooks_are_called_for_task_children_too(system: System, autojump_clock: MockClock) -> None:
    log = Log()
    ref = await system.start(lambda: Domain(log), name="domain")
    assert isinstance(ref.actor, Domain)
    await ref.actor.start_child(ChildSpec(lambda: Named(log), name="t"))
    log.clear()
    crash(child(ref, "t"))
    await settled()
    assert log == ["t exited backing_off ValueError('t')", "t starts", "t restarted", "t told by its parent"]


async def test_crash_in_a_hook_is_the_supervisors_own(autojump_clock: MockClock) -> None:
    class Clumsy(DynamicSupervisor):
        def child_restarted(self, ref: Ref) -> None:
            raise LookupError("clumsy")

    for kind in (Counter, TaskCounter):
        with pytest.raises(RestartLimitExceeded) as caught:  # noqa: PT012
            async with open_system(max_restarts=0) as system:
                top = await system.start(Clumsy, name="top")
                assert isinstance(top.actor, Clumsy)
                crash(await top.actor.start_child(ChildSpec(kind, name="a")))
                await settled()
        assert isinstance(caught.value.__cause__, LookupError)


async def test_taken_name_is_refused(system: System) -> None:
    await system.start(Counter, name="a")
    with pytest.raises(NameTaken, match="/ has a child named 'a' already"):
        await system.start(TaskCounter, name="a")


async def test_children_without_names_get_numbers(system: System) -> None:
    refs = [await system.start(Counter) for _ in range(3)]
    assert [ref.name for ref in refs] == ["counter.1", "counter.2", "counter.3"]
    await system.stop(refs[0])
    assert (await system.start(Counter)).name == "counter.4"


async def test_task_child_whose_start_fails_leaves_no_child(system: System, autojump_clock: MockClock) -> None:
    class Fails(Actor):
        async def on_start(self) -> None:
            await trio.sleep(1)
            raise LookupError("no luck")

    with pytest.raises(LookupError, match="no luck"):
        await system.start(Fails, name="a")
    await system.start(TaskCounter, name="a")


async def test_supervisor_whose_child_fails_to_start_stops_those_before_it(
    system: System, autojump_clock: MockClock
) -> None:
    class Fails(InPlaceActor):
        def on_start(self) -> None:
            raise LookupError("no luck")

    log = Log()
    with pytest.raises(LookupError, match="no luck"):
        await system.start(lambda: Supervisor([*specs(log), ChildSpec(Fails)]), name="top")
    assert log[3:] == ["c stops", "b stops", "a stops"]


async def test_cancelled_start_leaves_no_child(system: System, autojump_clock: MockClock) -> None:
    class Slow(Actor):
        async def on_start(self) -> None:
            await trio.sleep(10)

    with trio.move_on_after(1):
        await system.start(Slow, name="slow")
    await trio.sleep(1)
    assert list(system.registry) == ["/"]


async def test_messages_wait_for_a_task_child_that_was_started_without_waiting(
    system: System, autojump_clock: MockClock
) -> None:
    log = Log()
    top = await system.start(DynamicSupervisor, name="top")
    assert isinstance(top.actor, DynamicSupervisor)
    ref = top.actor.start_child_nowait(ChildSpec(lambda: Named(log), name="a"))
    assert ref.state == "starting"
    ref.tell_nowait(Note("early"))
    await settled()
    assert log == ["a starts", "a early"]


async def test_factory_that_crashes_at_a_restart_counts_as_a_crash(system: System, autojump_clock: MockClock) -> None:
    made: list[int] = []

    def factory() -> Counter:
        made.append(1)
        if len(made) == 2:
            raise LookupError("out of parts")
        return Counter()

    ref = await system.start(factory)
    crash(ref)
    await settled()
    assert (ref.state, ref.epoch, len(made)) == ("running", 3, 3)


async def test_factory_must_create_actors_of_one_kind(autojump_clock: MockClock) -> None:
    made: list[int] = []

    def factory() -> Counter | TaskCounter:
        made.append(1)
        return Counter() if len(made) == 1 else TaskCounter()

    with pytest.raises(RestartLimitExceeded) as caught:  # noqa: PT012
        async with open_system() as system:
            crash(await system.start(factory))
            await settled()
    assert "not the kind of actor it was" in str(caught.value.__cause__)


async def test_task_of_the_supervisors_own_ends_before_the_first_child(autojump_clock: MockClock) -> None:
    log = Log()

    class Accepting(Supervisor):
        async def on_start(self) -> None:
            self.start_task(self.accept, "x")

        async def accept(self, what: str) -> None:
            try:
                await trio.sleep_forever()
            finally:
                log.append(f"accepts {what} no more")

    async with open_system() as system:
        await system.start(lambda: Accepting(specs(log, "a")))
    assert log == ["a starts", "accepts x no more", "a stops"]


async def test_children_started_in_on_start_stay_and_are_started_again_after_a_crash(
    system: System, autojump_clock: MockClock
) -> None:
    class Founder(DynamicSupervisor):
        async def on_start(self) -> None:
            self.start_child_nowait(ChildSpec(Counter, name="first"))

    ref = await system.start(Founder)
    first = child(ref, "first")
    assert first.state == "running"
    crash(ref)
    await settled()
    assert ref.epoch == 2
    assert first.state == "stopped"
    assert child(ref, "first").state == "running"


async def test_crash_of_its_own_task_crashes_the_supervisor(system: System, autojump_clock: MockClock) -> None:
    tries: list[int] = []

    class Accepting(Supervisor):
        async def on_start(self) -> None:
            tries.append(1)
            self.start_task(self.accept)

        async def accept(self) -> None:
            await trio.sleep(1)
            if len(tries) == 1:
                raise OSError("listener broke")

    log = Log()
    ref = await system.start(lambda: Accepting(specs(log, "a")))
    await settled()
    assert ref.epoch == 2
    assert log == ["a starts", "a stops", "a starts"]


async def test_task_can_be_ended_by_its_scope(system: System, autojump_clock: MockClock) -> None:
    ref = await system.start(DynamicSupervisor)
    assert isinstance(ref.actor, DynamicSupervisor)
    scope = ref.actor.start_task(trio.sleep_forever)
    scope.cancel()
    await trio.sleep(1)
    assert ref.state == "running"


async def test_supervisor_that_does_not_run_starts_nothing(system: System) -> None:
    with pytest.raises(ActorStopped, match="starts nothing"):
        DynamicSupervisor().start_child_nowait(ChildSpec(Counter))
    ref = await system.start(DynamicSupervisor)
    actor = ref.actor
    assert isinstance(actor, DynamicSupervisor)
    await system.stop(ref)
    with pytest.raises(ActorStopped):
        actor.start_task(trio.sleep_forever)


async def test_stopping_a_child_that_is_being_restarted(autojump_clock: MockClock) -> None:
    async with open_system(max_restarts=9) as system:
        for kind in KINDS:
            ref = await system.start(kind, name=kind.__name__)
            ref.tell_nowait(Boom())
            await trio.sleep(0.01)
            assert ref.state == "backing_off"
            ref.tell_nowait(Note("never handled"))
            await system.stop(ref)
            assert ref.state == "stopped"
        await settled()
        assert list(system.registry) == ["/"]


async def test_exit_is_not_for_supervision_to_absorb(autojump_clock: MockClock) -> None:
    class Exits(InPlaceActor):
        def boom(self, message: Boom) -> None:
            raise SystemExit(3)

    class TaskExits(Actor):
        def boom(self, message: Boom) -> None:
            raise SystemExit(3)

    for kind in (Exits, TaskExits):
        with pytest.raises(SystemExit):  # noqa: PT012
            async with open_system() as system:
                top = await system.start(DynamicSupervisor)
                assert isinstance(top.actor, DynamicSupervisor)
                ref = await top.actor.start_child(ChildSpec(kind))
                ref.tell_nowait(Boom())
                await settled()


async def test_crash_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture, autojump_clock: MockClock) -> None:
    async with open_system() as system:
        ref = await system.start(Counter, name="counter")
        crash(ref)
        await settled()
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "/counter crashed: restart in 0.00 s")
    assert record.exc_info is not None


async def test_nested_supervisors_drain_in_order(autojump_clock: MockClock) -> None:
    log = Log()

    class Tree(Supervisor):
        def child_specs(self) -> Sequence[ChildSpec]:
            return [
                ChildSpec(lambda: Supervisor(specs(log, "ab")), name="left"),
                ChildSpec(lambda: Supervisor(specs(log, "c")), name="right"),
            ]

    async with open_system() as system:
        await system.start(Tree)
        log.clear()
    assert log == ["c stops", "b stops", "a stops"]


async def test_actors_answer_to_a_poisoned_request_comes_through_its_second_crash(
    system: System, autojump_clock: MockClock
) -> None:
    events = system.events()
    ref = await system.start(TaskCounter)
    with pytest.raises(Exception, match="crashed while it handled AskBoom"):
        await ref.ask(AskBoom())
    await settled()
    assert [event.epoch for event in events.get_nowait() if isinstance(event, Exited)] == [1, 2]


@pytest.mark.parametrize("_", range(30))  # Trio shuffles who runs first
async def test_crash_during_a_restart_starts_no_child_twice(_: int, autojump_clock: MockClock) -> None:
    """A poisoned message crashes its actor again as soon as it runs, while its younger siblings are being started."""
    log = Log()
    async with open_system() as system:
        specs = [ChildSpec(lambda: Prompt(log), name=name) for name in ("b", "c")]
        specs.insert(0, ChildSpec(Crowded, name="a"))
        top = await system.start(lambda: Supervisor(specs, strategy="rest_for_one"), name="top")
        top.children["a"].tell_nowait(Boom())
        await trio.sleep(10)
        assert [ref.state for ref in top.children.values()] == ["running"] * 3
    for name in ("b", "c"):
        mine = [entry for entry in log if entry.startswith(name)]
        assert mine == [f"{name} starts", f"{name} stops"] * (len(mine) // 2)
