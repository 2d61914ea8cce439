"""Kinds of Contents, held against reading each in full."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.mtl.test_properties import headers, short_texts
from protocols.mtl.wire import CONTENT, content, numbered
from triomq.protocols import BasicProperties, Timestamp, Typed, encode_table
from triomq.protocols.mtl import ContentKind, ContentProperties, InvalidContent, decode_content, encode_content
from triomq.protocols.mtl.kinds import FORMS, KINDS, PATIENCE, ContentKinds
from triomq.protocols.mtl.requests import WireFault


def header(table: bytes, sequence: int = 1, resource: bytes = b"resource") -> bytes:
    return content(sequence, table=table, resource=resource)[0]


def ids(number: int, **more: object) -> bytes:
    basic = BasicProperties(message_id=f"{number:06d}", timestamp=number, headers={"trace": f"{number:032d}"})
    return encode_content(ContentProperties(basic=basic, **more))  # type: ignore[arg-type]


def test_header_that_is_too_long_to_be_remembered_is_read_once_while_it_is_answered() -> None:
    kinds, long = ContentKinds(), header(encode_table({"x": "y" * 3000}))
    assert kinds.find(long) is kinds.find(long)


def test_same_table_is_the_same_kind_whatever_the_sequence() -> None:
    kinds = ContentKinds()
    kind = kinds.find(CONTENT)
    assert (kind.resource, kind.size, kind.table) == ("resource", 32, CONTENT[18:])
    assert kind.properties.basic.content_type == "text/plain"
    assert kinds.find(numbered(CONTENT, 99)) is kind


def test_tables_that_differ_in_values_alone_are_one_kind_from_the_second_on() -> None:
    kinds = ContentKinds()
    first, *others = [kinds.find(header(ids(number))) for number in range(20)]
    assert first is not others[0]
    assert all(kind is others[0] for kind in others)
    assert kinds.is_of(others[0], header(ids(99)))


@pytest.mark.parametrize(
    "changed",
    [
        {"address": "b"},
        {"exchange": "b"},
        {"redelivered": True, "address": "a"},
    ],
)
def test_values_that_a_broker_acts_on_make_another_kind(changed: dict[str, object]) -> None:
    kinds = ContentKinds()
    usual: dict[str, object] = {"address": "a", "exchange": "a"}
    for number in range(3):
        kind = kinds.find(header(ids(number, **usual)))
    other = kinds.find(header(ids(4, **(usual | changed))))
    assert other is not kind
    assert kinds.find(header(ids(5, **usual))) is kind
    again = kinds.find(header(ids(6, **(usual | changed))))
    assert encode_content(again.properties) != encode_content(kind.properties)


def test_kinds_of_one_length_are_found_by_their_keys_in_turn() -> None:
    kinds = ContentKinds()
    keys = [f"key.{number:02d}" for number in range(16)]
    for number in range(3):
        found = {key: kinds.find(header(ids(number, address=key))) for key in keys}
    for key in keys:
        kind = kinds.find(header(ids(7, address=key)))
        assert (kind.properties.address, kind) == (key, found[key])


def test_timestamp_that_is_a_number_is_not_skipped() -> None:
    kinds = ContentKinds()
    for number in range(3):
        kinds.find(header(encode_table({"timestamp": Typed("l", number)})))
    with pytest.raises(InvalidContent):
        kinds.find(header(encode_table({"timestamp": Typed("l", -1)})))


def test_name_of_a_header_is_not_skipped() -> None:
    kinds = ContentKinds()
    found = [kinds.find(header(encode_table({name: number}))) for number, name in enumerate(("a", "a", "a", "b", "b"))]
    assert [(kind.properties.basic.headers or {}).keys() for kind in found] == [{"a"}] * 3 + [{"b"}] * 2
    assert kinds.is_of(found[2], header(encode_table({"a": 9})))
    assert not kinds.is_of(found[2], header(encode_table({"\x01": 9})))


def test_another_form_is_learned_when_the_old_one_does_not_fit_any_more() -> None:
    kinds = ContentKinds()
    for number in range(5):
        kinds.find(header(encode_table({"a": f"{number:08d}"})))
    for number in range(PATIENCE + 2):
        kind = kinds.find(header(encode_table({"b" * 5: f"{number:04d}"})))
    assert kinds.is_of(kind, header(encode_table({"b" * 5: "9999"})))


def test_what_is_remembered_is_bounded() -> None:
    kinds = ContentKinds()
    for number in range(3 * KINDS):
        kinds.find(header(ids(number, address=f"{number:05d}")))
    for size in range(3 * FORMS):
        for letter in "xyz":
            kinds.find(header(encode_table({"a": letter * size})))
    assert len(kinds._known) <= KINDS
    assert len(kinds._forms) <= FORMS
    assert all(len(form.kinds) <= KINDS for form in kinds._forms.values())
    kinds.find(header(encode_table({"a": "x" * 100_000})))
    assert max(map(len, kinds._known)) < 3000


values = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 31), (1 << 31) - 1)
    | st.text(max_size=6)
    | st.builds(Timestamp, st.integers(0, 1 << 40))
    | st.lists(st.text(max_size=3), max_size=2)
    | headers
)
tables = st.dictionaries(
    st.sampled_from(["content-type", "address", "priority", "timestamp", "expiration", "headers", "user-id", "x", "y"]),
    values | short_texts,
    max_size=5,
).map(encode_table)
spoilt = st.tuples(tables, st.integers(0, 60), st.integers(0, 255)).map(
    lambda drawn: drawn[0][: drawn[1]] + bytes((drawn[2],)) + drawn[0][drawn[1] + 1 :]
)


def found_in(kinds: ContentKinds, octets: bytes) -> ContentKind | type[Exception]:
    try:
        return kinds.find(octets)
    except (WireFault, InvalidContent) as fault:
        return type(fault)


@given(st.lists(tables | spoilt, min_size=1, max_size=8), st.lists(st.integers(0, 7), max_size=30))
def test_any_headers_come_to_what_they_are_alone(drawn: list[bytes], order: list[int]) -> None:
    kinds = ContentKinds()
    for place in order:
        octets = header(drawn[place % len(drawn)])
        alone, found = found_in(ContentKinds(), octets), found_in(kinds, octets)
        if isinstance(alone, type) or isinstance(found, type):
            assert found is alone
            continue
        assert (found.resource, found.size) == (alone.resource, alone.size)
        mine, its = found.properties, alone.properties
        assert (mine.address, mine.exchange, mine.redelivered) == (its.address, its.exchange, its.redelivered)
        for name in ("expiration", "priority", "delivery_mode", "reply_to", "user_id"):
            assert getattr(mine.basic, name) == getattr(its.basic, name)
        for name in BasicProperties.__struct_fields__:
            assert (getattr(mine.basic, name) is None) is (getattr(its.basic, name) is None)
        assert decode_content(octets[-found.size :]) == its
