from hypothesis import given
from hypothesis import strategies as st

from core.dispatching import HEADS, DispatchHarness, HarnessFeed, deal, do_something, make_feed
from core.durable import ONE, open_durable_harness
from core.harness import publish
from triomq.core import Feed, Head, OpenFeed, Window
from triomq.core.dispatch.dispatch import RoundRobin
from triomq.core.dispatch.levels import Levels
from triomq.core.dispatch.no_local import NoLocal
from triomq.core.dispatch.single_active import SingleActive

UNKNOWN, FIRST, SECOND = HEADS


def harness(*feeds: HarnessFeed) -> DispatchHarness:
    made = DispatchHarness(lambda discard: NoLocal(Levels(), discard))
    made.open(*feeds)
    return made


def test_messages_of_its_own_session_never_go_to_a_feed() -> None:
    choosy, other = make_feed(no_local=1), make_feed()
    t = harness(choosy, other)
    assert deal(t, 3, FIRST) == [other] * 3
    assert deal(t, 3, SECOND) == [choosy, other, choosy]


def test_feed_that_sits_out_keeps_its_place_in_the_round() -> None:
    choosy, other = make_feed(no_local=1), make_feed()
    t = harness(choosy, other)
    for _ in range(3):
        assert deal(t, 1, FIRST) == [other]
        assert deal(t, 1, SECOND) == [choosy]


def test_publisher_that_nobody_knows_is_nobody_s_own() -> None:
    choosy = make_feed(no_local=1)
    assert deal(harness(choosy), 1, UNKNOWN) == [choosy]


def test_messages_that_no_feed_wants_are_discarded() -> None:
    a, b = make_feed(no_local=1), make_feed(no_local=1)
    t = harness(a, b)
    t.publish(2, FIRST)
    t.publish(1, SECOND)
    t.publish(1, FIRST)
    assert t.turn() == [(3, a)]
    assert t.discarded == [FIRST] * 3


def test_without_feeds_nothing_is_discarded() -> None:
    choosy = make_feed(no_local=1)
    t = harness(choosy)
    t.close(choosy)
    assert deal(t, 1, FIRST) == []
    assert t.backlog.ready == 1


def test_message_waits_for_a_feed_that_wants_it_but_has_no_room() -> None:
    choosy, full = make_feed(no_local=1), make_feed(1)
    t = harness(choosy, full)
    assert deal(t, 2, FIRST) == [full]
    assert deal(t, 1, SECOND) == []
    assert t.discarded == []
    t.settle(t.out[0])
    assert t.turn() == [(2, full), (3, choosy)]


def test_when_the_last_that_wants_it_is_closed_a_message_is_discarded() -> None:
    choosy, full = make_feed(no_local=1), make_feed(1)
    t = harness(choosy, full)
    deal(t, 2, FIRST)
    t.close(full)
    assert t.turn() == []
    assert t.discarded == [FIRST]


def test_lower_feed_gets_what_the_higher_does_not_want() -> None:
    high, low = make_feed(priority=1, no_local=1), make_feed()
    t = harness(high, low)
    t.publish(1, FIRST)
    t.publish(1, SECOND)
    t.publish(1, FIRST)
    assert [feed for _, feed in t.turn()] == [low, high, low]


def test_two_sessions_that_do_not_want_their_own_get_each_other_s() -> None:
    one, two = make_feed(no_local=1), make_feed(no_local=2)
    t = harness(one, two)
    t.publish(2, FIRST)
    t.publish(2, SECOND)
    assert [feed for _, feed in t.turn()] == [two, two, one, one]


def test_single_active_feed_alone_decides_what_is_unwanted() -> None:
    t = DispatchHarness(lambda discard: SingleActive(NoLocal(RoundRobin(), discard)))
    active, standby = make_feed(no_local=1), make_feed()
    t.open(active, standby)
    assert deal(t, 1, FIRST) == []
    assert t.discarded == [FIRST]


@given(st.data())
def test_feed_gets_nothing_of_its_own_and_nothing_is_left_that_another_could_take(data: st.DataObject) -> None:
    t = harness()
    channel = Window(data.draw(st.integers(0, 3)))
    feeds = st.builds(
        make_feed,
        st.integers(0, 3),
        shared=st.sampled_from([(), (channel,)]),
        priority=st.integers(0, 1),
        no_local=st.integers(0, 2),
    )
    for _ in range(data.draw(st.integers(1, 20))):
        before, open_before = len(t.discarded), list(t.feeds)
        for number, feed in do_something(t, data, feeds):
            assert not feed.no_local or t.heads[number].publisher != feed.no_local
        for head in t.discarded[before:]:
            assert head.publisher
            assert t.feeds
            assert all(feed.no_local == head.publisher for feed in t.feeds), open_before
        if t.backlog.ready:
            publisher = t.backlog.next_head().publisher
            willing = [feed for feed in t.feeds if not publisher or feed.no_local != publisher]
            assert all(feed.blocked_by(1) is not None for feed in willing)
            assert willing or not t.feeds


async def test_messages_that_were_on_disk_meanwhile_are_known_by_their_session() -> None:
    async with open_durable_harness(queue_memory=ONE) as durable:
        queue, choosy, other = durable.harness.queue(), durable.harness.consumer(), durable.harness.consumer()
        for number in range(3):
            publish(queue, b"%d" % number, head=Head(routing_key="q", publisher=1, persistent=True))
        durable.disk.work()

        def open_both() -> None:
            for consumer, session in ((choosy, 1), (other, 0)):
                queue.ref.ask_nowait(OpenFeed(Feed(queue.ref, consumer.ref, window=Window(), no_local=session)))

        durable.harness.turn(open_both)
        durable.disk.work()
        assert (choosy.take(), other.take()) == ([], [b"0", b"1", b"2"])
