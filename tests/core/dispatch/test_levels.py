from hypothesis import given
from hypothesis import strategies as st

from core.dispatching import DispatchHarness, HarnessFeed, deal, do_something, make_feed
from triomq.core import Feed, Window
from triomq.core.dispatch.levels import Levels


def harness(*feeds: HarnessFeed) -> DispatchHarness:
    made = DispatchHarness(lambda discard: Levels())
    made.open(*feeds)
    return made


def test_highest_priority_gets_everything() -> None:
    low, high, middle = make_feed(priority=-1), make_feed(priority=2), make_feed(priority=1)
    assert deal(harness(low, high, middle), 5) == [high] * 5


def test_equals_take_turns() -> None:
    low, a, b = make_feed(), make_feed(priority=1), make_feed(priority=1)
    assert deal(harness(low, a, b), 4) == [a, b, a, b]


def test_lower_ones_get_messages_while_all_higher_ones_are_full() -> None:
    low, a, b = make_feed(), make_feed(2, priority=1), make_feed(1, priority=1)
    t = harness(low, a, b)
    assert deal(t, 5) == [a, b, a, low, low]
    t.settle(next(batch for batch in t.out if batch.feed is b))
    assert deal(t, 2) == [b, low]


def test_higher_one_does_not_pass_a_window_s_line() -> None:
    channel = Window(1)
    low, high = make_feed(shared=(channel,)), make_feed(shared=(channel,), priority=1)
    t = harness(low)
    assert deal(t, 2) == [low]
    t.open(high)
    t.settle(t.out[0])
    assert [feed for _, feed in t.turn()] == [low]
    t.settle(t.out[0])
    assert deal(t, 1) == [high]


def test_priority_goes_before_weight() -> None:
    heavy, urgent, both = make_feed(weight=9), make_feed(1, priority=1), make_feed(1, priority=1, weight=1)
    assert deal(harness(heavy, urgent, both), 3) == [both, urgent, heavy]


def test_weights_are_served_as_workers_with_slots_are() -> None:
    a, b, spare = make_feed(2, weight=10), make_feed(1, weight=10), make_feed(5, weight=1)
    t = harness(spare, a, b)
    assert deal(t, 4) == [a, b, a, spare]
    first, second = [batch for batch in t.out if batch.feed in (a, b)][:2]
    t.settle(second)
    t.settle(first)
    assert deal(t, 3) == [b, a, spare]


def test_thousand_idle_levels_are_not_looked_at() -> None:
    feeds = [make_feed(1, priority=number) for number in range(1000)]
    t = harness(*feeds)
    assert deal(t, 1000) == feeds[::-1]
    t.settle(t.out[-1])
    assert t.strategy._order == [(0, 0)]  # type: ignore[attr-defined]
    assert deal(t, 2) == [feeds[0]]
    assert t.strategy._order == []  # type: ignore[attr-defined]


def test_feed_that_is_removed_gets_nothing_and_leaves_no_level() -> None:
    low, high = make_feed(), make_feed(priority=1)
    t = harness(low, high)
    t.close(high)
    assert deal(t, 2) == [low, low]
    t.close(low)
    assert deal(t, 2) == []
    assert t.strategy._levels == {}  # type: ignore[attr-defined]


def test_feed_that_was_full_when_it_was_removed_is_forgotten() -> None:
    only = make_feed(1)
    t = harness(only)
    deal(t, 2)
    t.close(only)
    assert deal(t, 1) == []


def level(feed: Feed) -> tuple[int, int]:
    return feed.priority, feed.weight


@given(st.data())
def test_feed_gets_nothing_while_a_higher_one_has_room(data: st.DataObject) -> None:
    t = harness()
    feeds = st.builds(make_feed, st.integers(0, 3), priority=st.integers(-1, 1), weight=st.integers(0, 1))
    for _ in range(data.draw(st.integers(1, 20))):
        dealt = do_something(t, data, feeds)
        used = {feed: feed.unsettled - sum(1 for _, other in dealt if other is feed) for feed in t.feeds}
        for _, feed in dealt:
            able = [other for other in t.feeds if not other.window.limit or used[other] < other.window.limit]
            assert level(feed) == max(map(level, able))
            used[feed] += 1
        if t.backlog.ready:
            assert all(feed.is_full() for feed in t.feeds)
