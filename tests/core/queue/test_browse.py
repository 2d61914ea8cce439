from core.backlog.test_priority import prioritised
from core.harness import Harness, publish, ready, settle
from triomq.core import Browse, Discard, Enlist, Get, Outcome, QueueOptions


async def test_browser_sees_ready_messages_and_takes_nothing(harness: Harness) -> None:
    state = harness.queue()
    publish(state, b"1", b"2", b"3")
    for _ in range(2):
        entries = state.ref.ask_nowait(Browse())
        assert [(entry.id, entry.message.content, entry.attempts) for entry in entries] == [
            (1, b"1", 0),
            (2, b"2", 0),
            (3, b"3", 0),
        ]
    assert state.ref.ask_nowait(Enlist()).delivered == 0


async def test_browser_goes_on_behind_the_last_id_that_it_saw(harness: Harness) -> None:
    state = harness.queue()
    publish(state, *[bytes([number]) for number in range(10)])
    seen: list[int] = []
    while page := state.ref.ask_nowait(Browse(seen[-1] if seen else 0, 3)):
        assert len(page) <= 3
        seen += [entry.id for entry in page]
    assert seen == list(range(1, 11))


async def test_id_stays_the_same_through_delivery_and_return(harness: Harness) -> None:
    state = harness.queue()
    publish(state, b"1", b"2")
    batch = state.ref.ask_nowait(Get())
    assert batch is not None
    assert [entry.id for entry in state.ref.ask_nowait(Browse())] == [2]
    settle(batch, Outcome.REQUEUE)
    assert [(entry.id, entry.attempts) for entry in state.ref.ask_nowait(Browse())] == [(1, 1), (2, 0)]


async def test_browser_does_not_see_what_feeds_can_take(harness: Harness) -> None:
    state, consumer = harness.queue(), harness.consumer()

    def publish_and_browse() -> None:
        harness.feed(state, consumer, messages=1)
        publish(state, b"1", b"2")
        assert [entry.id for entry in state.ref.ask_nowait(Browse())] == [2]

    harness.turn(publish_and_browse)


async def test_to_discard_what_was_seen_leaves_what_came_since(harness: Harness) -> None:
    state = harness.queue()
    publish(state, b"1", b"2")
    last = state.ref.ask_nowait(Browse())[-1].id
    publish(state, b"3")
    assert state.ref.ask_nowait(Discard(last)) == 2
    assert ready(state) == [b"3"]
    assert state.ref.ask_nowait(Discard(last)) == 0


async def test_to_discard_leaves_what_is_out_with_consumers(harness: Harness) -> None:
    state, consumer = harness.queue(), harness.consumer()
    harness.feed(state, consumer, messages=1)
    publish(state, b"1", b"2")
    assert state.ref.ask_nowait(Discard(2)) == 1
    assert state.ref.ask_nowait(Enlist()).unsettled == 1


async def test_pages_of_a_queue_with_priorities_leave_nothing_out(harness: Harness) -> None:
    state = harness.queue(options=QueueOptions(max_priority=5))
    for priority in (0, 0, 3, 1, 3):
        state.ref.tell_nowait(prioritised(priority, b"x"))
    seen: list[int] = []
    while page := state.ref.ask_nowait(Browse(seen[-1] if seen else 0, 2)):
        seen += [entry.id for entry in page]
    assert seen == [1, 2, 3, 4, 5]


async def test_to_discard_a_page_of_a_queue_with_priorities_takes_nothing_unseen(harness: Harness) -> None:
    state = harness.queue(options=QueueOptions(max_priority=5))
    for priority in (0, 3, 3):
        state.ref.tell_nowait(prioritised(priority, b"x"))
    page = state.ref.ask_nowait(Browse(0, 2))
    assert state.ref.ask_nowait(Discard(page[-1].id)) == len(page)
