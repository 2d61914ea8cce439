"""Examples; what holds in general is in ``test_stream_machine.py``."""

import pytest
import trio

from core.harness import HEAD, OTHER_HEAD, Consumer, Harness, close, publish, settle
from triomq.chunks import Columns
from triomq.core import (
    AskBounds,
    Browse,
    DeleteQueue,
    Discard,
    Feed,
    FromOffset,
    Get,
    Head,
    InExclusiveUse,
    MoveFeed,
    NotForStreams,
    OpenFeed,
    Outcome,
    OutOfRange,
    Place,
    Publish,
    Purge,
    QueueNotEmpty,
    QueueOptions,
    QueueState,
    ReadRange,
    Receipt,
    SetPosition,
    Since,
    Start,
    StreamOptions,
    Window,
)


def declare(harness: Harness, name: str = "s", **options: object) -> QueueState:
    return harness.queue(name, QueueOptions(stream=StreamOptions(), **options))  # type: ignore[arg-type]


def read(
    harness: Harness,
    state: QueueState,
    start: Place | None = Start.FIRST,
    *,
    consumer: Consumer | None = None,
    messages: int = 0,
    socket_window: Window | None = None,
    shared: tuple[Window, ...] = (),
    exclusive: bool = False,
) -> tuple[Feed, Consumer]:
    consumer = consumer or harness.consumer()
    feed = Feed(
        state.ref,
        consumer.ref,
        window=Window(messages),
        socket_window=socket_window,
        shared=shared,
        exclusive=exclusive,
    )
    state.ref.ask_nowait(OpenFeed(feed, start))
    return feed, consumer


def offsets(consumer: Consumer) -> list[int]:
    return [offset for batch in consumer.batches for offset in batch.ids]


async def test_each_reader_gets_all_records_from_its_own_place(harness: Harness) -> None:
    state = declare(harness)
    publish(state, b"0", b"1", b"2")
    _, first = read(harness, state)
    _, third = read(harness, state, FromOffset(2))
    _, following = read(harness, state, Start.NEXT)
    publish(state, b"3")
    assert first.take() == [b"0", b"1", b"2", b"3"]
    assert third.take() == [b"2", b"3"]
    assert following.take() == [b"3"]


async def test_offsets_start_at_zero_and_stand_in_batches(harness: Harness) -> None:
    state = declare(harness)
    publish(state, b"a", b"b")
    publish(state, b"c", head=OTHER_HEAD)
    _, consumer = read(harness, state)
    assert offsets(consumer) == [0, 1, 2]
    assert [batch.head_at(place).routing_key for batch in consumer.batches for place in range(batch.left)] == [
        "q",
        "q",
        "other",
    ]


async def test_offset_beyond_the_end_is_waited_for(harness: Harness) -> None:
    state = declare(harness)
    _, consumer = read(harness, state, FromOffset(2))
    publish(state, b"0", b"1")
    assert not consumer.batches
    publish(state, b"2")
    assert consumer.take() == [b"2"]


async def test_feed_begins_at_the_last_chunk_or_at_a_time(harness: Harness) -> None:
    state = declare(harness)
    for time in (100.0, 200.0, 300.0):
        state.backlog.wall = lambda time=time: time  # type: ignore[attr-defined]
        publish(state, str(time).encode())
    assert offsets(read(harness, state, Start.LAST)[1]) == [2]
    assert offsets(read(harness, state, Since(150.0))[1]) == [1, 2]
    assert offsets(read(harness, state, Since(200.0))[1]) == [1, 2]
    assert offsets(read(harness, state, Since(0.0))[1]) == [0, 1, 2]
    assert offsets(read(harness, state, Since(301.0))[1]) == []


async def test_time_of_records_never_goes_back(harness: Harness) -> None:
    state = declare(harness)
    for time in (200.0, 100.0, 300.0):
        state.backlog.wall = lambda time=time: time  # type: ignore[attr-defined]
        publish(state, b"x")
    found = state.ref.ask_nowait(ReadRange(0, 10, 1000))
    assert found is not None
    assert [time for chunk in found.chunks for time in Columns(chunk).times()] == [200_000_000] * 2 + [300_000_000]


async def test_ack_gives_room_to_windows_and_nothing_else(harness: Harness) -> None:
    state = declare(harness)
    publish(state, *[b"%d" % number for number in range(10)])
    feed, consumer = read(harness, state, messages=2)
    assert offsets(consumer) == [0, 1]
    [batch] = consumer.batches
    settle(batch, Outcome.REQUEUE, [0])
    settle(batch, Outcome.REJECT, [1])
    settle(batch)  # settled already
    assert offsets(consumer) == [0, 1, 2, 3]
    assert feed.unsettled == 2
    assert state.statistics().ready == 10
    assert state.statistics().unsettled == 0


