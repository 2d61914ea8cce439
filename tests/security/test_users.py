"""Who may log in, and what they may."""

import base64
import hashlib
import time

import pytest

from triomq.security import ALL, ITERATIONS, Permission, UserRecord, Users, make_administrator, make_verifier
from triomq.security.verifiers import LEAST_ITERATIONS, ScramVerifier


def test_user_logs_in_with_its_own_password_alone() -> None:
    users = Users({"ada": "secret", "bob": "other"})
    assert users.check("ada", b"secret")
    assert not users.check("ada", b"other")
    assert not users.check("ada", b"")
    assert users.check("bob", b"other")


def test_unknown_user_does_not_log_in() -> None:
    users = Users()
    assert not users.check("nobody", b"nobody")
    assert not users.check("", b"")


def test_user_may_be_added_and_have_another_password() -> None:
    users = Users()
    users.add("ada", "first")
    users.add("ada", "second")
    assert not users.check("ada", b"first")
    assert users.check("ada", b"second")


def test_password_may_be_empty_or_in_any_script() -> None:
    users = Users({"a": "", "b": "pässwörd"})
    assert users.check("a", b"")
    assert users.check("b", "pässwörd".encode())


def test_password_is_not_shown() -> None:
    users = Users({"a": "unlikely secret"})
    assert "unlikely" not in repr([*users, vars(users)["_derived"], users.get("a")])


def test_all_users_may_be_given_anew_and_the_changes_are_told() -> None:
    users = Users({"ada": "secret", "bob": "other", "eve": "same"})
    changes = users.replace({"eve": "same", "bob": "new", "cleo": "first"})
    assert (changes.added, changes.changed, changes.removed) == (("cleo",), ("bob",), ("ada",))
    assert users.names == ["bob", "cleo", "eve"]
    assert not users.check("ada", b"secret")
    assert users.check("bob", b"new")
    assert users.check("cleo", b"first")


VERIFIERS = str(make_verifier(b"secret", iterations=LEAST_ITERATIONS))


def make_user(name: str = "ada", **fields: object) -> UserRecord:
    """A user with a verifier and no password."""
    return UserRecord(name=name, verifiers=(VERIFIERS,), **fields)  # type: ignore[arg-type]


def test_password_that_the_program_knows_is_judged_at_once_right_or_wrong() -> None:
    users = Users({"ada": "secret"})
    assert users.check_nowait("ada", b"secret") is True
    assert users.check_nowait("ada", b"wrong") is False
    assert users.check_nowait("nobody", b"secret") is False


def test_every_failure_is_worked_out_where_there_is_a_verifier() -> None:
    users = Users([make_user(), make_administrator("bob", "known")])
    assert users.check_nowait("bob", b"known") is True
    for name in ("ada", "bob", "nobody"):
        assert users.check_nowait(name, b"wrong") is None
        assert users.check(name, b"wrong") is False


def test_password_that_was_right_is_remembered_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    users = Users([make_user()])
    now = time.monotonic()
    assert users.check_nowait("ada", b"secret") is None
    assert users.check("ada", b"secret")
    assert users.check_nowait("ada", b"secret") is True
    monkeypatch.setattr(time, "monotonic", lambda: now + 61)
    assert users.check_nowait("ada", b"secret") is None


def test_right_passwords_are_remembered_within_a_bound_until_any_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triomq.security.users._MOST_REMEMBERED", 2)
    users = Users([make_user("a"), make_user("b"), make_user("c")])
    for name in "abc":
        assert users.check(name, b"secret")
    assert [users.check_nowait(name, b"secret") for name in "abc"] == [None, True, True]
    users.remove("a")
    assert users.check_nowait("c", b"secret") is None


@pytest.mark.parametrize(("kind", "name"), [("RABBITMQ-SHA-256", "sha256"), ("RABBITMQ-SHA-512", "sha512")])
def test_rabbitmqs_hashes_log_users_in(kind: str, name: str) -> None:
    text = base64.b64encode(b"salt" + hashlib.new(name, b"saltsecret").digest()).decode()
    users = Users([UserRecord(name="ada", verifiers=(f"{kind}${text}",))], iterations=LEAST_ITERATIONS)
    assert not users.check("ada", b"wrong")
    assert users.check("ada", b"secret")
    assert users.check_nowait("ada", b"secret") is True


def test_expired_user_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    soon = time.time() + 5
    users = Users([make_user(expires=soon), UserRecord(name="bob", password="known", expires=soon)])
    assert users.check("ada", b"secret")
    monkeypatch.setattr(time, "time", lambda: soon)
    assert users.get("ada") is None
    assert users.check_nowait("ada", b"secret") is False
    assert users.check("ada", b"secret") is False
    assert users.check_nowait("bob", b"known") is False
    assert users.names == ["ada", "bob"]


def test_user_without_verifier_and_password_does_not_log_in_by_password() -> None:
    users = Users([UserRecord(name="ada")], iterations=LEAST_ITERATIONS)
    assert not users.check("ada", b"")
    assert users.get("ada") is not None


# SCRAM's verifiers


def test_known_password_gets_a_verifier_when_one_is_asked_for() -> None:
    users = Users({"ada": "secret"}, iterations=LEAST_ITERATIONS)
    assert users.verifier_nowait("ada", "SCRAM-SHA-256") is None
    verifier = users.verifier("ada", "SCRAM-SHA-256")
    assert verifier.matches(b"secret")
    assert users.verifier_nowait("ada", "SCRAM-SHA-256") is verifier
    assert users.verifier("ada", "SCRAM-SHA-256") is verifier
    users.put(make_administrator("bob", "x"))
    assert users.verifier_nowait("ada", "SCRAM-SHA-256") is None


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_unknown_user_has_a_verifier_with_a_salt_that_stays(mechanism: str) -> None:
    first = Users(secret=b"s" * 32).verifier("eve", mechanism)
    again = Users({"ada": "x"}, secret=b"s" * 32).verifier_nowait("eve", mechanism)
    assert isinstance(again, ScramVerifier)
    assert (first.salt, first.iterations) == (again.salt, ITERATIONS)
    assert first.salt != Users(secret=b"s" * 32).verifier("bob", mechanism).salt
    assert first.salt != Users(secret=b"t" * 32).verifier("eve", mechanism).salt
    assert not first.matches(b"")


def test_users_own_verifier_is_given_as_it_is() -> None:
    users = Users([make_user()])
    assert str(users.verifier_nowait("ada", "SCRAM-SHA-256")) == VERIFIERS
    other = users.verifier_nowait("ada", "SCRAM-SHA-512")
    assert isinstance(other, ScramVerifier)
    assert not other.matches(b"secret")


# Changes


def test_changes_tell_whose_sessions_end() -> None:
    users = Users(
        [make_user("a"), make_user("b"), make_user("c"), make_user("d", permissions={"*": ALL}), make_user("e")]
    )
    changes = users.replace(
        [
            UserRecord(name="b", password="new"),
            make_user("c", permissions={"default": Permission(".*", "", "")}),
            make_user("d", permissions={"*": Permission(".*", ".*", "")}),
            make_user("e"),
            make_user("f"),
        ]
    )
    assert changes.added == ("f",)
    assert changes.changed == ("b",)
    assert changes.removed == ("a",)
    assert changes.regulated == ("c", "d")
    assert changes.ended == ("a", "b", "d")


@pytest.mark.parametrize(
    ("before", "after", "ends"),
    [
        ({"default": ALL}, {"default": ALL}, False),
        ({"default": ALL}, {}, True),
        ({"default": ALL}, {"*": ALL}, False),
        ({"*": ALL}, {"default": ALL}, True),
        ({}, {"default": ALL}, False),
        ({"*": ALL}, {"*": ALL, "other": Permission()}, True),
        ({"default": Permission("a", "b", "c")}, {"default": Permission("a", ".*", "c")}, False),
        ({"default": Permission("a", "b", "")}, {"default": Permission("a", "b", "c")}, False),
        ({"default": Permission("a", "b", "c")}, {"default": Permission("a|x", "b", "c")}, True),
    ],
)
def test_user_with_fewer_permissions_is_among_those_that_end(
    before: dict[str, Permission], after: dict[str, Permission], ends: bool
) -> None:
    users = Users([make_user(permissions=before)])
    assert users.put(make_user(permissions=after)).ended == (("ada",) if ends else ())


def test_tag_less_is_less() -> None:
    users = Users([make_user(tags=("administrator", "x"))])
    assert users.put(make_user(tags=("x",))).ended == ("ada",)
    assert users.put(make_user(tags=("x", "monitoring"))).ended == ()


def test_access_changes_with_its_user() -> None:
    users = Users([make_user(permissions={"default": Permission("", "out", "in")})])
    access = users.access("ada", "default")
    assert access is users.access("ada", "default")
    assert (access.may_enter, access.may_write("out"), access.may_read("out")) == (True, True, False)
    assert not users.access("ada", "other").may_enter
    users.put(make_user(permissions={"default": ALL}))
    assert access.may_read("out")
    users.remove("ada")
    assert (access.may_enter, access.may_read("out")) == (False, False)
    users.put(make_user(permissions={"default": ALL}))
    assert not access.may_enter  # that of a user who is gone; the new one has another
    assert users.access("ada", "default").may_enter


def test_key_leads_to_its_owner_as_long_as_that_is_a_user() -> None:
    users = Users([UserRecord(name="ada", curve_key="key"), UserRecord(name="bob", password="secret")])
    assert (users.owner_of("key"), users.owner_of("other"), users.owner_of("")) == ("ada", None, None)
    changes = users.put(UserRecord(name="ada", curve_key="another"))
    assert (users.owner_of("key"), users.owner_of("another")) == (None, "ada")
    assert changes.ended == ("ada",)
    users.put(UserRecord(name="ada", curve_key="another", expires=time.time() - 1))
    assert users.owner_of("another") is None
