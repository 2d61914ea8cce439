import pytest
from hypothesis import given
from tests.chunks.runs import FIRSTS, SOME_RUNS, TIMES, given_records, records_of

from triomq.chunks import RecordRun, check_chunk, encode_chunk, read_chunk_head


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
