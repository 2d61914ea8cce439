"""Which messages of a run are persistent, however their properties stand in them."""

import itertools

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from triomq.endpoints.content import HAS_DELIVERY_MODE, by_mode, is_persistent
from triomq.protocols import BasicProperties, encode_properties

SHORT = st.none() | st.text(max_size=5)
PROPERTIES = st.builds(
    BasicProperties,
    content_type=SHORT,
    content_encoding=SHORT,
    headers=st.none() | st.dictionaries(st.text(min_size=1, max_size=5), st.integers(0, 9) | SHORT, max_size=2),
    delivery_mode=st.sampled_from([None, 0, 1, 2, 2, 255]),
    priority=st.none() | st.integers(0, 9),
    correlation_id=SHORT,
)


class Shape(msgspec.Struct):
    flags: int
    properties_start: int


def flags_of(encoded: bytes) -> int:
    return int.from_bytes(encoded[:2], "big")


def persistent(properties: BasicProperties) -> bool:
    return properties.delivery_mode == 2


@given(PROPERTIES)
def test_delivery_mode_is_found_behind_all_other_properties(properties: BasicProperties) -> None:
    assert is_persistent(encode_properties(properties)) is persistent(properties)


@given(PROPERTIES, st.lists(PROPERTIES, min_size=1, max_size=8), st.binary(max_size=4))
def test_run_is_cut_where_the_mode_changes(like: BasicProperties, others: list[BasicProperties], before: bytes) -> None:
    flags = flags_of(encode_properties(like))
    run = [each for each in [like, *others] if flags_of(encode_properties(each)) == flags]
    contents = [before + encode_properties(each) + b"body" for each in run]
    parts = by_mode(Shape(flags, len(before)), contents)
    assert [content for _, part in parts for content in part] == contents
    assert [mode for mode, part in parts for _ in part] == [persistent(each) for each in run]
    assert all(first[0] is not second[0] for first, second in itertools.pairwise(parts))


def test_run_that_is_alike_stays_the_very_list() -> None:
    encoded = encode_properties(BasicProperties(delivery_mode=2, content_type="text/plain"))
    contents = [encoded + b"1", encoded + b"2"]
    [(mode, part)] = by_mode(Shape(flags_of(encoded), 0), contents)
    assert mode
    assert part is contents
    without = [b"\0\0body"]
    assert by_mode(Shape(0, 0), without)[0][1] is without


@given(st.binary(max_size=12), st.integers(0, 0xFFFF))
def test_properties_that_are_cut_off_are_not_persistent_nor_a_crash(content: bytes, flags: int) -> None:
    """What an engine lets through has whole properties; whoever reads others gets an answer nevertheless."""
    encoded = (flags | HAS_DELIVERY_MODE).to_bytes(2, "big") + content
    assert is_persistent(encoded) in (True, False)
    assert by_mode(Shape(flags, 0), [encoded])
