"""What users have at once."""

import pytest

from triomq.security import Presence, User, UserLimits


@pytest.mark.parametrize(
    ("what", "more", "less"),
    [("connections", Presence.come, Presence.go), ("channels", Presence.open_channel, Presence.close_channel)],
)
def test_as_many_as_the_limit_says_and_no_more(what: str, more: object, less: object) -> None:
    assert callable(more)
    assert callable(less)
    presence, ada = Presence(), User(name="ada", limits=UserLimits(2, 2, 2))
    for _ in range(2):
        assert presence.has_room(ada, what)
        more(presence, "ada")
    assert not presence.has_room(ada, what)
    assert presence.has_room(User(name="bob", limits=UserLimits(1, 1, 1)), what)
    less(presence, "ada")
    assert presence.has_room(ada, what)
    less(presence, "ada")
    less(presence, "ada")  # once too often does no harm
    assert not getattr(presence, what)


@pytest.mark.parametrize("what", ["connections", "channels", "queues"])
def test_without_a_limit_there_is_always_room_and_with_nought_never(what: str) -> None:
    assert Presence().has_room(User(name="ada"), what)
    assert not Presence().has_room(User(name="ada", limits=UserLimits(0, 0, 0)), what)


def test_queues_count_as_long_as_they_exist() -> None:
    presence, ada = Presence(), User(name="ada", limits=UserLimits(queues=2))
    there = {"a", "b"}
    for name in ("a", "b"):
        presence.declare_queue(ada, lambda name=name: name in there)  # type: ignore[misc]
    assert not presence.has_room(ada, "queues")
    there.remove("a")
    assert presence.has_room(ada, "queues")
    presence.declare_queue(User(name="bob"), lambda: True)
    assert presence.has_room(User(name="bob", limits=UserLimits(queues=1)), "queues")  # from before there was a limit
