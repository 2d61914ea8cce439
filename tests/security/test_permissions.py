"""Patterns and what they allow: RabbitMQ's rules."""

import pytest

from triomq.security import ALL, Access, Permission
from triomq.security.permissions import NONE, permission_in


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("", "q", False),
        ("^$", "q", False),
        (".*", "q", True),
        (".*", "", True),
        ("a", "cab", True),
        ("^a$", "cab", False),
        ("^(a|b)\\.", "b.x", True),
        ("^amq\\.default$", "", True),
        ("^$", "", False),
    ],
)
def test_pattern_is_searched_in_the_name(pattern: str, name: str, fits: bool) -> None:
    access = Access(Permission(configure=pattern, write=pattern, read=pattern))
    assert [access.may_configure(name), access.may_write(name), access.may_read(name)] == [fits] * 3


def test_the_three_rights_are_apart() -> None:
    access = Access(Permission(configure="c", write="w", read="r"))
    assert [access.may_configure(name) for name in "cwr"] == [True, False, False]
    assert [access.may_write(name) for name in "cwr"] == [False, True, False]
    assert [access.may_read(name) for name in "cwr"] == [False, False, True]


def test_empty_permission_is_within_every_other() -> None:
    assert not Access(None).may_enter
    assert Access(NONE).may_enter
    assert not Access(NONE).may_configure("q")
    assert not Access(None).may_read("q")


def test_change_holds_for_names_that_were_asked_about_before() -> None:
    access = Access(ALL)
    assert access.may_read("q")
    access.change(NONE)
    assert not access.may_read("q")


def test_cached_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triomq.security.permissions._NAMES", 3)
    access = Access(ALL)
    for number in range(10):
        assert access.may_read(str(number))
    assert len(access._read) <= 3


def test_text_that_is_no_pattern_is_refused() -> None:
    with pytest.raises(ValueError, match=r"write: '\(' is no regular expression"):
        Permission(write="(")


def test_domain_that_is_named_goes_before_the_star() -> None:
    permissions = {"*": ALL, "shop": NONE}
    assert permission_in(permissions, "shop") is NONE
    assert permission_in(permissions, "mail") is ALL
    assert permission_in({"shop": ALL}, "mail") is None


def test_permission_within_another_is_recognised() -> None:
    assert NONE.is_within(NONE)
    assert NONE.is_within(Permission("a", "b", "c"))
    assert Permission("a", "b", "c").is_within(ALL)
    assert Permission("^$", "", "x").is_within(Permission("", "", "x"))
    assert not ALL.is_within(Permission("a", ".*", ".*"))
    assert not Permission("a", "", "").is_within(Permission("a|b", "", ""))  # nobody works that out