async def test_records_that_were_never_sent_are_read_again(harness: Harness) -> None:
    state = declare(harness)
    _, consumer = read(harness, state)
    publish(state, b"0", b"1", b"2")
    batches, consumer.batches = consumer.batches, []
    settle(batches[0], Outcome.RETURN, [1, 2])
    assert consumer.take() == [b"1", b"2"]


async def test_reader_waits_for_the_window_of_its_socket_and_others_go_on(harness: Harness) -> None:
    state, socket = declare(harness), Window(bytes=3)
    _, slow = read(harness, state, socket_window=socket)
    _, fast = read(harness, state)
    for number in range(9):
        publish(state, b"%d" % number)
    assert offsets(slow) == [0, 1, 2]
    assert offsets(fast) == list(range(9))
    for _ in range(3):
        socket.give(3, 3)
    assert offsets(slow) == list(range(9))


async def test_shared_window_lets_readers_of_two_streams_take_turns(harness: Harness) -> None:
    channel = Window(1)
    first, second = declare(harness, "s1"), declare(harness, "s2")
    publish(first, b"1", b"1")
    publish(second, b"2", b"2")
    one, two = harness.consumer(), harness.consumer()
    read(harness, first, consumer=one, shared=(channel,))
    read(harness, second, consumer=two, shared=(channel,))
    settle(one.batches[0])  # it stood first in the line
    assert offsets(one) == [0, 1]
    settle(one.batches[1])
    assert two.take() == [b"2"]
    assert channel.used == 1


async def test_turn_ends_before_a_reader_far_behind_has_all(harness: Harness) -> None:
    state = declare(harness)
    content = bytes(64 * 1024)
    for _ in range(60):
        publish(state, *[content] * 4)
    _, consumer = read(harness, state)
    assert 0 < len(offsets(consumer)) < 240
    while len(offsets(consumer)) < 240:
        await harness.directory_turn() if hasattr(harness, "directory_turn") else await _a_moment()
    assert offsets(consumer) == list(range(240))


async def _a_moment() -> None:

    await trio.lowlevel.checkpoint()


async def test_get_purge_and_discard_are_refused(harness: Harness) -> None:
    state = declare(harness)
    publish(state, b"x")
    for request in (Get(), Purge(), Discard(5)):
        with pytest.raises(NotForStreams, match="is not for stream 's'"):
            state.ref.ask_nowait(request)
    assert state.statistics().ready == 1


async def test_stream_that_is_not_empty_is_not_deleted_if_empty(harness: Harness) -> None:
    state = declare(harness)
    publish(state, b"x")
    with pytest.raises(QueueNotEmpty):
        harness.domain.ask_nowait(DeleteQueue("s", harness.session, if_empty=True))
    harness.delete("s")


async def test_browser_sees_records_by_their_offsets(harness: Harness) -> None:
    state = declare(harness)
    publish(state, b"0", b"1", b"2")
    assert [entry.id for entry in state.ref.ask_nowait(Browse())] == [0, 1, 2]
    assert [entry.id for entry in state.ref.ask_nowait(Browse(0, 1))] == [1]


async def test_range_is_answered_with_whole_chunks(harness: Harness) -> None:
    state = declare(harness)
    publish(state, b"0", b"1", b"2")
    found = state.ref.ask_nowait(ReadRange(1, 1, 1))
    assert found is not None
    [chunk] = found.chunks
    assert [bytes(record.value) for record in Columns(chunk).records()] == [b"0", b"1", b"2"]
    assert found.bounds == state.ref.ask_nowait(AskBounds())
    behind = state.ref.ask_nowait(ReadRange(3, 1, 1))
    assert behind is not None
    assert not behind.chunks


async def test_confirm_comes_at_once_without_a_store(harness: Harness) -> None:
    state = declare(harness)
    done: list[bool] = []
    receipt = Receipt(1, 2, 2, lambda: done.append(True))
    publish(state, b"1", b"2", receipt=receipt)
    assert done
    assert not receipt.number


async def test_old_segments_give_way_and_a_reader_learns_of_the_gap(harness: Harness) -> None:
    state = declare(harness, max_bytes=400_000)
    feed, consumer = read(harness, state, messages=1)
    for _ in range(100):
        publish(state, bytes(10_000))
    bounds = state.ref.ask_nowait(AskBounds())
    assert 0 < bounds.first < 100 == bounds.stop
    assert state.statistics().ready_bytes <= 400_000
    with pytest.raises(OutOfRange, match="is gone"):
        state.ref.ask_nowait(ReadRange(0, 1, 1))
    for batch in consumer.batches:  # it gets more, one by one
        settle(batch)
    got = offsets(consumer)
    assert got[0] == 0
    assert got[-1] == 99
    assert bounds.first in got
    assert bounds.first - 1 not in got
    assert feed.unsettled == 0


