"""Single keys from a terminal."""

import os
import pty
import sys
import termios
from collections.abc import Iterator

import pytest

from triomq.app.cli.keys import END, open_keys


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """The other end of what is standard input now, and that itself."""
    ours, theirs = pty.openpty()
    with open(theirs, closefd=False) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield ours, theirs
    os.close(ours)
    os.close(theirs)


def test_key_comes_without_enter(terminal: tuple[int, int]) -> None:
    with open_keys() as wait:
        os.write(terminal[0], b"qx")
        assert (wait(30), wait(30)) == ("q", "x")


def test_wait_without_a_key_takes_its_time(terminal: tuple[int, int]) -> None:
    with open_keys() as wait:
        assert wait(0.001) == ""


def test_terminal_is_left_as_it_was(terminal: tuple[int, int]) -> None:
    before = termios.tcgetattr(terminal[1])
    with open_keys():
        assert termios.tcgetattr(terminal[1]) != before
    assert termios.tcgetattr(terminal[1]) == before


def test_terminal_is_restored_however_the_block_ends(terminal: tuple[int, int]) -> None:
    before = termios.tcgetattr(terminal[1])
    with pytest.raises(KeyboardInterrupt), open_keys():
        raise KeyboardInterrupt
    assert termios.tcgetattr(terminal[1]) == before


@pytest.mark.parametrize("octet", [b"\x04", b"\xff", b"\x1b", b"\n"])
def test_any_octet_is_a_key(terminal: tuple[int, int], octet: bytes) -> None:
    with open_keys() as wait:
        os.write(terminal[0], octet)
        assert wait(30) == octet.decode("latin-1")


def test_terminal_that_hangs_up_is_an_end_and_not_nothing_over_and_over(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    with open(theirs) as stdin, open(ours, "wb") as far_end:
        monkeypatch.setattr(sys, "stdin", stdin)
        with open_keys() as wait:
            far_end.close()
            assert (wait(30), wait(30)) == (END, END)


def test_input_that_is_no_terminal_is_only_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as stdin, open_keys() as wait:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert wait(0.001) == ""
