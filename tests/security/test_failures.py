"""Failed logins: too many are refused for a while, and no others."""

import pytest

from triomq.security import FailedLogins

HERE, THERE = "10.0.0.1:1234", "10.0.0.2:99"


def fail(failed: FailedLogins, times: int, peer: str = HERE, user: str = "ada", now: float = 0.0) -> list[str]:
    """Fail so often; return what was reported."""
    return [reported for _ in range(times) if (reported := failed.count(peer, user, now))]


def test_address_may_fail_twenty_times_and_then_once_a_second() -> None:
    failed = FailedLogins()
    assert failed.may_try(HERE, "", 0.0)
    assert fail(failed, 19, user="") == []
    assert failed.may_try(HERE, "ada", 0.0)
    assert fail(failed, 1, user="") == ["address 10.0.0.1"]
    assert not failed.may_try(HERE, "", 0.5)
    assert failed.may_try(HERE, "", 1.0)
    assert fail(failed, 1, user="", now=1.0) == []
    assert not failed.may_try(HERE, "", 1.5)
    assert failed.may_try(HERE, "ada", 100.0)


def test_another_port_is_the_same_address_and_another_address_is_not() -> None:
    failed = FailedLogins()
    fail(failed, 20, user="")
    assert not failed.may_try("10.0.0.1:77", "", 0.0)
    assert failed.may_try(THERE, "", 0.0)


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
def test_network_of_ipv6_counts_as_one_address(peer: str, other: str, same: bool) -> None:
    failed = FailedLogins()
    fail(failed, 20, peer, "")
    assert failed.may_try(other, "", 0.0) is not same


def test_user_that_many_addresses_guess_at_is_shut_to_those_alone() -> None:
    failed = FailedLogins()
    reported = [fail(failed, 1, f"10.0.1.{number}:1") for number in range(20)]
    assert reported[-1] == ["user ada"]
    assert not failed.may_try("10.0.1.7:1", "ada", 0.0)
    assert failed.may_try("10.0.1.7:1", "bob", 0.0)
    assert failed.may_try(THERE, "ada", 0.0)
    assert failed.may_try("10.0.1.7:1", "ada", 6.0)


def test_limit_is_reported_once_until_the_bucket_is_full_again() -> None:
    failed = FailedLogins()
    assert len(fail(failed, 60, user="")) == 1
    for second in range(1, 10):
        assert fail(failed, 2, user="", now=float(second)) == []
    assert len(fail(failed, 20, user="", now=1000.0)) == 1


def test_familiar_user_may_log_in_whatever_other_users_of_its_address_do() -> None:
    failed = FailedLogins()
    failed.succeeded(HERE, "bob", 0.0)
    fail(failed, 30, user="ada")
    assert not failed.may_try(HERE, "ada", 0.0)
    assert not failed.may_try(HERE, "eve", 0.0)
    assert failed.may_try(HERE, "bob", 0.0)
    assert failed.may_try(HERE, "bob", 23 * 3600.0)
    fail(failed, 30, user="ada", now=25 * 3600.0)
    assert not failed.may_try(HERE, "bob", 25 * 3600.0)


def test_attack_on_a_name_limits_it_at_that_address_alone_and_no_other_name_there() -> None:
    failed = FailedLogins()
    for peer, user in ((HERE, "bob"), (THERE, "bob"), (HERE, "ada")):
        failed.succeeded(peer, user, 0.0)
    assert fail(failed, 20, user="bob") == ["user bob at address 10.0.0.1"]
    assert not failed.may_try(HERE, "bob", 0.0)
    assert failed.may_try(HERE, "ada", 0.0)
    assert failed.may_try(HERE, "eve", 0.0)
    assert failed.may_try(THERE, "bob", 0.0)


def test_login_forgives_no_failures_since_they_may_be_an_attackers() -> None:
    failed = FailedLogins()
    failed.succeeded(HERE, "bob", 0.0)
    fail(failed, 19, user="bob")
    failed.succeeded(HERE, "bob", 0.0)
    fail(failed, 1, user="bob")
    assert not failed.may_try(HERE, "bob", 0.0)


def test_refusals_are_worth_a_line_once_a_minute_that_tells_how_many_there_were() -> None:
    failed = FailedLogins()
    assert failed.refuse(HERE, "ada", 0.0) == 0
    lines = []
    for second in range(130):
        fail(failed, 20, user="", now=float(second))
        lines += [reported for _ in range(2) if (reported := failed.refuse(HERE, "ada", float(second)))]
    assert lines == [1, 120, 120]


def test_buckets_are_bounded() -> None:
    failed = FailedLogins()
    for number in range(12_000):
        peer = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}:1"
        failed.count(peer, f"user{number}", 0.0)
        failed.succeeded(peer, f"user{number}", 0.0)
    assert len(failed._addresses) == len(failed._users) == len(failed._familiar) == 10_000


def test_time_to_wait_does_not_tell_who_is_a_user() -> None:
    """Of two names one has logged in from here; whichever is tried, the answers to it and to others are the same."""
    found = []
    for tried in ("ada", "nobody"):
        failed = FailedLogins()
        failed.succeeded(HERE, "ada", 0.0)
        answers = []
        for _ in range(25):
            if failed.may_try(HERE, tried, 1.0):
                failed.count(HERE, tried, 1.0)
            else:
                failed.refuse(HERE, tried, 1.0)
            answers += [failed.wait(HERE, name, 1.0) > 0 for name in (tried, "zed")]
        found.append(answers)
    assert found[0] == found[1]
    assert found[0][-1]
