"""Filters: operators by type, and what is refused."""

import pytest

from triomq.errors import LocalProtocolError, RemoteProtocolError
from triomq.protocols.micromsg import FilterComparison, FilterCondition, PropertyValue, format_filter, parse_filter


@pytest.mark.parametrize(
    ("text", "comparison", "value"),
    [
        ("a=N5", "equal", 5),
        ("a!=N5", "different", 5),
        ("a<N5", "less", 5),
        ("a>N5", "greater", 5),
        ("a<=N5", "at-most", 5),
        ("a>=N0.5", "at-least", 0.5),
        ("a=Tx", "equal", "x"),
        ("a!=Tx", "different", "x"),
        ("a<Tx", "starts-with", "x"),
        ("a>Tx", "ends-with", "x"),
        ("a&Tx", "contains", "x"),
        ("a~Tx", "lacks", "x"),
        ("a=Tx%3By%3D", "equal", "x;y="),
    ],
)
def test_each_operator_is_one_comparison(text: str, comparison: FilterComparison, value: PropertyValue) -> None:
    conditions = (FilterCondition("a", comparison, value),)
    assert parse_filter(text) == conditions
    assert format_filter(conditions) == text


def test_all_conditions_must_hold() -> None:
    found = parse_filter(" priority>N5 ; Name<TJ%C3%B6;")
    assert found == (FilterCondition("priority", "greater", 5), FilterCondition("name", "starts-with", "Jö"))
    assert parse_filter("") == ()


def test_value_without_a_type_is_a_text() -> None:
    assert parse_filter("a=jonas") == (FilterCondition("a", "equal", "jonas"),)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a", "is none"),
        ("a=", "is none"),
        ("=N5", "is none"),
        ("a?N5", "is none"),
        ("a b=N5", "is none"),
        ("a<=Tx", "<= does not go with a text"),
        ("a>=Tx", ">= does not go with a text"),
        ("a&N5", "& does not go with numbers and times"),
        ("a~D5", "~ does not go with numbers and times"),
        ("a=T%4", "is no escape"),
        (";".join(["a=N5"] * 17), "17 conditions; at most 16"),
    ],
)
def test_what_is_no_filter_is_refused(text: str, reason: str) -> None:
    with pytest.raises(RemoteProtocolError, match=reason):
        parse_filter(text)


def test_number_of_conditions_is_bounded() -> None:
    assert len(parse_filter(";".join(["a=N5"] * 16))) == 16
    with pytest.raises(RemoteProtocolError, match="at most 1 "):
        parse_filter("a=N5;b=N5", 1)


@pytest.mark.parametrize(
    "condition",
    [FilterCondition("a", "at-most", "x"), FilterCondition("a", "contains", 5), FilterCondition("A b", "equal", 5)],
)
def test_condition_that_the_wire_has_no_word_for_is_not_written(condition: FilterCondition) -> None:
    with pytest.raises(LocalProtocolError, match="cannot be written"):
        format_filter([condition])
