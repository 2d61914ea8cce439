"""Growth as plots and tables: SVG files and CSV files that the documentation shows as they are."""

import csv
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

from loadgen.growing import Growth, Series
from loadgen.memory import MemoryResult
from loadgen.report import Row

mpl.use("svg")
# Without these each run would write other octets for the same figures.
mpl.rcParams.update({"svg.hashsalt": "triomq", "svg.fonttype": "none", "font.size": 9})

from matplotlib import pyplot  # noqa: E402  # it asks for the backend when it is imported

COLOURS = {"triomq": "#1f5fa8", "RabbitMQ": "#d9822b"}
STYLES = ["-", "--", ":"]


def name_of(series: Series) -> str:
    """What a line is called."""
    return f"{series.broker}, {series.label}" if series.label else series.broker


def draw(growth: Growth, found: Sequence[Series], path: Path) -> None:
    """Draw one plot; both axes are logarithmic, and 0 has a place on the left."""
    figure, axes = pyplot.subplots(figsize=(6.4, 3.4), layout="constrained")
    labels = list(growth.lines)
    for series in found:
        axes.plot(
            [point.count for point in series.points],
            [point.microseconds for point in series.points],
            marker="o",
            markersize=3,
            color=COLOURS.get(series.broker, "#555555"),
            linestyle=STYLES[labels.index(series.label) % len(STYLES)],
            label=name_of(series),
        )
    axes.set_xscale("symlog", linthresh=1 if growth.counts[0] == 0 else 0.5)
    axes.set_yscale("log")
    axes.set_xlabel(growth.axis)
    axes.set_ylabel("broker's CPU per message, µs")
    axes.set_title(growth.title, fontsize=10)
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def tabulate(growth: Growth, found: Sequence[Series], path: Path) -> None:
    """Write one table: what grows, and what a message costs."""
    costs = [{point.count: point.microseconds for point in series.points} for series in found]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([growth.axis, *map(name_of, found)])
        for count in growth.counts:
            cells = [f"{line[count]:.1f}" if count in line else "–" for line in costs]
            writer.writerow([f"{count:,}", *cells])


def tabulate_memory(rows: Sequence[Row[MemoryResult]], path: Path) -> None:
    """Write the table of resident memory."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["with", "broker", "resident, MB", "each, KB"])
        for row in rows:
            (result,) = row.rounds
            resident, each = result.resident / 1e6, result.octets_each / 1e3
            writer.writerow([f"{result.count:,} × {row.title}", row.broker, f"{resident:.1f}", f"{each:.1f}"])
