"""The ceiling of a queue: what gives way, what is refused, and what never goes."""

import pytest
import trio
from trio.testing import MockClock

from core.harness import HEAD, Harness, close, publish, ready, settle
from triomq.core import Fits, Head, Outcome, Publish, QueueOptions, QueueState, Receipt, bytes_ready, traits_of
from triomq.core.memory import MESSAGE_OVERHEAD

EXPENDABLE = Head(routing_key="q", traits=traits_of(expendable=True))
BODY = 1000 - MESSAGE_OVERHEAD  # so that each message counts 1,000 octets


def body(number: int) -> bytes:
    return b"%03d" % number + bytes(BODY - 3)


def bodies(*numbers: int) -> list[bytes]:
    return [body(number) for number in numbers]


def push(state: QueueState, *numbers: int, head: Head = EXPENDABLE) -> None:
    contents = bodies(*numbers)
    state.ref.tell_nowait(Publish(head, contents, sum(map(len, contents))))


def numbers_in(state: QueueState) -> list[int]:
    return [int(content[:3]) for content in ready(state)]


def low_queue(harness: Harness, ceiling: int = 3000, options: QueueOptions | None = None) -> QueueState:
    state = harness.queue("q", options)
    harness.turn(lambda: state.set_ceiling(ceiling))
    return state


async def test_ceiling_takes_nothing_of_what_was_there_before_and_what_was_confirmed(harness: Harness) -> None:
    state = harness.queue("q")
    push(state, 1, 2, 3, 4, 5, head=HEAD)
    harness.turn(lambda: state.set_ceiling(3000))
    assert numbers_in(state) == [1, 2, 3, 4, 5]
    push(state, 6)
    assert (numbers_in(state), state.lost) == ([1, 2, 3, 4, 5], 1)


async def test_ceiling_lets_the_oldest_expendable_messages_give_way(harness: Harness) -> None:
    state = low_queue(harness)
    push(state, 1, 2, 3)
    push(state, 4, 5)
    assert (numbers_in(state), state.lost, state.dropped) == ([3, 4, 5], 2, 2)


async def test_ceiling_drops_of_a_run_that_is_larger_than_it_what_does_not_fit(harness: Harness) -> None:
    state = low_queue(harness)
    push(state, 1, 2, 3, 4, 5)
    assert (numbers_in(state), state.lost, state.dropped) == ([1, 2, 3], 2, 2)


async def test_ceiling_lets_expendable_messages_give_way_to_others_and_then_refuses(harness: Harness) -> None:
    state = low_queue(harness)
    push(state, 1, 2)
    push(state, 3, 4, head=HEAD)
    assert (numbers_in(state), state.lost) == ([2, 3, 4], 1)
    done: list[None] = []
    receipt = Receipt(first=1, count=3, copies=3, done=lambda: done.append(None))
    contents = bodies(5, 6, 7)
    state.ref.tell_nowait(Publish(HEAD, contents, sum(map(len, contents)), receipt))
    assert numbers_in(state) == [3, 4, 5]
    assert (receipt.refusals, done, state.lost, state.dropped) == ({2, 3}, [None], 2, 4)


async def test_ceiling_lets_one_message_into_an_empty_queue_however_large(harness: Harness) -> None:
    state = low_queue(harness, ceiling=10)
    push(state, 1, head=HEAD)
    push(state, 2, head=HEAD)
    assert numbers_in(state) == [1]


async def test_ceiling_refuses_a_transaction_for_which_there_is_no_room(harness: Harness) -> None:
    state = low_queue(harness)
    push(state, 1, 2, head=HEAD)
    one, two = (Publish(HEAD, bodies(3), BODY) for _ in range(2))
    assert state.ref.ask_nowait(Fits([one]))
    assert not state.ref.ask_nowait(Fits([one, two]))


async def test_ceiling_lets_feeds_take_what_they_can_before_anything_gives_way(harness: Harness) -> None:
    state, consumer = low_queue(harness), harness.consumer()
    harness.feed(state, consumer)
    harness.turn(lambda: [push(state, number) for number in range(10)])
    assert (len(consumer.take()), state.dropped) == (10, 0)


async def test_ceiling_makes_dead_letters_where_the_queue_has_a_sink_for_them(harness: Harness) -> None:
    letters = harness.queue("letters")
    state = low_queue(harness, options=QueueOptions(dead_letter_sink="", dead_letter_key="letters"))
    push(state, 1, 2, 3)
    push(state, 4)
    assert (numbers_in(state), letters.backlog.ready) == ([2, 3, 4], 1)


async def test_ceiling_is_nothing_to_a_queue_with_a_limit_of_its_own(harness: Harness) -> None:
    state = low_queue(harness, options=QueueOptions(max_length=5))
    push(state, 1, 2, 3, 4, 5)
    assert (numbers_in(state), bytes_ready(state)) == ([1, 2, 3, 4, 5], 5000)


async def test_ceiling_is_mentioned_in_the_log_once_a_minute(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    state = low_queue(harness)
    for number in range(20):
        push(state, number)
    publish(state, bytes(BODY))
    assert caplog.messages == ["queue has no room and loses messages"]


async def test_ceiling_counts_what_was_requeued_before_more_is_taken(harness: Harness) -> None:
    state, consumer = low_queue(harness), harness.consumer()
    feed = harness.feed(state, consumer)
    push(state, 1, 2, 3, head=HEAD)
    push(state, 4, head=HEAD)  # here is room for three again: all are with the consumer
    batches = list(consumer.batches)
    close(feed)
    for batch in batches:
        settle(batch, Outcome.REQUEUE)
    assert numbers_in(state) == [1, 2, 3, 4]
    push(state, 5, head=HEAD)
    assert (numbers_in(state), state.dropped) == ([1, 2, 3, 4], 1)


async def test_ceiling_counts_what_was_delayed_or_postponed_before_more_is_taken(
    harness: Harness, autojump_clock: MockClock
) -> None:
    state = low_queue(harness)
    push(state, 1, head=HEAD)
    contents = bodies(2, 3, 4)
    state.ref.tell_nowait(Publish(HEAD, contents, sum(map(len, contents)), delay=1.0))
    await trio.sleep(2)
    assert numbers_in(state) == [1, 2, 3, 4]
    push(state, 5, head=HEAD)
    assert (numbers_in(state), state.dropped) == ([1, 2, 3, 4], 1)


async def test_ceiling_drops_no_more_of_a_run_than_has_to_give_way_whatever_the_first_message_is(
    harness: Harness,
) -> None:
    state = low_queue(harness, 10 * 1000)
    small = [b"%03d" % number for number in range(1)]
    state.ref.tell_nowait(Publish(EXPENDABLE, small, 3))
    push(state, 1, 2, 3, 4, 5, 6, 7, 8, 9)
    push(state, 10, 11)
    assert numbers_in(state) == [2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    assert state.lost == 2
