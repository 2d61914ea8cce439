r"""Filters of subscriptions: conditions on properties that must all hold; for "or", several subscriptions.

    priority>=N5;customer<TJ%C3%B6;note~Tspam

========  =======================  ==========================
operator  numbers and times        texts
========  =======================  ==========================
``=``     equal                    equal
``!=``    not equal                not equal
``<``     less                     starts with
``>``     greater                  ends with
``<=``    at most                  \
``>=``    at least                 \
``&``     \                        contains
``~``     \                        does not contain
========  =======================  ==========================

A condition on a property that is missing, or of another type, does not hold, but for ``!=`` and ``~``. Letters of
different case differ.
"""

import re
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

import msgspec

from triomq.errors import LocalProtocolError
from triomq.protocols.micromsg.codes import PeerError
from triomq.protocols.micromsg.properties import PropertyValue, is_property_name, read_value, write_value

FilterComparison: TypeAlias = Literal[
    "equal", "different", "less", "at-most", "greater", "at-least", "starts-with", "ends-with", "contains", "lacks"
]

MAX_CONDITIONS: Final = 16
"""Conditions of a filter: each may cost every message of its topic something."""

_CONDITION: Final = re.compile("([A-Za-z0-9_-]+)(<=|>=|!=|=|<|>|~|&)(.+)", re.DOTALL)

_OF_TEXTS: Final[dict[str, FilterComparison]] = {
    "=": "equal",
    "!=": "different",
    "<": "starts-with",
    ">": "ends-with",
    "&": "contains",
    "~": "lacks",
}
_OF_SIZES: Final[dict[str, FilterComparison]] = {
    "=": "equal",
    "!=": "different",
    "<": "less",
    ">": "greater",
    "<=": "at-most",
    ">=": "at-least",
}
_TEXT_OPERATORS: Final = {comparison: operator for operator, comparison in _OF_TEXTS.items()}
_SIZE_OPERATORS: Final = {comparison: operator for operator, comparison in _OF_SIZES.items()}


class FilterCondition(msgspec.Struct, frozen=True):
    """What one property must be like.

    Args:
        name: The property's, in lower case.
        comparison: How it is compared.
        value: With what.
    """

    name: str
    comparison: FilterComparison
    value: PropertyValue


def parse_filter(text: str, most: int = MAX_CONDITIONS) -> tuple[FilterCondition, ...]:
    """Read a filter, as it stands in a command once the command's own escapes are gone.

    Args:
        text: conditions, with semicolons between them.
        most: how many there may be.

    Raises:
        RemoteProtocolError: it is none.
    """
    parts = [part for part in (part.strip(" ") for part in text.split(";")) if part]
    if len(parts) > most:
        raise PeerError(400, f"the filter has {len(parts)} conditions; at most {most} are allowed")
    return tuple(_parse_condition(part) for part in parts)


def _parse_condition(text: str) -> FilterCondition:
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise PeerError(400, f"condition {text[:60]!r} is none; it takes a name, one of <= >= != = < > ~ & and a value")
    name, operator, written = found.groups()
    value = read_value(written, f"condition on {name[:40]}")
    comparison = (_OF_TEXTS if isinstance(value, str) else _OF_SIZES).get(operator)
    if comparison is None:
        kind = "a text" if isinstance(value, str) else "numbers and times"
        raise PeerError(400, f"condition {text[:60]!r}: {operator} does not go with {kind}")
    return FilterCondition(name.lower(), comparison, value)


def format_filter(conditions: Iterable[FilterCondition]) -> str:
    """Write a filter.

    Raises:
        LocalProtocolError: a condition cannot be written.
    """
    return ";".join(map(_format_condition, conditions))


def _format_condition(condition: FilterCondition) -> str:
    operators = _TEXT_OPERATORS if isinstance(condition.value, str) else _SIZE_OPERATORS
    operator = operators.get(condition.comparison)
    if operator is None or not is_property_name(condition.name):
        raise LocalProtocolError(f"{condition} cannot be written; see the table of operators, and is_property_name")
    return f"{condition.name}{operator}{write_value(condition.value)}"
