import trio
import trio.testing
from trio.testing import MockClock

from triomq.actors import ChildSpec, Supervisor, System, open_system

from .cast import Add, Boom, Counter, Note, TaskCounter


async def test_the_tree_is_a_snapshot(autojump_clock: MockClock) -> None:
    async with open_system() as system:
        children = [ChildSpec(Counter, name="a"), ChildSpec(TaskCounter, name="b")]
        top = await system.start(lambda: Supervisor(children), name="top")
        top.children["a"].ask_nowait(Add(1))
        top.children["a"].tell_nowait(Boom())
        top.children["b"].tell_nowait(Note("x"))
        before = system.tree()
        await trio.sleep(60)
        after = system.tree()
    assert [(node.path, node.state, node.epoch, node.handled, node.waiting) for node in before.walk()] == [
        ("/", "running", 1, 0, 0),
        ("/top", "running", 1, 0, 0),
        ("/top/a", "backing_off", 1, 1, 1),
        ("/top/b", "running", 1, 0, 1),
    ]
    assert [(node.path, node.state, node.epoch, node.handled) for node in after.walk()][2:] == [
        ("/top/a", "running", 3, 1),
        ("/top/b", "running", 1, 1),
    ]


async def test_the_tree_can_be_printed(system: System) -> None:
    await system.start(Counter, name="a")
    assert str(system.tree()).splitlines() == [
        "/  Supervisor  running  epoch 1  handled 0  waiting 0",
        "  a  Counter  running  epoch 1  handled 0  waiting 0",
    ]
