"""Queues of a table by one name each, the busiest ones, and the rest as one; time in steps for which there is room.

    minute, domain, queue, …  ──name_queues──▶  name, minute, …  ──by_step──▶  {busiest: […], None: […]}

A log may have a thousand queues and months of minutes. All that depends on that is done in Arrow's columns; what is in
Python is as large as what is drawn.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from triomq.analytics.page.words import some

BUSIEST: Final = 8
"""Queues with a line of their own; more colours than that nobody tells apart."""

MOST_STEPS: Final = 240
"""Points of a line: one in five pixels of a wide screen."""

_STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 240, 360, 720, 1440, 2880, 7200, 14400, 43200, 144000)
"""Minutes that one point may stand for."""

_SECOND: Final = timedelta(seconds=1)

NAMELESS: Final = "(none)"


class Steps(msgspec.Struct, frozen=True):
    """The times of a plot.

    Args:
        minutes: How many minutes one point stands for.
        times: When each begins, without gaps.
    """

    minutes: int
    times: Sequence[datetime]

    def seconds(self, first: datetime | None, last: datetime | None) -> list[float]:
        """Return how much of each step a log covers, by which counts are divided to be rates.

        The first and the last step are rarely whole, and a log of five seconds has one that is not. The least is a
        second, or a log's whole length if that is less: three messages in the last millisecond are not 3,000 a second.

        Args:
            first: When the log begins; None if that is not known.
            last: When it ends; None if that is not known.
        """
        whole = timedelta(minutes=self.minutes)
        if first is None or last is None:
            return [whole.total_seconds()] * len(self.times)
        least = min(last - first, _SECOND) or _SECOND
        covered = [min(time + whole, last) - max(time, first) for time in self.times]
        return [max(each, least).total_seconds() for each in covered]


def name_queues(table: pa.Table, places: Sequence[str]) -> pa.Table:
    """Add the column ``name``: that of the queue, after its node and its domain where there are several of these."""
    parts = [pc.fill_null(table[place], NAMELESS) for place in (*places, "queue")]
    return table.append_column("name", pc.binary_join_element_wise(*parts, ": ") if places else parts[0])


def places_of(*tables: pa.Table) -> list[str]:
    """Return which of ``node`` and ``domain`` it takes to tell the queues of some tables apart."""
    return [place for place in ("node", "domain") if len(_different(tables, place)) > 1]


def _different(tables: Sequence[pa.Table], column: str) -> set[str]:
    return {value for table in tables for value in pc.unique(table[column]).to_pylist()} - {None}


def totals(table: pa.Table, measures: Sequence[str], *, rank: str) -> list[dict[str, object]]:
    """Return the sums of each name as rows, the largest ``rank`` first; those alike by their names."""
    summed = table.group_by("name").aggregate([(measure, "sum") for measure in measures])
    summed = summed.rename_columns(["name", *measures])
    return list(summed.sort_by([(rank, "descending"), ("name", "ascending")]).to_pylist())


def steps_of(minutes: pa.ChunkedArray) -> Steps:
    """Choose steps for a column of times."""
    ends = pc.min_max(minutes)
    first, last = ends["min"].as_py(), ends["max"].as_py()
    if first is None:
        return Steps(1, [])
    span = (last - first).total_seconds() / 60
    step = next((step for step in _STEPS if span / step < MOST_STEPS), _STEPS[-1])
    began, ended = (
        moment.as_py() for moment in pc.floor_temporal(pa.array([first, last], minutes.type), step, "minute")
    )
    count = int((ended - began).total_seconds() / 60) // step + 1
    times = pa.array(range(count), pa.int64())
    started = int(began.timestamp()) * 1_000_000
    microseconds = pc.add(pc.multiply(times, step * 60_000_000), started)
    return Steps(step, microseconds.cast(minutes.type).to_pylist())


def by_step(
    table: pa.Table, measures: Sequence[str], steps: Steps, names: Sequence[str], *, how: str, others: bool
) -> dict[str | None, dict[str, list[float | None]]]:
    """Return for each name the values of each measure over time; for None those of all other names.

    Args:
        table: With the columns ``name``, ``minute`` and the measures.
        measures: Names of columns.
        steps: The times.
        names: Those with a line of their own.
        how: What becomes of several values: ``sum`` or ``max``.
        others: Whether the rest is wanted.
    """
    kept = pc.is_in(table["name"], value_set=pa.array(names, pa.string()))
    if not others:
        table, kept = table.filter(kept), None
    name = table["name"] if kept is None else pc.if_else(kept, table["name"], None)
    step = pc.floor_temporal(table["minute"], steps.minutes, "minute")
    small = pa.table({"name": name, "step": step, **{measure: table[measure] for measure in measures}})
    grouped = small.group_by(["name", "step"]).aggregate([(measure, how) for measure in measures])
    places = {time: place for place, time in enumerate(steps.times)}
    found: dict[str | None, dict[str, list[float | None]]] = {}
    for row in grouped.to_pylist():
        if row["step"] is None:
            continue
        lines = found.get(row["name"])
        if lines is None:
            lines = found[row["name"]] = {measure: [None] * len(places) for measure in measures}
        for measure in measures:
            lines[measure][places[row["step"]]] = row[f"{measure}_{how}"]
    return found


def others_text(count: int) -> str:
    """Return the name of a line that stands for so many queues."""
    return f"{some(count, 'other queue')} together"
