"""Stays in a queue, and what they spent their time with."""

from datetime import timedelta

import pytest

from triomq.analytics import PathEvent, Stay

from .made_log import NOON


def stay(*events: tuple[float, str]) -> Stay:
    return Stay(
        [
            PathEvent(
                0, NOON + timedelta(seconds=at), seq, "n", kind, "/", "q", 1, job_id="j" if "job" in kind else None
            )
            for seq, (at, kind) in enumerate(events)
        ]
    )


@pytest.mark.parametrize(
    ("events", "spans", "outcome"),
    [
        ([(0, "queued"), (2, "delivered"), (5, "accepted")], [("wait", 2), ("run", 3)], "accepted"),
        (
            [(0, "queued"), (1, "delivered"), (2, "requeued"), (4, "delivered"), (5, "rejected")],
            [("wait", 1), ("run", 1), ("wait", 2), ("run", 1)],
            "rejected",
        ),
        ([(0, "queued"), (9, "expired")], [("wait", 9)], "expired"),
        ([(0, "queued")], [("wait", None)], "waits"),
        ([(0, "queued"), (1, "delivered")], [("wait", 1), ("run", None)], "not settled"),
        ([(3, "accepted")], [], "accepted"),
        ([(0, "purged")], [], ""),
        # not sent after all
        (
            [(0, "queued"), (1, "delivered"), (2, "returned"), (3, "delivered"), (5, "accepted")],
            [("wait", 3), ("run", 2)],
            "accepted",
        ),
        # a stream's record goes to two consumers
        ([(0, "queued"), (1, "delivered"), (8, "delivered")], [("wait", 1), ("run", None)], "not settled"),
        (
            [(0, "job-submitted"), (1, "job-started"), (3, "job-retried"), (7, "job-started"), (9, "job-failed")],
            [("wait", 1), ("run", 2), ("wait", 4), ("run", 2)],
            "failed",
        ),
    ],
)
def test_time_of_a_stay_is_waits_and_runs(
    events: list[tuple[float, str]], spans: list[tuple[str, float | None]], outcome: str
) -> None:
    found = stay(*events)
    assert [(span.kind, span.seconds) for span in found.spans()] == spans
    assert found.outcome == outcome


def test_details_are_what_is_not_in_other_columns() -> None:
    event = PathEvent(0, NOON, 0, "n", "queued", exchange="", routing_key="q", size=1200, protocol="amqp", attempt=1)
    assert list(event.details()) == ["by the queue's name", "amqp", "attempt 2", "1,200 B"]
    event = PathEvent(0, NOON, 0, "n", "job-started", consumer="w", attempt=1)
    assert list(event.details()) == ["w"]
    event = PathEvent(0, NOON, 0, "n", "delivered", consumer="c", exchange="e", routing_key="k")
    assert list(event.details()) == ["to c"]
    event = PathEvent(0, NOON, 0, "n", "queued", from_queue="a", from_id=3, error="expired", routing_key="k")
    assert list(event.details()) == ["from a/3", "expired"]
