"""One user's record."""

import time

import pytest

from triomq.security import ALL, UserRecord, make_administrator, make_verifier
from triomq.security.verifiers import LEAST_ITERATIONS


def test_record_shows_no_secret() -> None:
    verifier = str(make_verifier(b"hunter2", iterations=LEAST_ITERATIONS))
    user = UserRecord(name="ada", password="hunter2", verifiers=(verifier,), permissions={"default": ALL})
    assert "ada" in repr(user)
    assert "hunter2" not in repr(user)
    assert verifier.rpartition("$")[2] not in repr(user)


def test_verifier_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="found no verifier"):
        UserRecord(name="ada", verifiers=("secret",))


def test_administrator_may_everything() -> None:
    user = make_administrator("ada", "secret")
    assert user.permissions == {"*": ALL}
    assert user.may_monitor


def test_monitoring_needs_a_tag() -> None:
    assert UserRecord(name="ada", tags=("monitoring",)).may_monitor
    assert not UserRecord(name="ada", tags=("management",)).may_monitor


def test_expiry_is_by_the_wall_clock() -> None:
    assert not UserRecord(name="ada").has_expired()
    assert not UserRecord(name="ada", expires=time.time() + 60).has_expired()
    assert UserRecord(name="ada", expires=time.time() - 1).has_expired()


def test_proofs_are_compared_without_the_rest() -> None:
    assert UserRecord(name="ada", password="x", tags=("a",)).proves_alike(UserRecord(name="ada", password="x"))
    assert not UserRecord(name="ada", password="x").proves_alike(UserRecord(name="ada", password="y"))
