"""Events hide secrets and are all in the union."""

import typing

from triomq.protocols.amqp import ChallengeAnswered, Event, LoginRequested, events


def test_every_event_is_in_the_union() -> None:
    assert {kind.__name__ for kind in typing.get_args(Event)} == {
        name for name, kind in vars(events).items() if isinstance(kind, type) and kind.__module__ == events.__name__
    }


def test_secrets_do_not_reach_logs() -> None:
    assert "hunter2" not in repr(LoginRequested("PLAIN", b"\0u\0hunter2", "en_US", {}))
    assert "hunter2" not in repr(ChallengeAnswered(b"hunter2"))


def test_events_that_hold_lists_are_tracked_by_the_garbage_collector() -> None:
    for kind in typing.get_args(Event):
        holds = any("list" in str(hint) or "dict" in str(hint) for hint in kind.__annotations__.values())
        assert not holds or kind.__struct_config__.gc, kind
