"""Codes of tap as errors."""

from triomq.clients.tap.refusals import error_of
from triomq.errors import OutOfRange, Refused
from triomq.protocols.tap import PartitionBounds, RequestRefused


def test_out_of_range_has_what_was_asked_for_and_what_is_there() -> None:
    error = error_of(RequestRefused(1, "OUT_OF_RANGE", "gone", PartitionBounds(7, 10, 20)), "orders", 3)
    assert isinstance(error, OutOfRange)
    assert (error.name, error.offset, error.first, error.stop) == ("orders", 3, 10, 20)


def test_out_of_range_without_bounds_is_a_refusal() -> None:
    assert type(error_of(RequestRefused(1, "OUT_OF_RANGE", "gone"))) is Refused
