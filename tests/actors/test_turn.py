import signal

import pytest
import trio
import trio.testing

from triomq.actors import InPlaceActor, Message, Ref, System, Turn, open_system
from triomq.actors.turn import BUDGET, LONGEST

from .cast import Add, Counter, Log, Note


class Pass(Message, frozen=True):
    """Told on to the next actor."""

    text: str


class Forwarder(InPlaceActor):
    """Tells the next one, and notes when its own handler begins and ends."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.next: Ref | None = None

    def forward(self, message: Pass) -> None:
        self.log.append(f"{self.ref.name} begins {message.text}")
        if self.next is not None:
            self.next.tell_nowait(message)
        self.log.append(f"{self.ref.name} ends {message.text}")


class Touchy(InPlaceActor):
    """Has something to do after each batch."""

    def __init__(self, log: Log, other: Ref | None = None) -> None:
        self.log = log
        self.other = other

    def note(self, message: Note) -> None:
        self.log.append(message.text)

    def after_batch(self) -> None:
        self.log.append(f"after {self.ref.name}")
        if self.other is not None:
            self.other.tell_nowait(Note(f"from {self.ref.name}"))


async def test_message_from_a_body_is_handled_when_the_call_returns(system: System) -> None:
    log = Log()
    ref = await system.start(lambda: Counter(log))

    def body() -> int:
        ref.tell_nowait(Note("a"))
        assert log[-1] == "a"
        ref.tell_nowait(Note("b"))
        assert log[-1] == "b"
        return 7

    assert system.turn.run(body) == 7


async def test_message_from_a_handler_is_handled_after_it_has_returned() -> None:
    log = Log()
    async with open_system() as system:
        first = await system.start(lambda: Forwarder(log), name="first")
        second = await system.start(lambda: Forwarder(log), name="second")
        assert isinstance(first.actor, Forwarder)
        first.actor.next = second
        first.tell_nowait(Pass("x"))
    assert log == ["first begins x", "first ends x", "second begins x", "second ends x"]


async def test_message_to_oneself_is_handled_later() -> None:
    log = Log()

    class Echo(InPlaceActor):
        def forward(self, message: Pass) -> None:
            log.append(f"begins {message.text}")
            if len(message.text) < 3:
                self.ref.tell_nowait(Pass(message.text + "x"))
            log.append(f"ends {message.text}")

    async with open_system() as system:
        (await system.start(Echo)).tell_nowait(Pass("x"))
    assert log == ["begins x", "ends x", "begins xx", "ends xx", "begins xxx", "ends xxx"]


async def test_after_batch_runs_once_per_touched_actor_in_order_of_touching() -> None:
    log = Log()
    async with open_system() as system:
        one = await system.start(lambda: Touchy(log), name="one")
        two = await system.start(lambda: Touchy(log), name="two")

        def body() -> None:
            for text in "abc":
                two.tell_nowait(Note(text))
                one.tell_nowait(Note(text))
            assert "after two" not in log

        system.turn.run(body)
    assert log == ["a", "a", "b", "b", "c", "c", "after two", "after one"]


async def test_actor_touched_by_a_later_after_batch_runs_again() -> None:
    log = Log()
    async with open_system() as system:
        two = await system.start(lambda: Touchy(log), name="two")
        one = await system.start(lambda: Touchy(log, two), name="one")

        def body() -> None:
            two.tell_nowait(Note("a"))
            one.tell_nowait(Note("b"))

        system.turn.run(body)
    assert log == ["a", "b", "after two", "after one", "from one", "after two"]


async def test_touching_without_a_turn_makes_one(system: System) -> None:
    log = Log()
    ref = await system.start(lambda: Touchy(log), name="one")
    ref.touch()
    assert log == ["after one"]
    system.turn.run(lambda: [ref.touch(), ref.touch()])
    assert log == ["after one"] * 2


async def test_nested_turn_is_part_of_the_outer_one() -> None:
    log = Log()
    async with open_system() as system:
        ref = await system.start(lambda: Touchy(log), name="one")

        def body() -> None:
            system.turn.run(ref.tell_nowait, Note("inner"))
            assert log == ["inner"]

        system.turn.run(body)
    assert log == ["inner", "after one"]


async def test_error_in_the_body_comes_out_after_what_it_touched_is_finished() -> None:
    log = Log()
    async with open_system() as system:
        ref = await system.start(lambda: Touchy(log), name="one")

        def body() -> None:
            ref.tell_nowait(Note("a"))
            raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            system.turn.run(body)
        assert log == ["a", "after one"]
        system.turn.run(ref.tell_nowait, Note("b"))
    assert log[2:] == ["b", "after one"]


async def test_turn_has_a_budget_that_its_end_renews(system: System) -> None:
    turn: Turn = system.turn

    def body() -> bool:
        turn.charge(BUDGET)
        assert not turn.exhausted
        turn.charge(1)
        return turn.exhausted

    assert turn.run(body)
    assert not turn.exhausted


async def test_turn_forgets_its_source_at_its_end(system: System) -> None:
    class Reader:
        def hold_back(self) -> bool:
            return True

        def go_ahead(self, *, in_vain: bool) -> None:
            """Nobody has been held back."""

    reader = Reader()

    def body() -> None:
        system.turn.source = reader

    system.turn.run(body)
    assert system.turn.source is None


async def test_actors_that_tell_each_other_for_ever_do_not_stop_the_loop(system: System) -> None:
    """Trap 7: a loop without a bound never yields."""
    log = Log()

    class Endless(InPlaceActor):
        count = 0

        def forward(self, message: Pass) -> None:
            self.count += 1
            if self.count < 3 * LONGEST:
                self.ref.tell_nowait(message)

    ref = await system.start(Endless)
    ref.tell_nowait(Pass("x"))
    assert isinstance(ref.actor, Endless)
    assert ref.actor.count <= LONGEST + 1
    steps = 0
    while ref.actor.count < 3 * LONGEST:
        await trio.lowlevel.checkpoint()
        steps += 1
        log.append("others run")
    assert steps >= 2


async def test_order_holds_when_an_endless_turn_is_cut(system: System) -> None:
    class Endless(InPlaceActor):
        def __init__(self) -> None:
            self.seen: list[str] = []
            self.rounds = 0

        def forward(self, message: Pass) -> None:
            self.rounds += 1
            if self.rounds < 2 * LONGEST:
                self.ref.tell_nowait(message)

        def note(self, message: Note) -> None:
            self.seen.append(message.text)

    ref = await system.start(Endless)
    ref.tell_nowait(Pass("x"))
    for text in "abc":
        ref.tell_nowait(Note(text))
    assert isinstance(ref.actor, Endless)
    await trio.testing.wait_all_tasks_blocked()
    assert ref.actor.seen == ["a", "b", "c"]
    assert ref.actor.rounds == 2 * LONGEST


def test_ctrl_c_in_a_turn_leaves_state_whole() -> None:
    """Trap 19: it comes out at the next checkpoint, never between two lines of a handler."""

    class Pair(InPlaceActor):
        left = right = after = 0

        def add(self, message: Add) -> int:
            self.left += message.amount
            signal.raise_signal(signal.SIGINT)
            self.right += message.amount
            return self.right

        def after_batch(self) -> None:
            self.after += 1

    pair = Pair()
    statements: list[str] = []

    async def main() -> None:
        async with open_system() as system:
            ref = await system.start(lambda: pair, name="pair")
            system.turn.run(ref.tell_nowait, Add(3))
            statements.append("the turn returned")
            await trio.sleep_forever()

    with pytest.raises(KeyboardInterrupt):
        trio.run(main)
    assert (pair.left, pair.right, pair.after) == (3, 3, 1)
    assert statements == ["the turn returned"]
