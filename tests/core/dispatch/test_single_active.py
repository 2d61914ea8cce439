from hypothesis import given
from hypothesis import strategies as st

from core.dispatching import DispatchHarness, HarnessFeed, deal, do_something, make_feed
from triomq.core import Feed
from triomq.core.dispatch.dispatch import RoundRobin
from triomq.core.dispatch.single_active import SingleActive


def harness(*feeds: HarnessFeed) -> DispatchHarness:
    made = DispatchHarness(lambda discard: SingleActive(RoundRobin()))
    made.open(*feeds)
    return made


def active(t: DispatchHarness) -> Feed | None:
    assert isinstance(t.strategy, SingleActive)
    return t.strategy.active


def test_first_gets_everything() -> None:
    first, second = make_feed(), make_feed()
    t = harness(first, second)
    assert active(t) is first
    assert deal(t, 3) == [first] * 3


def test_while_the_active_one_is_blocked_nobody_gets_anything() -> None:
    first, second = make_feed(1), make_feed()
    t = harness(first, second)
    assert deal(t, 3) == [first]
    t.settle(t.out[0])
    assert [feed for _, feed in t.turn()] == [first]


def test_next_is_active_when_the_last_message_of_the_former_is_settled() -> None:
    first, second = make_feed(), make_feed()
    t = harness(first, second)
    deal(t, 2)
    t.close(first)
    assert active(t) is None
    assert deal(t, 1) == []
    [batch] = t.out
    t.settle(batch, [0])
    assert active(t) is None
    t.settle(batch)
    assert active(t) is second
    assert [feed for _, feed in t.turn()] == [second]


def test_returned_messages_go_to_the_next_feed_first() -> None:
    first, second = make_feed(), make_feed()
    t = harness(first, second)
    deal(t, 2)
    t.publish(1)
    t.close(first)
    t.settle(t.out[0], requeue=True)
    assert t.turn() == [(1, second), (2, second), (3, second)]


def test_feed_that_does_not_settle_is_followed_at_once() -> None:
    first, second = make_feed(), make_feed()
    first.settles = False
    first.limits = (first.socket_window,)
    t = harness(first, second)
    deal(t, 2)
    t.close(first)
    assert active(t) is second


def test_next_is_the_one_with_the_highest_priority_and_among_them_the_oldest() -> None:
    first, low, high, late = make_feed(), make_feed(), make_feed(priority=1), make_feed(priority=1)
    t = harness(first, low, high, late)
    assert active(t) is first
    t.close(first)
    assert active(t) is high


def test_feed_that_is_opened_later_does_not_replace_the_active_one() -> None:
    first, high = make_feed(), make_feed(priority=9)
    t = harness(first)
    deal(t, 1)
    t.close(first)
    t.open(second := make_feed())
    t.settle(t.out[0])
    t.open(high)
    assert active(t) is second


def test_feed_that_stands_by_may_be_closed() -> None:
    first, second, third = make_feed(), make_feed(), make_feed()
    t = harness(first, second, third)
    t.close(second)
    t.close(first)
    assert active(t) is third
    t.close(third)
    assert active(t) is None
    assert deal(t, 1) == []


@given(st.data())
def test_only_one_feed_ever_has_messages_out(data: st.DataObject) -> None:
    t = harness()
    order: list[Feed] = []
    expected: Feed | None = None
    for _ in range(data.draw(st.integers(1, 20))):
        before = expected
        dealt = do_something(t, data, st.builds(make_feed, st.integers(0, 2), priority=st.integers(0, 1)))
        order = [feed for feed in order if feed in t.feeds] + [feed for feed in t.feeds if feed not in order]
        if expected not in t.feeds and not any(batch.feed is not active(t) for batch in t.out):
            expected = max(order, key=lambda feed: feed.priority) if order else None
        assert active(t) is (expected if expected in t.feeds else None)
        assert {feed for _, feed in dealt} <= {expected}
        assert len({batch.feed for batch in t.out}) <= 1
        if before is not None and before in t.feeds:
            assert expected is before
        if t.backlog.ready and expected in t.feeds:
            assert expected is not None
            assert expected.is_full()
