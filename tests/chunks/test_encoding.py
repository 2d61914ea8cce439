from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.chunks.runs import FIRSTS, SOME_RUNS, TIMES, given_records, records_of

from triomq.chunks import Column, RecordRun, check_chunk, encode_chunk, encode_columns, read_chunk_head


@given(FIRSTS, TIMES, SOME_RUNS)
def test_records_come_back_as_they_were(first: int, time: int, runs: list[RecordRun]) -> None:
    chunk = encode_chunk(first, time, runs)
    head = check_chunk(chunk)
    assert records_of(chunk) == given_records(first, time, runs)
    assert (head.first, head.time, head.last_time) == (first, time, time)
    assert (head.count, head.size) == (sum(len(run.values) for run in runs), len(chunk))
    assert len(chunk) % 8 == 0


def test_small_runs_of_several_publishers_become_one() -> None:
    runs = [RecordRun(1, b"orders", b"key %d" % number, b"p", [b"value"]) for number in range(100)]
    head = read_chunk_head(encode_chunk(0, 0, runs))
    assert (head.runs, head.own_keys, head.own_properties) == (1, 100, 100)


def test_what_a_large_run_shares_is_there_once() -> None:
    properties = b"properties" * 10
    chunk = encode_chunk(0, 0, [RecordRun(1, b"orders", b"key", properties, [b"value"] * 500)])
    assert chunk.count(properties) == 1
    assert len(chunk) < 500 * (4 + 5) + 250


def test_numbers_that_a_head_has_no_room_for_are_an_error() -> None:
    with pytest.raises(ValueError, match="cut it"):
        encode_chunk(1 << 64, 0, [RecordRun(0, b"", b"", b"", [b""])])


def column(pieces: list[bytes]) -> Column:
    return Column(array("I", map(len, pieces)), memoryview(b"".join(pieces)))


@given(
    st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9), st.binary(max_size=99)), min_size=1, max_size=20),
    st.booleans(),
    st.booleans(),
)
def test_columns_come_back_as_they_were(
    records: list[tuple[bytes, bytes, bytes]], own_keys: bool, own_properties: bool
) -> None:
    keys, properties, values = (list(each) for each in zip(*records, strict=True))
    if not own_keys:
        keys = keys[:1] * len(keys)
    if not own_properties:
        properties = properties[:1] * len(properties)
    chunk = encode_columns(
        7,
        b"orders",
        column(keys) if own_keys else keys[0],
        column(properties) if own_properties else properties[0],
        column(values),
        mark=5,
        first=23,
        time=1_000,
    )
    assert check_chunk(chunk).runs == 1
    assert records_of(chunk) == given_records(23, 1_000, [RecordRun(7, b"orders", keys, properties, values, 5)])


@pytest.mark.parametrize(
    ("keys", "values", "text"),
    [
        (column([b"k"]), column([b"v", b"v"]), "a column has 1 records, and the values are 2"),
        (b"k", Column(array("I", [3]), b"four"), "has 4 bytes, and its lengths add up to 3"),
        (b"k", column([]), "a column has 0 records"),
    ],
)
def test_columns_that_do_not_fit_together_are_an_error(keys: bytes | Column, values: Column, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        encode_columns(0, b"", keys, b"", values)
