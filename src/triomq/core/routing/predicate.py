"""Predicates: conditions that a message's headers must fulfil before a binding leads anywhere.

All conditions of a predicate must hold; for "or", make several bindings. Values compare by what they are, not by how
they are encoded: all numbers are numbers, and truth values are none. A condition on a header that is missing, or is of
another type, does not hold; except for the three negations, which hold exactly when what they deny does not.
"""

import operator
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from enum import Enum
from math import isnan
from types import NoneType

import msgspec
from msgspec.msgpack import Decoder, Encoder

from triomq.errors import PreconditionFailed
from triomq.properties import from_extension, packable

_MISSING = object()


class Comparison(Enum):
    """What a condition asks of a header; the values are written to disk."""

    EQUAL = "equal"
    DIFFERENT = "different"
    """Not equal, because it is missing, of another type, or another value."""
    LESS = "less"
    AT_MOST = "at-most"
    GREATER = "greater"
    AT_LEAST = "at-least"
    STARTS_WITH = "starts-with"
    ENDS_WITH = "ends-with"
    CONTAINS = "contains"
    LACKS = "lacks"
    """Does not contain it, because it is missing, no text, or a text without it."""
    PRESENT = "present"
    """Is there, whatever its value."""
    ABSENT = "absent"


class Condition(msgspec.Struct, frozen=True):
    """What one header must be like.

    Args:
        name: The header's name; upper and lower case differ.
        comparison: How it is compared.
        value: What it is compared with: a number, a point in time (all comparisons of size, and equality), a text
            (equality, and its parts), a truth value or bytes (equality); nothing for presence and absence.
    """

    name: str
    comparison: Comparison
    value: object = None


class Predicate(msgspec.Struct, frozen=True, gc=False):
    """Conditions that must all hold. Two with equal conditions are the same predicate, whatever their order.

    Args:
        encoded: The conditions, encoded in one canonical way; see ``make_predicate``.
    """

    encoded: bytes

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions, in the order of their encoding."""
        return tuple(Condition(name, Comparison(word), value) for name, word, value in _decoder.decode(self.encoded))

    def rule(self) -> Callable[[Mapping[str, object]], bool]:
        """Return a function that returns whether a message with these headers passes, for many messages."""
        tests = [(one.name, _TESTS[one.comparison], one.value) for one in self.conditions]

        def passes(headers: Mapping[str, object]) -> bool:
            for name, test, value in tests:  # noqa: SIM110  # a generator costs more than the tests
                if not test(headers.get(name, _MISSING), value):
                    return False
            return True

        return passes


def make_predicate(conditions: Iterable[Condition]) -> Predicate:
    """Make a predicate whose conditions are compared by value, whatever their order.

    Raises:
        PreconditionFailed: There is no condition, or one means nothing.
    """
    encoded = {_encode(condition) for condition in conditions}
    if not encoded:
        raise PreconditionFailed("a predicate has no condition; give it one, or bind without a predicate")
    return Predicate(_encoder.encode([msgspec.Raw(condition) for condition in sorted(encoded)]))


def _encode(condition: Condition) -> bytes:
    _require_meaning(condition)
    try:
        return _encoder.encode([condition.name, condition.comparison.value, packable(condition.value)])
    except (OverflowError, UnicodeEncodeError) as error:
        raise PreconditionFailed(f"the condition on header {condition.name!r} cannot be kept: {error}") from None


def _require_meaning(condition: Condition) -> None:
    """Raise for a condition whose value its comparison cannot be made with."""
    if not condition.name:
        raise PreconditionFailed("a condition names no header; say which one it is about")
    kind, fitting = _kind(condition.value), _FITTING[condition.comparison]
    if kind not in fitting:
        found = "nothing" if condition.value is None else f"{condition.value!r}"
        raise PreconditionFailed(
            f"the condition on header {condition.name!r} compares '{condition.comparison.value}' with {found}; "
            f"it takes {' or '.join(fitting)}"
        )


_NUMBER, _TEXT, _TRUTH, _TIME, _LOCAL_TIME, _OCTETS, _NOTHING = (
    "a number",
    "a text",
    "a truth value",
    "a time with a zone",
    "a time without a zone",
    "octets",
    "nothing",
)


_KINDS: dict[type, str] = {
    NoneType: _NOTHING,
    bool: _TRUTH,
    int: _NUMBER,
    str: _TEXT,
    bytes: _OCTETS,
}


def _kind(value: object) -> str | None:
    """Return what else a value can be compared with; None for what compares with nothing, such as lists and NaN."""
    match value:
        case float():
            return None if isnan(value) else _NUMBER
        case Decimal():
            return None if value.is_nan() else _NUMBER
        case datetime():
            return _LOCAL_TIME if value.tzinfo is None else _TIME
        case _:
            return _KINDS.get(type(value))


_SIZES = (_NUMBER, _TIME, _LOCAL_TIME)
_VALUES = (*_SIZES, _TEXT, _TRUTH, _OCTETS)

_FITTING: dict[Comparison, tuple[str, ...]] = {
    Comparison.EQUAL: _VALUES,
    Comparison.DIFFERENT: _VALUES,
    Comparison.LESS: _SIZES,
    Comparison.AT_MOST: _SIZES,
    Comparison.GREATER: _SIZES,
    Comparison.AT_LEAST: _SIZES,
    Comparison.STARTS_WITH: (_TEXT,),
    Comparison.ENDS_WITH: (_TEXT,),
    Comparison.CONTAINS: (_TEXT,),
    Comparison.LACKS: (_TEXT,),
    Comparison.PRESENT: (_NOTHING,),
    Comparison.ABSENT: (_NOTHING,),
}
"""What each comparison can be made with."""


def _alike(test: Callable[..., bool]) -> Callable[[object, object], bool]:
    """Return a test that fails for a header of another type than the wanted one."""

    def alike(found: object, wanted: object) -> bool:
        same = type(found) is type(wanted) and type(found) in _KINDS
        return (same or _kind(found) == _kind(wanted)) and test(found, wanted)

    return alike


def _denied(test: Callable[[object, object], bool]) -> Callable[[object, object], bool]:
    return lambda found, wanted: not test(found, wanted)


_equal = _alike(operator.eq)
_contains = _alike(operator.contains)

_TESTS: dict[Comparison, Callable[[object, object], bool]] = {
    Comparison.EQUAL: _equal,
    Comparison.DIFFERENT: _denied(_equal),
    Comparison.LESS: _alike(operator.lt),
    Comparison.AT_MOST: _alike(operator.le),
    Comparison.GREATER: _alike(operator.gt),
    Comparison.AT_LEAST: _alike(operator.ge),
    Comparison.STARTS_WITH: _alike(str.startswith),
    Comparison.ENDS_WITH: _alike(str.endswith),
    Comparison.CONTAINS: _contains,
    Comparison.LACKS: _denied(_contains),
    Comparison.PRESENT: lambda found, wanted: found is not _MISSING,
    Comparison.ABSENT: lambda found, wanted: found is _MISSING,
}

_encoder = Encoder(order="deterministic")
_decoder = Decoder(list[tuple[str, str, object]], ext_hook=from_extension)
