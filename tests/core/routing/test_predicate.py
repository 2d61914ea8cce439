import operator
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.core import Comparison, Condition, Predicate, make_predicate
from triomq.core.routing.predicate import MOST_SEARCHED
from triomq.errors import PreconditionFailed

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_IN_OSLO = datetime(2026, 1, 1, 13, tzinfo=timezone(timedelta(hours=1)))
LATER = NOON + timedelta(microseconds=1)
SIZES = [Comparison.LESS, Comparison.AT_MOST, Comparison.GREATER, Comparison.AT_LEAST]
PARTS = [Comparison.STARTS_WITH, Comparison.ENDS_WITH, Comparison.CONTAINS, Comparison.LACKS]
DENIALS = [Comparison.DIFFERENT, Comparison.LACKS, Comparison.ABSENT]


def holds(comparison: Comparison, value: object, found: object) -> bool:
    return make_predicate([Condition("h", comparison, value)]).rule()({"h": found})


@pytest.mark.parametrize(
    ("comparison", "value", "yes", "no"),
    [
        (Comparison.EQUAL, 1, [1, 1.0, Decimal("1.0")], [2, "1", True, None, b"1", [1]]),
        (Comparison.EQUAL, "a", ["a"], ["A", "ab", b"a"]),
        (Comparison.EQUAL, True, [True], [1, False, "true"]),
        (Comparison.EQUAL, NOON, [NOON, NOON_IN_OSLO], [LATER, NOON.replace(tzinfo=None), NOON.timestamp()]),
        (Comparison.EQUAL, b"a", [b"a"], ["a"]),
        (Comparison.DIFFERENT, 1, [2, "1", True, None], [1, 1.0]),
        (Comparison.LESS, 5, [4, 4.9, Decimal("-1")], [5, 6, "4", True, float("nan"), Decimal("nan"), Decimal("snan")]),
        (Comparison.AT_MOST, 5, [5, 5.0], [5.1]),
        (Comparison.GREATER, 0.1, [Decimal("0.2"), 1], [Decimal("0.1"), 0, "1"]),
        (Comparison.AT_LEAST, NOON, [NOON_IN_OSLO, LATER], [NOON - timedelta(seconds=1), 2**60, "2027"]),
        (Comparison.LESS, NOON.replace(tzinfo=None), [datetime(2025, 1, 1)], [datetime(2025, 1, 1, tzinfo=UTC)]),
        (Comparison.STARTS_WITH, "ab", ["ab", "abc"], ["cab", 1, None]),
        (Comparison.ENDS_WITH, "bc", ["bc", "abc"], ["bcd", b"bc"]),
        (Comparison.CONTAINS, "b", ["abc"], ["ac", ["b"], {"b": 1}]),
        (Comparison.LACKS, "b", ["ac", 1, ["b"]], ["abc"]),
        (Comparison.PRESENT, None, [None, 0, "", []], []),
        (Comparison.ABSENT, None, [], [None, 0]),
    ],
)
def test_headers_are_compared_by_what_they_are(
    comparison: Comparison, value: object, yes: list[object], no: list[object]
) -> None:
    assert [holds(comparison, value, found) for found in yes] == [True] * len(yes)
    assert [holds(comparison, value, found) for found in no] == [False] * len(no)


@pytest.mark.parametrize("comparison", Comparison)
def test_on_a_missing_header_only_denials_hold(comparison: Comparison) -> None:
    value = {Comparison.PRESENT: None, Comparison.ABSENT: None}.get(comparison, "a" if comparison in PARTS else 1)
    assert make_predicate([Condition("h", comparison, value)]).rule()({"H": value}) is (comparison in DENIALS)


