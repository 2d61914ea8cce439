from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from core.dispatching import DispatchHarness, deal, do_something, make_feed
from triomq.core import Feed
from triomq.core.dispatch.levels import LeastRecentlyUsed


def harness() -> DispatchHarness:
    return DispatchHarness(lambda discard: LeastRecentlyUsed(count(1)))


def test_without_blocked_feeds_it_is_round_robin() -> None:
    t, [a, b, c] = harness(), [make_feed(), make_feed(), make_feed()]
    t.open(a, b, c)
    assert deal(t, 4) == [a, b, c, a]
    assert deal(t, 3) == [b, c, a]


def test_feed_that_was_blocked_stands_where_it_would_have_stood() -> None:
    t, [a, b, c] = harness(), [make_feed(1), make_feed(1), make_feed(1)]
    t.open(a, b, c)
    assert deal(t, 3) == [a, b, c]
    for batch in reversed(list(t.out)):
        t.settle(batch)
    assert deal(t, 3) == [a, b, c]


def test_feed_that_never_had_anything_goes_first() -> None:
    t, [a, b, new] = harness(), [make_feed(), make_feed(), make_feed()]
    t.open(a, b)
    assert deal(t, 3) == [a, b, a]
    t.open(new)
    assert deal(t, 3) == [new, b, a]


def test_several_feeds_are_dealt_to_at_once() -> None:
    t, feeds = harness(), [make_feed() for _ in range(4)]
    t.open(*feeds)
    t.publish(64)
    assert len(t.strategy.dispatch(t.backlog)) == 4


@given(st.data())
def test_feed_gets_nothing_before_those_with_room_that_waited_longer(data: st.DataObject) -> None:
    t = harness()
    last: dict[Feed, int] = {}
    used: dict[Feed, int] = {}
    tick = count(1)
    for _ in range(data.draw(st.integers(1, 15))):
        dealt = do_something(t, data, st.builds(make_feed, st.integers(0, 3)))
        for feed in t.feeds:
            used[feed] = feed.unsettled - sum(1 for _, other in dealt if other is feed)
        for _, feed in dealt:
            able = [other for other in t.feeds if not other.window.limit or used[other] < other.window.limit]
            assert last.get(feed, 0) == min(last.get(other, 0) for other in able)
            last[feed] = next(tick)
            used[feed] += 1
        if t.backlog.ready:
            assert all(feed.is_full() for feed in t.feeds)
