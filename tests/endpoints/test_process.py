"""What the operating system says of this process."""

import resource
from pathlib import Path

import pytest

from triomq.endpoints import process


def test_memory_is_what_the_process_holds() -> None:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert 1024 * 1024 < process.process_memory() <= most + 64 * 1024 * 1024


@pytest.mark.parametrize("text", [None, "", "1 many"])
def test_where_it_cannot_be_known_it_is_the_most_that_was_held(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statm = tmp_path / "statm"
    if text is not None:
        statm.write_text(text)
    monkeypatch.setattr(process, "_STATM", statm)
    assert process.process_memory() == resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
