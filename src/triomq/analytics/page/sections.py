"""The sections of the page: each has plots, and the tables behind them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
import pyarrow as pa

from triomq.analytics.page import figures, grid, words
from triomq.analytics.page.figures import Figure, View
from triomq.analytics.page.grid import Grid, make_grid
from triomq.analytics.page.queues import BUSIEST, by_step, others_text, steps_of, totals
from triomq.analytics.page.tables import ReportTables

_MEASURES: Final = ("queued", "delivered", "accepted", "requeued", "bytes")
_OVER_TIME: Final = (("queued", "Queued"), ("delivered", "Delivered"), ("accepted", "Accepted"), ("bytes", "Bytes"))
_PERCENTILES: Final = (("wait_p50", "p50"), ("wait_p95", "p95"), ("wait_p99", "p99"))
_PLOTTED: Final = 15
"""Names on the axis of a plot; the table behind it has more."""

_QUEUE: Final = grid.name("Queue", "name")

Row = Mapping[str, object]


class Section(msgspec.Struct, frozen=True):
    """A section of the page.

    Args:
        id: Its id, to which links lead.
        title: Its title.
        figures: Its plots, each with a table behind it as far as there are any.
        grids: Its tables; those after the last plot's stand for themselves.
        nothing: What stands there if it has neither.
    """

    id: str
    title: str
    figures: Sequence[Figure]
    grids: Sequence[Grid]
    nothing: str = "Nothing."


def make_sections(tables: ReportTables) -> list[Section]:
    """Make all sections of a report, in the order in which they stand."""
    return [
        _throughput(tables.throughput, tables.log),
        _waits(tables.waits, tables.waits_by_minute),
        _jobs(tables.jobs, tables.job_failures),
        _slowest(tables.slowest),
        _dead_letters(tables.dead_letters),
        _lost_peers(tables.lost_peers),
        _unsettled(tables.unsettled, tables.unsettled_by_queue),
    ]


def _throughput(table: pa.Table, log: pa.Table) -> Section:
    rows = totals(table, _MEASURES, rank="queued")
    rows.sort(key=lambda row: (-_both(row), str(row["name"])))
    columns = [
        _QUEUE,
        *(grid.count(measure.capitalize(), measure) for measure in _MEASURES[:-1]),
        grid.size("Bytes", "bytes"),
    ]
    rest = rows[grid.MOST_ROWS :]
    last: Row | None = None
    if rest:
        last = {"name": others_text(len(rest)), **{measure: _sum(rest, measure) for measure in _MEASURES}}
    found = make_grid("Messages by queue", columns, rows, last=last, place="throughput")
    drawn = [_over_time(table, rows, log)] if table.num_rows else []
    return Section("throughput", "Throughput", drawn, [found] if rows else [], "No message came or went.")


def _both(row: Row) -> int:
    return _sum([row], "queued") + _sum([row], "delivered")


def _over_time(table: pa.Table, rows: Sequence[Row], log: pa.Table) -> Figure:
    names = [str(row["name"]) for row in rows[:BUSIEST]]
    steps = steps_of(table["minute"])
    period = next(iter(log.to_pylist()), {"first": None, "last": None})
    seconds = steps.seconds(period["first"], period["last"])
    measures = [measure for measure, _ in _OVER_TIME]
    lines = by_step(table, measures, steps, names, how="sum", others=True)
    labels: list[tuple[str | None, str, int]] = [(name, name, colour) for colour, name in enumerate(names)]
    if len(rows) > len(names):
        labels.append((None, others_text(len(rows) - len(names)), figures.GREY))
    views = []
    for measure, title in _OVER_TIME:
        unit = " B/s" if measure == "bytes" else "/s"
        rate = {name: _per_second(found[measure], seconds) for name, found in lines.items()}
        traces = [
            figures.area(label, steps.times, rate[name], colour, unit) for name, label, colour in labels if name in rate
        ]
        axis = {"title": {"text": "bytes/s" if measure == "bytes" else "messages/s"}, "rangemode": "tozero"}
        views.append(View(title, traces, {"xaxis": figures.time_axis(), "yaxis": axis}))
    summary = f"Messages per second over time, by queue; most in {words.shown(names[0], 60)}."
    return Figure(
        "throughput-plot", "Messages per second", summary, views, 380, _step_note(steps.minutes, "mean", _IN_PART)
    )


def _per_second(values: Sequence[float | None], seconds: Sequence[float]) -> list[float | None]:
    return [None if value is None else value / covered for value, covered in zip(values, seconds, strict=True)]


_IN_PART: Final = ", or of what the log has of it"


def _step_note(minutes: int, what: str, more: str = "") -> str:
    each = f"Each point is the {what} of {words.some(minutes, 'minute')}{more}."
    return f"{each} Drag to look closer, double-click to come back."


def _waits(table: pa.Table, by_minute: pa.Table) -> Section:
    rows = table.sort_by([("wait_p95", "descending"), ("name", "ascending")]).to_pylist()
    columns = [
        _QUEUE,
        grid.count("Messages", "messages"),
        *(grid.seconds(f"Wait {word}", f"wait_{word}") for word in ("p50", "p95", "p99", "max")),
        *(grid.seconds(f"Run {word}", f"run_{word}") for word in ("p50", "p95", "p99", "max")),
    ]
    found = make_grid("Waits and runs by queue, the slowest first", columns, rows, place="waits")
    drawn = [_waits_by_queue(rows[:_PLOTTED], len(rows))] if rows else []
    if rows and by_minute.num_rows:
        drawn.append(_waits_over_time(by_minute, [row["name"] for row in rows[:BUSIEST]], len(rows)))
    return Section("waits", "Waits", drawn, [found] if rows else [], "No message was delivered.")


def _waits_by_queue(rows: Sequence[Row], count: int) -> Figure:
    labels = [str(row["name"]) for row in rows]
    values = {field: [_float(row[field]) for row in rows] for field, _ in _PERCENTILES}
    traces = [figures.spans(values["wait_p50"], values["wait_p99"])]
    traces += [figures.dots(title, values[field], labels, colour) for colour, (field, title) in enumerate(_PERCENTILES)]
    known = [value for field in values for value in values[field] if value is not None] or [0.0]
    powers, names = figures.powers_axis("Wait", min(known), max(known)), figures.names_axis(labels)
    views = [
        View("Powers of ten", traces, {"xaxis": powers, "yaxis": names}),
        View("Linear", traces, {"xaxis": figures.seconds_axis("Wait"), "yaxis": names}),
    ]
    slowest = f"slowest {words.shown(labels[0], 60)}, p95 {words.duration(values['wait_p95'][0])}"
    note = f"The {len(labels)} slowest of {words.some(count, 'queue')}." if count > len(labels) else ""
    title = "From the queue to a consumer"
    return Figure("waits-plot", title, f"Waits by queue: {slowest}.", views, figures.height_of(len(labels)), note)


def _waits_over_time(table: pa.Table, names: Sequence[str], count: int) -> Figure:
    steps = steps_of(table["minute"])
    lines = by_step(table, [field for field, _ in _PERCENTILES], steps, names, how="max", others=False)
    views = []
    for field, title in _PERCENTILES:
        traces = [
            figures.line(name, steps.times, lines[name][field], colour, " s")
            for colour, name in enumerate(names)
            if name in lines
        ]
        axis = {**figures.seconds_axis("Wait"), "title": {"text": f"Wait {title} in seconds"}}
        views.append(View(title, traces, {"xaxis": figures.time_axis(), "yaxis": axis}))
    what = f"{len(names)} slowest queues" if count > len(names) else "queues"
    note = _step_note(steps.minutes, "worst minute") if steps.minutes > 1 else ""
    summary = f"Waits of the {what} over time, by percentile."
    return Figure("waits-over-time-plot", "Waits over time", summary, [views[1], views[0], views[2]], 340, note)


_OUTCOMES: Final = (
    ("finished", "Finished", 2),
    ("retried", "Retried", 1),
    ("failed", "Failed", 3),
    ("timed_out", "Timed out", 4),
    ("cancelled", "Cancelled", figures.GREY),
)

_TIMES: Final = (("wait", "Wait", 0), ("run", "Run", 1))


def _jobs(table: pa.Table, failures: pa.Table) -> Section:
    rows = table.to_pylist()
    rows.sort(key=lambda row: (-_sum([row], "started"), -_sum([row], "submitted"), str(row["job"])))
    columns = [
        grid.name("Job", "job"),
        grid.name("Queue", "queue"),
        *(grid.count(title.capitalize(), title) for title in ("submitted", "started")),
        *(grid.count(title, field) for field, title, _ in _OUTCOMES),
        *(grid.seconds(f"Run {word}", f"run_{word}") for word in ("p50", "p95", "p99")),
    ]
    grids = [make_grid("Jobs", columns, rows, place="jobs")] if rows else []
    errors = failures.sort_by([("failed", "descending"), ("retried", "descending"), ("error", "ascending")])
    columns = [
        grid.name("Job", "job"),
        grid.name("Error", "error"),
        grid.name("Message", "message"),
        grid.count("Failed", "failed"),
        grid.count("Retried", "retried"),
        grid.moment("Last", "last"),
        grid.name("One of them", "example"),
    ]
    if errors.num_rows:
        grids.append(make_grid("Failures by job and error", columns, errors.to_pylist(), place="job_failures"))
    drawn = [_outcomes(rows[:_PLOTTED], len(rows))] if rows else []
    return Section("jobs", "Jobs", drawn, grids, "No job was sent.")


def _outcomes(rows: Sequence[Row], count: int) -> Figure:
    labels = [None if row["job"] is None else str(row["job"]) for row in rows]
    axis = {"title": {"text": "jobs"}, "rangemode": "tozero"}
    view = _stacked(rows, _OUTCOMES, labels, words.number, axis)
    note = f"The {len(labels)} busiest of {words.some(count, 'job')}." if count > len(labels) else ""
    ends = ", ".join(f"{words.number(_sum(rows, field))} {title.lower()}" for field, title, _ in _OUTCOMES)
    height = figures.height_of(len(labels))
    return Figure("jobs-plot", "What became of jobs", f"Ends of jobs: {ends}.", [view], height, note)


def _slowest(table: pa.Table) -> Section:
    rows = table.sort_by([("total", "descending"), ("name", "ascending"), ("msg_id", "ascending")]).to_pylist()
    rows = [{**row, "place": _place(row), "path": _path_text(row["path"])} for row in rows]
    columns = [
        grid.name("Message", "place"),
        grid.name("message_id", "message_id"),
        grid.seconds("Total", "total"),
        grid.seconds("Wait", "wait"),
        grid.seconds("Run", "run"),
        grid.name("Path", "path"),
        grid.name("Outcome", "outcome"),
    ]
    found = make_grid("The slowest messages; `triomq pipeline trace` shows all of one", columns, rows, place="slowest")
    drawn = [_slowest_plot(rows[:_PLOTTED])] if rows else []
    return Section("slowest", "Slowest messages", drawn, [found] if rows else [], "No message was settled.")


def _path_text(path: Sequence[Mapping[str, str | None]] | None) -> str:
    return " → ".join(words.shown(hop["queue"] if hop else None, 40) for hop in path or ())


def _slowest_plot(rows: Sequence[Row]) -> Figure:
    labels = [str(row["place"]) for row in rows]
    view = _stacked(rows, _TIMES, labels, words.duration, figures.seconds_axis("Time"))
    summary = f"The slowest messages: {words.shown(labels[0], 60)} took {words.duration(_float(rows[0]['total']))}."
    height = figures.height_of(len(rows))
    return Figure("slowest-plot", "Where their time went", summary, [view], height)


def _stacked(
    rows: Sequence[Row],
    fields: Sequence[tuple[str, str, int]],
    labels: Sequence[str | None],
    write: Callable[[float | None], str],
    axis: Mapping[str, object],
) -> View:
    """Return bars of several fields of each row, end to end.

    Args:
        rows: The rows.
        fields: Of each: its name, its title and its colour.
        labels: Of each row.
        write: How a value is written.
        axis: Of the values.
    """
    traces = []
    for field, title, colour in fields:
        values = [_float(row[field]) for row in rows]
        traces.append(figures.bars(title, values, [write(value) for value in values], labels, colour))
    return View("", traces, {"barmode": "stack", "xaxis": axis, "yaxis": figures.names_axis(labels)})


def _dead_letters(table: pa.Table) -> Section:
    rows = table.sort_by([("messages", "descending"), ("from_queue", "ascending"), ("reason", "ascending")]).to_pylist()
    columns = [
        grid.name("From", "from_queue"),
        grid.name("Reason", "reason"),
        grid.name("To", "name"),
        grid.count("Messages", "messages"),
        grid.moment("First", "first"),
        grid.moment("Last", "last"),
    ]
    found = make_grid("By queue and reason", columns, rows, place="dead_letters")
    return Section("dead-letters", "Dead letters", [], [found] if rows else [], "No message became a dead letter.")


def _lost_peers(table: pa.Table) -> Section:
    columns = [
        grid.moment("When", "ts"),
        grid.name("Peer", "peer"),
        grid.name("Protocol", "protocol"),
        grid.name("Why", "error"),
        grid.count("Deliveries that it had", "unsettled"),
        grid.name("Node", "node"),
    ]
    rows = table.sort_by([("ts", "descending"), ("peer", "ascending")]).to_pylist()
    found = make_grid("The last ones first", columns, rows, place="lost_peers")
    return Section("lost-peers", "Lost peers", [], [found] if rows else [], "No peer was lost.")


def _unsettled(table: pa.Table, by_queue: pa.Table) -> Section:
    counts = by_queue.sort_by([("messages", "descending"), ("name", "ascending")]).to_pylist()
    columns = [_QUEUE, grid.count("Messages", "messages")]
    grids = [make_grid("Never settled, by queue", columns, counts, place="unsettled_by_queue")] if counts else []
    rows = table.sort_by([("delivered", "ascending"), ("name", "ascending"), ("msg_id", "ascending")]).to_pylist()
    rows = [{**row, "place": _place(row)} for row in rows]
    columns = [
        grid.name("Message", "place"),
        grid.name("message_id", "message_id"),
        grid.moment("Delivered", "delivered"),
        grid.name("Consumer", "consumer"),
        grid.count("Attempt", "attempt"),
    ]
    if rows:
        grids.append(make_grid("The oldest that were never settled", columns, rows, place="unsettled"))
    nothing = "All that was delivered was settled."
    return Section("unsettled", "Delivered and never settled", [], grids, nothing)


def _place(row: Row) -> str:
    number = row["msg_id"]
    return f"{row['name']}/{'?' if number is None else number}"


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _sum(rows: Sequence[Row], field: str) -> int:
    return sum(value for row in rows if isinstance(value := row[field], int))
