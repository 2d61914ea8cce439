"""How names, numbers and times are written on the page.

Names come from whoever can publish: they may have control characters, marks that turn the direction of what follows,
a megabyte, or markup. ``shown`` makes a line of printable characters of any; what is HTML is escaped where HTML is made
(by jinja2), and what Plotly would read as markup by ``plotted``.
"""

from datetime import UTC, datetime
from html import escape
from typing import Final
from unicodedata import bidirectional

NOTHING: Final = "–"

NAME_LENGTH: Final = 120
"""Characters of a name on the page; more than that no table has room for. The tables on disk have it whole."""

LABEL_LENGTH: Final = 26
"""Characters of a name beside a plot: a fifth of the width, on a screen of 1,280 points."""

_ISOLATE, _END_OF_ISOLATE = "\u2068", "\u2069"
"""What keeps Hebrew or Arabic in a name from turning the numbers around it."""

_UNITS: Final = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def shown(name: str | None, length: int = NAME_LENGTH) -> str:
    """Return a name with escapes for what is not printable, and with its middle cut out if it is too long."""
    if name is None:
        return NOTHING
    # Cut first: each escape may take ten times its place.
    text = "".join(letter if letter.isprintable() else _escaped(letter) for letter in _cut(name, length))
    text = _cut(text, length) or "(empty)"
    return f"{_ISOLATE}{text}{_END_OF_ISOLATE}" if any(map(_goes_left, text)) else text


def _goes_left(letter: str) -> bool:
    return bidirectional(letter) in ("R", "AL")


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode()


def _cut(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    end = (length - 1) // 3
    return f"{text[: length - 1 - end]}…{text[len(text) - end :]}"


def plotted(name: str | None, length: int = NAME_LENGTH) -> str:
    """Return a name for a plot, where ``<b>`` and ``&lt;`` would be markup."""
    return escape(shown(name, length), quote=False)


def number(value: float | None) -> str:
    """Return a count, its thousands apart."""
    return NOTHING if value is None else f"{value:,.0f}"


def duration(seconds: float | None) -> str:
    """Return a time in the unit that fits, with three digits: ``1.23 ms``."""
    if seconds is None:
        return NOTHING
    if seconds == 0:
        return "0"
    for size, unit in _UNITS:
        if abs(seconds) >= size:
            return f"{_three_digits(seconds / size)} {unit}"
    return "< 1 µs"


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def size(count: float | None) -> str:
    """Return a number of bytes in the unit that fits."""
    if count is None:
        return NOTHING
    value, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:,.0f} B" if units[0] == "B" else f"{value:.1f} {units[0]}"


def moment(time: datetime | None) -> str:
    """Return a time in UTC, to the second."""
    return NOTHING if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def some(count: float | None, what: str) -> str:
    """Return a count with its noun: ``1 message``, ``2 messages``."""
    return f"{number(count or 0)} {what}{'' if count == 1 else 's'}"
