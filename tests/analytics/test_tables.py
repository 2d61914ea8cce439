"""Tables of a trace log: what the stories come to."""

import pytest

from triomq.analytics.job_tables import job_failures, jobs
from triomq.analytics.log_table import log
from triomq.analytics.losses import dead_letters, lost_peers, unsettled, unsettled_by_queue
from triomq.analytics.slowest_table import slowest
from triomq.analytics.stay_table import stays
from triomq.analytics.throughput_table import throughput
from triomq.analytics.wait_tables import SHARES, waits, waits_by_minute

from .frames import Engine, Table, frame, table, union, where
from .frames import rows as rows_of
from .made_log import BEGAN, clock_set_back, dead_letter, event, job_of_three_tries, lost_peer, normal_message


@pytest.fixture(scope="module")
def letters(engine: Engine) -> Table:
    """Two dead letters in one minute, a normal message in the next one, one that is expired in a queue of that name."""
    other = [event(70, "queued", "failed", 7, size=1, from_queue="slow", from_id=3)]
    return frame(engine, dead_letter(), dead_letter(1, 2), normal_message(61, 3), other)


def test_throughput_counts_by_minute_queue_and_protocol(letters: Table) -> None:
    columns = ("minute", "queue", "protocol", "queued", "delivered", "accepted", "bytes")
    assert table(throughput(letters), *columns) == [
        (0, "failed", None, 2, 0, 0, 100),
        (0, "failed", "amqp", 0, 2, 2, 0),
        (0, "orders", "amqp", 2, 2, 0, 100),
        (0, "retry", None, 2, 0, 0, 100),
        (60, "failed", None, 1, 0, 0, 1),
        (60, "orders", "amqp", 1, 0, 0, 100),
        (60, "orders", "dmp", 0, 1, 1, 0),
    ]


@pytest.mark.parametrize("exact", [False, True])
def test_waits_are_percentiles_of_each_queue(engine: Engine, *, exact: bool) -> None:
    rows = [
        row
        for number in range(101)
        for row in (
            event(0, "queued", "a", number),
            event(number, "delivered", "a", number),
            event(number + 0.5, "accepted", "a", number),
        )
    ]
    other = [event(0, "queued", "b"), event(1, "expired", "b"), event(0, "queued", "c"), event(2, "delivered", "c")]
    found = waits(stays(frame(engine, rows, other, clock_set_back(4000))), exact=exact)
    columns = (*(f"wait_{share}" for share in SHARES), "wait_max", *(f"run_{share}" for share in SHARES), "run_max")
    assert table(found, "queue", "messages", *columns) == [
        ("a", 101, 50, 95, 99, 100, 0.5, 0.5, 0.5, 0.5),
        ("c", 1, 2, 2, 2, 2, None, None, None, None),
        ("orders", 1, 1, 1, 1, 1, 1, 1, 1, 1),
    ]


def test_waits_by_minute_are_those_of_the_minute_of_delivery(engine: Engine) -> None:
    late = [event(10, "queued", "orders", 5), event(130, "delivered", "orders", 5)]
    found = waits_by_minute(stays(frame(engine, normal_message(), normal_message(1, 2), late)))
    assert table(found) == [(0, "one", "/", "orders", 2, 2, 2), (120, "one", "/", "orders", 120, 120, 120)]


def test_jobs_are_counted_by_function(engine: Engine) -> None:
    others = [
        event(0, "job-submitted", "mail", None, job_id="j2", job="mail.send"),
        event(1, "job-started", "mail", None, job_id="j2", job="mail.send", attempt=0),
        event(2, "job-cancelled", "mail", None, job_id="j2", job="mail.send", attempt=0),
        event(0, "job-started", "mail", None, job_id="j3", job="report", attempt=0),
        event(9, "job-timed-out", "mail", None, job_id="j3", job="report", attempt=0),
    ]
    assert table(jobs(frame(engine, job_of_three_tries(), others))) == [
        ("mail.send", "mail", 2, 4, 1, 0, 2, 0, 1, 1, 3, 3),
        ("report", "mail", 0, 1, 0, 0, 0, 1, 0, 9, 9, 9),
    ]


