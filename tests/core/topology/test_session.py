import pytest
import trio

from core.harness import Harness, publish, settle
from triomq.core import Feed, InExclusiveUse, QueueOptions, Session

EXCLUSIVE = QueueOptions(exclusive=True)


def feed_of(harness: Harness, name: str) -> Feed:
    return Feed(harness.queue(name).ref, harness.consumer().ref)


async def test_session_ends_with_its_exclusive_queues_and_no_others(harness: Harness) -> None:
    session = harness.new_session()
    harness.queue("mine", EXCLUSIVE, session)
    shared = harness.queue("shared", session=session)
    assert list(session.queues) == ["mine"]
    feed = Feed(shared.ref, harness.consumer().ref)
    session.open_feed(feed)
    session.detach()
    assert list(harness.directory.queues) == ["shared"]
    assert shared.statistics().feeds == 0
    session.end()


async def test_feed_that_is_closed_keeps_what_it_has_not_settled(harness: Harness) -> None:
    queue, consumer = harness.queue(), harness.consumer()
    feed = Feed(queue.ref, consumer.ref)
    harness.session.open_feed(feed)
    publish(queue, b"1")
    harness.session.close_feed(feed)
    harness.session.close_feed(feed)
    assert (queue.statistics().feeds, queue.statistics().unsettled) == (0, 1)
    settle(consumer.batches[0])
    assert queue.statistics().unsettled == 0


async def test_only_its_own_feeds_are_closed(harness: Harness) -> None:
    feed = feed_of(harness, "q")
    harness.session.open_feed(feed)
    harness.new_session().close_feed(feed)
    assert harness.queue("q").statistics().feeds == 1


async def test_feed_that_its_queue_closed_is_forgotten(harness: Harness) -> None:
    feed = feed_of(harness, "q")
    harness.session.open_feed(feed)
    harness.session.forget_feed(feed)
    harness.session.forget_feed(feed)
    harness.session.end()
    assert harness.directory.queues["q"].statistics().feeds == 1


async def test_feed_that_is_refused_is_not_owned(harness: Harness) -> None:
    queue = harness.queue()
    harness.feed(queue, harness.consumer(), exclusive=True)
    feed = feed_of(harness, "q")
    with pytest.raises(InExclusiveUse):
        harness.session.open_feed(feed)
    assert not harness.session._feeds


async def test_feed_on_a_queue_that_is_being_restarted_would_block(harness: Harness) -> None:
    queue = harness.queue()
    feed = Feed(queue.ref, harness.consumer().ref)

    def crash_and_open() -> None:
        harness.crash_nowait(queue)
        harness.session.open_feed(feed)

    with pytest.raises(trio.WouldBlock):
        harness.turn(crash_and_open)
    await queue.ref.wait_running()


async def test_session_lives_until_its_last_connection_ends(harness: Harness) -> None:
    session = Session(harness.domain, harness.directory, user="anna", origin="there")
    for _ in range(3):
        session.attach()
    harness.queue("mine", EXCLUSIVE, session)
    feed = feed_of(harness, "other")
    session.open_feed(feed)
    for _ in range(2):
        session.detach()
        assert not session.ended
        assert "mine" in harness.directory.queues
        assert harness.queue("other").statistics().feeds == 1
    session.detach()
    assert session.ended
    assert "mine" not in harness.directory.queues
    assert harness.queue("other").statistics().feeds == 0
    assert (session.user, session.origin) == ("anna", "there")


async def test_feed_that_moves_takes_its_messages_with_it_and_belongs_to_the_session(harness: Harness) -> None:
    queue, old, new = harness.queue(), harness.consumer(), harness.consumer()
    first, second = Feed(queue.ref, old.ref), Feed(queue.ref, new.ref)
    harness.session.open_feed(first)
    publish(queue, b"1")
    harness.session.move_feed(first, second)
    publish(queue, b"2")
    assert (old.take(), new.take()) == ([b"1"], [b"2"])
    harness.session.move_feed(first, second)  # it has none like this any more
    harness.session.close_feed(second)
    assert queue.statistics().feeds == 0


async def test_feeds_are_known_by_who_gets_their_messages(harness: Harness) -> None:
    queue, mine, other = harness.queue(), harness.consumer(), harness.consumer()
    feeds = [Feed(queue.ref, consumer.ref) for consumer in (mine, other, mine)]
    for feed in feeds:
        harness.session.open_feed(feed)
    assert harness.session.feeds_to(mine.ref) == [feeds[0], feeds[2]]
    harness.session.forget_feed(feeds[0])
    assert harness.session.feeds_to(mine.ref) == [feeds[2]]
