import pytest

from core.dispatching import HEADS, DispatchHarness, HarnessFeed, deal, make_feed
from core.harness import Consumer, Harness, publish
from triomq.core import Feed, Head, OpenFeed, QueueOptions, QueueState, traits_of
from triomq.core.dispatch.dispatch import Dispatch, RoundRobin
from triomq.core.dispatch.no_local import NoLocal
from triomq.core.dispatch.single_active import SingleActive
from triomq.core.dispatch.strategies import suitable_dispatch


def nothing() -> None:
    raise AssertionError


def choose(current: Dispatch | None, feed: HarnessFeed, *others: HarnessFeed, single_active: bool = False) -> Dispatch:
    return suitable_dispatch(current, feed, others, discard=nothing, single_active=single_active)


def test_feeds_without_wishes_are_served_in_turn() -> None:
    strategy = choose(None, make_feed())
    assert isinstance(strategy, RoundRobin)
    assert choose(strategy, make_feed()) is strategy


@pytest.mark.parametrize("wish", [{"priority": 1}, {"priority": -1}, {"weight": 3}, {"no_local": 1}])
def test_first_feed_with_a_wish_brings_another_strategy_that_stays(wish: dict[str, int]) -> None:
    particular = make_feed(**wish)  # type: ignore[arg-type]
    strategy = choose(None, particular)
    assert isinstance(strategy, NoLocal)
    assert choose(strategy, make_feed()) is strategy
    assert choose(strategy, particular) is strategy
    assert isinstance(choose(RoundRobin(), particular), NoLocal)


def test_queue_with_a_single_active_feed_has_one_strategy_for_all() -> None:
    strategy = choose(None, make_feed(), single_active=True)
    assert isinstance(strategy, SingleActive)
    assert choose(strategy, make_feed(priority=1), single_active=True) is strategy


def test_feed_stays_in_the_ready_list_or_out_of_it_when_the_strategy_changes() -> None:
    t = DispatchHarness(lambda discard: RoundRobin())
    free, full, urgent = make_feed(), make_feed(1), make_feed(2, priority=1)
    t.open(free, full)
    assert deal(t, 2) == [free, full]
    t.strategy = suitable_dispatch(t.strategy, urgent, t.feeds, discard=t.discard)
    assert (free.listed, full.listed) == (True, False)
    t.open(urgent)
    assert deal(t, 3) == [urgent, urgent, free]
    t.settle(next(batch for batch in t.out if batch.feed is full))
    assert set(deal(t, 2)) == {full, free}


def test_feed_that_was_full_at_the_change_still_counts_as_one_that_wants_all() -> None:
    t = DispatchHarness(lambda discard: RoundRobin())
    full, choosy = make_feed(1), make_feed(no_local=1)
    t.open(full)
    deal(t, 1)
    t.strategy = suitable_dispatch(t.strategy, choosy, t.feeds, discard=t.discard)
    t.open(choosy)
    assert deal(t, 1, HEADS[1]) == []
    assert t.discarded == []


def open_feed(harness: Harness, queue: QueueState, *, priority: int = 0, no_local: int = 0) -> tuple[Feed, Consumer]:
    consumer = harness.consumer()
    feed = Feed(queue.ref, consumer.ref, priority=priority, no_local=no_local)
    queue.ref.ask_nowait(OpenFeed(feed))
    return feed, consumer


async def test_queue_with_priorities_drops_what_no_feed_wants_of_any_level(harness: Harness) -> None:
    queue = harness.queue(options=QueueOptions(max_priority=5))
    _, consumer = open_feed(harness, queue, no_local=harness.session.number)
    publish(queue, b"own", head=Head(traits=traits_of(publisher=harness.session.number)))
    publish(queue, b"other", head=Head(traits=traits_of(publisher=harness.session.number + 1)))
    assert consumer.take() == [b"other"]
    assert (queue.backlog.ready, queue.dropped) == (0, 1)
