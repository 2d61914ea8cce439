from contextlib import closing
from pathlib import Path

import pytest

from triomq.store.mark import Mark, MarkRead, read_mark

IDENTITY = b"0123456789abcdef"


def test_mark_is_what_was_written_last(tmp_path: Path) -> None:
    path = tmp_path / "mark"
    assert read_mark(path) is None
    with closing(Mark(path, IDENTITY)) as mark:
        for number in (1, 1 << 40, 7):
            mark.write(number)
            assert read_mark(path) == MarkRead(IDENTITY, number)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("octet", range(0, 36, 5))
def test_damaged_mark_proves_nothing(tmp_path: Path, octet: int) -> None:
    path = tmp_path / "mark"
    with closing(Mark(path, IDENTITY)) as mark:
        mark.write(7)
    data = bytearray(path.read_bytes())
    data[octet] ^= 1
    path.write_bytes(data)
    assert read_mark(path) == MarkRead(b"", 0)


def test_empty_mark_proves_nothing(tmp_path: Path) -> None:
    (tmp_path / "mark").touch()
    assert read_mark(tmp_path / "mark") == MarkRead(b"", 0)
