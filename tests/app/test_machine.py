"""How much memory there is."""

from pathlib import Path

import pytest

from triomq.app import machine
from triomq.app.machine import memory_mark, resident_memory

GIB = 1024**3


@pytest.fixture
def limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Where the limits of a container are looked for."""
    paths = tmp_path / "memory.max", tmp_path / "limit_in_bytes"
    monkeypatch.setattr(machine, "_CGROUP_LIMITS", paths)
    return paths


@pytest.mark.parametrize(("watermark", "octets"), [(0, 0), (1.5e6, 1_500_000), (2, 2), (8 * GIB, 8 * GIB)])
def test_a_mark_above_one_is_octets(watermark: float, octets: int) -> None:
    assert memory_mark(watermark) == octets


def test_a_mark_up_to_one_is_a_part_of_the_machine(limits: tuple[Path, Path]) -> None:
    whole = memory_mark(1)
    assert whole > GIB / 8
    assert memory_mark(0.5) == whole // 2


@pytest.mark.parametrize("number", [0, 1])
def test_a_container_may_have_less(limits: tuple[Path, Path], number: int) -> None:
    limits[number].write_text("64000000\n", encoding="ascii")
    assert memory_mark(0.5) == 32_000_000


def test_a_container_without_a_limit_has_all(limits: tuple[Path, Path]) -> None:
    whole = memory_mark(1)
    limits[0].write_text("max\n", encoding="ascii")
    limits[1].write_text("9223372036854771712\n", encoding="ascii")
    assert memory_mark(1) == whole


def test_what_this_process_has_is_known_on_linux() -> None:
    resident = resident_memory()
    if resident is not None:
        before = resident()
        assert before > 1024 * 1024
        ballast = bytearray(64 * 1024 * 1024)
        assert resident() > before + len(ballast) // 2


def test_elsewhere_it_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert resident_memory() is None
