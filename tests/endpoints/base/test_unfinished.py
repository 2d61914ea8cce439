"""The account of unfinished messages: who waits, who goes on, and who is closed."""

from collections.abc import Callable

import pytest
import trio
import trio.testing

from triomq.core import MemoryAlarm
from triomq.endpoints.base.unfinished import Unfinished

MIB = 1024 * 1024
KIB = 1024


class Holder:
    """A connection that only notes what it is told."""

    def __init__(self, account: Unfinished) -> None:
        self.account = account
        self.reads = True
        self.is_held_otherwise = False
        self.given_up = ""
        self.ended = trio.Event()

    def wait_for_room(self) -> None:
        self.reads = False

    def go_on_with_room(self) -> None:
        self.reads = True

    def give_up_message(self, reason: str) -> None:
        self.given_up = reason
        self.ended.set()
        self.account.forget(self)

    def has(self, octets: int) -> None:
        self.account.note(self, octets)


@pytest.fixture
def account() -> Unfinished:
    """Room for two MiB."""
    return Unfinished(MemoryAlarm(16 * MIB))


@pytest.fixture
def holders(account: Unfinished) -> Callable[[int], list[Holder]]:
    return lambda count: [Holder(account) for _ in range(count)]


Holders = Callable[[int], list[Holder]]


async def test_connections_go_on_while_there_is_room(holders: Holders, account: Unfinished) -> None:
    for holder in holders(4):
        holder.has(512 * KIB)
        assert holder.reads
    assert account.held == account.room == 2 * MIB


async def test_above_the_room_only_the_oldest_goes_on(holders: Holders) -> None:
    first, second, third = holders(3)
    first.has(100 * KIB)
    second.has(1 * MIB)
    third.has(1 * MIB)
    second.has(1 * MIB + 1)
    assert [holder.reads for holder in (first, second, third)] == [True, False, False]
    first.has(4 * MIB)
    assert first.reads


async def test_log_has_a_line_once_a_minute(
    holders: Holders, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = holders(2)
    for _ in range(4):
        first.has(3 * MIB)
        second.has(MIB)
        first.has(0)
        second.has(0)
        await trio.sleep(31)
    said = [record.message for record in caplog.records]
    assert said == ["connections wait for room for unfinished messages"] * 2


async def test_the_next_goes_on_when_the_oldest_is_whole(holders: Holders) -> None:
    first, second, third = holders(3)
    first.has(3 * MIB)
    second.has(2 * MIB)
    third.has(2 * MIB)
    first.has(100)
    assert [holder.reads for holder in (first, second, third)] == [True, True, False]


async def test_message_that_follows_another_is_younger_than_all_that_wait(holders: Holders) -> None:
    first, second = holders(2)
    first.has(3 * MIB)
    second.has(2 * MIB)
    first.has(1 * MIB)
    assert [first.reads, second.reads] == [False, True]


async def test_all_go_on_when_there_is_room_again(holders: Holders) -> None:
    first, second, third = holders(3)
    first.has(3 * MIB)
    second.has(200 * KIB)
    third.has(200 * KIB)
    assert not second.reads
    assert not third.reads
    first.has(0)
    assert second.reads
    assert third.reads


async def test_as_many_go_on_as_there_is_room_for_one_read_of_each(holders: Holders, account: Unfinished) -> None:
    first, *others = holders(20)
    first.has(3 * MIB)
    for other in others:
        other.has(70 * KIB)
    first.has(0)
    read = [other.reads for other in others]
    assert read == sorted(read, reverse=True)
    assert 1 <= read.count(True) <= 4
    for _ in range(20):
        account.look(0.0)
    assert all(other.reads for other in others)


async def test_connection_that_has_little_never_waits(holders: Holders) -> None:
    first, second, small = holders(3)
    first.has(3 * MIB)
    second.has(1 * MIB)
    for octets in (1, 64 * KIB, 10, 64 * KIB):
        small.has(octets)
        assert small.reads
    small.has(64 * KIB + 1)
    assert not small.reads


async def test_connection_that_waits_and_drops_its_message_goes_on(holders: Holders) -> None:
    first, second = holders(2)
    first.has(3 * MIB)
    second.has(1 * MIB)
    second.has(0)
    assert second.reads


async def test_connection_that_has_ended_waits_no_more_and_counts_no_more(
    holders: Holders, account: Unfinished
) -> None:
    first, second, third = holders(3)
    first.has(3 * MIB)
    second.has(1 * MIB)
    third.has(4 * MIB)
    account.forget(second)
    account.forget(first)
    assert third.reads
    assert account.held == 4 * MIB
    account.forget(third)
    assert account.held == 0


async def test_connection_that_is_not_read_for_another_reason_is_passed_over(
    holders: Holders, account: Unfinished
) -> None:
    """A publisher that waits for the memory alarm cannot go on, and a consumer behind it may be who ends the alarm."""
    publisher, consumer = holders(2)
    publisher.has(3 * MIB)
    consumer.has(1 * MIB)
    publisher.is_held_otherwise = True
    account.look(0.0)
    assert consumer.reads
    publisher.is_held_otherwise = False
    publisher.has(4 * MIB)
    assert not publisher.reads
    consumer.is_held_otherwise = True
    account.look(0.0)
    assert publisher.reads


async def test_the_oldest_is_given_up_after_ten_seconds_of_silence_while_others_wait(
    holders: Holders, account: Unfinished, autojump_clock: trio.testing.MockClock
) -> None:
    first, second = holders(2)
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(account.keep_looking)
        await trio.testing.wait_all_tasks_blocked()
        first.has(3 * MIB)
        second.has(2 * MIB)
        await first.ended.wait()
        assert 10 <= trio.current_time() - began <= 12
        assert second.reads
        second.has(0)
        nursery.cancel_scope.cancel()
    assert first.given_up == (
        "unfinished messages take more than 2097152 octets, and the rest of this one does not come"
    )


async def test_the_oldest_goes_on_as_long_as_it_brings_something_worth_while(
    holders: Holders, account: Unfinished, autojump_clock: trio.testing.MockClock
) -> None:
    first, second = holders(2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(account.keep_looking)
        octets = 3 * MIB
        first.has(octets)
        second.has(2 * MIB)
        for _ in range(10):
            await trio.sleep(9)
            octets += 256 * KIB
            first.has(octets)
        assert not first.given_up
        for _ in range(10):  # an octet now and then is no progress
            await trio.sleep(1.5)
            octets += 1
            first.has(octets) if not first.given_up else None
        assert first.given_up
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("mark", "configured", "largest"),
    [
        (256 * MIB, 128 * MIB, 64 * MIB),
        (1024 * MIB, 128 * MIB, 128 * MIB),
        (1000, 128 * MIB, MIB),
        (1000, 2000, 2000),
        (0, 128 * MIB, 128 * MIB),
    ],
)
def test_the_largest_message_is_never_over_a_quarter_of_the_mark(mark: int, configured: int, largest: int) -> None:
    assert Unfinished(MemoryAlarm(mark)).largest(configured) == largest


async def test_account_without_a_mark_has_room_for_all(holders: Holders) -> None:
    for account in (Unfinished(), Unfinished(MemoryAlarm(0))):
        holder = Holder(account)
        holder.has(1 << 40)
        assert holder.reads
