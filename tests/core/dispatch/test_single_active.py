from core.dispatching import DispatchHarness, HarnessFeed, deal, make_feed
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


def test_feed_that_does_not_settle_is_followed_at_once() -> None:
    first, second = make_feed(), make_feed()
    first.settles = False
    first.limits = (first.socket_window,)
    t = harness(first, second)
    deal(t, 2)
    t.close(first)
    assert active(t) is second
