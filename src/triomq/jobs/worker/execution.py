"""What becomes of a call, in the nursery and in child processes: a message for a REPLY, or a failure that says why.

Whatever a job raises is answered, and nothing else comes out of here, but for what ends the process.
"""

import os
import traceback
from pathlib import Path
from types import TracebackType
from typing import Final

import msgspec

from triomq.jobs.definition import JobDefinition

_LONGEST_MESSAGE: Final = 1000
"""Characters of an error's text in a failure."""

_LONGEST_TRACEBACK: Final = 8000
"""Characters of a traceback: dead letters and kept results have it with them. The end, which has the error, counts."""


class Task(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A job on its way to where it runs.

    Args:
        id: Of the job.
        name: What is called.
        queue: Where it came from.
        attempt: How often it was begun, this time included.
        deadline: When it has to be done, on ``time.monotonic``; ``inf`` for none.
        timeout: Seconds that it may run; ``inf`` for any number.
        trace: The traceparent that came with it.
        payload: The call.
    """

    id: str
    name: str
    queue: str
    attempt: int
    deadline: float
    timeout: float
    trace: str
    payload: bytes


class Failure(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How a job has ended that has no result.

    Args:
        state: failed, cancelled, timed-out, expired, lost.
        type: The class of its error.
        message: The error's text.
        traceback: Where it came from.
        retry: Whether another attempt is worth while.
    """

    state: str
    type: str = ""
    message: str = ""
    traceback: str = ""
    retry: bool = True


def failure_of(error: BaseException, definition: JobDefinition | None, *, is_cancelled: bool = False) -> Failure:
    """Return the failure of a job that has raised.

    Args:
        error: What it has raised.
        definition: The job; None if that is not known.
        is_cancelled: Whether it was asked to stop, so that this is what it was asked for.
    """
    text = "".join(traceback.format_exception(type(error), error, _without_ours(error)))
    if len(text) > _LONGEST_TRACEBACK:
        text = f"(the first {len(text) - _LONGEST_TRACEBACK} characters are left out)\n{text[-_LONGEST_TRACEBACK:]}"
    retry = definition is None or definition.is_worth_retry(error)
    state = "cancelled" if is_cancelled else "failed"
    return Failure(state, name_of_error(error), _text_of(error), text, retry)


def name_of_error(error: BaseException) -> str:
    """Return the name of an error's class, with its module if that is not Python's own."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _text_of(error: BaseException) -> str:
    try:
        return str(error)[:_LONGEST_MESSAGE]
    except Exception:  # the job's own class may raise here what it likes
        return "(an error whose text cannot be made)"


def _without_ours(error: BaseException) -> TracebackType | None:
    """Return the traceback from where the job's own code begins."""
    found = error.__traceback__
    while found is not None and found.tb_next is not None and _is_ours(found):
        found = found.tb_next
    return found


def _is_ours(where: TracebackType) -> bool:
    return where.tb_frame.f_code.co_filename.startswith(_HOME)


_HOME = str(Path(__file__).parents[1]) + os.sep
