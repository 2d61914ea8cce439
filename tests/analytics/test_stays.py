"""Stays of messages in queues, from rows of the trace log."""

import pytest
from pyspark.sql import DataFrame, SparkSession

from triomq.analytics.stay_table import stays
from triomq.analytics.wait_tables import waits

from .frames import Engine, frame, table, union, where
from .frames import rows as rows_of
from .made_log import BEGAN, clock_set_back, dead_letter, event, lost_peer, normal_message

TIMES = ("queued", "delivered", "taken", "ended")


def test_stay_has_the_times_of_its_message(engine: Engine) -> None:
    (stay,) = rows_of(stays(frame(engine, normal_message())))
    assert (stay.node, stay.domain, stay.queue, stay.msg_id) == ("one", "/", "orders", 1)
    assert (stay.process, stay.begin) == (BEGAN, 0)
    assert (stay.outcome, stay.deliveries, stay.is_out) == ("accepted", 1, False)
    assert (stay.wait, stay.run, stay.is_odd) == (2.0, 0.5, False)
    assert table(stays(frame(engine, normal_message())), *TIMES) == [(0, 2, 2, 2.5)]


def test_moved_message_has_a_stay_in_each_queue(engine: Engine) -> None:
    assert table(stays(frame(engine, dead_letter())), "queue", "msg_id", "outcome", "wait", "run") == [
        ("failed", 91, "accepted", 8, 1),
        ("orders", 1, "rejected", 1, 1),
        ("retry", 41, "expired", None, None),
    ]


def test_message_that_came_back_has_waited_until_its_first_delivery_and_ran_since_its_last(engine: Engine) -> None:
    found = where(stays(frame(engine, lost_peer())), "msg_id = 2")
    assert table(found, "wait", "run", "deliveries", *TIMES) == [(1, 1, 2, 0, 1, 6, 7)]


def test_message_that_a_consumer_has_is_out(engine: Engine) -> None:
    back = [event(9, "requeued", "orders", 7), event(9, "delivered", "orders", 8)]
    rows = frame(engine, lost_peer(), [event(8, "delivered", "orders", 7)], back)
    assert table(stays(rows), "msg_id", "is_out") == [(1, False), (2, False), (3, True), (7, False), (8, True)]


def test_delivery_that_was_returned_is_none(engine: Engine) -> None:
    rows = [
        event(0, "queued"),
        event(1, "delivered"),
        event(2, "returned"),
        event(3, "delivered"),
        event(4, "accepted"),
    ]
    not_yet = [event(0, "queued", msg_id=2), event(1, "delivered", msg_id=2), event(2, "returned", msg_id=2)]
    assert table(stays(frame(engine, rows, not_yet)), "msg_id", "deliveries", "wait", "run", "is_out") == [
        (1, 1, 3, 1, False),
        (2, 0, None, None, False),
    ]


def test_id_that_is_used_again_after_a_restart_is_another_message(engine: Engine) -> None:
    first = frame(engine, normal_message(), [event(3, "queued", "orders", 2), event(4, "delivered", "orders", 2)])
    again = frame(engine, normal_message(100), [event(110, "queued", "orders", 2)], process=BEGAN + 9)
    assert table(stays(union(first, again)), "msg_id", "process", *TIMES, "is_out") == [
        (1, BEGAN, 0, 2, 2, 2.5, False),
        (1, BEGAN + 9, 100, 102, 102, 102.5, False),
        (2, BEGAN, 3, 4, 4, None, True),
        (2, BEGAN + 9, 110, None, None, None, False),
    ]


def test_message_that_outlives_a_restart_is_one(engine: Engine) -> None:
    queued, delivered, accepted = normal_message()
    rows = union(frame(engine, [queued, delivered]), frame(engine, [accepted], process=BEGAN + 9))
    assert table(stays(rows), "process", *TIMES, "outcome") == [(BEGAN, 0, 2, 2, 2.5, "accepted")]


def test_message_that_came_back_after_a_restart_is_not_out(engine: Engine) -> None:
    killed = frame(engine, [event(0, "queued"), event(1, "delivered"), event(1, "queued", msg_id=2)])
    after = [event(5, "delivered"), event(6, "requeued"), event(7, "delivered", msg_id=2)]
    rows = union(killed, frame(engine, after, process=BEGAN + 9))
    assert table(stays(rows), "msg_id", "deliveries", "is_out") == [(1, 2, False), (2, 1, True)]


def test_clock_that_was_set_back_between_deliveries_does_not_change_their_order(engine: Engine) -> None:
    kinds = ("queued", "delivered", "requeued", "delivered", "accepted")
    rows = [event(at, kind) for at, kind in zip((100, 103, 104, 50, 51), kinds, strict=True)]
    assert table(stays(frame(engine, rows)), "wait", "run", "is_odd", *TIMES) == [(3, 1, False, 100, 103, 50, 51)]


def test_id_of_a_cut_log_that_is_used_again_is_another_message(engine: Engine) -> None:
    cut = frame(engine, [event(0, "delivered"), event(1, "requeued", msg_id=2), event(2, "delivered", msg_id=2)])
    again = frame(engine, [event(9, "queued"), event(11, "delivered")], process=BEGAN + 9)
    assert table(stays(union(cut, again)), "msg_id", "wait", "is_out", "is_odd") == [
        (1, None, True, False),
        (1, 2, True, False),
        (2, None, True, False),
    ]


def test_queue_that_is_declared_again_has_other_messages(engine: Engine) -> None:
    rows = frame(engine, [event(0, "queued"), event(1, "delivered"), event(2, "queued"), event(5, "delivered")])
    assert table(stays(rows), "queued", "delivered", "wait") == [(0, 1, 1), (2, 5, 3)]


def test_queues_of_two_brokers_are_two(engine: Engine) -> None:
    queued, *rest = normal_message()
    rows = union(frame(engine, [queued]), frame(engine, rest, node="two"))
    assert table(stays(rows), "node", "wait", "run") == [("one", None, None), ("two", None, 0.5)]


def test_log_that_was_cut_leaves_out_what_it_does_not_say(engine: Engine) -> None:
    settled = [event(1, "accepted", "orders", 1)]
    after_an_end = [event(2, "delivered", "orders", 2), event(3, "accepted", "orders", 2)] * 2
    assert table(stays(frame(engine, settled, after_an_end)), "msg_id", "queued", "wait", "run", "outcome") == [
        (1, None, None, None, "accepted"),
        (2, None, None, 1, "accepted"),
        (2, None, None, 1, "accepted"),
    ]


def test_times_that_would_be_negative_are_not_known(engine: Engine) -> None:
    assert table(stays(frame(engine, clock_set_back())), "msg_id", "wait", "run", "is_odd") == [
        (1, None, 1, True),
        (2, 1, 1, False),
    ]


def test_rows_of_other_things_have_no_stay(engine: Engine) -> None:
    others = [event(0, "purged", msg_id=None), event(0, "lost-events", None, None, size=5), event(1, "job-started")]
    assert table(stays(frame(engine, others))) == []


@pytest.mark.spark
def test_stays_that_are_persisted_stay_so_while_tables_are_made_of_them(spark: SparkSession) -> None:
    persisted: list[DataFrame] = []

    def persist(rows: DataFrame) -> DataFrame:
        persisted.append(rows.persist())
        return rows

    found = stays(frame(spark, normal_message()), persist)
    assert len(rows_of(waits(found))) == 1
    assert [rows.storageLevel.useMemory for rows in persisted] == [True, True, True]
    for rows in persisted:
        rows.unpersist()
