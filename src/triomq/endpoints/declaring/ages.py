"""Ages and intervals as RabbitMQ writes them: a whole number and a unit."""

import re

_DAY = 24 * 60 * 60
_UNITS = {"Y": 365 * _DAY, "M": 30 * _DAY, "D": _DAY, "h": 60 * 60, "m": 60, "s": 1}
_AGE = re.compile(r"([0-9]{1,18})([YMDhms])")


def read_age(text: str) -> float | None:
    """Read an age such as ``7D`` or ``30s``, give seconds; None if it is none, or 0."""
    found = _AGE.fullmatch(text)
    return float(int(found[1]) * _UNITS[found[2]]) or None if found else None


def write_age(seconds: float) -> str:
    """Write seconds as an age, in the largest unit of which they are whole ones; part of a second counts as one."""
    whole = max(1, int(seconds) + (seconds % 1 > 0))
    unit = next(unit for unit, size in _UNITS.items() if whole % size == 0)
    return f"{whole // _UNITS[unit]}{unit}"
