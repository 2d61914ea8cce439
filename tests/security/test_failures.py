"""Failed log-ins: who fails too often is not heard for a while, and nobody else is."""

import pytest

from triomq.security import FailedLogins

HERE, THERE = "10.0.0.1:1234", "10.0.0.2:99"


def fail(failed: FailedLogins, times: int, peer: str = HERE, user: str = "ada", now: float = 0.0) -> list[str]:
    """Fail so often; give what was said."""
    return [said for _ in range(times) if (said := failed.count(peer, user, now))]


def test_an_address_may_fail_twenty_times_and_then_once_a_second() -> None:
    failed = FailedLogins()
    assert failed.may_try(HERE, None, 0.0)
    assert fail(failed, 19, user="") == []
    assert failed.may_try(HERE, "ada", 0.0)
    assert fail(failed, 1, user="") == ["address 10.0.0.1"]
    assert not failed.may_try(HERE, None, 0.5)
    assert failed.may_try(HERE, None, 1.0)
    assert fail(failed, 1, user="", now=1.0) == []
    assert not failed.may_try(HERE, None, 1.5)
    assert failed.may_try(HERE, "ada", 100.0)


def test_another_port_is_the_same_address_and_another_address_is_not() -> None:
    failed = FailedLogins()
    fail(failed, 20, user="")
    assert not failed.may_try("10.0.0.1:77", None, 0.0)
    assert failed.may_try(THERE, None, 0.0)


@pytest.mark.parametrize(
    ("peer", "other", "same"),
    [
        ("[2001:db8::1]:5", "[2001:db8::ffff:1]:6", True),
        ("[2001:db8::1]:5", "[2001:db8:0:1::1]:5", False),
        ("[::ffff:10.0.0.1]:5", "10.0.0.1:6", True),
        ("local", "local", True),
        ("local", "memory", False),
    ],
)
def test_what_counts_as_one_address(peer: str, other: str, same: bool) -> None:
    failed = FailedLogins()
    fail(failed, 20, peer, "")
    assert failed.may_try(other, None, 0.0) is not same


def test_a_user_that_many_addresses_guess_at_is_shut_to_those_alone() -> None:
    failed = FailedLogins()
    said = [fail(failed, 1, f"10.0.1.{number}:1") for number in range(20)]
    assert said[-1] == ["user ada"]
    assert not failed.may_try("10.0.1.7:1", "ada", 0.0)
    assert failed.may_try("10.0.1.7:1", "bob", 0.0)
    assert failed.may_try(THERE, "ada", 0.0)
    assert failed.may_try("10.0.1.7:1", "ada", 6.0)


def test_it_is_said_once_until_all_is_forgotten() -> None:
    failed = FailedLogins()
    assert len(fail(failed, 60, user="")) == 1
    for second in range(1, 10):
        assert fail(failed, 2, user="", now=float(second)) == []
    assert len(fail(failed, 20, user="", now=1000.0)) == 1


def test_what_is_kept_has_a_bound() -> None:
    failed = FailedLogins()
    for number in range(12_000):
        failed.count(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}:1", f"user{number}", 0.0)
    assert len(failed._addresses) == len(failed._users) == 10_000
