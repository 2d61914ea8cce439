"""What a recorder sends is what has happened, row by row, when it is expanded at the other end."""

from collections.abc import Callable

import pytest

from core.harness import HEAD, OTHER_HEAD, Harness, open_harness, publish
from triomq.core import (
    Head,
    Outcome,
    Overflow,
    Properties,
    Publish,
    Purge,
    QueueOptions,
    Settle,
    encode_core,
    traits_of,
)
from triomq.tracelog import outbox as outbox_module
from triomq.tracelog import recorder as recorder_module
from triomq.tracelog.ids import LONGEST
from triomq.tracelog.records import PIECE

from .conftest import Row, Traced

WHERE = {"domain": "domain", "queue": "q"}


def brief(rows: list[Row]) -> list[tuple[object, object]]:
    return [(row["kind"], row.get("msg_id")) for row in rows]


async def test_run_is_a_row_for_each_message(harness: Harness, traced: Traced) -> None:
    publish(harness.queue(), b"1", b"22")
    same = {"kind": "queued", **WHERE, "session": 0, "attempt": 0, "exchange": "", "routing_key": "q"}
    assert traced.take() == [same | {"msg_id": 1, "size": 1}, same | {"msg_id": 2, "size": 2}]


async def test_messages_of_several_heads_have_their_own_keys_and_sizes(harness: Harness, traced: Traced) -> None:
    framed = Head(routing_key="framed", body_start=2, body_trailer=1)
    run = Publish(HEAD, [b"1", b"..22.", b"333"], 9, heads=[HEAD, framed, OTHER_HEAD])
    harness.queue().ref.tell_nowait(run)
    assert [(row["routing_key"], row["size"]) for row in traced.take()] == [("q", 1), ("framed", 2), ("other", 3)]


async def test_ids_in_properties_come_along(harness: Harness, traced: Traced) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    encoded = encode_core(Properties(message_id="m", correlation_id="c", headers={"traceparent": parent}))
    head = Head(properties_stop=len(encoded), body_start=len(encoded), traits=traits_of(publisher=7))
    harness.queue().ref.tell_nowait(Publish(head, [encoded + b"body"], len(encoded) + 4))
    (row,) = traced.take()
    found = {name: row[name] for name in ("message_id", "correlation_id", "traceparent", "session", "size")}
    assert found == {"message_id": "m", "correlation_id": "c", "traceparent": parent, "session": 7, "size": 4}


async def test_properties_that_cannot_be_read_leave_the_ids_empty(harness: Harness, traced: Traced) -> None:
    for codec in (0, 1, 99):
        head = Head(properties_stop=8, body_start=8, traits=traits_of(codec=codec))
        harness.queue().ref.tell_nowait(Publish(head, [b"\xff" * 8], 8))
    assert [row.keys() & {"message_id", "correlation_id"} for row in traced.take()] == [set()] * 3


async def test_deliveries_and_settlements_have_the_ids_of_their_messages(harness: Harness, traced: Traced) -> None:
    state, consumer = harness.queue(), harness.consumer()
    publish(state, b"1", b"2", b"3", b"4")
    traced.take()
    harness.feed(state, consumer, messages=4)
    rows = traced.take()
    assert brief(rows) == [("delivered", number) for number in (1, 2, 3, 4)]
    assert {(row["consumer"], row["attempt"]) for row in rows} == {(consumer.ref.path, 0)}
    (batch,) = consumer.batches
    state.ref.tell_nowait(Settle(batch, Outcome.REJECT, (1, 3)))
    state.ref.tell_nowait(Settle(batch, Outcome.REQUEUE, (2,)))
    state.ref.tell_nowait(Settle(batch, Outcome.ACCEPT, None))
    assert brief(traced.take()) == [
        ("rejected", 2),
        ("rejected", 4),
        ("requeued", 3),
        ("delivered", 3),
        ("accepted", 1),
    ]


async def test_what_leaves_otherwise_has_its_reason(harness: Harness, traced: Traced) -> None:
    full = harness.queue("full", QueueOptions(max_length=1, overflow=Overflow.DROP_HEAD))
    publish(full, b"1", b"2")
    publish(harness.queue("short", QueueOptions(message_ttl=0)), b"1")
    full.ref.ask_nowait(Purge())
    left = [row for row in traced.take() if row["kind"] != "queued"]
    assert [(row["kind"], row["queue"], row.get("msg_id")) for row in left] == [
        ("dropped", "full", 1),
        ("expired", "short", 1),
        ("purged", "full", None),
    ]


