"""A house for machines, which are synchronous: the system lives in a thread, and every rule is one turn of it.

Time stands still, so nothing may be waited for that needs some: a machine lets everybody come to rest, and looks.
"""

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from triomq.core import DeleteQueue

from ..cast import House, open_house

T = TypeVar("T")


class HouseInAThread:
    """A house whose doors can be used from another thread; its time stands still but for ``pass_time``."""

    def __init__(self) -> None:
        self._clock = MockClock()
        self._opened: queue.SimpleQueue[House | BaseException] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        opened = self._opened.get()
        if isinstance(opened, BaseException):
            raise opened
        self.house = opened

    def _run(self) -> None:
        try:
            trio.run(self._live, clock=self._clock)
        except BaseException as error:
            self._opened.put(error)
        else:
            self._opened.put(RuntimeError("closed"))

    async def _live(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._closed = trio.Event()
        async with open_house() as house:
            self._opened.put(house)
            await self._closed.wait()

    def turn(self, function: Callable[[], T]) -> T:
        answer: T = trio.from_thread.run_sync(self.house.turn, function, trio_token=self._token)
        return answer

    def rest(self) -> None:
        """Let everybody do what can be done now."""
        trio.from_thread.run(wait_all_tasks_blocked, trio_token=self._token)

    @property
    def now(self) -> float:
        return self._clock.current_time()

    def pass_time(self, seconds: float) -> None:
        """Let time pass in one jump, and everybody do what is due by then."""
        self._clock.jump(seconds)
        self.rest()

    def crash_domain(self) -> None:
        """Crash the domain and wait until it is back."""
        request = DeleteQueue([], self.house.session)  # type: ignore[arg-type]  # a name that cannot be one
        self.turn(lambda: self.house.domain.tell_nowait(request))
        self.rest()

    def close(self) -> None:
        trio.from_thread.run_sync(self._closed.set, trio_token=self._token)
        self._thread.join()
        ended = self._opened.get()
        if str(ended) != "closed":
            raise ended  # type: ignore[misc]
