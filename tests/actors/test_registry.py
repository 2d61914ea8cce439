import pytest

from triomq.actors import ChildSpec, DynamicSupervisor, Supervisor, System
from triomq.errors import NoSuchActor

from .cast import Counter


async def test_actors_are_found_by_their_path(system: System) -> None:
    top = await system.start(lambda: Supervisor([ChildSpec(Counter, name="a")]), name="top")
    assert system.registry.find("/top") is top
    assert system.registry.find("/top/a") is top.children["a"]
    assert system.registry.find("/").path == "/"
    assert list(system.registry) == ["/", "/top", "/top/a"]
    assert "/top/a" in system.registry
    assert "/top/b" not in system.registry


async def test_slash_in_a_name_is_quoted(system: System) -> None:
    top = await system.start(DynamicSupervisor, name="top")
    assert isinstance(top.actor, DynamicSupervisor)
    for name in ("eu/orders", "50%", "%2F", ""):
        ref = top.actor.start_child_nowait(ChildSpec(Counter, name=f"queue.{name}"))
        assert system.registry.find(ref.path) is ref
    assert "/top/queue.eu%2Forders" in system.registry


async def test_failed_look_up_names_the_part_of_the_path_that_exists(system: System) -> None:
    await system.start(Counter, name="a")
    with pytest.raises(NoSuchActor, match=r"there is no /b/c: / has no child 'b', but a"):
        system.registry.find("/b/c")
    with pytest.raises(NoSuchActor, match=r"/a has no child 'b', but none"):
        system.registry.find("/a/b")
    with pytest.raises(NoSuchActor, match="must start with /"):
        system.registry.find("a")


async def test_stopped_actor_is_not_found(system: System) -> None:
    ref = await system.start(Counter, name="a")
    await system.stop(ref)
    assert "/a" not in system.registry
