"""``for delivery in feed`` in plain threads."""

import os
import signal
import threading

import pytest

from app.portal.conftest import PATIENCE
from triomq.app.portal import BlockingBroker, BlockingFeed, BlockingQueue
from triomq.core import InExclusiveUse, NoSuchQueue


def fill(broker: BlockingBroker, *bodies: bytes) -> None:
    for body in bodies:
        broker.publish("", "q", body)


def bodies(queue: BlockingQueue, count: int) -> list[tuple[bytes, bool]]:
    """Take so many messages, and tell which are marked as redelivered."""
    found = []
    with queue.open_feed() as feed:
        for _ in range(count):
            delivery = feed.take(timeout=PATIENCE)
            assert delivery is not None
            with delivery:
                found.append((delivery.body, delivery.redelivered))
    return found


def test_a_feed_gives_what_is_there_and_what_comes(broker: BlockingBroker, queue: BlockingQueue) -> None:
    fill(broker, b"1", b"2")
    found: list[bytes] = []
    with queue.open_feed() as feed:
        for delivery in feed:
            with delivery:
                found.append(delivery.body)
            if len(found) == 2:
                threading.Thread(target=fill, args=(broker, b"3")).start()
            if len(found) == 3:
                break
    assert found == [b"1", b"2", b"3"]
    statistics = queue.statistics()
    assert (statistics.ready, statistics.unsettled, statistics.feeds) == (0, 0, 0)


def test_the_prefetch_is_the_most_that_is_out(broker: BlockingBroker, queue: BlockingQueue) -> None:
    fill(broker, *[b"x"] * 5)
    with queue.open_feed(prefetch=2) as feed:
        first = feed.take(timeout=PATIENCE)
        second = feed.take(timeout=PATIENCE)
        assert first is not None
        assert second is not None
        with pytest.raises(TimeoutError, match=r"no delivery within 0\.01 s"):
            feed.take(timeout=0.01)
        second.accept()
        third = feed.take(timeout=PATIENCE)
        assert third is not None


def test_leaving_puts_back_what_is_unsettled_and_marks_only_what_was_seen(
    broker: BlockingBroker, queue: BlockingQueue
) -> None:
    fill(broker, b"1", b"2", b"3", b"4")
    with queue.open_feed() as feed:
        feed.take()
        second = feed.take()
        assert second is not None
        second.accept()
    assert bodies(queue, 3) == [(b"1", True), (b"3", False), (b"4", False)]


def test_what_is_given_back_is_not_handed_out_again_by_a_feed_that_closes(
    broker: BlockingBroker, queue: BlockingQueue
) -> None:
    fill(broker, *[b"x"] * 6)
    with queue.open_feed(prefetch=2):
        pass
    assert bodies(queue, 6) == [(b"x", False)] * 6


def test_the_block_of_a_delivery_accepts_or_puts_back(broker: BlockingBroker, queue: BlockingQueue) -> None:
    fill(broker, b"1")
    with queue.open_feed(prefetch=1) as feed:
        first = feed.take()
        assert first is not None
        with pytest.raises(KeyError), first:
            raise KeyError
        again = feed.take(timeout=PATIENCE)
        assert again is not None
        assert again.redelivered
        again.reject()
        again.requeue()  # a second settling does nothing
    assert queue.statistics().ready == 0


def test_deliveries_are_settled_in_any_thread(broker: BlockingBroker, queue: BlockingQueue) -> None:
    fill(broker, *[b"x"] * 100)
    with queue.open_feed(prefetch=10) as feed:
        for _ in range(100):
            delivery = feed.take(timeout=PATIENCE)
            assert delivery is not None
            threading.Thread(target=delivery.accept).start()
    assert queue.statistics().ready == 0


def test_several_threads_share_a_feed(broker: BlockingBroker, queue: BlockingQueue) -> None:
    fill(broker, *[str(number).encode() for number in range(100)])
    found: list[bytes] = []
    enough = threading.Event()

    def work(feed: BlockingFeed) -> None:
        for delivery in feed:
            with delivery:
                found.append(delivery.body)
            if len(found) == 100:
                enough.set()

    with queue.open_feed(prefetch=10) as feed:
        threads = [threading.Thread(target=work, args=(feed,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert enough.wait(PATIENCE)
    for thread in threads:
        thread.join(PATIENCE)  # the feed that is closed has ended their iteration
        assert not thread.is_alive()
    assert sorted(map(int, found)) == list(range(100))


def test_a_feed_ends_when_its_queue_is_deleted(queue: BlockingQueue) -> None:
    with queue.open_feed() as feed:
        queue.delete()
        assert list(feed) == []


def test_a_feed_that_cannot_be_opened_says_why(broker: BlockingBroker, queue: BlockingQueue) -> None:
    with queue.open_feed(exclusive=True), pytest.raises(InExclusiveUse), queue.open_feed():
        raise AssertionError
    queue.delete(if_unused=True, if_empty=True)
    with pytest.raises(NoSuchQueue), queue.open_feed(timeout=PATIENCE):
        raise AssertionError


def test_ctrl_c_ends_an_iteration_and_loses_nothing(broker: BlockingBroker, queue: BlockingQueue) -> None:
    fill(broker, b"1")
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt), queue.open_feed() as feed:  # noqa: PT012  it comes in the loop
        for _ in feed:
            timer.start()
    timer.join()
    assert bodies(queue, 1) == [(b"1", True)]
