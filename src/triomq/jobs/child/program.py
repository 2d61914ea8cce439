"""The program of a child process: it imports a registry once, and runs its sync jobs, one after the other.

Its worker starts it, as a new interpreter with four descriptors for arguments, and ends it. Signals:

    SIGUSR1           the job that runs is to stop: ``current_job().is_cancelled`` says so from now on
    SIGUSR2           it has not: raise ``JobCancelled`` in the midst of it, and end after that
    SIGIO             the worker has gone: ended by the kernel (see ``tokens.end_with``)
    SIGINT, SIGTERM   nothing: they come to all processes of a terminal or a service at once, and the worker decides

They have handlers that do nothing, and are not ignored, since programs that a job starts would inherit that.
"""

import gc
import signal
import sys
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Literal, cast

import msgspec

from triomq.errors import JobCancelled
from triomq.jobs.child.execution import Task, ending_of, with_middleware
from triomq.jobs.child.loading import load_jobs
from triomq.jobs.child.tokens import ChildEnds, ChildTokens, Kind, WorkerGone, end_with
from triomq.jobs.running import RunningJob, running
from triomq.process import forget_origin

if TYPE_CHECKING:
    from triomq.jobs.registry import Jobs


class ChildSetUp(msgspec.Struct, frozen=True, array_like=True):
    """What a child has to know before its first job.

    Args:
        path: The worker's ``sys.path``.
        target: The registry, ``MODULE:JOBS``.
        broker: The URL by which jobs send jobs; empty for none.
    """

    path: list[str]
    target: str
    broker: str


class ChildProgram:
    """What runs in a child process.

    Args:
        jobs: The registry.
        tokens: The way to the worker.
    """

    def __init__(self, jobs: "Jobs", tokens: ChildTokens) -> None:
        self._jobs = jobs
        self._tokens = tokens
        self._job: RunningJob | None = None  # while it runs, and may be stopped
        self._number = 0

    def run(self) -> None:
        """Run jobs until the worker wants no more."""
        tokens, read = self._tokens, msgspec.msgpack.Decoder(Task).decode
        signal.signal(signal.SIGUSR1, self._cancel)
        signal.signal(signal.SIGUSR2, self._terminate)
        while (received := tokens.receive()) is not None:
            self._number, body = received
            began = time.perf_counter()
            try:
                kind, answer = self._run(read(body))
            except JobCancelled as error:  # the signal came between the job's last line and ours
                kind, answer = Kind.FAILED, _encoder.encode(ending_of(error, None, is_cancelled=True))
            tokens.answer(self._number, kind, answer, time.perf_counter() - began)

    def _run(self, task: Task) -> tuple[Kind, bytes]:
        definition = self._jobs.find(task.name)
        assert definition is not None, f"the worker has found {task.name} in the same registry"
        job = RunningJob(
            task.id,
            task.name,
            queue=task.queue,
            attempt=task.attempt,
            attempts=task.attempts,
            deadline=task.deadline,
            limit=time.monotonic() + task.timeout,
            trace=task.trace,
            report=self._report,
        )
        try:
            with running(job), with_middleware(self._jobs.middleware, definition, job):
                self._job = job
                value = definition.bind(task.payload).run()
                if definition.is_stream:
                    for item in cast("Iterable[object]", value):
                        self._report("item", definition.encode_item(item))
                    value = None
                message = definition.encode_result(value)
                self._job = None
                return Kind.DONE, message
        except BaseException as error:  # SystemExit as well: a job ends no process but by dying
            self._job = None
            return Kind.FAILED, _encoder.encode(ending_of(error, definition, is_cancelled=job.is_cancelled))

    def _report(self, kind: Literal["progress", "item"], value: bytes) -> None:
        self._tokens.answer(self._number, Kind.ITEM if kind == "item" else Kind.PROGRESS, value)

    def _cancel(self, number: int, frame: FrameType | None) -> None:
        if self._job is not None:
            self._job.is_cancelled = True

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        job, self._job = self._job, None
        if job is not None:
            job.is_cancelled = True
            raise JobCancelled(job.id, job.name)


_encoder = msgspec.msgpack.Encoder()


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """Leave it to the worker."""


def main() -> None:
    """Run until the worker wants no more, or has gone: nobody is there then to read why."""
    forget_origin()
    with suppress(WorkerGone, BrokenPipeError):
        _work(ChildEnds(*map(int, sys.argv[1:5])))


def _work(ends: ChildEnds) -> None:
    end_with(ends.life)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, _do_nothing)
    tokens = ChildTokens(ends)
    set_up = msgspec.msgpack.decode(tokens.receive_set_up(), type=ChildSetUp)
    sys.path[:] = set_up.path or sys.path
    try:
        jobs = load_jobs(set_up.target)
    except BaseException:
        tokens.answer(0, Kind.BROKEN, traceback.format_exc(limit=-10).encode("utf-8", "backslashreplace"))
        raise SystemExit(1) from None
    if set_up.broker:
        jobs.connect_when_needed(set_up.broker)
    gc.collect()
    gc.freeze()  # the user's modules stay, so no collection has to visit them
    tokens.answer(0, Kind.READY, b"")
    ChildProgram(jobs, tokens).run()
