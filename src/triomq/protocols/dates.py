"""Dates as HTTP writes them (RFC 9110, section 5.6.7): whole seconds, always in GMT, with names in English.

``email.utils`` has this too, but loads sockets, and ``time.strptime`` depends on the locale.
"""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH: Final = f"(?P<month>{'|'.join(_MONTHS)})"
_TIME: Final = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"

# Section 5.6.7: "A recipient that parses a timestamp value in an HTTP field MUST accept all three HTTP-date formats."
_FORMS: Final = (
    re.compile(rf"[A-Z][a-z]{{2}}, (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} GMT"),
    re.compile(rf"[A-Z][a-z]{{5,8}}, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} GMT"),
    re.compile(rf"[A-Z][a-z]{{2}} {_MONTH} (?P<day>[ 0-9][0-9]) {_TIME} (?P<year>[0-9]{{4}})"),
)
_LONGEST: Final = 64
"""Characters of a text that is looked at: the longest date has 33, and no others are to be remembered."""
_LAST: Final = 253402300799
"""The last second of the year 9999: years have four digits."""
_FIRST: Final = -62135596800
"""The first second of the year 1, with which Python's dates begin."""


def http_date(unix: float) -> str:
    """Write a time, in seconds since 1970, as a date of HTTP.

    Raises:
        ValueError: It is not within the years 1 to 9999.
    """
    return _date_of(int(unix // 1))


@lru_cache(maxsize=64)  # of these, most answers of one second need one or two
def _date_of(seconds: int) -> str:
    if not _FIRST <= seconds <= _LAST:
        raise ValueError(f"{seconds} seconds since 1970 are no date of the years 1 to 9999")
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    day, month = _DAYS[at.weekday()], _MONTHS[at.month - 1]
    return f"{day}, {at.day:02} {month} {at.year:04} {at.hour:02}:{at.minute:02}:{at.second:02} GMT"


def parse_http_date(text: str) -> int | None:
    """Read a date in any of HTTP's three forms; return seconds since 1970, or None if it is none.

    Two digits of a year are those of 1970 to 2069. The name of the day is not compared with the date.
    """
    return _parse(text) if len(text) <= _LONGEST else None


@lru_cache(maxsize=64)
def _parse(text: str) -> int | None:
    for form in _FORMS:
        if found := form.fullmatch(text.strip(" \t")):
            return _seconds(found)
    return None


def _seconds(found: re.Match[str]) -> int | None:
    year = int(found["year"])
    if len(found["year"]) == 2:
        year += 2000 if year < 70 else 1900
    second = int(found["second"])
    leap = second == 60  # the form allows it, and dates do not know it
    month = _MONTHS.index(found["month"]) + 1
    try:
        at = datetime(
            year, month, int(found["day"]), int(found["hour"]), int(found["minute"]), second - leap, tzinfo=UTC
        )
    except ValueError:
        return None
    return int((at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)) + leap