def test_all_conditions_must_hold() -> None:
    predicate = make_predicate(
        [
            Condition("size", Comparison.AT_LEAST, 5),
            Condition("size", Comparison.LESS, 9),
            Condition("x", Comparison.PRESENT),
        ]
    )
    assert predicate.rule()({"size": 5, "x": 0})
    assert not predicate.rule()({"size": 9, "x": 0})
    assert not predicate.rule()({"size": 5})


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (Condition("", Comparison.PRESENT), "names no header"),
        *[(Condition("h", one, "5"), "takes a number or a time") for one in SIZES],
        *[(Condition("h", one, 5), "takes a text") for one in PARTS],
        (Condition("h", Comparison.EQUAL), "compares 'equal' with nothing"),
        (Condition("h", Comparison.EQUAL, [1]), r"with \[1\]"),
        (Condition("h", Comparison.EQUAL, float("nan")), "with nan"),
        (Condition("h", Comparison.LESS, Decimal("nan")), "takes a number"),
        (Condition("h", Comparison.LESS, True), "takes a number"),
        (Condition("h", Comparison.PRESENT, 1), "it takes nothing"),
        (Condition("h", Comparison.EQUAL, 2**70), "cannot be kept"),
        (Condition("\udcff", Comparison.PRESENT), "cannot be kept"),
        (
            Condition("h", Comparison.EQUAL, 1, standard="headers"),
            "names the standard property 'headers'; there are app_id",
        ),
    ],
)
def test_condition_that_means_nothing_is_refused(condition: Condition, text: str) -> None:
    with pytest.raises(PreconditionFailed, match=text):
        make_predicate([condition])


def test_predicate_without_conditions_is_refused() -> None:
    with pytest.raises(PreconditionFailed, match="no condition"):
        make_predicate([])


def test_neither_order_nor_repetition_makes_another_predicate() -> None:
    one, other = Condition("a", Comparison.EQUAL, 1), Condition("b", Comparison.EQUAL, 1)
    predicate = make_predicate([one, other])
    assert predicate == make_predicate([other, one, other])
    assert hash(predicate) == hash(make_predicate([other, one]))
    assert predicate != make_predicate([one])


def test_truth_value_makes_another_predicate_than_a_number() -> None:
    assert make_predicate([Condition("a", Comparison.EQUAL, 1)]) != make_predicate(
        [Condition("a", Comparison.EQUAL, True)]
    )


NUMBERS = st.integers(-3, 3) | st.sampled_from([-0.5, 0.0, 1.0, Decimal("0.5"), Decimal(2)])
TEXTS = st.text("ab", max_size=3)
TIMES = st.sampled_from([NOON, NOON_IN_OSLO, LATER])
LOCAL_TIMES = TIMES.map(lambda time: time.replace(tzinfo=None))
VALUES = NUMBERS | TEXTS | TIMES | LOCAL_TIMES | st.booleans() | st.sampled_from([b"", b"a"])
HEADERS = st.dictionaries(st.sampled_from("xyz"), VALUES | st.none() | st.lists(st.integers(), max_size=1))
CONDITIONS = st.one_of(
    st.builds(Condition, st.sampled_from("xyz"), st.sampled_from([Comparison.EQUAL, Comparison.DIFFERENT]), VALUES),
    st.builds(Condition, st.sampled_from("xyz"), st.sampled_from(SIZES), NUMBERS | TIMES | LOCAL_TIMES),
    st.builds(Condition, st.sampled_from("xyz"), st.sampled_from(PARTS), TEXTS),
    st.builds(Condition, st.sampled_from("xyz"), st.sampled_from([Comparison.PRESENT, Comparison.ABSENT])),
)


FAMILIES: list[tuple[type, ...]] = [(bool,), (int, float, Decimal), (str,), (bytes,), (datetime,)]


def model(condition: Condition, headers: Mapping[str, object]) -> bool:
    """The plain meaning of a condition, spelled out."""
    if condition.name not in headers:
        return condition.comparison in DENIALS
    found, wanted = headers[condition.name], condition.value
    family = next((one for one in FAMILIES if isinstance(wanted, one)), ())
    same = isinstance(found, family) and isinstance(found, bool) is isinstance(wanted, bool)
    if isinstance(found, datetime) and isinstance(wanted, datetime):
        same = (found.tzinfo is None) is (wanted.tzinfo is None)
    match condition.comparison:
        case Comparison.PRESENT | Comparison.ABSENT:
            return condition.comparison is Comparison.PRESENT
        case Comparison.DIFFERENT:
            return not same or found != wanted
        case Comparison.LACKS:
            return not same or str(wanted) not in str(found)
    tests: dict[Comparison, Callable[[], bool]] = {
        Comparison.EQUAL: lambda: found == wanted,
        Comparison.LESS: lambda: found < wanted,  # type: ignore[operator]
        Comparison.AT_MOST: lambda: found <= wanted,  # type: ignore[operator]
        Comparison.GREATER: lambda: found > wanted,  # type: ignore[operator]
        Comparison.AT_LEAST: lambda: found >= wanted,  # type: ignore[operator]
        Comparison.STARTS_WITH: lambda: str(found)[: len(str(wanted))] == wanted,
        Comparison.ENDS_WITH: lambda: str(found)[max(0, len(str(found)) - len(str(wanted))) :] == wanted,
        Comparison.CONTAINS: lambda: str(wanted) in str(found),
    }
    return same and tests[condition.comparison]()