async def test_rate_and_names_choose_what_is_recorded(open_traced: Callable[..., Traced]) -> None:
    traced = open_traced(rate=0.5, queues={"all.*": 1, "no*": 0})
    async with open_harness() as harness:
        harness.directory.trace(traced.recorder)
        for name in ("all.a", "none", "other"):
            state, consumer = harness.queue(name), harness.consumer()
            publish(state, b"1", b"2", b"3", b"4")
            harness.feed(state, consumer)
            state.ref.tell_nowait(Settle(consumer.batches[0], Outcome.ACCEPT, None))
        rows = traced.take()
        for name, ids in (("all.a", [1, 2, 3, 4]), ("none", []), ("other", [2, 4])):
            for kind in ("queued", "delivered", "accepted"):
                assert [row["msg_id"] for row in rows if (row["queue"], row["kind"]) == (name, kind)] == ids


async def test_names_are_sent_once_and_again_when_there_are_very_many(
    harness: Harness, traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "_MOST_NAMES", 5)
    state = harness.queue()
    for number in range(20):
        state.ref.tell_nowait(Publish(Head(routing_key=str(number % 8)), [b"x"], 1))
    assert [(row["routing_key"], row["queue"]) for row in traced.take()] == [(str(n % 8), "q") for n in range(20)]


async def test_queue_that_is_declared_again_is_traced(harness: Harness, traced: Traced) -> None:
    for _ in range(2):
        publish(harness.queue(), b"1")
        harness.delete("q")
    assert brief([row for row in traced.take() if row["kind"] == "queued"]) == [("queued", 1)] * 2


async def test_what_finds_no_room_is_counted_and_names_are_known_afterwards(
    harness: Harness, traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "MOST_WAITING", 3 * PIECE)
    state, outbox = harness.queue(), traced.recorder.outbox
    published = 0
    while not outbox.lost:
        publish(state, *[b"x"] * 500)
        published += 500
    rows = traced.take()
    publish(state, b"last")
    rows += traced.take()
    told = sum(int(str(row["size"])) for row in rows if row["kind"] == "lost-events")
    assert told == outbox.lost
    queued = [row for row in rows if row["kind"] == "queued"]
    assert len(queued) + told == published + 1
    assert queued[-1]["queue"] == "q"


async def test_nothing_is_gathered_while_there_is_no_process(harness: Harness, traced: Traced) -> None:
    traced.theirs.close()
    publish(harness.queue(), b"1")
    traced.recorder.outbox.flush()
    assert not traced.recorder.outbox.is_connected
    publish(harness.queue(), b"2", b"3")
    traced.recorder.outbox.flush()
    assert traced.recorder.outbox.lost == 3


async def test_records_of_a_chunk_are_rows_without_keys(harness: Harness, traced: Traced) -> None:
    traced.recorder.appended(harness.queue(), 5, 2)
    assert traced.take() == [{"kind": "queued", **WHERE, "msg_id": number} for number in (5, 6)]


async def test_names_that_are_no_utf8_are_recorded_and_tell_queues_apart(harness: Harness, traced: Traced) -> None:
    for name in ("q\udcff", "q\udcfe", "good"):
        publish(harness.queue(name), b"1", head=Head(routing_key=name))
    traced.recorder.actor_restarted("path", "OSError: \ud800")
    names = [row.get("queue", row.get("error")) for row in traced.take()]
    assert names == ["q\\udcff", "q\\udcfe", "good", "OSError: \\ud800"]


async def test_large_properties_wait_in_no_more_memory_than_small_ones(harness: Harness, traced: Traced) -> None:
    encoded = encode_core(Properties(message_id="m", headers={"h": "x" * 60_000}))
    head = Head(properties_stop=len(encoded), body_start=len(encoded), traits=traits_of(publisher=7))
    run = Publish(head, [encoded] * 64, len(encoded) * 64)
    waiting = most = 0
    while not traced.recorder.outbox.lost:
        harness.queue().ref.tell_nowait(run)
        waiting += run.size
        most = max(most, waiting)
    assert most < 2 * outbox_module.MOST_WAITING


async def test_ids_and_errors_of_any_length_take_few_bytes(harness: Harness, traced: Traced) -> None:
    far = "x" * 10_000
    encoded = encode_core(Properties(message_id=far, correlation_id=far, headers={"traceparent": far}))
    head = Head(properties_stop=len(encoded), body_start=len(encoded), traits=traits_of(publisher=7))
    harness.queue().ref.tell_nowait(Publish(head, [encoded], len(encoded)))
    (row,) = traced.take()
    assert {len(str(row[name])) for name in ("message_id", "correlation_id", "traceparent")} == {LONGEST}


async def test_queue_that_is_deleted_is_forgotten_with_what_consumers_have_of_it(
    harness: Harness, traced: Traced
) -> None:
    state, consumer = harness.queue(), harness.consumer()
    publish(state, b"1", b"2")
    harness.feed(state, consumer, messages=1)
    harness.delete("q")
    (batch,) = consumer.batches
    state.ref.tell_nowait(Settle(batch, Outcome.ACCEPT, None))
    harness.turn(lambda: None)
    assert not traced.recorder._queues
    assert brief(traced.take())[2:] == [("delivered", 1), ("discarded", 1), ("purged", None)]
