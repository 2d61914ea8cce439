"""Segments and bodies of one file, read around what the disk has damaged.

    rows      100 101 102 | ~~~ damaged page ~~~ | 250 251 252
              ──forwards──▶                       ◀──backwards──
    yields    100 101 102   Damaged(first=103)      250 251 252       in the order of ids

A segment's row and its body are read apart, so a damaged body hides nothing behind it. Each body has a checksum that
covers whose it is. Rows have none: a row is checked for values that a row can have, and its ids by the body's checksum.
"""

import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any

import msgspec

from triomq.store.body import is_whole
from triomq.store.faults import is_damage
from triomq.store.reading import Damaged, SegmentRead

SegmentRow = tuple[int, int, int, int, bytes, int]
"""A row of ``segment``: first, count, unsettled, size, settled, body."""

_COLUMNS = "SELECT first, count, unsettled, size, settled, body FROM segment WHERE queue = :queue "
_BEFORE = "AND first <= :first ORDER BY first DESC LIMIT 1"
_FORWARDS = "AND first > :first AND first < :stop ORDER BY first"
_BACKWARDS = "AND first > :first AND first < :stop ORDER BY first DESC"

_MOST_IDS = 1 << 32
"""Ids in a segment: far above what a batch can have, and few enough to count with."""

_DELAYED = "SELECT body, count FROM delayed WHERE queue = ? AND number = ?"

_UNCHECKED = "SELECT octets FROM body WHERE body = ? AND of_queue = ? AND of_first = ? AND of_count = ?"

_ROWS = "the place on the disk that says where they are is damaged"
_CHANGED = "they are not what was written: the disk has changed them"
_MISSING = "their contents are missing"


def segment_rows(connection: sqlite3.Connection, queue: int, first: int, stop: int) -> Generator[SegmentRow | Damaged]:
    """Yield the rows of the segments that hold ids of a range, in order; see ``rows_around_damage``."""
    return rows_around_damage(connection, _COLUMNS, is_sane, queue, first, stop)


def rows_around_damage(
    connection: sqlite3.Connection,
    columns: str,
    is_sane: Callable[[tuple[object, ...]], bool],
    queue: int,
    first: int,
    stop: int,
) -> Generator[Any]:
    """Yield the rows of a queue that hold ids of a range, in order.

    Args:
        connection: To the file.
        columns: The query of all rows of the queue; a row begins with the first id and the count.
        is_sane: Returns whether a row has values that a row can have.
        queue: The queue's number.
        first: The first id of the range.
        stop: The id behind its last one.

    Yields:
        Rows, and ``Damaged`` where rows cannot be read.
    """
    values = {"queue": queue, "first": first, "stop": stop}
    damaged = Damaged(first, 0, b"", _ROWS)
    try:
        row = connection.execute(columns + _BEFORE, values).fetchone()
        if row is not None and not is_sane(row):
            yield damaged
        elif row is not None and row[0] + row[1] > first:
            yield row
    except sqlite3.DatabaseError as error:
        _require_damage(error)
        yield damaged
    try:
        for row in _rows(connection, columns + _FORWARDS, values, "first"):
            yield row if is_sane(row) else msgspec.structs.replace(damaged, first=values["first"])
        last = None
    except sqlite3.DatabaseError as error:
        _require_damage(error)
        last = msgspec.structs.replace(damaged, first=values["first"] + 1)
    behind = [row for row in _rows_behind(connection, columns, values) if is_sane(row)]
    # A damaged key may end the way forwards without an error.
    if last is not None or behind:
        yield last or msgspec.structs.replace(damaged, first=values["first"] + 1)
    yield from behind


