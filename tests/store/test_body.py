from hypothesis import given
from hypothesis import strategies as st

from triomq.store import BodyRun, decode_body, encode_body, gather_body
from triomq.store.body import checksum, gaps_of
from triomq.store.gathered import GatheredBody, joined


def test_runs_come_back_as_they_were() -> None:
    runs = [BodyRun(0, b"head", [b"a", b""]), BodyRun(5, b"", [b"x" * 70_000])]
    assert decode_body(encode_body(runs)) == runs


@given(st.lists(st.lists(st.sampled_from((0, 1, 4_000, 4_096, 70_000)), max_size=4)))
def test_gathered_body_is_decoded_to_the_same_runs(lengths: list[list[int]]) -> None:
    runs = [BodyRun(9 * place, b"head", [bytes(each) for each in some]) for place, some in enumerate(lengths)]
    body = gather_body(runs)
    stored = joined(body)
    assert decode_body(stored) == runs
    assert len(body) == len(stored)


def test_large_contents_are_gathered_and_not_copied() -> None:
    content = bytes(4_096)
    body = gather_body([BodyRun(0, b"head", [content, content])])
    assert isinstance(body, GatheredBody)
    assert [piece is content for piece in body.pieces] == [False, True, False, True]
    assert isinstance(gather_body([BodyRun(0, b"head", [content[1:]])]), bytes)


def test_checksum_covers_the_body_and_its_place() -> None:
    sums = {checksum(b"octets", 1, 2, 3), checksum(b"octetz", 1, 2, 3)}
    assert len(sums | {checksum(b"octets", *key) for key in ((9, 2, 3), (1, 9, 3), (1, 2, 9))}) == 5


def test_ids_that_no_run_has_are_gaps() -> None:
    runs = [BodyRun(1, b"", [b"a", b"b"]), BodyRun(3, b"", [b"c"]), BodyRun(7, b"", [b"d"])]
    assert gaps_of(runs, 100, 10) == [(100, 1), (104, 3), (108, 2)]
    assert gaps_of(runs[:1], 100, 3) == [(100, 1)]
    assert gaps_of([], 100, 3) == [(100, 3)]
