"""Names of ``triomq.clients`` are resolved on first use, so that programs load what they use."""

import subprocess
import sys

import pytest

import triomq.clients

HEAVY = {"trio", "ssl", "asyncio", "logging.handlers"}


def loaded_by(program: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; import sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_client_of_streams_by_ranges_loads_no_event_loop_and_no_tls() -> None:
    assert not loaded_by("from triomq.clients import open_tap, GroupPosition, PartitionBounds; open_tap") & HEAVY


def test_client_that_has_talked_has_loaded_none_either() -> None:
    program = (
        "from triomq.clients import open_tap\n"
        "try: open_tap('tap://127.0.0.1:1')\n"
        "except Exception: pass\n"
        "import sys; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & HEAVY


def test_every_public_name_is_there() -> None:
    for name in triomq.clients.__all__:
        assert getattr(triomq.clients, name) is not None
    assert dir(triomq.clients) == sorted(triomq.clients.__all__)
    assert set(triomq.clients._MODULES) == set(triomq.clients.__all__)


def test_unknown_name_is_an_error_that_lists_the_others() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'open_tip'; its (public )?names are .*open_tap"):
        triomq.clients.open_tip  # type: ignore[attr-defined]  # noqa: B018
