"""Plots, as what Plotly's script reads: plain data, without colours, which the page's own script adds.

A figure has one or more *views* (published or delivered, p50 or p99) of which the reader chooses one. Names stand on
numbered places of an axis and never in its type: a queue that is called ``2026-01-01`` does not make a time axis, two
long names that are cut alike stay two, and nothing of a name is in a template that Plotly fills in.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from triomq.analytics.page.words import LABEL_LENGTH, duration, plotted

Plotted = Mapping[str, object]

GREY: Final = -1
"""The colour of what is not one thing: the rest."""

SMALLEST: Final = 1e-6
"""What stands for no wait at all where times are drawn by powers of ten: the log counts in microseconds."""

_POWERS: Final = [10.0**power for power in range(-6, 7)]
_UNITS: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


class View(msgspec.Struct, frozen=True):
    """One of a figure's views.

    Args:
        title: What it is called where it is chosen.
        traces: Plotly's traces; ``meta.colour`` is the number of a colour.
        layout: What differs in Plotly's layout.
    """

    title: str
    traces: Sequence[Plotted]
    layout: Mapping[str, object]


class Figure(msgspec.Struct, frozen=True):
    """A plot.

    Args:
        id: Its id in the page.
        title: What it shows.
        summary: The same in a sentence, for who does not see it.
        views: At least one.
        height: In pixels.
        note: What a reader has to know to read it right.
    """

    id: str
    title: str
    summary: str
    views: Sequence[View]
    height: int = 340
    note: str = ""


def line(
    name: str | None, times: Sequence[datetime], values: Sequence[float | None], colour: int, unit: str
) -> Plotted:
    """Return a line over time; alone, a point has no line, and is drawn as a mark."""
    lonely = _has_lonely_points(values)
    return {
        "type": "scatter",
        "mode": "lines+markers" if lonely else "lines",
        "name": plotted(name, LABEL_LENGTH),
        "x": [_time(time) for time in times],
        "y": list(values),
        "text": plotted(name),
        "hovertemplate": f"%{{text}}<br>%{{x|%Y-%m-%d %H:%M}} UTC<br><b>%{{y:.4~s}}{unit}</b><extra></extra>",
        "meta": {"colour": colour},
    }


def area(
    name: str | None, times: Sequence[datetime], values: Sequence[float | None], colour: int, unit: str
) -> Plotted:
    """Return a layer of what is stacked."""
    return {**line(name, times, [value or 0 for value in values], colour, unit), "stackgroup": "all"}


def bars(
    name: str, values: Sequence[float | None], texts: Sequence[str], labels: Sequence[str | None], colour: int
) -> Plotted:
    """Return bars that lie on the places of names, one upon the other.

    Args:
        name: What they show, which is ours.
        values: Their lengths.
        texts: Their lengths in words.
        labels: The names of the places.
        colour: Their colour.
    """
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "x": [value or 0 for value in values],
        "y": list(range(len(values))),
        "text": [f"{plotted(label)}<br><b>{name}: {text}</b>" for label, text in zip(labels, texts, strict=True)],
        "textposition": "none",
        "hovertemplate": "%{text}<extra></extra>",
        "meta": {"colour": colour},
    }


def dots(name: str, values: Sequence[float | None], labels: Sequence[str | None], colour: int) -> Plotted:
    """Return marks on the places of names, for times in seconds."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [None if value is None else max(value, SMALLEST) for value in values],
        "y": list(range(len(values))),
        "text": [f"{plotted(label)}<br><b>{name}: {duration(v)}</b>" for label, v in zip(labels, values, strict=True)],
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"size": 11, "symbol": ("circle", "diamond", "square", "triangle-right")[colour % 4]},
        "meta": {"colour": colour},
    }


def spans(lows: Sequence[float | None], highs: Sequence[float | None]) -> Plotted:
    """Return the lines from the first mark to the last one of each name."""
    x: list[float | None] = []
    y: list[float | None] = []
    for place, (low, high) in enumerate(zip(lows, highs, strict=True)):
        if low is not None and high is not None:
            x += [max(low, SMALLEST), max(high, SMALLEST), None]
            y += [place, place, None]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "line": {"width": 4},
        "hoverinfo": "skip",
        "showlegend": False,
        "meta": {"colour": GREY},
    }


def names_axis(labels: Sequence[str | None]) -> Mapping[str, object]:
    """Return the axis on which names stand, the first one on top."""
    return {
        "tickvals": list(range(len(labels))),
        "ticktext": [plotted(label, LABEL_LENGTH) for label in labels],
        "range": [len(labels) - 0.5, -0.5],
        "showgrid": False,
        "zeroline": False,
        "fixedrange": True,
        "automargin": True,
    }


def seconds_axis(title: str) -> Mapping[str, object]:
    """Return an axis of times in seconds."""
    return {"title": {"text": f"{title} in seconds"}, "rangemode": "tozero", "automargin": True}


def powers_axis(title: str, low: float, high: float) -> Mapping[str, object]:
    """Return an axis of times by powers of ten, with their units; one of few powers has steps between.

    Args:
        title: What it shows.
        low: The smallest time, in seconds.
        high: The largest one.
    """
    parts = (1,) if high > max(low, SMALLEST) * 1000 else (1, 2, 5)
    ticks = [power * part for power in _POWERS for part in parts]
    return {
        "type": "log",
        "title": {"text": title},
        "tickvals": ticks,
        "ticktext": [_round(tick) for tick in ticks],
        "automargin": True,
    }


def _round(seconds: float) -> str:
    """Return a round number of seconds with its unit: Plotly's own prefixes would make kiloseconds."""
    unit, name = next((unit for unit in _UNITS if seconds >= unit[0] * 0.999), _UNITS[-1])
    return f"{round(seconds / unit):,} {name}"


def time_axis() -> Mapping[str, object]:
    """Return an axis of times of day, in UTC."""
    return {"type": "date", "title": {"text": "UTC"}, "automargin": True}


def height_of(rows: int) -> int:
    """Return the height of a plot with so many names, in pixels."""
    return 110 + 26 * max(rows, 2)


def _time(time: datetime) -> str:
    # Plotly has no time zones: what is drawn is what is written.
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def _has_lonely_points(values: Sequence[float | None]) -> bool:
    padded = [None, *values, None]
    return any(
        before is None and value is not None and after is None
        for before, value, after in zip(padded, padded[1:], padded[2:], strict=False)
    )
