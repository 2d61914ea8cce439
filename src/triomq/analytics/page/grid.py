"""Tables on the page: what stands in each cell, and by what a column is sorted."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from triomq.analytics.page import words

MOST_ROWS: Final = 100
"""Rows of a table on the page; the tables on disk have all."""


class Cell(msgspec.Struct, frozen=True):
    """One cell.

    Args:
        text: What stands there.
        key: By what it is sorted: a number, or a text.
        whole: The name if it is cut in ``text``, for who points at it.
    """

    text: str
    key: float | str
    whole: str = ""


class GridColumn(msgspec.Struct, frozen=True):
    """One column.

    Args:
        title: Its head.
        field: The key of its value in a row.
        cell: Makes a cell of the value.
        is_number: Whether it stands to the right.
    """

    title: str
    field: str
    cell: Callable[[object], Cell]
    is_number: bool = False


class Grid(msgspec.Struct, frozen=True):
    """A table on the page.

    Args:
        caption: What it shows.
        columns: Its columns.
        rows: Its cells.
        left_out: What is said of rows that have no room; empty if there are none.
    """

    caption: str
    columns: Sequence[GridColumn]
    rows: Sequence[Sequence[Cell]]
    left_out: str = ""


def make_grid(
    caption: str,
    columns: Sequence[GridColumn],
    rows: Sequence[Mapping[str, object]],
    *,
    last: Mapping[str, object] | None = None,
    most: int = MOST_ROWS,
    place: str,
) -> Grid:
    """Make a table of rows.

    Args:
        caption: What it shows.
        columns: Its columns.
        rows: Values by field, in order.
        last: The row of the sums of what has no room.
        most: How many rows have room.
        place: The table's folder, for who wants the rest.
    """
    shown = [*rows[:most], *([last] if last is not None else [])]
    rest = len(rows) - most
    left_out = f"{words.number(rest)} more: tables/{place}" if rest > 0 else ""
    cells = [[column.cell(row.get(column.field)) for column in columns] for row in shown]
    return Grid(caption, columns, cells, left_out)


def name(title: str, field: str) -> GridColumn:
    """Create a column of names."""

    def cell(value: object) -> Cell:
        text = None if value is None else str(value)
        short = words.shown(text, 60)
        whole = words.shown(text, 2000)
        return Cell(short, short if text is not None else "", whole if whole != short else "")

    return GridColumn(title, field, cell)


def _numbers(text: Callable[[float | None], str]) -> Callable[[object], Cell]:
    def cell(value: object) -> Cell:
        if not isinstance(value, int | float):
            return Cell(words.NOTHING, -1.0)
        return Cell(text(value), float(value))

    return cell


def count(title: str, field: str) -> GridColumn:
    """Create a column of counts."""
    return GridColumn(title, field, _numbers(words.number), is_number=True)


def seconds(title: str, field: str) -> GridColumn:
    """Create a column of times in seconds."""
    return GridColumn(title, field, _numbers(words.duration), is_number=True)


def size(title: str, field: str) -> GridColumn:
    """Create a column of sizes in bytes."""
    return GridColumn(title, field, _numbers(words.size), is_number=True)


def moment(title: str, field: str) -> GridColumn:
    """Create a column of moments."""

    def cell(value: object) -> Cell:
        time = value if isinstance(value, datetime) else None
        return Cell(words.moment(time), words.moment(time))

    return GridColumn(f"{title} (UTC)", field, cell)
