from hypothesis import given
from hypothesis import strategies as st

from triomq.store.settling import bits_of, octets_of


@given(st.integers(1, 50), st.integers(1, 40), st.lists(st.tuples(st.integers(1, 120), st.integers(1, 30)), max_size=5))
def test_bits_are_of_the_ids_that_are_in_a_range(first: int, count: int, ranges: list[tuple[int, int]]) -> None:
    ids = {number for start, length in ranges for number in range(start, start + length)}
    expected = sum(1 << position for position in range(count) if first + position in ids)
    assert bits_of(first, count, ranges) == expected


def test_octets_are_as_few_as_can_be() -> None:
    assert (octets_of(0), octets_of(0x100)) == (b"", b"\x00\x01")
