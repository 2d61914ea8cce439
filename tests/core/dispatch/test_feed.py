from core.harness import Harness, publish, settle
from triomq.core import Feed, Window
from triomq.core.dispatch.feed import UNLIMITED


def make_feed(harness: Harness, *, window: Window, shared: Window, socket_window: Window, settles: bool = True) -> Feed:
    consumer, queue = harness.consumer(), harness.queue("q")
    return Feed(queue.ref, consumer.ref, window=window, shared=(shared,), socket_window=socket_window, settles=settles)


async def test_room_is_the_least_of_all_windows(harness: Harness) -> None:
    feed = make_feed(harness, window=Window(5, bytes=50), shared=Window(3, bytes=90), socket_window=Window(bytes=70))
    assert feed.room() == (3, 50)
    assert feed.blocked_by(1) is None


async def test_first_window_without_room_blocks(harness: Harness) -> None:
    own, channel, socket_window = Window(1), Window(bytes=4), Window(bytes=9)
    feed = make_feed(harness, window=own, shared=channel, socket_window=socket_window)
    socket_window.take(1, 9)
    assert feed.blocked_by(1) is socket_window
    channel.take(1, 3)
    assert feed.blocked_by(1) is socket_window
    assert feed.blocked_by(2) is channel
    own.take(1, 1)
    assert feed.blocked_by(1) is own
    assert feed.is_full()


async def test_held_gate_blocks_before_all_windows(harness: Harness) -> None:
    gate = Window()
    gate.hold()
    feed = Feed(harness.queue("q").ref, harness.consumer().ref, window=Window(1), gate=gate)
    feed.window.take(1, 1)
    assert feed.blocked_by(1) is gate


async def test_without_settling_only_the_outlet_counts(harness: Harness) -> None:
    own, channel, socket_window = Window(1), Window(1), Window(bytes=9)
    own.take(1, 1)
    channel.take(1, 1)
    feed = make_feed(harness, window=own, shared=channel, socket_window=socket_window, settles=False)
    assert feed.blocked_by(1) is None
    assert (feed.room(), feed.is_full()) == ((UNLIMITED, 9), False)


async def test_settling_gives_back_every_window_but_the_outlet(harness: Harness) -> None:
    queue, consumer = harness.queue("q"), harness.consumer()
    channel, socket_window = Window(9), Window(bytes=99)
    feed = harness.feed(queue, consumer, shared=(channel,), socket_window=socket_window, messages=9)
    publish(queue, b"abc")
    assert [(window.used, window.used_bytes) for window in feed.limits] == [(1, 3)] * 3
    settle(consumer.batches[0])
    assert [(window.used, window.used_bytes) for window in feed.limits] == [(0, 0), (0, 0), (1, 3)]


async def test_larger_window_lets_a_full_feed_go_on_at_once(harness: Harness) -> None:
    queue, consumer = harness.queue("q"), harness.consumer()
    feed = harness.feed(queue, consumer, messages=1)
    publish(queue, b"a", b"b", b"c")
    assert consumer.take() == [b"a"]
    feed.resize(2)
    assert consumer.take() == [b"b"]
    feed.resize(0)
    assert consumer.take() == [b"c"]


async def test_feed_that_is_forgotten_stands_in_no_line(harness: Harness) -> None:
    channel, gate = Window(1), Window()
    feed = Feed(harness.queue("q").ref, harness.consumer().ref, shared=(channel,), gate=gate)
    for window in (channel, gate):
        window.take(1, 1)
        window.hold()
        window.wait(feed, 1)
    feed.forget()
    assert (channel.waiting, gate.waiting, feed.waiting) == (0, 0, False)
