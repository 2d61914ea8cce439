"""Leases: hard to guess, for one use, for a while, for a session that is there."""

import pytest

from core.harness import Harness
from triomq.core import Lease, LeaseInvalid, Leases, LeaseTarget, Session, TooManyLeases
from triomq.core.topology.lease import MOST_UNUSED


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def sink_of(leases: Leases, session: Session, name: str = "s") -> str:
    return leases.grant(session, LeaseTarget.SINK, name)


async def test_lease_says_what_it_was_given_for(harness: Harness) -> None:
    leases = Leases(Time())
    secret = leases.grant(harness.session, LeaseTarget.FEED, "q", key="mine")
    lease = leases.take(secret)
    assert (lease.session, lease.target, lease.name, lease.key) == (harness.session, LeaseTarget.FEED, "q", "mine")
    assert isinstance(lease, Lease)


async def test_lease_has_128_bits_of_chance(harness: Harness) -> None:
    secrets = {sink_of(Leases(Time()), harness.session) for _ in range(1000)}
    assert len(secrets) == 1000
    assert {len(secret) for secret in secrets} == {22}  # six bits in a character


async def test_lease_serves_once(harness: Harness) -> None:
    leases = Leases(Time())
    secret = sink_of(leases, harness.session)
    leases.take(secret)
    with pytest.raises(LeaseInvalid, match="ask for a new one"):
        leases.take(secret)


@pytest.mark.parametrize("secret", ["", "x", "S-000660C2435F4722-amq.direct"])
async def test_lease_cannot_be_guessed(harness: Harness, secret: str) -> None:
    leases = Leases(Time())
    sink_of(leases, harness.session)
    with pytest.raises(LeaseInvalid):
        leases.take(secret)
    assert len(leases) == 1


async def test_lease_expires(harness: Harness) -> None:
    time = Time()
    leases = Leases(time)
    early, late = sink_of(leases, harness.session), sink_of(leases, harness.session)
    time.now += 29.9
    leases.take(early)
    time.now += 0.1
    with pytest.raises(LeaseInvalid):
        leases.take(late)
    assert len(leases) == 0


async def test_expired_leases_are_removed_when_others_come(harness: Harness) -> None:
    time = Time()
    leases = Leases(time, seconds=1)
    for _ in range(10):
        sink_of(leases, harness.session)
        time.now += 0.6
    assert len(leases) == 2


async def test_unused_lease_lets_its_session_live_until_it_is_used_and_done_with(harness: Harness) -> None:
    leases, session = Leases(Time()), harness.new_session()
    secret = sink_of(leases, session)
    session.detach()
    assert not session.ended
    lease = leases.take(secret)
    assert not session.ended
    leases.done(lease)
    assert session.ended


async def test_unused_leases_let_their_session_live_until_the_last_has_expired(harness: Harness) -> None:
    time = Time()
    leases, session = Leases(time), harness.new_session()
    sink_of(leases, session)
    time.now += 10
    sink_of(leases, session)
    session.detach()
    time.now += 29.9
    leases.expire()
    assert not session.ended
    time.now += 0.1
    leases.expire()
    assert session.ended


async def test_unused_leases_let_their_session_live_until_their_listener_ends(harness: Harness) -> None:
    leases, session = Leases(Time()), harness.new_session()
    sink_of(leases, session)
    session.detach()
    leases.close()
    assert session.ended


async def test_session_has_so_many_unused_leases_and_no_more(harness: Harness) -> None:
    await _fill(harness)


async def _fill(harness: Harness) -> None:
    leases, other = Leases(Time()), harness.new_session()
    secrets = [sink_of(leases, harness.session) for _ in range(MOST_UNUSED)]
    with pytest.raises(TooManyLeases, match="1000 leases are unused"):
        sink_of(leases, harness.session)
    sink_of(leases, other)
    leases.take(secrets[500])
    sink_of(leases, harness.session)
