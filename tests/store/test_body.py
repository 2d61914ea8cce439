from triomq.store import BodyRun, decode_body, encode_body
from triomq.store.body import checksum


def test_runs_come_back_as_they_were() -> None:
    runs = [BodyRun(0, b"head", [b"a", b""]), BodyRun(5, b"", [b"x" * 70_000])]
    assert decode_body(encode_body(runs)) == runs


def test_other_octets_have_another_sum() -> None:
    assert checksum(b"octets") != checksum(b"octetz")
