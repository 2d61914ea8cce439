from hypothesis import given
from hypothesis import strategies as st

from core.dealing import Player, Table, deal, play, player
from triomq.core import Feed, Window
from triomq.core.dispatch.levels import Levels


def table(*players: Player) -> Table:
    made = Table(lambda discard: Levels())
    made.open(*players)
    return made


def test_the_highest_priority_gets_everything() -> None:
    low, high, middle = player(priority=-1), player(priority=2), player(priority=1)
    assert deal(table(low, high, middle), 5) == [high] * 5


def test_equals_take_turns() -> None:
    low, a, b = player(), player(priority=1), player(priority=1)
    assert deal(table(low, a, b), 4) == [a, b, a, b]


def test_lower_ones_get_messages_while_all_higher_ones_are_full() -> None:
    low, a, b = player(), player(2, priority=1), player(1, priority=1)
    t = table(low, a, b)
    assert deal(t, 5) == [a, b, a, low, low]
    t.settle(next(batch for batch in t.out if batch.feed is b))
    assert deal(t, 2) == [b, low]


def test_lower_ones_get_messages_while_a_shared_window_blocks_the_higher_ones() -> None:
    channel = Window(1)
    low, high = player(), player(shared=(channel,), priority=1)
    t = table(low, high)
    assert deal(t, 3) == [high, low, low]
    assert channel.waiting == 1
    t.settle(next(batch for batch in t.out if batch.feed is high))
    assert deal(t, 2) == [high, low]


def test_a_higher_one_does_not_pass_a_window_s_line() -> None:
    channel = Window(1)
    low, high = player(shared=(channel,)), player(shared=(channel,), priority=1)
    t = table(low)
    assert deal(t, 2) == [low]
    t.open(high)
    t.settle(t.out[0])
    assert [feed for _, feed in t.turn()] == [low]
    t.settle(t.out[0])
    assert deal(t, 1) == [high]


def test_priority_goes_before_weight() -> None:
    heavy, urgent, both = player(weight=9), player(1, priority=1), player(1, priority=1, weight=1)
    assert deal(table(heavy, urgent, both), 3) == [both, urgent, heavy]


def test_weights_are_served_as_workers_with_slots_are() -> None:
    a, b, spare = player(2, weight=10), player(1, weight=10), player(5, weight=1)
    t = table(spare, a, b)
    assert deal(t, 4) == [a, b, a, spare]
    first, second = [batch for batch in t.out if batch.feed in (a, b)][:2]
    t.settle(second)
    t.settle(first)
    assert deal(t, 3) == [b, a, spare]


def test_a_thousand_idle_levels_are_not_looked_at() -> None:
    players = [player(1, priority=number) for number in range(1000)]
    t = table(*players)
    assert deal(t, 1000) == players[::-1]
    t.settle(t.out[-1])
    assert t.strategy._order == [(0, 0)]  # type: ignore[attr-defined]
    assert deal(t, 2) == [players[0]]
    assert t.strategy._order == []  # type: ignore[attr-defined]


def test_a_feed_that_is_removed_gets_nothing_and_leaves_no_level() -> None:
    low, high = player(), player(priority=1)
    t = table(low, high)
    t.close(high)
    assert deal(t, 2) == [low, low]
    t.close(low)
    assert deal(t, 2) == []
    assert t.strategy._levels == {}  # type: ignore[attr-defined]


def test_a_feed_that_was_full_when_it_was_removed_is_forgotten() -> None:
    only = player(1)
    t = table(only)
    deal(t, 2)
    t.close(only)
    assert deal(t, 1) == []


def level(feed: Feed) -> tuple[int, int]:
    return feed.priority, feed.weight


@given(st.data())
def test_nobody_gets_anything_while_a_higher_one_has_room(data: st.DataObject) -> None:
    t = table()
    players = st.builds(player, st.integers(0, 3), priority=st.integers(-1, 1), weight=st.integers(0, 1))
    for _ in range(data.draw(st.integers(1, 20))):
        dealt = play(t, data, players)
        used = {feed: feed.unsettled - sum(1 for _, other in dealt if other is feed) for feed in t.feeds}
        for _, feed in dealt:
            able = [other for other in t.feeds if not other.window.limit or used[other] < other.window.limit]
            assert level(feed) == max(map(level, able))
            used[feed] += 1
        if t.backlog.ready:
            assert all(feed.is_full() for feed in t.feeds)


@given(st.data())
def test_with_shared_windows_nothing_is_left_that_could_go(data: st.DataObject) -> None:
    t = table()
    channels = [Window(data.draw(st.integers(0, 3))) for _ in range(2)]
    shared = st.sampled_from([(), (channels[0],), (channels[1],), tuple(channels)])
    players = st.builds(player, st.integers(0, 3), shared=shared, priority=st.integers(0, 2))
    for _ in range(data.draw(st.integers(1, 20))):
        play(t, data, players)
        if t.backlog.ready:
            assert all(feed.blocked_by(1) is not None for feed in t.feeds)
