import pytest

from triomq.actors import Actor, Down
from triomq.actors.testing import Probe, find_wait_cycle, open_test_system, probe_for, wait_idle

from .cast import Add, Log, Note, TaskCounter


async def test_probe_remembers_what_it_is_told() -> None:
    async with open_test_system() as system:
        ref = await system.start(probe_for(Note, Down), name="probe")
        ref.tell_nowait(Note("a"))
        assert isinstance(ref.actor, Probe)
        assert ref.actor.take() == [Note("a")]
        assert ref.actor.take() == []
        with pytest.raises(TypeError, match="no handler for Add"):
            ref.tell_nowait(Add(1))


async def test_idle_means_that_all_has_been_handled() -> None:
    log = Log()
    async with open_test_system() as system:
        ref = await system.start(lambda: TaskCounter(log))
        for number in range(600):
            ref.tell_nowait(Note(str(number)))
        await wait_idle(system)
        assert len(log) == 601


class Base(Actor):
    pass


class Left(Base):
    pass


class Right(Actor):
    waits_for = (Left,)


class Circular(Left):
    waits_for = (Right,)


class Selfish(Actor):
    pass


Selfish.waits_for = (Selfish,)


def test_circle_of_declared_waits_is_found() -> None:
    assert find_wait_cycle([Base, Left, Right]) == ()
    assert find_wait_cycle([Base, Left, Right, Circular]) == [Right, Circular, Right]
    assert find_wait_cycle([Selfish]) == [Selfish, Selfish]
