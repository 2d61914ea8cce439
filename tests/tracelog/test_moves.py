"""A message that goes from one queue to another is followed, whatever makes it go."""

from collections.abc import Callable

import pytest

from core.harness import HEAD, Harness, open_harness, publish
from core.streams.test_ledgers import acknowledge, lease, let_hand_back, walled
from triomq.core import (
    CloseFeed,
    Offer,
    Outcome,
    Overflow,
    Publish,
    QueueOptions,
    QueueState,
    Settle,
    StreamOptions,
    ledgers_of,
)

from .conftest import Row, Traced


def moves(rows: list[Row]) -> list[tuple[object, ...]]:
    """List what has come to queues from others: where, as what, from where, and why."""
    names = ("queue", "msg_id", "from_queue", "from_id", "error")
    return [tuple(row.get(name) for name in names) for row in rows if "from_queue" in row]


def dying(harness: Harness, name: str = "q", **options: object) -> QueueState:
    """Declare a queue whose dead letters go to another one, which is there too."""
    harness.queue("dead", QueueOptions(stream=StreamOptions()) if options.pop("stream", False) else None)
    return harness.queue(name, QueueOptions(dead_letter_sink="", dead_letter_key="dead", **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("stream", [False, True])
async def test_rejected_message_is_followed_to_its_dead_letter(
    harness: Harness, traced: Traced, *, stream: bool
) -> None:
    state, consumer = dying(harness, stream=stream), harness.consumer()
    publish(state, b"1", b"2", b"3")
    harness.feed(state, consumer)
    state.ref.tell_nowait(Settle(consumer.batches[0], Outcome.REJECT, (1, 2)))
    first = 0 if stream else 1
    assert moves(traced.take()) == [("dead", first, "q", 2, "rejected"), ("dead", first + 1, "q", 3, "rejected")]


@pytest.mark.parametrize("levels", [0, 3])
async def test_expired_message_is_followed_and_so_is_one_that_had_no_room(
    harness: Harness, traced: Traced, levels: int
) -> None:
    publish(dying(harness, "short", message_ttl=0, max_priority=levels), b"1")
    publish(dying(harness, "full", max_length=1, max_priority=levels), b"1", b"2", b"3")
    assert moves(traced.take()) == [
        ("dead", 1, "short", 1, "expired"),
        ("dead", 2, "full", 1, "maxlen"),
        ("dead", 3, "full", 2, "maxlen"),
    ]


async def test_message_that_came_back_too_often_is_followed(harness: Harness, traced: Traced) -> None:
    state, consumer = dying(harness, delivery_limit=1), harness.consumer()
    publish(state, b"1")
    harness.feed(state, consumer)
    for batch in (0, 1):
        state.ref.tell_nowait(Settle(consumer.batches[batch], Outcome.REQUEUE, None))
    assert moves(traced.take()) == [("dead", 1, "q", 1, "delivery_limit")]


async def test_message_that_was_returned_expires_by_its_own_id(harness: Harness, traced: Traced) -> None:
    state, consumer = dying(harness, max_length=2), harness.consumer()
    publish(state, b"1", b"2")
    feed = harness.feed(state, consumer)
    state.ref.ask_nowait(CloseFeed(feed))
    state.ref.tell_nowait(Settle(consumer.batches[0], Outcome.RETURN, None))
    publish(state, b"3")
    assert moves(traced.take())[:1] == [("dead", 1, "q", 1, "maxlen")]


async def test_message_that_was_never_stored_comes_from_nowhere(harness: Harness, traced: Traced) -> None:
    full = dying(harness, max_length=1, overflow=Overflow.REJECT_PUBLISH_DLX)
    publish(full, b"1", b"2")
    rows = traced.take()
    assert [(row["queue"], row["msg_id"]) for row in rows] == [("q", 1), ("dead", 1)]
    assert not moves(rows)


async def test_delayed_message_was_in_its_queue_without_an_id(
    harness: Harness, traced: Traced, autojump_clock: object
) -> None:
    state, stream = harness.queue(), harness.queue("s", QueueOptions(stream=StreamOptions()))
    for each in (state, stream):
        each.ref.tell_nowait(Publish(HEAD, [b"1", b"2"], 2, delay=5.0))
    assert not traced.take()
    await let_hand_back(harness, [0.0], 5.0)
    assert moves(traced.take()) == [
        ("q", 1, "q", None, None),
        ("q", 2, "q", None, None),
        ("s", 0, "s", None, None),
        ("s", 1, "s", None, None),
    ]


async def test_lease_is_followed_into_the_ledger_and_back(
    harness: Harness, traced: Traced, autojump_clock: object
) -> None:
    with walled(ledgers_of(harness.directory)) as time:
        publish(harness.queue(), b"1", b"2", b"3")
        lease(harness)
        ledger = "q, leased by g"
        rows = traced.take()
        assert [row["kind"] for row in rows] == ["queued"] * 3 + ["delivered"] * 3 + ["accepted"] * 3 + ["queued"] * 3
        assert moves(rows) == [(ledger, place, "q", place + 1, None) for place in range(3)]
        acknowledge(harness, 1)
        assert [(row["kind"], row["queue"], row["msg_id"]) for row in traced.take()] == [("accepted", ledger, 0)]
        await let_hand_back(harness, time, 3610.0)
    rows = traced.take()
    assert moves(rows) == [("q", 4, ledger, 1, None), ("q", 5, ledger, 2, None)]
    assert [(row["kind"], row["msg_id"]) for row in rows if row["queue"] == ledger] == [
        ("accepted", 1),
        ("accepted", 2),
    ]


async def test_sampled_message_stays_sampled_wherever_it_goes(
    open_traced: Callable[..., Traced], autojump_clock: object
) -> None:
    traced = open_traced(queues={"q": 0.5, "*": 0})
    async with open_harness() as harness:
        harness.directory.trace(traced.recorder)
        state, consumer = dying(harness), harness.consumer()
        publish(state, b"1", b"2", b"3", b"4")
        harness.feed(state, consumer)
        state.ref.tell_nowait(Settle(consumer.batches[0], Outcome.REJECT, None))
        with walled(ledgers_of(harness.directory)) as time:
            lease(harness, queue="dead")
            await let_hand_back(harness, time, 3610.0)
        later = harness.consumer()
        harness.feed(harness.queue("dead"), later)
        for batch in later.batches:
            harness.queue("dead").ref.tell_nowait(Settle(batch, Outcome.ACCEPT, None))
    rows = traced.take()
    ledger = "dead, leased by g"
    assert moves(rows) == [
        ("dead", 2, "q", 2, "rejected"),
        ("dead", 4, "q", 4, "rejected"),
        (ledger, 1, "dead", 2, None),
        (ledger, 3, "dead", 4, None),
        ("dead", 6, ledger, 1, None),
        ("dead", 8, ledger, 3, None),
    ]
    assert [row["msg_id"] for row in rows if (row["queue"], row["kind"]) == ("dead", "accepted")] == [2, 4, 6, 8]


async def test_message_that_no_consumer_takes_at_once_is_discarded(harness: Harness, traced: Traced) -> None:
    assert not harness.queue().ref.ask_nowait(Offer(HEAD, b"1"))
    assert [(row["kind"], row["msg_id"]) for row in traced.take()] == [("queued", 1), ("discarded", 1)]
