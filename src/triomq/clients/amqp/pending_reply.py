"""What one task waits for and the reader gives, in one task switch and with no other machinery."""

from typing import Generic, TypeVar, cast

import trio

T = TypeVar("T")
E = TypeVar("E", bound=Exception)


class PendingReply(Generic[T]):
    """Made and waited for by one task, resolved by the reader.

    A task that is cancelled while it waits has ``abandoned`` its reply; the reader looks at that, and takes back what
    was given to no task.
    """

    __slots__ = ("_error", "_task", "_value", "abandoned", "done")

    def __init__(self) -> None:
        self._task: trio.lowlevel.Task | None = None
        self._value: T | None = None
        self._error: Exception | None = None
        self.done = False
        self.abandoned = False

    def resolve(self, value: T) -> None:
        """Answer."""
        self._value = value
        self._finish()

    def fail(self, error: Exception) -> None:
        """Resolve with an error, of which the task gets a copy of its own, since tracebacks grow."""
        self._error = fresh(error)
        self._finish()

    def _finish(self) -> None:
        self.done = True
        if self._task is not None:
            task, self._task = self._task, None
            trio.lowlevel.reschedule(task)

    async def wait(self) -> T:
        """Wait for the answer; raises what it was failed with."""
        if not self.done:
            self._task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._abort)
        if self._error is not None:
            raise self._error
        return cast(T, self._value)

    def _abort(self, raise_cancel: object) -> trio.lowlevel.Abort:
        self._task = None
        self.abandoned = True
        return trio.lowlevel.Abort.SUCCEEDED


def fresh(error: E) -> E:
    """Copy an error that several tasks are to raise, each with a traceback of its own."""
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy
