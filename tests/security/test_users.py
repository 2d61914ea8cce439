"""Who may log in."""

from triomq.security import Users


def test_a_user_logs_in_with_its_own_password_alone() -> None:
    users = Users({"ada": "secret", "bob": "other"})
    assert users.check("ada", b"secret")
    assert not users.check("ada", b"other")
    assert not users.check("ada", b"")
    assert users.check("bob", b"other")


def test_who_is_not_known_does_not_log_in() -> None:
    users = Users()
    assert not users.check("nobody", b"nobody")
    assert not users.check("", b"")


def test_a_user_may_be_added_and_have_another_password() -> None:
    users = Users()
    users.add("ada", "first")
    users.add("ada", "second")
    assert not users.check("ada", b"first")
    assert users.check("ada", b"second")


def test_a_password_may_be_empty_or_in_any_script() -> None:
    users = Users({"a": "", "b": "pässwörd"})
    assert users.check("a", b"")
    assert users.check("b", "pässwörd".encode())


def test_the_same_password_of_two_users_is_kept_differently() -> None:
    users = Users({"a": "same", "b": "same"})
    first, second = users._verifiers.values()
    assert first.salt != second.salt
    assert first.hashed != second.hashed


def test_a_password_is_not_kept() -> None:
    users = Users({"a": "unlikely secret"})
    assert "unlikely" not in repr(users._verifiers)


def test_all_users_may_be_given_anew_and_the_changes_are_told() -> None:
    users = Users({"ada": "secret", "bob": "other", "eve": "same"})
    changes = users.replace({"eve": "same", "bob": "new", "cleo": "first"})
    assert (changes.added, changes.changed, changes.removed) == (("cleo",), ("bob",), ("ada",))
    assert users.names == ["bob", "cleo", "eve"]
    assert not users.check("ada", b"secret")
    assert users.check("bob", b"new")
    assert users.check("cleo", b"first")


def test_a_user_who_stays_keeps_the_same_verifier() -> None:
    users = Users({"eve": "same"})
    before = users._verifiers["eve"]
    users.replace({"eve": "same"})
    assert users._verifiers["eve"] is before
