"""Timing an engine without sockets: what both benchmarks of engines use."""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

CHUNK = 64 * 1024  # what one read from a socket gives


class Reader(Protocol):
    """An engine that takes octets."""

    def receive_data(self, data: bytes) -> None:
        """Take them."""

    def events(self) -> Sequence[object]:
        """Give what happened."""


def best(work: Callable[[], int], seconds: float) -> float:
    """Repeat ``work``, which says how many messages it did; give the best time for one, in microseconds."""
    result, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        count = work()
        result = min(result, (time.perf_counter() - start) / count)
    return result * 1e6


def reading(receiver: Reader, data: bytes, count: int) -> Callable[[], int]:
    """Read ``data`` in chunks as a socket would give them."""
    chunks = [data[start : start + CHUNK] for start in range(0, len(data), CHUNK)]

    def work() -> int:
        for chunk in chunks:
            receiver.receive_data(chunk)
            receiver.events()
        return count

    return work
