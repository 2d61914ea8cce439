import pytest

from triomq.core.dispatch import Dispatch, RoundRobin
from triomq.core.no_local import NoLocal
from triomq.core.single_active import SingleActive
from triomq.core.strategies import suitable_dispatch

from .dealing import HEADS, Player, Table, deal, player


def nothing() -> None:
    raise AssertionError


def choose(current: Dispatch | None, feed: Player, *others: Player, single_active: bool = False) -> Dispatch:
    return suitable_dispatch(current, feed, others, discard=nothing, single_active=single_active)


def test_feeds_without_wishes_are_served_in_turn() -> None:
    strategy = choose(None, player())
    assert isinstance(strategy, RoundRobin)
    assert choose(strategy, player()) is strategy


@pytest.mark.parametrize("wish", [{"priority": 1}, {"priority": -1}, {"weight": 3}, {"no_local": 1}])
def test_the_first_feed_with_a_wish_brings_another_strategy_that_stays(wish: dict[str, int]) -> None:
    particular = player(**wish)  # type: ignore[arg-type]
    strategy = choose(None, particular)
    assert isinstance(strategy, NoLocal)
    assert choose(strategy, player()) is strategy
    assert choose(strategy, particular) is strategy
    assert isinstance(choose(RoundRobin(), particular), NoLocal)


def test_a_queue_with_a_single_active_feed_has_one_strategy_for_all() -> None:
    strategy = choose(None, player(), single_active=True)
    assert isinstance(strategy, SingleActive)
    assert choose(strategy, player(priority=1), single_active=True) is strategy


def test_who_had_a_seat_has_one_afterwards_and_who_had_none_has_none() -> None:
    t = Table(lambda discard: RoundRobin())
    free, full, urgent = player(), player(1), player(2, priority=1)
    t.open(free, full)
    assert deal(t, 2) == [free, full]
    t.strategy = suitable_dispatch(t.strategy, urgent, t.feeds, discard=t.discard)
    assert (free.seated, full.seated) == (True, False)
    t.open(urgent)
    assert deal(t, 3) == [urgent, urgent, free]
    t.settle(next(batch for batch in t.out if batch.feed is full))
    assert set(deal(t, 2)) == {full, free}


def test_a_feed_that_was_full_at_the_change_still_counts_as_one_that_wants_all() -> None:
    t = Table(lambda discard: RoundRobin())
    full, choosy = player(1), player(no_local=1)
    t.open(full)
    deal(t, 1)
    t.strategy = suitable_dispatch(t.strategy, choosy, t.feeds, discard=t.discard)
    t.open(choosy)
    assert deal(t, 1, HEADS[1]) == []
    assert t.discarded == []