@given(st.lists(CONDITIONS, min_size=1, max_size=4), HEADERS)
def test_predicate_holds_exactly_when_all_its_conditions_do(
    conditions: list[Condition], headers: dict[str, object]
) -> None:
    predicate = make_predicate(conditions)
    assert predicate.rule()(headers) is all(model(condition, headers) for condition in conditions)


def test_standard_property_makes_another_predicate_and_is_encoded_only_where_it_is_named() -> None:
    plain, standard = (make_predicate([Condition("type", Comparison.EQUAL, "a", standard=one)]) for one in ("", "type"))
    assert plain != standard
    assert plain.encoded == b"\x91\x93\xa4type\xa5equal\xa1a"
    assert standard.conditions == (Condition("type", Comparison.EQUAL, "a", "type"),)


@given(st.lists(CONDITIONS, min_size=1, max_size=4))
def test_predicate_survives_encoding(conditions: list[Condition]) -> None:
    predicate = make_predicate(conditions)
    assert make_predicate(Predicate(predicate.encoded).conditions) == predicate
    assert set(predicate.conditions) <= set(conditions)


@given(st.text("ab.*\\é", max_size=60), st.text("ab.*\\é", min_size=1, max_size=30), st.integers(0, 60))
def test_text_is_sought_as_it_is(text: str, wanted: str, at: int) -> None:
    for found in (text, text[:at] + wanted + text[at:]):
        for comparison, result in ((Comparison.CONTAINS, wanted in found), (Comparison.LACKS, wanted not in found)):
            rule = make_predicate([Condition("h", comparison, wanted)]).rule()
            assert rule({"h": found}) is result


@pytest.mark.parametrize("wanted", ["b", "b" * 17])
def test_only_the_first_characters_of_a_text_are_searched(wanted: str) -> None:
    contains = make_predicate([Condition("h", Comparison.CONTAINS, wanted)]).rule()
    lacks = make_predicate([Condition("h", Comparison.LACKS, wanted)]).rule()
    for before, found in ((MOST_SEARCHED - len(wanted), True), (MOST_SEARCHED - len(wanted) + 1, False)):
        headers = {"h": "a" * before + wanted}
        assert (contains(headers), lacks(headers)) == (found, not found)


def test_text_that_is_longer_than_what_is_searched_is_not_sought() -> None:
    with pytest.raises(PreconditionFailed, match="only the first 4096 of a header are searched"):
        make_predicate([Condition("h", Comparison.CONTAINS, "a" * (MOST_SEARCHED + 1))])


@given(
    st.sampled_from([Comparison.LESS, Comparison.AT_MOST, Comparison.GREATER, Comparison.DIFFERENT]),
    st.floats(allow_nan=False),
    st.decimals(allow_nan=False) | st.integers() | st.booleans() | st.text(),
)
def test_decimal_is_compared_with_a_float_as_numbers_are(comparison: Comparison, wanted: float, found: object) -> None:
    compare = {
        Comparison.LESS: operator.lt,
        Comparison.AT_MOST: operator.le,
        Comparison.GREATER: operator.gt,
        Comparison.DIFFERENT: operator.ne,
    }[comparison]
    is_number = isinstance(found, int | Decimal) and not isinstance(found, bool)
    expected = compare(found, wanted) if is_number else comparison is Comparison.DIFFERENT
    rule = make_predicate([Condition("h", comparison, wanted)]).rule()
    assert rule({"h": found}) is expected
