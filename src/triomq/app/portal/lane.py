"""A lane: errands from any thread to one loop, which is woken once for as many as have gathered."""

from collections import deque
from collections.abc import Callable

Errand = Callable[[], object]
"""What is to be done at the lane's end: a call that neither waits nor fails."""


class Lane:
    """Errands in the order in which they were sent; any thread may send, one loop does them.

    Whoever finds nobody on the way wakes the loop, and until that has come the lane only fills: what is sent in the
    meantime costs an append, not a wake-up.

    Args:
        wake: Has a function called soon in the loop at the lane's end; may be called in any thread.
    """

    __slots__ = ("_errands", "_wake", "_woken")

    def __init__(self, wake: Callable[[Errand], object]) -> None:
        self._errands: deque[Errand] = deque()
        self._wake = wake
        self._woken = False

    def send(self, errand: Errand) -> None:
        """Have something done at the lane's end, soon."""
        self._errands.append(errand)
        if not self._woken:
            self._woken = True
            self._wake(self._arrive)

    def _arrive(self) -> None:
        # Before anything is taken: who still saw it set has appended already, and that is counted here.
        self._woken = False
        for _ in range(len(self._errands)):
            self._errands.popleft()()
