"""Passwords that come with each request: checked as log-ins are, slow ones in threads, guesses counted."""

from collections.abc import AsyncIterator

import pytest
import trio

from triomq.app import Broker, User, open_broker
from triomq.endpoints import check_password
from triomq.endpoints.base.login import work_out
from triomq.security import Accepted, Denied, Pending, make_verifier


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    verifier = make_verifier(b"secret", iterations=4096)
    async with open_broker(users={"ada": User(password="secret"), "slow": User(verifiers=(str(verifier),))}) as broker:
        yield broker


@pytest.mark.parametrize(
    ("name", "password", "right"),
    [
        ("ada", b"secret", True),
        ("ada", b"guess", False),
        ("slow", b"secret", True),
        ("slow", b"guess", False),
        ("nobody", b"secret", False),
        ("ada", b"", False),
    ],
)
async def test_password_is_right_or_wrong(broker: Broker, name: str, password: bytes, right: bool) -> None:
    assert await check_password(broker.context, "192.0.2.1:1000", name, password) is right


async def test_address_that_guesses_is_not_judged_any_more(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(100):
        assert not await check_password(broker.context, "192.0.2.1:1000", "ada", b"guess %d" % number)
    assert not await check_password(broker.context, "192.0.2.1:1000", "ada", b"secret")
    assert "too many failed logins" in caplog.text
    assert await check_password(broker.context, "192.0.2.2:1000", "slow", b"secret")


async def test_result_about_users_that_have_changed_is_worked_out_again(broker: Broker) -> None:
    found = []

    def work() -> Accepted:
        if not found:
            trio.from_thread.run_sync(broker.put_user, "eve", User(password="eve"))
        found.append(1)
        return Accepted("ada")

    assert await work_out(broker.context, Pending("ada", work)) == Accepted("ada")
    assert len(found) == 2


async def test_result_that_is_not_wanted_any_more_is_not_worked_out(broker: Broker) -> None:
    def work() -> Accepted:
        raise AssertionError("it is not wanted")

    assert await work_out(broker.context, Pending("ada", work), lambda: False) == Denied("")


async def test_guesses_that_wait_for_their_turn_are_not_worked_out_once_enough_have_failed(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    guesses = []
    check = broker.context.users.check
    monkeypatch.setattr(
        broker.context.users, "check", lambda name, password: guesses.append(password) or check(name, password)
    )
    async with trio.open_nursery() as nursery:
        for number in range(200):
            nursery.start_soon(check_password, broker.context, "192.0.2.3:1000", "slow", b"guess %d" % number)
    assert 20 <= len(guesses) < 60
