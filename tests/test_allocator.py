"""Free memory that goes back to the system."""

import sys

import pytest

from triomq.allocator import MUCH, FreeMemory, resident

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not FreeMemory().free(), reason="the C library does not tell"
)


def leave_holes() -> list[bytes]:
    """Take memory in pieces, and free all but one of a hundred: none of it is at the end, so the library keeps it."""
    pieces = [bytes(60_000) for _ in range(3_000)]
    return pieces[::100]


def test_much_that_is_free_twice_in_a_row_goes_back() -> None:
    memory = FreeMemory()
    memory.trim()  # what other tests have left
    before = resident()
    kept = leave_holes()
    assert resident() - before > 2 * MUCH
    assert memory.may_be_much
    assert memory.free() > 2 * MUCH
    assert memory.give_back() == 0  # it may be used again in a moment
    assert memory.give_back() > MUCH
    assert resident() - before < MUCH
    assert not memory.may_be_much
    assert len(kept) == 30


def test_what_is_used_is_not_worth_a_trim() -> None:
    memory = FreeMemory()
    memory.trim()
    kept = [bytes(60_000) for _ in range(2_000)]
    assert memory.may_be_much
    assert sum(memory.look() for _ in range(3)) < MUCH
    assert len(kept) == 2_000
