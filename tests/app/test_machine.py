"""How much memory there is."""

from collections.abc import Callable
from pathlib import Path

import pytest

from triomq.app import machine
from triomq.app.machine import machine_memory, memory_mark, own_process, resident_memory

GIB = 1024**3

Limits = Callable[..., None]


@pytest.fixture
def limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Limits:
    """Say in which control group this process is, and what the files there say."""

    def limits(group: str, **files: str) -> None:
        (tmp_path / "cgroup").write_text(group)
        for name, text in files.items():
            path = tmp_path / "root" / name.replace("__", "/").replace("_max", ".max").replace("_limit", ".limit")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")

    monkeypatch.setattr(machine, "_CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(machine, "_CGROUP_ROOT", tmp_path / "root")
    return limits


@pytest.mark.parametrize(("watermark", "octets"), [(0, 0), (1.5e6, 1_500_000), (2, 2), (8 * GIB, 8 * GIB)])
def test_mark_above_one_is_octets(watermark: float, octets: int) -> None:
    assert memory_mark(watermark) == octets


def test_mark_up_to_one_is_a_part_of_the_machine(limits: Limits) -> None:
    whole = memory_mark(1)
    assert whole > GIB / 8
    assert memory_mark(0.5) == whole // 2


@pytest.mark.parametrize(
    ("group", "file"),
    [
        ("0::/", "memory_max"),
        ("0::/system.slice/triomq.service", "system.slice__triomq.service__memory_max"),
        ("0::/system.slice/triomq.service", "system.slice__memory_max"),
        ("0::/not/to/be/seen/from/here", "memory_max"),
        ("9:name=systemd:/\n4:cpu,memory:/docker/abc\n0::/", "memory__docker__abc__memory_limit_in_bytes"),
        ("4:memory:/docker/abc", "memory__memory_limit_in_bytes"),
    ],
)
def test_control_group_or_one_above_it_may_have_less(limits: Limits, group: str, file: str) -> None:
    limits(group, **{file: "64000000"})
    assert memory_mark(0.5) == 32_000_000


def test_lowest_limit_counts(limits: Limits) -> None:
    limits("0::/a/b", a__b__memory_max="64000000", a__memory_max="32000000", memory_max="128000000")
    assert machine_memory() == 32_000_000


def test_control_group_without_a_limit_has_all(limits: Limits) -> None:
    whole = memory_mark(1)
    limits("0::/a\n4:memory:/", a__memory_max="max", memory__memory_limit_in_bytes="9223372036854771712")
    assert memory_mark(1) == whole


def test_process_returns_free_memory(limits: Limits) -> None:
    process = own_process()
    assert process is not None
    assert process.limit == machine_memory()
    ballast = [bytes(1000) for _ in range(100_000)]
    full = process.anonymous()
    last = ballast[-1]
    del ballast
    process.give_back()
    assert process.anonymous() < full - 50_000_000
    assert last


def test_memory_of_this_process_is_known_on_linux() -> None:
    resident = resident_memory()
    if resident is not None:
        before = resident()
        assert before > 1024 * 1024
        ballast = bytearray(64 * 1024 * 1024)
        assert resident() > before + len(ballast) // 2


def test_memory_of_this_process_is_unknown_on_other_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert resident_memory() is None
