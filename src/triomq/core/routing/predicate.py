"""Predicates: conditions that a message's headers must fulfil before a binding leads anywhere.

All conditions of a predicate must hold; for "or", make several bindings. Values compare by what they are, not by how
they are encoded: all numbers are numbers, and truth values are none. A condition on a header that is missing, or is of
another type, does not hold; except for the three negations, which hold exactly when what they deny does not.

A publisher pays for the conditions of others, so each has a *weight*, what trying it takes at worst, and none takes
longer than in proportion to the text that it looks at, whatever that is. ``in`` does: for texts below 30,000 characters
it tries one place after the other, 76 ns for each character where somebody has chosen both texts, and 0.3 ms for a
search. The search of a regular expression that is nothing but a text (a table of overlaps; Knuth, Morris and Pratt)
takes 1.7 ns for each character at worst, but has to be made ready, so short texts are sought with ``in``.
"""

import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from enum import Enum
from math import isnan
from types import NoneType
from typing import TypeAlias

import msgspec
from msgspec.msgpack import Decoder, Encoder

from triomq.errors import PreconditionFailed
from triomq.properties import Properties, from_extension, packable

MISSING = object()
"""Stands for the value of a header that a message has not."""

Place: TypeAlias = str | tuple[str, str]
"""Where the value of a condition is found: the name of a header, or that and the standard property which counts where
there is no such header."""

Values: TypeAlias = Mapping[Place, object]
"""What rules are applied to: a message's headers, and what ``with_standard`` adds to them."""

MOST_SEARCHED = 4_096
"""Characters of a text in which ``contains`` and ``lacks`` look for another, the first ones; 11 µs at worst."""

SEARCHED_PER_STEP = 64
"""Characters that are searched in the time of a step, some 0.2 µs."""

_SOUGHT_AT_EACH_PLACE = 16
"""Characters of a text that is sought with ``in``: with as many as that 2.7 ns for each character at worst."""

_COMPARED_PER_STEP = 4_096
"""Characters that are compared in the time of a step."""

Rule: TypeAlias = Callable[[Values], bool]
"""Returns whether a message with these values passes."""


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
        standard: The field of ``Properties`` that counts where the message has no such header, such as ``priority``;
            empty if only the header counts.
    """

    name: str
    comparison: Comparison
    value: object = None
    standard: str = ""

    @property
    def place(self) -> Place:
        """Where the value is found."""
        return (self.name, self.standard) if self.standard else self.name

    @property
    def searches(self) -> bool:
        """Whether a text is searched, so that the time depends on its length."""
        return self.comparison in _SEARCHES

    @property
    def weight(self) -> int:
        """The steps that trying it takes, of some 0.2 µs; without those for a text that is searched."""
        match self.value:
            case str() | bytes():
                return 1 + len(self.value) // _COMPARED_PER_STEP
            case Decimal():
                return 16  # a float is made a decimal for it
            case datetime():
                return 3
            case _:
                return 1

    @property
    def worst_weight(self) -> int:
        """The steps that trying it can take with any message."""
        return self.weight + (MOST_SEARCHED // SEARCHED_PER_STEP if self.searches else 0)


def steps_to_search(value: object) -> int:
    """Return the steps that looking for a text in a header's value takes."""
    return min(len(value), MOST_SEARCHED) // SEARCHED_PER_STEP if type(value) is str else 0


