"""Which strategy a queue takes."""

from collections.abc import Callable, Iterable

from triomq.core.dispatch.dispatch import Dispatch, RoundRobin
from triomq.core.dispatch.feed import Feed
from triomq.core.dispatch.levels import Levels
from triomq.core.dispatch.no_local import NoLocal
from triomq.core.dispatch.single_active import SingleActive


def suitable_dispatch(
    current: Dispatch | None,
    feed: Feed,
    others: Iterable[Feed],
    *,
    discard: Callable[[], None],
    single_active: bool = False,
) -> Dispatch:
    """Return the strategy for a feed that is about to be added, and the others.

    Round robin until the first feed that has a priority, a weight, or a session whose messages it does not want; from
    then on one that knows them all, which costs more.

    Args:
        current: The strategy so far; None for the first feed.
        feed: The feed that is about to be added.
        others: The feeds that are open already; those in the ready list stay there.
        discard: Takes the first ready message out of the backlog for good; called for what no feed wants.
        single_active: Whether the queue has one active feed at a time.
    """
    if current is None and single_active:
        return SingleActive(NoLocal(RoundRobin(), discard))
    if current is None and not _is_particular(feed):
        return RoundRobin()
    if current is None or (isinstance(current, RoundRobin) and _is_particular(feed)):
        return _knowing_all(others, discard)
    return current


def _is_particular(feed: Feed) -> bool:
    return bool(feed.priority or feed.weight or feed.no_local)


def _knowing_all(feeds: Iterable[Feed], discard: Callable[[], None]) -> Dispatch:
    strategy = NoLocal(Levels(), discard)
    for feed in feeds:
        strategy.join(feed)
        if feed.listed:
            feed.listed = False
            strategy.add(feed)
    return strategy