def test_job_failures_are_counted_by_exception(engine: Engine) -> None:
    last = {"job_id": "j7", "job": "mail.send", "error": "TimeoutError: no answer: again"}
    others = [
        event(50, "job-failed", "mail", None, **last),
        event(51, "job-failed", "mail", None, job_id="j8", job="mail.send", error="KeyError"),
        event(52, "job-timed-out", "mail", None, job_id="j9", job="mail.send"),
    ]
    assert table(job_failures(frame(engine, job_of_three_tries(), others))) == [
        ("mail.send", "KeyError", None, 1, 0, 0, 51, "j8"),
        ("mail.send", "TimeoutError", "no answer: again", 1, 2, 0, 50, "j7"),
        ("mail.send", "unknown", None, 0, 0, 1, 52, "j9"),
    ]


def test_dead_letters_are_counted_by_way_and_reason_and_other_moves_are_none(letters: Table) -> None:
    assert table(dead_letters(letters)) == [
        ("one", "/", "orders", "retry", "rejected", 2, 2, 3),
        ("one", "/", "retry", "failed", "expired", 2, 12, 13),
    ]


def test_lost_peers_have_what_they_had_not_settled(engine: Engine) -> None:
    assert table(lost_peers(frame(engine, lost_peer()))) == [(5, "one", "127.0.0.1:4711", "amqp", "no heartbeat", 2)]


def test_unsettled_messages_are_listed_with_their_consumers(engine: Engine) -> None:
    first = frame(engine, normal_message(0, 3), lost_peer(3))
    again = frame(engine, [event(9, "delivered", "mail", 4, consumer="c", attempt=2)], process=BEGAN + 9)
    rows = union(first, again)
    found = stays(rows)
    assert table(unsettled(rows, found)) == [
        ("one", "/", "mail", 4, None, 9, "c", 2),
        ("one", "/", "orders", 3, None, 4, "c8", 0),
    ]
    assert table(unsettled_by_queue(found)) == [("one", "/", "mail", 1, 9), ("one", "/", "orders", 1, 4)]


def test_slowest_messages_are_those_of_the_whole_path(letters: Table) -> None:
    first, second, third = rows_of(slowest(letters, stays(letters)))
    assert (first.queue, first.msg_id, first.message_id, first.outcome) == ("orders", 1, "bad", "accepted")
    assert (first.total, first.wait, first.run) == (21, 1 + 8, 1 + 1)
    assert [(stop.queue, stop.msg_id, stop.outcome, stop.deliveries) for stop in first.path] == [
        ("orders", 1, "rejected", 1),
        ("retry", 41, "expired", 0),
        ("failed", 91, "accepted", 1),
    ]
    assert (second.msg_id, second.total, len(second.path)) == (2, 21, 3)
    assert (third.msg_id, third.message_id, third.total, len(third.path)) == (3, "order-3", 2.5, 1)


def test_slowest_path_is_followed_through_a_retry_loop(engine: Engine) -> None:
    rows = [event(0, "queued", "work", 1), event(1, "delivered", "work", 1), event(2, "rejected", "work", 1)]
    for number in range(2, 8):  # each try waits 10 s in another queue
        at = 12.0 * (number - 1)
        back = {"from_queue": "work", "from_id": number - 1, "error": "rejected"}
        again = {"from_queue": "later", "from_id": number, "error": "expired"}
        rows += [event(at - 10, "queued", "later", number, **back), event(at, "expired", "later", number)]
        rows += [event(at, "queued", "work", number, **again), event(at + 1, "delivered", "work", number)]
        rows += [event(at + 2, "accepted" if number == 7 else "rejected", "work", number)]
    (found,) = rows_of(slowest(rows := frame(engine, rows), stays(rows)))
    assert (found.total, found.wait, found.run, found.outcome, len(found.path)) == (74, 7, 7, "accepted", 13)
    assert [stop.msg_id for stop in found.path] == [1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]


def test_log_says_what_it_has_and_what_is_missing(engine: Engine) -> None:
    lost = [event(3, "lost-events", None, None, size=40), event(4, "accepted"), event(5, "accepted")]
    rows = where(frame(engine, normal_message(), lost), "seq != 4")
    rows = union(rows, frame(engine, normal_message(), node="two"))
    assert table(log(rows)) == [(0, 5, 8, ["one", "two"], 40, 1)]
    assert table(log(where(rows, "false"))) == [(None, None, 0, [], 0, 0)]


def test_empty_log_makes_empty_tables(engine: Engine) -> None:
    rows = frame(engine)
    found = stays(rows)
    tables = [throughput(rows), waits(found), waits_by_minute(found), jobs(rows), dead_letters(rows), lost_peers(rows)]
    tables += [unsettled(rows, found), unsettled_by_queue(found), slowest(rows, found), job_failures(rows)]
    assert [each.isEmpty() for each in tables] == [True] * 10
