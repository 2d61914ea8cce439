from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import trio
from hypothesis import given
from hypothesis import strategies as st

from core.harness import HEAD, Harness, open_harness
from triomq.core import Batch, Feed, Window
from triomq.core.backlog import MemoryBacklog
from triomq.core.dispatch.dispatch import BATCH_BYTES, RoundRobin


def filled(*sizes: int) -> MemoryBacklog:
    backlog = MemoryBacklog()
    backlog.push(HEAD, [bytes(size) for size in sizes], sum(sizes))
    return backlog


def make_feed(
    harness: Harness,
    window: Window | None = None,
    *,
    shared: tuple[Window, ...] = (),
    gate: Window | None = None,
    settles: bool = True,
    socket_window: Window | None = None,
) -> Feed:
    """A feed that no queue has; the strategy needs no queue."""
    consumer, queue = harness.consumer(), harness.queue("none")
    return Feed(
        queue.ref, consumer.ref, window=window, shared=shared, gate=gate, settles=settles, socket_window=socket_window
    )


@asynccontextmanager
async def open_round(*feeds: dict[str, object]) -> AsyncIterator[tuple[RoundRobin, list[Feed]]]:
    async with open_harness() as harness:
        made = [make_feed(harness, **arguments) for arguments in feeds]  # type: ignore[arg-type]
        strategy = RoundRobin()
        for feed in made:
            strategy.add(feed)
        yield strategy, made


def counts(batches: Sequence[Batch], feeds: Sequence[Feed]) -> list[int]:
    return [sum(batch.left for batch in batches if batch.feed is feed) for feed in feeds]


def ids(batches: Sequence[Batch], feed: Feed) -> list[int]:
    return [number for batch in batches if batch.feed is feed for number in batch.ids]


async def test_only_feed_gets_all_in_one_batch() -> None:
    async with open_round({}) as (strategy, [feed]):
        [batch] = strategy.dispatch(filled(*[1] * 500))
        assert (batch.feed, batch.left) == (feed, 500)


async def test_batch_is_no_larger_than_one_write() -> None:
    async with open_round({}) as (strategy, _):
        batches = strategy.dispatch(filled(*[50 * 1024] * 5))
        assert [batch.left for batch in batches] == [2, 2, 1]
        assert all(batch.size <= BATCH_BYTES for batch in batches)


async def test_message_larger_than_one_write_goes_alone() -> None:
    async with open_round({}) as (strategy, _):
        assert [batch.left for batch in strategy.dispatch(filled(1, BATCH_BYTES + 1, 1))] == [1, 1, 1]


@given(
    feeds=st.integers(1, 70),
    messages=st.lists(st.integers(1, 200), min_size=1, max_size=5),
)
def test_feeds_with_room_get_equal_shares_and_go_on_where_they_stopped(feeds: int, messages: list[int]) -> None:
    async def check() -> None:
        async with open_round(*[{} for _ in range(feeds)]) as (strategy, made):
            total = [0] * feeds
            for count in messages:
                batches = strategy.dispatch(filled(*[1] * count))
                total = [before + now for before, now in zip(total, counts(batches, made), strict=True)]
                assert max(total) - min(total) <= 1
            assert sum(total) == sum(messages)

    trio.run(check)


async def test_messages_dealt_together_are_measured_by_the_largest() -> None:
    windows = [Window(bytes=10), Window(bytes=10)]
    for window in windows:
        window.take(1, 5)
    first, second = windows
    async with open_round({"window": first}, {"window": second}) as (strategy, _):
        strategy.dispatch(filled(1, 9))
        assert [window.used_bytes for window in windows] == [6, 5]


async def test_feed_blocked_by_a_shared_window_or_a_gate_waits_in_its_line() -> None:
    channel, gate = Window(1), Window()
    gate.hold()
    async with open_round({"shared": (channel,)}, {"gate": gate}) as (strategy, feeds):
        assert counts(strategy.dispatch(filled(1, 1)), feeds) == [1, 0]
        assert (channel.waiting, gate.waiting) == (1, 1)
        assert not any(feed.listed for feed in feeds)


async def test_feed_that_is_full_stands_in_no_line() -> None:
    own = Window(1)
    async with open_round({"window": own}) as (strategy, [feed]):
        strategy.dispatch(filled(1, 1))
        assert (own.waiting, feed.listed) == (0, False)


async def test_feed_that_does_not_settle_is_held_back_by_the_outlet_alone() -> None:
    socket_window = Window(bytes=5)
    async with open_round({"window": Window(1), "settles": False, "socket_window": socket_window}) as (
        strategy,
        [feed],
    ):
        assert counts(strategy.dispatch(filled(*[1] * 9)), [feed]) == [5]
        assert (socket_window.used_bytes, feed.window.used) == (5, 0)


async def test_dispatch_of_one_message_looks_at_one_of_many_feeds() -> None:
    async with open_round(*[{} for _ in range(100)]) as (strategy, feeds):
        for turn in range(3):
            assert counts(strategy.dispatch(filled(1)), feeds) == [int(number == turn) for number in range(100)]
