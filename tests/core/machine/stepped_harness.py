"""A harness for stateful tests, which are synchronous: nothing happens in it but what they ask for.

Trio runs as the guest of a loop that stands still, so a rule is one turn of the system, called like any function, and
tasks go on only in ``rest``. Time stands still as well, until ``pass_time``.
"""

import queue
from collections.abc import Callable
from typing import TypeVar

import outcome
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from triomq.core import Directory

from ..harness import Harness, open_harness

T = TypeVar("T")


class SteppedHarness:
    """A harness, its time, and the loop that it is the guest of.

    Args:
        directory: Makes the directory of its domain, when the clock is there; without it that is new and empty.
    """

    harness: Harness

    def __init__(self, directory: Callable[[], Directory] | None = None) -> None:
        self._directory = directory
        self._clock = MockClock()
        self._soon: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._end: outcome.Outcome[None] | None = None
        self._rests = self._closes = False
        trio.lowlevel.start_guest_run(
            self._run,
            run_sync_soon_threadsafe=self._soon.put,
            done_callback=self._ended,
            clock=self._clock,
        )
        self._go_on()

    async def _run(self) -> None:
        self._called = trio.Event()
        async with open_harness(self._directory and self._directory()) as self.harness:
            while not self._closes:
                await wait_all_tasks_blocked()
                self._rests = True
                await self._called.wait()
                self._called = trio.Event()

    def _ended(self, end: outcome.Outcome[None]) -> None:
        self._end = end

    def _go_on(self) -> None:
        """Run the guest until it rests or has ended."""
        self._rests = False
        while not self._rests and self._end is None:
            self._soon.get()()
        if self._end is not None:
            self._end.unwrap()

    def turn(self, function: Callable[[], T]) -> T:
        return self.harness.turn(function)

    def rest(self) -> None:
        """Let all tasks run until they wait."""
        self._called.set()
        self._go_on()

    @property
    def now(self) -> float:
        return self._clock.current_time()

    def pass_time(self, seconds: float) -> None:
        """Let time pass in one jump, then let all tasks run."""
        self._clock.jump(seconds)
        self.rest()

    def crash_domain(self) -> None:
        """Crash the domain and wait until it is back."""
        self.harness.crash_domain_nowait()
        self.rest()

    def close(self) -> None:
        self._closes = True
        self._called.set()
        if self._end is None:
            self._go_on()


class WallClock:
    """A fake of ``time.time``, which returns seconds since 1970: it goes like a harness, and on to the next harness."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Show the time of the beginning again, and stand."""
        self._since = 1_000_000_000.0
        self._passed: Callable[[], float] = float

    def __call__(self) -> float:
        return self._since + self._passed()

    def stop(self) -> None:
        """Stand until there is another harness, whose own clock begins with 0."""
        self._since = self()
        self._passed = float

    def pass_time(self, seconds: float) -> None:
        """Go on while there is no harness."""
        self._since += seconds

    def follow(self, stepped: SteppedHarness) -> None:
        """Go like a harness."""
        self._passed = lambda: stepped.now


WALL_CLOCK = WallClock()
"""The only one: tests put it where the core looks for the time."""
