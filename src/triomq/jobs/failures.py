"""Errors on their way from a worker to a caller: a class's name, a text, a traceback, and those inside of a group.

    exception ──> describe ──> Failure ──> REPLY: extension (type, message, traceback), message {"value", "errors"}
                                              │
    JobFailed, JobTimedOut, …, JobsFailed <── error_of

Nothing is unpickled: a caller gets a ``JobFailed`` that names the remote class, never one of that class.
"""

import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

import msgspec

from triomq.errors import JobCancelled, JobExpired, JobFailed, JobsFailed, JobTimedOut, WorkerLost

_OWN: Final = str(Path(__file__).parent)
"""Frames of files in here are left out: how a worker calls a function says nothing about its failure."""

_LONGEST_TRACEBACK: Final = 16_000
"""Characters: an extension frame has 64 KiB, and one character may take four bytes, or six as JSON."""

_LONGEST_MESSAGE: Final = 1000
"""Characters of an error's text, which stands in logs and tables."""

_MOST_ERRORS: Final = 100
"""Of one group; the sub-jobs of a job may be a million."""

_DEEPEST: Final = 8
"""Groups inside of groups."""


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is sent of an exception.

    Args:
        type: Its class.
        message: Its text.
        traceback: As Python prints it.
        errors: Those inside of a group.
    """

    type: str
    message: str = ""
    traceback: str = ""
    errors: tuple["Failure", ...] = ()

    def payload(self) -> bytes:
        """Return the message of a REPLY: released clients read ``value``, ours the errors of a group."""
        return _encode(_Payload(f"{self.type}: {self.message}", self.errors))


class _Payload(msgspec.Struct, omit_defaults=True):
    value: object = None
    errors: tuple[Failure, ...] = ()


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(_Payload).decode

_STATES: Final[Mapping[str, type[JobFailed]]] = {
    "failed": JobFailed,
    "cancelled": JobCancelled,
    "timed-out": JobTimedOut,
    "expired": JobExpired,
    "lost": WorkerLost,
}


def describe(error: BaseException, *, depth: int = 0) -> Failure:
    """Return what a worker sends of an exception that a job has raised."""
    errors: tuple[Failure, ...] = ()
    if isinstance(error, BaseExceptionGroup) and depth < _DEEPEST:
        errors = tuple(describe(each, depth=depth + 1) for each in error.exceptions[:_MOST_ERRORS])
    longest = _LONGEST_TRACEBACK >> (2 * depth)
    shown = _printable(_shortened(_traceback(error), longest))
    return Failure(_printable(type(error).__qualname__), _printable(_text(error)), shown, errors)


def _printable(text: str) -> str:
    """Write what UTF-8 has no bytes for, as in a file's name that is not UTF-8, in the way of a literal."""
    return text.encode(errors="backslashreplace").decode()


def _text(error: BaseException) -> str:
    try:
        return str(error)[:_LONGEST_MESSAGE]
    except Exception as wrong:
        return f"its text cannot be had: {wrong!r:.200}"


def _traceback(error: BaseException) -> str:
    try:
        found = traceback.TracebackException.from_exception(error, compact=True)
        frames = [frame for frame in found.stack if not frame.filename.startswith(_OWN)]
        found.stack = traceback.StackSummary.from_list(frames)
        return "".join(found.format())
    except Exception as wrong:  # a __str__ or a __repr__ may do anything
        return f"{type(error).__qualname__}, whose traceback cannot be printed: {wrong!r:.200}"


def _shortened(text: str, longest: int) -> str:
    """Keep the beginning and the end, where the cause and the error itself stand."""
    if len(text) <= longest:
        return text
    return f"{text[: longest // 3]}\n…\n{text[-longest * 2 // 3 :]}"


class _HowItEnded(Protocol):
    """An extension frame, or a state."""

    @property
    def state(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def traceback(self) -> str: ...


def error_of(job: str, name: str, ended: _HowItEnded, message: bytes = b"") -> JobFailed:
    """Return the error that a caller gets for a job that has ended otherwise than well.

    Args:
        job: Its id.
        name: What was called.
        ended: The extension frame of its REPLY, or its state.
        message: Of the REPLY, with the errors of a group.
    """
    kind = _STATES.get(ended.state, JobFailed)
    if kind is JobFailed and (errors := _errors_in(message)):
        return _error(job, name, Failure(ended.type, ended.message, ended.traceback, errors))
    return kind(job, name, ended.type, ended.message, ended.traceback)


def _errors_in(message: bytes) -> tuple[Failure, ...]:
    try:
        return _decode(message).errors
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return ()


def _error(job: str, name: str, failure: Failure) -> JobFailed:
    if not failure.errors:
        return JobFailed(job, name, failure.type, failure.message, failure.traceback)
    errors = [_error(job, name, each) for each in failure.errors]
    return JobsFailed(job, name, failure.type, failure.message, failure.traceback, errors)