class Predicate(msgspec.Struct, frozen=True, gc=False):
    """Conditions that must all hold. Two with equal conditions are the same predicate, whatever their order.

    Args:
        encoded: The conditions, encoded in one canonical way; see ``make_predicate``.
    """

    encoded: bytes

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions, in the order of their encoding."""
        return tuple(
            Condition(one.name, Comparison(one.comparison), one.value, one.standard)
            for one in _decoder.decode(self.encoded)
        )

    def rule(self) -> Rule:
        """Return a function that returns whether a message with these headers passes, for many messages."""
        return rule_of(self.conditions)


class _Encoded(msgspec.Struct, frozen=True, array_like=True):
    """A condition as it is written to disk; without a standard property it ends before that."""

    name: str
    comparison: str
    value: object
    standard: str = ""


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
    fields = [condition.name, condition.comparison.value, packable(condition.value)]
    if condition.standard:
        fields.append(condition.standard)
    try:
        return _encoder.encode(fields)
    except (OverflowError, UnicodeEncodeError) as error:
        raise PreconditionFailed(f"the condition on header {condition.name!r} cannot be kept: {error}") from None


def _require_meaning(condition: Condition) -> None:
    """Raise for a condition whose value its comparison cannot be made with."""
    if not condition.name:
        raise PreconditionFailed("a condition names no header; say which one it is about")
    if condition.standard and condition.standard not in STANDARD:
        raise PreconditionFailed(
            f"the condition on header {condition.name!r} names the standard property {condition.standard!r}; there are "
            f"{', '.join(STANDARD)}"
        )
    kind, fitting = kind_of(condition.value), _FITTING[condition.comparison]
    if kind not in fitting:
        found = "nothing" if condition.value is None else f"{condition.value!r}"
        raise PreconditionFailed(
            f"the condition on header {condition.name!r} compares '{condition.comparison.value}' with {found}; "
            f"it takes {' or '.join(fitting)}"
        )
    if condition.searches and isinstance(condition.value, str) and len(condition.value) > MOST_SEARCHED:
        raise PreconditionFailed(
            f"the condition on header {condition.name!r} looks for a text of {len(condition.value)} characters; only "
            f"the first {MOST_SEARCHED} of a header are searched, so look for a shorter one"
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


_KINDS: dict[type, str | None] = {
    NoneType: _NOTHING,
    bool: _TRUTH,
    int: _NUMBER,
    str: _TEXT,
    bytes: _OCTETS,
    list: None,
    dict: None,
    object: None,  # that is MISSING
}
"""Types that tell the kind by themselves."""

_FLOATS: frozenset[type] = frozenset({int, float})

_AT_A_GLANCE: dict[str, frozenset[type]] = {
    _NUMBER: _FLOATS,  # NaN too: no comparison of floats holds for it
    _TEXT: frozenset({str}),
    _TRUTH: frozenset({bool}),
    _OCTETS: frozenset({bytes}),
}
"""Types that are compared without a closer look."""


def kind_of(value: object) -> str | None:
    """Return what else a value can be compared with; None for what compares with nothing, such as lists and NaN."""
    if type(value) in _KINDS:
        return _KINDS[type(value)]
    match value:
        case float():
            return None if isnan(value) else _NUMBER
        case Decimal():
            return None if value.is_nan() else _NUMBER
        case datetime():
            return _LOCAL_TIME if value.tzinfo is None else _TIME
        case _:
            return None


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


STANDARD = (
    "app_id",
    "content_encoding",
    "content_type",
    "correlation_id",
    "message_id",
    "priority",
    "reply_to",
    "timestamp",
    "type",
    "user_id",
)
"""Fields of ``Properties`` that a condition may name; written to disk."""


def with_standard(
    headers: Mapping[str, object], properties: Properties | None, places: Collection[tuple[str, str]]
) -> Values:
    """Return headers with what is found at places of standard properties."""
    values: dict[Place, object] = dict(headers.items())
    for name, field in places:
        found = headers.get(name, MISSING)
        if found is MISSING and properties is not None:
            stated = getattr(properties, field)
            found = MISSING if stated is None else stated
        if found is not MISSING:
            values[name, field] = found
    return values


def rule_of(conditions: Iterable[Condition]) -> Rule:
    """Return a function that returns whether all conditions hold for a message, for many messages."""
    tests = [(one.place, _test_of(one)) for one in conditions]
    if len(tests) == 1:
        ((place, test),) = tests
        return lambda values: test(values.get(place, MISSING))

    def passes(values: Values) -> bool:
        for place, test in tests:  # noqa: SIM110  # a generator costs more than the tests
            if not test(values.get(place, MISSING)):
                return False
        return True

    return passes


def _test_of(condition: Condition) -> Callable[[object], bool]:
    """Return a function that returns whether a condition holds for a value."""
    comparison, wanted = condition.comparison, condition.value
    if comparison is Comparison.PRESENT:
        return lambda found: found is not MISSING
    if comparison is Comparison.ABSENT:
        return lambda found: found is MISSING
    kind, compare = kind_of(wanted), _COMPARE[comparison]
    assert kind is not None
    if condition.searches:
        assert isinstance(wanted, str)
        return _search_of(wanted, lacks=comparison is Comparison.LACKS)
    at_a_glance = _AT_A_GLANCE.get(kind, frozenset())
    if type(wanted) is float:
        return _test_of_float(wanted, compare, denied=comparison in _DENIALS)
    if comparison in _DENIALS:
        return lambda found: not ((type(found) in at_a_glance or kind_of(found) is kind) and compare(found, wanted))
    return lambda found: (type(found) in at_a_glance or kind_of(found) is kind) and compare(found, wanted)


def _search_of(wanted: str, *, lacks: bool) -> Callable[[object], bool]:
    """Return a function that returns whether a value is a text in which another is found, or lacks it."""
    if len(wanted) <= _SOUGHT_AT_EACH_PLACE:
        return lambda found: (type(found) is str and wanted in found[:MOST_SEARCHED]) is not lacks
    search = re.compile(re.escape(wanted)).search
    return lambda found: (type(found) is str and search(found, 0, MOST_SEARCHED) is not None) is not lacks


def _test_of_float(wanted: float, compare: Callable[..., bool], *, denied: bool) -> Callable[[object], bool]:
    """Return a function that compares numbers with a float, which is made a decimal once and not for each decimal."""
    exact = Decimal(wanted)

    def test(found: object) -> bool:
        if type(found) in _FLOATS:
            return compare(found, wanted) is not denied
        return (kind_of(found) is _NUMBER and compare(found, exact)) is not denied

    return test


_COMPARE: dict[Comparison, Callable[..., bool]] = {
    Comparison.EQUAL: operator.eq,
    Comparison.DIFFERENT: operator.eq,
    Comparison.LESS: operator.lt,
    Comparison.AT_MOST: operator.le,
    Comparison.GREATER: operator.gt,
    Comparison.AT_LEAST: operator.ge,
    Comparison.STARTS_WITH: str.startswith,
    Comparison.ENDS_WITH: str.endswith,
    Comparison.CONTAINS: operator.contains,
    Comparison.LACKS: operator.contains,
}
"""How values of the same kind are compared, found with wanted; denials hold where this does not."""

_SEARCHES = (Comparison.CONTAINS, Comparison.LACKS)

_DENIALS = (Comparison.DIFFERENT, Comparison.LACKS)

_encoder = Encoder(order="deterministic")
_decoder = Decoder(list[_Encoded], ext_hook=from_extension)
