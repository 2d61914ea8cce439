"""Slots: what a consumer has asked for, and nothing more."""

from core.dispatching import DispatchHarness, HarnessFeed, deal, make_feed
from triomq.core import Slots
from triomq.core.dispatch.levels import Levels


def harness(*feeds: HarnessFeed) -> DispatchHarness:
    made = DispatchHarness(lambda discard: Levels())
    made.open(*feeds)
    return made


def test_consumer_gets_what_it_has_asked_for_and_settling_asks_for_nothing() -> None:
    slots = Slots()
    worker = make_feed(shared=(slots,))
    t = harness(worker)
    assert (deal(t, 1), slots.free) == ([], 0)
    slots.offer(2)
    assert slots.free == 2
    assert [feed for _, feed in t.turn()] == [worker]
    assert (deal(t, 3), slots.free) == ([worker], 0)
    for batch in t.out:
        t.settle(batch)
    assert (t.turn(), slots.free) == ([], 0)
    slots.offer(5)
    assert [feed for _, feed in t.turn()] == [worker, worker]
    assert slots.free == 3


def test_consumer_without_slots_holds_up_no_other_of_its_weight() -> None:
    empty, ready = Slots(), Slots()
    ready.offer(3)
    idle, other = make_feed(shared=(empty,), weight=1), make_feed(shared=(ready,), weight=1)
    assert deal(harness(idle, other), 3) == [other] * 3


def test_heaviest_feed_of_a_consumer_goes_first_and_of_equal_ones_the_one_that_waits_longest() -> None:
    slots = Slots()
    light, heavy, equal = (make_feed(shared=(slots,), weight=weight) for weight in (1, 9, 9))
    slots.offer(1)
    for feed in (light, heavy, equal):
        slots.wait(feed, 1)
    assert slots.waiting == 3
    assert [slots.admits(feed, 1) for feed in (light, heavy, equal)] == [False, True, False]
    slots.leave(heavy)
    assert [slots.admits(feed, 1) for feed in (light, equal)] == [False, True]
