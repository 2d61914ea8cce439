"""What the operating system says of this process."""

import re
import resource
from pathlib import Path

import pytest

from triomq.core import memory

MIB = 1024 * 1024


def test_memory_is_what_the_process_holds() -> None:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert MIB < memory.process_memory() <= most + 64 * MIB


def test_anonymous_memory_is_what_linux_calls_so() -> None:
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii"))
    assert found
    anonymous = memory.anonymous_memory()
    assert anonymous is not None
    assert abs(anonymous - int(found[1]) * 1024) < 8 * MIB


def test_anonymous_memory_grows_with_what_is_made_and_not_with_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(64 * MIB))
    before = memory.anonymous_memory() or 0
    (tmp_path / "file").read_bytes()
    assert (memory.anonymous_memory() or 0) < before + 8 * MIB
    ballast = bytearray(64 * MIB)
    for page in range(0, len(ballast), 4096):
        ballast[page] = 1
    assert (memory.anonymous_memory() or 0) > before + 56 * MIB


@pytest.mark.parametrize("text", [None, "", "1 many"])
def test_where_it_cannot_be_known_it_is_the_most_that_was_held(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statm = tmp_path / "statm"
    if text is not None:
        statm.write_text(text)
    monkeypatch.setattr(memory, "_STATM", statm)
    assert memory.process_memory() == resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert memory.anonymous_memory() is None
