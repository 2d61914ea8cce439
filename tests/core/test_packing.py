from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.core.packing import pack_arguments, unpack_arguments

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.datetimes()
    | st.datetimes(timezones=st.just(UTC))
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=8
)


def typed(value: object) -> object:
    """The value with its types, for which True is not 1."""
    if isinstance(value, list):
        return [typed(item) for item in value]
    if isinstance(value, dict):
        return {name: typed(item) for name, item in value.items()}
    return type(value), str(value)


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_arguments_come_back_as_they_were(arguments: dict[str, object]) -> None:
    assert typed(unpack_arguments(pack_arguments(arguments))) == typed(arguments)


def test_equal_arguments_give_equal_octets_in_any_order() -> None:
    assert pack_arguments({"a": 1, "b": {"c": 2, "d": 3}}) == pack_arguments({"b": {"d": 3, "c": 2}, "a": 1})


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), ("a", b"a"), (Decimal(1), "1"), (None, "")])
def test_values_of_different_types_differ(one: object, other: object) -> None:
    assert pack_arguments({"a": one}) != pack_arguments({"a": other})


@pytest.mark.parametrize("value", [2**64, object(), "\udcff"])
def test_argument_that_no_header_can_be_is_an_error(value: object) -> None:
    with pytest.raises((OverflowError, TypeError, UnicodeEncodeError)):
        pack_arguments({"a": value})


def test_time_without_a_zone_stays_without() -> None:
    assert unpack_arguments(pack_arguments({"a": datetime(2020, 1, 2, 3, 4)})) == {"a": datetime(2020, 1, 2, 3, 4)}
