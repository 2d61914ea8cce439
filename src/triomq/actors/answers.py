"""An answer that one task waits for, once: the slot between an asker and a handler."""

from __future__ import annotations

from typing import Generic, TypeVar

import trio

from triomq.actors.messages import Message
from triomq.errors import ActorStopped, HandlerFailed, MailboxFull, Refused

T = TypeVar("T")


class Answer(Generic[T]):
    """A value or an error, given once, for which at most one task waits.

    A Trio event plus a result in a quarter of the memory; each ask creates one, so it is small.
    """

    __slots__ = ("_task", "_values", "error")

    def __init__(self) -> None:
        self._task: trio.lowlevel.Task | None = None
        self._values: list[T] | None = None
        self.error: BaseException | None = None

    @property
    def is_given(self) -> bool:
        """Whether there is an answer or an error."""
        return self._values is not None or self.error is not None

    def give(self, value: T) -> None:
        """Set the answer; a second one is dropped."""
        if not self.is_given:
            self._values = [value]
            self._wake()

    def fail(self, error: BaseException) -> None:
        """Set an error, which ``wait`` raises; after an answer it is dropped."""
        if not self.is_given:
            self.error = error
            self._wake()

    async def wait(self) -> T:
        """Wait for the answer; a cancelled wait changes nothing for the handler."""
        if self.is_given:
            await trio.lowlevel.cancel_shielded_checkpoint()
        else:
            self._task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._leave)
        if self.error is not None:
            raise self.error
        assert self._values is not None  # the task was woken by an answer
        return self._values[0]

    def _leave(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED

    def _wake(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)


class Asked(Answer[object]):
    """A request in a mailbox together with its asker.

    It stands where a told message would stand, so that asks and tells keep one order.
    """

    __slots__ = ("message",)

    def __init__(self, message: Message) -> None:
        super().__init__()
        self.message = message


def is_cancellation(error: BaseException) -> bool:
    """Return whether an exception is Trio's ``Cancelled``, alone or among others, which must always be re-raised."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[0] is not None
    return isinstance(error, trio.Cancelled)


def answer_error(path: str, message: object, error: BaseException) -> BaseException:
    """Return the error for the asker of a request whose handling has failed with an error."""
    if isinstance(error, Refused | ActorStopped | HandlerFailed | MailboxFull):
        return error
    failed = HandlerFailed(f"{path} crashed while it handled {type(message).__qualname__}: {error!r}")
    failed.__cause__ = error
    return failed
