from core.harness import HEAD, Harness, close, publish, ready, settle
from triomq.core import Directory, Publish, QueueOptions, QueueState, QueueStatistics, Window


def test_new_store_is_empty() -> None:
    assert QueueState("q", QueueOptions(), Directory("d")).statistics() == QueueStatistics(0, 0, 0, 0, 0, 0, 0)


async def test_taking_back_closes_every_feed_and_gives_every_window_back(harness: Harness) -> None:
    state, channel = harness.queue("q"), Window(9)
    consumers = [harness.consumer(), harness.consumer()]
    for consumer in consumers:
        harness.feed(state, consumer, shared=(channel,))
    publish(state, b"1", b"2", b"3")
    assert channel.used == 3
    harness.turn(lambda: state.take_back("for this test"))
    assert [consumer.closed for consumer in consumers] == [["for this test"]] * 2
    assert (channel.used, channel.used_bytes) == (0, 0)
    assert ready(state) == [b"1", b"2", b"3"]
    harness.turn(lambda: state.take_back("again"))
    assert [len(consumer.closed) for consumer in consumers] == [1, 1]


async def test_taking_back_reaches_what_a_closed_feed_has_not_settled(harness: Harness) -> None:
    state, channel, consumer = harness.queue("q"), Window(9), harness.consumer()
    feed = harness.feed(state, consumer, shared=(channel,))
    publish(state, b"1")
    close(feed)
    harness.turn(lambda: state.take_back("for this test"))
    assert (channel.used, ready(state), consumer.closed) == (0, [b"1"], [])


async def test_queue_is_idle_when_nothing_happens_in_it_by_itself(harness: Harness) -> None:
    state, consumer = harness.queue(), harness.consumer()
    assert state.idle
    publish(state, b"1")
    assert state.idle, "nobody is here to take it"
    feed = harness.feed(state, consumer, messages=1)
    assert not state.idle
    settle(consumer.batches[0])
    assert state.idle
    publish(state, b"2", b"3")
    close(feed)
    assert not state.idle, "one is out"
    settle(consumer.batches[1])
    assert state.idle


async def test_queue_is_not_idle_while_messages_wait_for_their_time(harness: Harness) -> None:
    state = harness.queue()
    state.ref.tell_nowait(Publish(HEAD, [b"x"], 1, delay=3600))
    assert not state.idle
    dying = harness.queue("dying", QueueOptions(message_ttl=3600, dead_letter_sink=""))
    publish(dying, b"x")
    assert not dying.idle
