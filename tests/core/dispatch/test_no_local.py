from core.dispatching import HEADS, DispatchHarness, HarnessFeed, deal, make_feed
from core.durable import ONE, open_durable_harness
from core.harness import publish
from triomq.core import Feed, Head, OpenFeed, Window, traits_of
from triomq.core.dispatch.levels import Levels
from triomq.core.dispatch.no_local import NoLocal

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


def test_messages_that_no_feed_wants_are_discarded() -> None:
    a, b = make_feed(no_local=1), make_feed(no_local=1)
    t = harness(a, b)
    t.publish(2, FIRST)
    t.publish(1, SECOND)
    t.publish(1, FIRST)
    assert t.turn() == [(3, a)]
    assert t.discarded == [FIRST] * 3


async def test_messages_that_were_on_disk_meanwhile_are_known_by_their_session() -> None:
    async with open_durable_harness(queue_memory=ONE) as durable:
        queue, choosy, other = durable.harness.queue(), durable.harness.consumer(), durable.harness.consumer()
        for number in range(3):
            publish(queue, b"%d" % number, head=Head(routing_key="q", traits=traits_of(publisher=1, persistent=True)))
        durable.disk.work()

        def open_both() -> None:
            for consumer, session in ((choosy, 1), (other, 0)):
                queue.ref.ask_nowait(OpenFeed(Feed(queue.ref, consumer.ref, window=Window(), no_local=session)))

        durable.harness.turn(open_both)
        durable.disk.work()
        assert (choosy.take(), other.take()) == ([], [b"0", b"1", b"2"])
