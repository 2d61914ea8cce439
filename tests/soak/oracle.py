"""The oracle of a soak: no message that was confirmed may be missing."""

import time
from collections import Counter


class FlowOracle:
    """The numbers of the messages of one flow."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.publishers = 0  # that still publish
        self.confirmed: set[int] = set()
        self.delivered: set[int] = set()
        self.again = 0

    def take(self, number: int, *, redelivered: bool = False) -> None:
        """Record a delivery.

        Raises:
            AssertionError: It came twice, and was not marked.
        """
        assert redelivered or number not in self.delivered, (
            f"{self.name}: message {number} came twice and is not marked"
        )
        self.again += number in self.delivered
        self.delivered.add(number)

    @property
    def missing(self) -> set[int]:
        """Messages that were confirmed and were not delivered."""
        return self.confirmed - self.delivered

    @property
    def is_complete(self) -> bool:
        """Whether publishing has ended, and all messages were delivered."""
        return not self.publishers and not self.missing


class Delays:
    """How long messages took, by the minute."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self._minutes: dict[int, list[float]] = {}

    def add(self, seconds: float) -> None:
        self._minutes.setdefault(int((time.monotonic() - self.began) // 60), []).append(seconds)

    def lines(self) -> list[str]:
        """Median, 99th of a hundred and worst, minute by minute."""
        found: list[str] = []
        for minute, taken in sorted(self._minutes.items()):
            taken.sort()
            middle, late = taken[len(taken) // 2], taken[len(taken) * 99 // 100]
            numbers = f"p50 {middle * 1e3:7.2f} ms, p99 {late * 1e3:7.2f} ms, worst {taken[-1] * 1e3:8.2f} ms"
            found.append(f"minute {minute + 1:2}: {len(taken):7} messages, {numbers}")
        return found


class Observations:
    """How often each thing happened, and how large the broker was when."""

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self.resident: list[tuple[float, int]] = []

    def growth(self) -> str:
        """The resident set in MB, at ten moments."""
        step = max(1, len(self.resident) // 10)
        return " ".join(f"{size / 1e6:.1f}" for _, size in self.resident[step - 1 :: step])

    def resident_at(self, moment: float, around: float) -> float:
        """The mean resident set, in octets, of the samples up to a moment.

        Args:
            moment: seconds since the start.
            around: length of the time before it that is looked at, in seconds.
        """
        sizes = [size for at, size in self.resident if moment - around <= at <= moment]
        return sum(sizes) / len(sizes)
