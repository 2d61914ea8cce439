"""What becomes of a call, in the nursery and in child processes: a message for a REPLY, or an ending that says why not.

Whatever a job raises is answered, and nothing else comes out of here, but for what ends the process.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Final

import msgspec

from triomq.jobs.definition import JobDefinition
from triomq.jobs.failures import describe
from triomq.jobs.middleware import Middleware, around
from triomq.jobs.running import RunningJob


class Task(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A job on its way to where it runs.

    Args:
        id: Of the job.
        name: What is called.
        queue: Where it came from.
        attempt: How often it was begun, this time included.
        attempts: How often it may be begun in all.
        deadline: When it has to be done, on ``time.monotonic``; ``inf`` for none.
        timeout: Seconds that it may run; ``inf`` for any number.
        trace: The traceparent that came with it.
        payload: The call.
    """

    id: str
    name: str
    queue: str
    attempt: int
    attempts: int
    deadline: float
    timeout: float
    trace: str
    payload: bytes


class Ending(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How a job has ended that has no result.

    Args:
        state: failed, cancelled, timed-out, expired, lost.
        type: The class of its error.
        text: What it says.
        traceback: Where it came from.
        retry: Whether another attempt is worth while.
        message: Of the REPLY; empty for one that is made of the text.
    """

    state: str
    type: str = ""
    text: str = ""
    traceback: str = ""
    retry: bool = True
    message: bytes = b""


EXPIRED: Final = Ending("expired", "DeadlineExceeded", "its deadline had come before it could begin", retry=False)


def ending_of(error: BaseException, definition: JobDefinition | None, *, is_cancelled: bool = False) -> Ending:
    """Return the ending of a job that has raised.

    Args:
        error: What it has raised.
        definition: The job; None if that is not known.
        is_cancelled: Whether it was asked to stop, so that this is what it was asked for.
    """
    failure = describe(error)
    retry = definition is None or definition.is_worth_retry(error)
    state = "cancelled" if is_cancelled else "failed"
    return Ending(state, failure.type, failure.message, failure.traceback, retry, failure.payload())


def over_time(timeout: float, *, is_expired: bool) -> Ending:
    """Return the ending of a job that is stopped because its time is up.

    Args:
        timeout: Seconds that it might run.
        is_expired: Whether it is its caller's deadline that has come.
    """
    if is_expired:
        return Ending("timed-out", "DeadlineExceeded", "its deadline has come while it ran", retry=False)
    return Ending("timed-out", "TimeoutError", f"it ran for more than {timeout:g} s")


def ending_for(reason: Ending | None, ending: Ending) -> Ending:
    """Return how a job has ended: for the reason that it was stopped for, if that is why it has raised."""
    if reason is None or ending.state != "cancelled":
        return ending
    return msgspec.structs.replace(reason, traceback=ending.traceback)


def with_middleware(
    middleware: tuple[Middleware, ...], definition: JobDefinition, job: RunningJob
) -> AbstractContextManager[None]:
    """Return the block in which a job's function runs."""
    return around(middleware, definition, job) if middleware else _NOTHING


_NOTHING: Final = nullcontext()