async def test_count_and_age_bound_a_stream_too(harness: Harness) -> None:
    counted = declare(harness, "c", max_length=100)
    for _ in range(1_000):
        publish(counted, b"x")
    assert 75 <= counted.statistics().ready <= 100
    aged = harness.queue("a", QueueOptions(stream=StreamOptions(max_age=40.0)))
    for second in range(100):
        aged.backlog.wall = lambda second=second: float(second)  # type: ignore[attr-defined]
        publish(aged, b"x")
    assert 40 <= aged.statistics().ready <= 60


async def test_stream_in_memory_is_bounded_always(harness: Harness) -> None:
    state = declare(harness)
    content = bytes(1024 * 1024)
    for _ in range(200):
        publish(state, content)
    assert state.statistics().ready_bytes <= 64 * 1024 * 1024 + 64 * 200


async def test_crashed_stream_has_its_records_and_gives_room_back(harness: Harness) -> None:
    channel = Window(3)
    state = declare(harness)
    publish(state, b"0", b"1")
    _, consumer = read(harness, state, shared=(channel,))
    identity = state.ref.ask_nowait(AskBounds()).identity
    await harness.crash(state)
    assert consumer.closed == ["the queue has crashed"]
    assert channel.used == 0
    settle(consumer.batches[0])  # too late
    _, again = read(harness, state)
    assert again.take() == [b"0", b"1"]
    assert state.ref.ask_nowait(AskBounds()).identity == identity


async def test_stream_declared_anew_has_another_identity(harness: Harness) -> None:
    identity = declare(harness).ref.ask_nowait(AskBounds()).identity
    assert declare(harness).ref.ask_nowait(AskBounds()).identity == identity
    harness.delete("s")
    assert declare(harness).ref.ask_nowait(AskBounds()).identity != identity


async def test_exclusive_feed_is_alone(harness: Harness) -> None:
    state = declare(harness)
    feed, _ = read(harness, state, exclusive=True)
    with pytest.raises(InExclusiveUse):
        read(harness, state)
    close(feed)
    read(harness, state)


async def test_successor_of_a_feed_goes_on_where_it_was(harness: Harness) -> None:
    state = declare(harness)
    feed, first = read(harness, state)
    publish(state, b"0")
    other = harness.consumer()
    state.ref.tell_nowait(MoveFeed(feed, Feed(state.ref, other.ref)))
    publish(state, b"1")
    assert first.take() == [b"0"]
    assert other.take() == [b"1"]


async def test_position_of_a_group_is_absolute_and_may_go_back(harness: Harness) -> None:
    state = declare(harness)
    publish(state, *[b"x"] * 10)
    state.ref.ask_nowait(SetPosition("g", 7))
    stream = state.statistics().stream
    assert stream is not None
    assert stream.lags == {"g": 3}
    state.ref.ask_nowait(SetPosition("g", 2))
    assert (stream := state.statistics().stream) is not None
    assert stream.lags == {"g": 8}


async def test_framing_and_heads_survive_in_a_chunk(harness: Harness) -> None:
    framed = Head("sink", "key", 2, 4, 5, 1, 7, 0x1234, HEAD.traits)
    state = declare(harness)
    for number in range(3_000):  # so that the first ones are in memory as chunks alone
        state.ref.tell_nowait(Publish(framed, [b"--pp-%d!" % number + bytes(1_000)], 1_010))
    _, consumer = read(harness, state)
    message = consumer.batches[0].message(0)
    assert (message.properties, message.body) == (b"pp", b"0!" + bytes(999))
    assert (message.head.exchange, message.head.routing_key, message.head.flags) == ("sink", "key", 0x1234)


async def test_stream_with_a_record_now_and_then_does_not_have_a_chunk_for_each(harness: Harness) -> None:
    state = declare(harness, max_bytes=100_000)
    for second in range(2_000):
        state.backlog.wall = lambda second=second: float(second)  # type: ignore[attr-defined]
        publish(state, b"%d" % second)
    assert len(state.backlog._chunks) < 400  # type: ignore[attr-defined]
    assert state.backlog.ready_bytes <= 100_000
    _, consumer = read(harness, state)
    first = state.ref.ask_nowait(AskBounds()).first
    while len(offsets(consumer)) < 2_000 - first:
        await trio.lowlevel.checkpoint()
    assert [int(content) for content in consumer.take()] == list(range(first, 2_000))
    assert state.ref.ask_nowait(ReadRange(first, 5_000, 1 << 30)) is not None
