"""A clock on the wall for machines: it goes like the one of the house, and on when another house is opened."""

from collections.abc import Callable

from .still_harness import StillHarness

EPOCH = 1_000_000_000.0
"""What it shows in the beginning."""


class Wall:
    """Gives seconds since 1970, as ``time.time`` does."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Show the time of the beginning again, and stand."""
        self._since = EPOCH
        self._passed: Callable[[], float] = float

    def __call__(self) -> float:
        return self._since + self._passed()

    def stop(self) -> None:
        """Stand, until there is a house to go with; its own clock begins with 0."""
        self._since = self()
        self._passed = float

    def pass_time(self, seconds: float) -> None:
        """Go on by itself, while there is no house."""
        self._since += seconds

    def go_with(self, harness: StillHarness) -> None:
        self._passed = lambda: harness.now


WALL_CLOCK = Wall()
"""The one there is: tests hang it up where the core looks for the time."""
