"""Operations and answers as JSON."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triomq.errors import LocalProtocolError, RemoteProtocolError
from triomq.protocols.control import (
    BrowseQueue,
    GetTotals,
    ListQueues,
    ListSinks,
    Operation,
    Page,
    ShowTree,
    decode_operation,
    decode_result,
    encode,
    name_of,
    sayable,
)


@given(
    st.one_of(
        st.builds(ListQueues, st.text(), st.sampled_from(["name", "ready"]), st.text(), limit=st.integers(1, 9)),
        st.builds(BrowseQueue, st.text(), st.integers(0, 2**63)),
        st.builds(ShowTree, st.integers(0, 9)),
        st.just(GetTotals()),
    )
)
def test_operation_comes_out_as_it_went_in(operation: Operation[object]) -> None:
    assert decode_operation(name_of(operation), encode(operation)) == operation


@given(st.binary())
def test_arguments_are_read_or_refused_whatever_they_are(arguments: bytes) -> None:
    try:
        operation: object = decode_operation("queues", arguments)
    except RemoteProtocolError:
        operation = ListQueues()
    assert isinstance(operation, ListQueues)


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("queues", b'{"shape": "*"}', "arguments of queues: Object contains unknown field `shape`"),
        ("queues", b'{"limit": 0}', "arguments of queues: Expected `int` >= 1 - at `$.limit`"),
        ("browse", b"{}", "arguments of browse: Object missing required field `queue`"),
        ("totals", b"[]", "arguments of totals: Expected `object`, got `array`"),
    ],
)
def test_wrong_arguments_are_named(name: str, arguments: bytes, text: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_operation(name, arguments)
    assert str(caught.value) == text


def test_unknown_operation_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        decode_operation("dance", b"{}")


def test_result_is_read_as_its_operation_says() -> None:
    page = decode_result(ListSinks(), b'{"items":[], "next":"a"}')
    assert page == Page([], "a")


@pytest.mark.parametrize("result", [b"", b"{}", b'{"items":[1]}', b"\xff"])
def test_result_that_is_none_is_the_brokers_fault(result: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="the answer to sinks cannot be read"):
        decode_result(ListSinks(), result)


@given(st.binary().map(lambda octets: octets.decode("utf-8", "surrogateescape")))
def test_any_name_of_the_wire_becomes_sayable(name: str) -> None:
    assert encode(sayable(name))
    assert sayable(sayable(name)) == sayable(name)


def test_name_that_is_not_sayable_is_our_own_mistake() -> None:
    assert sayable("a\udcff") == r"a\xff"
    with pytest.raises(LocalProtocolError, match="Unicode"):
        encode({"name": "a\udcff"})


def test_values_that_json_does_not_have_are_written_as_text() -> None:
    assert encode([Decimal("1.50"), b"\xff", 2 + 1j]) == b'["1.50","/w==","(2+1j)"]'
