"""The account of what clients do not read: who is ended for it, and who never is."""

import pytest
import trio
import trio.testing

from triomq.core import MemoryAlarm
from triomq.endpoints.base.unread import UnreadAccount

MIB = 1024 * 1024


class Reader:
    """A connection that notes what it is told."""

    def __init__(self, account: UnreadAccount, user: str) -> None:
        self.account = account
        self.charged_user = user
        self.reading_progress = 0.0
        self.reason = ""

    def give_up_reader(self, reason: str) -> None:
        self.reason = reason

    def has(self, octets: int) -> "Reader":
        self.account.note(self, octets)
        return self


@pytest.fixture
def account() -> UnreadAccount:
    """Room for 64 MiB, and for 32 of each user."""
    return UnreadAccount(MemoryAlarm(256 * MIB))


def ended(readers: list[Reader]) -> list[bool]:
    return [bool(reader.reason) for reader in readers]


async def test_those_that_are_unread_for_longest_end_when_their_user_has_twice_its_part(
    account: UnreadAccount,
) -> None:
    eve = [Reader(account, "eve").has(10 * MIB) for _ in range(7)]
    assert ended(eve) == [True] + [False] * 6
    assert account.of_user("eve") == account.held == 60 * MIB


async def test_connection_of_another_user_never_ends_for_it(account: UnreadAccount) -> None:
    bob = Reader(account, "bob").has(30 * MIB)
    for _ in range(100):
        Reader(account, "eve").has(10 * MIB)
    assert not bob.reason
    assert account.of_user("eve") <= 64 * MIB


async def test_above_its_part_what_is_stuck_for_a_second_ends(
    account: UnreadAccount, autojump_clock: trio.testing.MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(account.keep_looking)
        eve = [Reader(account, "eve").has(10 * MIB) for _ in range(4)]
        assert account.is_full("eve")
        assert not account.is_full("bob")
        assert not any(ended(eve))
        eve[0].reading_progress += 1  # it reads, slowly
        await trio.sleep(1.4)
        assert ended(eve) == [False, True, False, False]
        assert not account.is_full("eve")
        nursery.cancel_scope.cancel()


async def test_only_connection_of_a_user_never_ends(account: UnreadAccount) -> None:
    only = Reader(account, "eve").has(100 * MIB)
    assert not only.reason
    account.forget(only)
    assert account.held == 0


async def test_when_all_have_too_much_it_is_taken_from_the_user_that_has_most(
    account: UnreadAccount, autojump_clock: trio.testing.MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(account.keep_looking)
        most = [Reader(account, "eve").has(15 * MIB) for _ in range(2)]
        others = [Reader(account, f"user {number}").has(10 * MIB) for number in range(4)]
        await trio.sleep(2)
        assert ended(most) == [True, False]
        assert not any(ended(others))
        nursery.cancel_scope.cancel()


async def test_without_a_mark_there_is_room_for_all() -> None:
    account = UnreadAccount(MemoryAlarm())
    assert not any(ended([Reader(account, "eve").has(100 * MIB) for _ in range(20)]))
