"""Queues by name, and time in steps."""

from datetime import timedelta

import pyarrow as pa
import pytest

from triomq.analytics.page.queues import by_step, name_queues, places_of, steps_of, totals
from triomq.analytics.page.tables import SCHEMAS

from .made_tables import NOON, Row


def throughput(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist(list(rows), SCHEMAS["throughput"])


def minutes(*numbers: int) -> pa.ChunkedArray:
    return throughput(*({"minute": NOON + timedelta(minutes=number)} for number in numbers))["minute"]


def test_queue_has_its_node_and_domain_only_where_there_are_several() -> None:
    alike = throughput({"node": "n", "domain": "a", "queue": "q"}, {"node": "n", "domain": "a", "queue": None})
    assert name_queues(alike, places_of(alike))["name"].to_pylist() == ["q", "(none)"]
    other = throughput({"node": "n", "domain": "b", "queue": "q"}, {"node": "m", "domain": None, "queue": "q"})
    assert name_queues(other, places_of(alike, other))["name"].to_pylist() == ["n: b: q", "m: (none): q"]


def test_totals_begin_with_the_largest_and_go_on_by_name() -> None:
    rows = [{"queue": name, "queued": count} for name, count in [("b", 1), ("a", 1), ("c", 1), ("c", 2)]]
    found = totals(name_queues(throughput(*rows), []), ["queued"], rank="queued")
    assert [(row["name"], row["queued"]) for row in found] == [("c", 3), ("a", 1), ("b", 1)]


@pytest.mark.parametrize(("last", "step"), [(0, 1), (239, 1), (240, 2), (1440, 10), (60 * 24 * 30, 240)])
def test_steps_are_so_few_that_a_plot_has_room(last: int, step: int) -> None:
    steps = steps_of(minutes(last, 0))
    assert steps.minutes == step
    assert len(steps.times) <= 241
    assert steps.times[0] <= NOON <= steps.times[0] + timedelta(minutes=step)
    assert steps.times[-1] <= NOON + timedelta(minutes=last) < steps.times[-1] + timedelta(minutes=step)


def test_nothing_has_no_steps() -> None:
    assert steps_of(minutes()).times == []


def test_values_are_those_of_the_names_and_of_all_others_together() -> None:
    rows = [
        {"minute": NOON + timedelta(minutes=minute), "queue": queue, "queued": count}
        for minute, queue, count in [
            (0, "a", 1),
            (0, "b", 10),
            (0, "c", 100),
            (1, "a", 2),
            (300, "a", 5),
            (301, "a", 6),
        ]
    ]
    table = name_queues(throughput(*rows), [])
    steps = steps_of(table["minute"])
    assert steps.minutes == 2
    found = by_step(table, ["queued"], steps, ["a"], how="sum", others=True)
    assert found["a"]["queued"][:2] == [3, None]
    assert found["a"]["queued"][-1] == 11
    assert found[None]["queued"][:2] == [110, None]
    assert by_step(table, ["queued"], steps, ["a"], how="max", others=False).keys() == {"a"}


@pytest.mark.parametrize(
    ("first", "last", "seconds"),
    [
        (0, 5, [5]),  # a first look: some thousand messages in a few seconds
        (0, 0.05, [0.05]),
        (30, 30, [1]),
        (45, 150, [15, 60, 30]),
        (59.9, 120.001, [1, 60, 1]),  # a little at an end is no peak
        (0, 60, [60, 1]),
    ],
)
def test_rates_are_by_what_the_log_covers_of_each_step(first: float, last: float, seconds: list[float]) -> None:
    steps = steps_of(minutes(0, len(seconds) - 1))
    found = steps.seconds(NOON + timedelta(seconds=first), NOON + timedelta(seconds=last))
    assert found == pytest.approx(seconds)
    assert steps.seconds(None, None) == [60] * len(seconds)


def test_steps_of_several_minutes_are_covered_in_part_too() -> None:
    steps = steps_of(minutes(4, 243))
    assert steps.minutes == 1
    steps = steps_of(minutes(4, 250))
    assert steps.minutes == 2
    assert steps.seconds(NOON + timedelta(minutes=5), NOON + timedelta(minutes=251))[:2] == [60, 120]
