import msgspec
import pytest

from triomq.actors import Message, Request

from .cast import Add, Note, Several


def test_message_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Note("a").text = "b"  # type: ignore[misc]


def test_message_is_one_part_unless_it_overrides_split() -> None:
    note = Note("a")
    assert note.split() == (note,)
    assert Several(("a", "b")).split() == [Several(("a",)), Several(("b",))]


def test_abandoned_does_nothing_by_default() -> None:
    assert Note("a").abandoned(ValueError()) is None


def test_messages_are_collected_by_default_and_leaves_may_opt_out() -> None:
    class Leaf(Message, frozen=True, gc=False):
        number: int

    assert Leaf(1).number == 1
    assert not issubclass(Note, Request)
    assert issubclass(Add, Request)
    assert isinstance(Add(1), msgspec.Struct)
