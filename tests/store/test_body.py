from triomq.store import BodyRun, RunNote, decode_body, decode_notes, encode_body, encode_notes
from triomq.store.body import checksum


def test_runs_come_back_as_they_were() -> None:
    runs = [BodyRun(0, b"head", [b"a", b""]), BodyRun(5, b"", [b"x" * 70_000])]
    assert decode_body(encode_body(runs)) == runs


def test_notes_come_back_and_cost_nothing_when_there_is_nothing_to_say() -> None:
    notes = [RunNote(0, 1, 10, b""), RunNote(1, 2, 20, b"note")]
    assert decode_notes(encode_notes(notes)) == notes
    assert encode_notes(notes[:1]) == b""
    assert decode_notes(b"") == []


def test_other_octets_have_another_sum() -> None:
    assert checksum(b"octets") != checksum(b"octetz")
