from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.core.routing.header_match import HeaderRule
from triomq.errors import PreconditionFailed

NAMES = st.sampled_from(["a", "b", "x-c", "x-d"])
VALUES = st.sampled_from([None, True, 1, 1.0, "1", b"1", Decimal(1), datetime(2020, 1, 1, tzinfo=UTC), [1], {"k": 1}])
HEADERS = st.dictionaries(NAMES, VALUES)
MODES = ("all", "any", "all-with-x", "any-with-x")


def naive_match(mode: str, arguments: dict[str, object], headers: dict[str, object]) -> bool:
    """The rule in as many words, one header after the other."""
    results = []
    for name, wanted in arguments.items():
        if name.startswith("x-") and not mode.endswith("-with-x"):
            continue
        found = headers.get(name, KeyError)
        same_type = type(found) is type(wanted)
        results.append(found is not KeyError and (wanted is None or (same_type and found == wanted)))
    return any(results) if mode.startswith("any") else all(results)


@given(st.sampled_from(MODES), HEADERS, HEADERS)
def test_rule_agrees_with_a_naive_one(mode: str, arguments: dict[str, object], headers: dict[str, object]) -> None:
    rule = HeaderRule({"x-match": mode, **arguments})
    assert rule.matches(headers) is naive_match(mode, arguments, headers)


@given(HEADERS)
def test_headers_match_themselves(headers: dict[str, object]) -> None:
    assert HeaderRule(headers).matches(headers)


def test_without_a_mode_all_must_match() -> None:
    rule = HeaderRule({"a": 1, "b": 2})
    assert rule.matches({"a": 1, "b": 2, "c": 3})
    assert not rule.matches({"a": 1})


def test_without_headers_all_match_and_none_of_any() -> None:
    assert HeaderRule({}).matches({"a": 1})
    assert not HeaderRule({"x-match": "any"}).matches({"a": 1})


@pytest.mark.parametrize("mode", ["some", "", 1, None, b"all", "ALL"])
def test_mode_that_does_not_exist_is_refused(mode: object) -> None:
    with pytest.raises(PreconditionFailed, match="expected all, any, all-with-x, or any-with-x"):
        HeaderRule({"x-match": mode})
