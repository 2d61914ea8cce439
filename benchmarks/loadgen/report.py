"""The tables: medians and best of the rounds, side by side, as plain text or reStructuredText."""

import csv
import os
import platform
import statistics
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from loadgen.backlog import BacklogResult
from loadgen.confirming import ConfirmResult
from loadgen.flow import FlowResult
from loadgen.latency import LatencyResult
from loadgen.memory import MemoryResult

REFERENCE, FLOOR = "RabbitMQ", "floor"
MOST_SHARE = 0.6
"""Above this part of a core the generator may be what is measured: it shares its cores with the broker."""
Result = TypeVar("Result", FlowResult, LatencyResult, MemoryResult, ConfirmResult, BacklogResult)


class Row(msgspec.Struct, Generic[Result], frozen=True):
    """All rounds of one broker with one work item."""

    work: str
    title: str
    broker: str
    rounds: list[Result]

    def median(self, value: Callable[[Result], float | None]) -> float | None:
        """The median over the rounds; None where nothing was known."""
        known = [found for found in map(value, self.rounds) if found is not None]
        return statistics.median(known) if known else None


class Table(msgspec.Struct, frozen=True):
    """A title, the columns' names and the cells."""

    title: str
    columns: list[str]
    lines: list[list[str]]


def _cell(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _times(value: float | None, other: float | None) -> str:
    """How many times `other` goes into `value`."""
    return "–" if not value or not other else f"{value / other:.2f}"


def _share_cell(share: float | None) -> str:
    return _cell(share, ".0%") + (" !" if share is not None and share > MOST_SHARE else "  ")


def _reference(row: Row[Result], rows: Sequence[Row[Result]]) -> Row[Result]:
    """The reference broker's row for the same work; an empty one for itself, the floor, and where there is none."""
    for other in rows:
        if other.work == row.work and other.broker == REFERENCE and row.broker not in (REFERENCE, FLOOR):
            return other
    return Row(row.work, row.title, REFERENCE, [])


def _rate(result: FlowResult | LatencyResult) -> float | None:
    return result.rate


def _processor(result: FlowResult | LatencyResult) -> float | None:
    return result.processor_microseconds


def _flow_line(row: Row[FlowResult], reference: Row[FlowResult]) -> list[str]:
    return [
        row.title,
        row.broker,
        _cell(row.median(_rate), ",.0f"),
        _cell(max(result.rate for result in row.rounds), ",.0f"),
        _times(row.median(_rate), reference.median(_rate)),
        _cell(row.median(_processor), ".2f"),
        _times(reference.median(_processor), row.median(_processor)),
        _share_cell(row.median(lambda result: result.generator_share)),
    ]


def flow_table(rows: Sequence[Row[FlowResult]]) -> Table:
    """Rates and processor time of the throughput items."""
    columns = ["work", "broker", "deliveries/s", "best", "times", "CPU µs", "times less", "generator"]
    return Table("Throughput", columns, [_flow_line(row, _reference(row, rows)) for row in rows])


def _durable_line(row: Row[FlowResult], reference: Row[FlowResult]) -> list[str]:
    alone = row.median(lambda result: result.own_microseconds)
    return [*_flow_line(row, reference), _cell(None if row.broker == REFERENCE else alone, ".2f")]


def durable_table(rows: Sequence[Row[FlowResult]]) -> Table:
    """Rates of confirmed messages, and processor time with the store's process and without it."""
    columns = ["work", "broker", "confirmed/s", "best", "times", "CPU µs", "times less", "generator", "without store"]
    return Table("Durable", columns, [_durable_line(row, _reference(row, rows)) for row in rows])


def _confirm_line(row: Row[ConfirmResult], reference: Row[ConfirmResult]) -> list[str]:
    p50, other_p50 = (some.median(lambda result: result.p50) for some in (row, reference))
    p99, other_p99 = (some.median(lambda result: result.p99) for some in (row, reference))
    return [
        row.title,
        row.broker,
        _cell(row.median(lambda result: result.rate), ",.0f"),
        _cell(p50, ".3f"),
        _times(other_p50, p50),
        _cell(p99, ".3f"),
        _times(other_p99, p99),
    ]


def confirm_table(rows: Sequence[Row[ConfirmResult]]) -> Table:
    """Percentiles from publish to confirm."""
    columns = ["work", "broker", "confirms/s", "p50 ms", "times less", "p99 ms", "times less"]
    return Table("Confirms", columns, [_confirm_line(row, _reference(row, rows)) for row in rows])


def _backlog_line(row: Row[BacklogResult], reference: Row[BacklogResult]) -> list[str]:
    fill, other_fill = (some.median(lambda result: result.fill_rate) for some in (row, reference))
    drain, other_drain = (some.median(lambda result: result.drain_rate) for some in (row, reference))
    return [
        row.title,
        row.broker,
        _cell(fill, ",.0f"),
        _times(fill, other_fill),
        _cell(drain, ",.0f"),
        _times(drain, other_drain),
        _cell(row.median(lambda result: result.fill_microseconds), ".1f"),
        _cell(row.median(lambda result: None if row.broker == REFERENCE else result.fill_own_microseconds), ".1f"),
        _cell(row.median(lambda result: result.drain_microseconds), ".1f"),
        _cell(row.median(lambda result: result.resident_before / 2**20), ",.0f"),
        _cell(row.median(lambda result: result.resident_full / 2**20), ",.0f"),
        _cell(row.median(lambda result: result.resident_most / 2**20), ",.0f"),
    ]


def backlog_table(rows: Sequence[Row[BacklogResult]]) -> Table:
    """How fast a backlog comes and goes, and the resident set of all of a broker's processes."""
    rates = ["in/s", "times", "out/s", "times"]
    used = ["CPU µs in", "without store", "CPU µs out", "MiB before", "MiB full", "MiB most"]
    lines = [_backlog_line(row, _reference(row, rows)) for row in rows]
    return Table("Backlog", ["work", "broker", *rates, *used], lines)


def _latency_line(row: Row[LatencyResult], reference: Row[LatencyResult]) -> list[str]:
    p50, other_p50 = (some.median(lambda result: result.p50) for some in (row, reference))
    p99, other_p99 = (some.median(lambda result: result.p99) for some in (row, reference))
    return [
        row.title,
        row.broker,
        _cell(row.median(_rate), ",.0f"),
        _cell(p50, ".3f"),
        _times(other_p50, p50),
        _cell(p99, ".3f"),
        _times(other_p99, p99),
        _cell(row.median(_processor), ".1f"),
    ]


def latency_table(rows: Sequence[Row[LatencyResult]]) -> Table:
    """Percentiles of the fixed rates."""
    columns = ["work", "broker", "deliveries/s", "p50 ms", "times less", "p99 ms", "times less", "CPU µs"]
    return Table("Latency", columns, [_latency_line(row, _reference(row, rows)) for row in rows])


def _memory_line(row: Row[MemoryResult], reference: Row[MemoryResult]) -> list[str]:
    each, other = (some.median(lambda result: result.octets_each) for some in (row, reference))
    resident = row.median(lambda result: result.resident / 2**20)
    at_once = row.median(lambda result: result.resident_at_once / 2**20)
    return [
        row.title,
        row.broker,
        f"{row.rounds[0].count:,}",
        _cell(each, ",.0f"),
        _times(other, each),
        _cell(resident, ",.1f"),
        _cell(at_once, ",.1f"),
    ]


def memory_table(rows: Sequence[Row[MemoryResult]]) -> Table:
    """What one connection, queue or message adds to the resident set."""
    columns = ["what", "broker", "number", "octets each", "times less", "MiB in all", "before it settled"]
    return Table("Memory", columns, [_memory_line(row, _reference(row, rows)) for row in rows])


def _pair(row: Row[FlowResult] | Row[LatencyResult]) -> str:
    """Rate and processor time in one cell, with percentiles where there are some."""
    rate, used = row.median(_rate), row.median(_processor)
    cell = _cell(rate, ",.0f") + ("" if used is None else f"; {used:.1f} µs" if used < 10 else f"; {used:,.0f} µs")
    p50, p99 = row.median(lambda result: result.p50), row.median(lambda result: result.p99)
    return cell if p50 is None else f"{cell}; p50 {p50:.0f} ms, p99 {_cell(p99, '.0f')} ms"


def write_csv(path: Path, rows: Sequence[Row[FlowResult] | Row[LatencyResult]]) -> None:
    """Write both brokers side by side, as the documentation shows them: one line for each work that both did."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["work", "triomq", REFERENCE, "rate, times", "CPU, times less"])
        for row in rows:
            for other in rows:
                if row.work == other.work and row.broker == "triomq" and other.broker == REFERENCE:
                    faster = _times(row.median(_rate), other.median(_rate))
                    cheaper = _times(other.median(_processor), row.median(_processor))
                    writer.writerow([row.title, _pair(row), _pair(other), faster, cheaper])


def heading(rounds: int, seconds: float) -> str:
    """Where and how this was measured: figures of another machine are not comparable."""
    cores = len(os.sched_getaffinity(0))
    load = ", ".join(f"{value:.2f}" for value in os.getloadavg())
    text = f"""
        {cores} cores shared by brokers and generator, {platform.system()} {platform.release()}, Python
        {platform.python_version()}, load averages before: {load}. Medians of {rounds} rounds of {seconds:g} s, brokers
        in turn. “times” and “times less” compare with {REFERENCE}. CPU µs: the broker's user and system time per
        delivery. generator: the part of one core that the generator used, with ! where it is so much that a broker may
        be faster than seen. floor: the same generator against a relay that knows no AMQP, one round.
    """
    return textwrap.fill(" ".join(text.split()), 100)


def _widths(table: Table) -> list[int]:
    lines = [table.columns, *table.lines]
    return [max(len(line[column]) for line in lines) for column in range(len(table.columns))]


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Names to the left, figures to the right."""
    pairs = enumerate(zip(cells, widths, strict=True))
    return "  ".join(cell.ljust(width) if column < 2 else cell.rjust(width) for column, (cell, width) in pairs).rstrip()


def as_text(table: Table) -> str:
    """A table for the terminal."""
    widths = _widths(table)
    rule = "  ".join("-" * width for width in widths)
    body = [_aligned(line, widths) for line in table.lines]
    return "\n".join([table.title, "", _aligned(table.columns, widths), rule, *body])


def as_rst(table: Table) -> str:
    """A simple table of reStructuredText under a rubric."""
    widths = _widths(table)
    rule = "  ".join("=" * width for width in widths)
    body = [_aligned(line, widths) for line in table.lines]
    return "\n".join([f".. rubric:: {table.title}", "", rule, _aligned(table.columns, widths), rule, *body, rule])