def _rows(connection: sqlite3.Connection, query: str, values: dict[str, int], bound: str) -> Iterator[Any]:
    """Yield the rows of a query up to the first that cannot be read; ``values[bound]`` is the last id that was read."""
    try:
        with closing(connection.execute(query, values)) as rows:
            for row in rows:
                if not isinstance(row[0], int) or not values["first"] < row[0] < values["stop"]:
                    break
                values[bound] = row[0]
                yield row
    except sqlite3.DatabaseError as error:
        _require_damage(error)
    else:
        return
    # The module reads one row ahead, so the last one before the damage is still to come.
    while (row := connection.execute(f"{query} LIMIT 1", values).fetchone()) is not None:
        if not isinstance(row[0], int) or not values["first"] < row[0] < values["stop"]:
            break  # a damaged page may lead back
        values[bound] = row[0]
        yield row


def _rows_behind(connection: sqlite3.Connection, columns: str, values: dict[str, int]) -> list[Any]:
    """Return the rows behind damaged ones, in order."""
    found: list[Any] = []
    try:
        found.extend(_rows(connection, columns + _BACKWARDS, values, "stop"))
    except sqlite3.DatabaseError as error:
        _require_damage(error)
    return found[::-1]


def is_sane(row: tuple[object, ...]) -> bool:
    """Return whether a row has values that a row can have; rows have no checksum."""
    first, count, unsettled, size, settled, body = row
    if not isinstance(first, int) or not isinstance(count, int) or not isinstance(unsettled, int):
        return False
    return isinstance(size, int) and isinstance(settled, bytes) and isinstance(body, int) and 0 < count < _MOST_IDS


def _require_damage(error: sqlite3.DatabaseError) -> None:
    if not is_damage(error):
        raise error


def read_segments(
    connection: sqlite3.Connection, queue: int, first: int, stop: int, *, spilled: bool
) -> Generator[SegmentRead | Damaged]:
    """Yield the segments that hold ids of a range with their bodies; see ``segment_rows``."""
    with closing(segment_rows(connection, queue, first, stop)) as rows:
        for row in rows:
            if isinstance(row, Damaged):
                yield row
                continue
            start, count, _, _, settled, body = row
            data = read_body(connection, body, queue, start, count)
            if isinstance(data, bytes):
                yield SegmentRead(start, count, settled, data, spilled)
            else:
                yield Damaged(start, count, settled, data.reason)


def read_body(connection: sqlite3.Connection, body: int, queue: int, number: int, count: int) -> bytes | Damaged:
    """Return a body, if it is what was written for this segment or these delayed messages."""
    try:
        row = connection.execute("SELECT octets, checksum FROM body WHERE body = ?", (body,)).fetchone()
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        return Damaged(0, 0, b"", f"{_CHANGED} ({error})")
    if row is None:
        return Damaged(0, 0, b"", _MISSING)
    data, expected = row
    return data if is_whole(data, expected, queue, number, count) else Damaged(0, 0, b"", _CHANGED)


def read_unchecked(connection: sqlite3.Connection, body: int, queue: int, number: int, count: int) -> bytes | Damaged:
    """Return a body that was written for this segment, whose contents somebody else will check."""
    try:
        row = connection.execute(_UNCHECKED, (body, queue, number, count)).fetchone()
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        return Damaged(0, 0, b"", f"{_CHANGED} ({error})")
    return row[0] if row is not None and isinstance(row[0], bytes) else Damaged(0, 0, b"", _MISSING)


def is_damaged(connection: sqlite3.Connection, body: int, queue: int, number: int, count: int) -> bool:
    """Return whether a body is there and is not what was written."""
    found = read_body(connection, body, queue, number, count)
    return isinstance(found, Damaged) and found.reason != _MISSING


def read_delayed(connection: sqlite3.Connection, queue: int, number: int) -> bytes | None:
    """Return the body of delayed messages, None if it is damaged or not there."""
    try:
        row = connection.execute(_DELAYED, (queue, number)).fetchone()
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        return None
    data = None if row is None else read_body(connection, row[0], queue, number, row[1])
    return data if isinstance(data, bytes) else None
