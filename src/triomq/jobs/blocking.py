"""The ways to send jobs, and their handles, for plain threads: ``f.blocking.send(…)``, ``f.blocking.call(…)``, …

Each is the same coroutine as in Trio, over a link that blocks in place of waiting: so one step takes it to its end.
"""

from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Never, ParamSpec, TypeVar, overload

import trio

from triomq.jobs.handle import Job, JobStream
from triomq.jobs.mappable import OneFirst, ThreeFirst, TwoFirst
from triomq.protocols.emqp import JobState

if TYPE_CHECKING:
    from triomq.jobs.function import Caller, StreamCaller

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
J = TypeVar("J")
P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R", covariant=True)
T = TypeVar("T")
V = TypeVar("V")


def drive(coroutine: Coroutine[object, Never, T]) -> T:
    """Run a coroutine that never waits, and return its result."""
    try:
        coroutine.send(None)  # type: ignore[arg-type]  # that is how one begins
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise RuntimeError("a coroutine over a link that blocks has waited; this is a bug")


class BlockingJob(Generic[R]):
    """A job that is with a broker, for plain threads; see ``Job``, also for the errors.

    Args:
        job: The same in Trio.
    """

    def __init__(self, job: Job[R]) -> None:
        self._job = job

    def __repr__(self) -> str:
        """Show name and id."""
        return f"<BlockingJob {self.name} {self.id}>"

    @property
    def id(self) -> str:
        """By which the broker knows it."""
        return self._job.id

    @property
    def name(self) -> str:
        """What is called."""
        return self._job.name

    @property
    def is_duplicate(self) -> bool:
        """Whether it was there already, of the same ``unique`` text, when it was sent."""
        return self._job.is_duplicate

    def result(self, *, timeout: float | None = None) -> R:
        """Wait until it has ended, and return what its function returned.

        Args:
            timeout: Seconds to wait; None waits for ever. The job goes on when they are over.

        Raises:
            TimeoutError: It has not ended in time.
        """
        if timeout is None:
            return drive(self._job.result())
        try:
            return self._job.outcome(drive(self._job.link.run(partial(_within, timeout, self._job.answer))))
        except trio.TooSlowError:
            raise TimeoutError(f"job {self.id} has not ended within {timeout} s; it goes on") from None

    def state(self) -> JobState:
        """Ask how it is."""
        return drive(self._job.state())

    def cancel(self, *, grace: float | None = None) -> bool:
        """Cancel it and the jobs that it has sent; return whether it had not ended yet.

        Args:
            grace: Seconds that it may take to stop.
        """
        return drive(self._job.cancel(grace=grace))

    @overload
    def progress(self) -> Iterator[Any]: ...
    @overload
    def progress(self, kind: type[V]) -> Iterator[V]: ...
    def progress(self, kind: object = Any) -> Iterator[object]:
        """Iterate over what it reports, until it has ended.

        Args:
            kind: To what each value is converted.
        """
        values = self._job.progress(kind)  # type: ignore[call-overload]  # both kinds
        return _steps(values.__anext__)


async def _within(seconds: float, function: Callable[[], Coroutine[object, Never, T]]) -> T:
    with trio.fail_after(seconds):
        return await function()


def _steps(step: Callable[[], Coroutine[object, Never, T]]) -> Iterator[T]:
    while True:
        try:
            value = drive(step())
        except StopAsyncIteration:
            return
        yield value


class BlockingCalls(Generic[P, R]):
    """The ways to have a function called by a worker, for plain threads; see ``Caller``, also for the errors.

    Args:
        caller: The same in Trio, over a link that blocks.
    """

    def __init__(self, caller: "Caller[P, R]") -> None:
        self._caller = caller

    def send(self, *args: P.args, **kwargs: P.kwargs) -> BlockingJob[R]:
        """Send it to a worker, and return its handle as soon as the broker has it."""
        return BlockingJob(drive(self._caller.send(*args, **kwargs)))

    def call(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Send it to a worker, and wait for its result; ``f.using(deadline=5).blocking.call(…)`` waits no longer."""
        return drive(self._caller.call(*args, **kwargs))

    @overload
    def map(self: OneFirst[A, Q, J], first: Iterable[A], /, *args: Q.args, **kwargs: Q.kwargs) -> list[J]: ...
    @overload
    def map(
        self: TwoFirst[A, B, Q, J],
        first: Iterable[A], second: Iterable[B], /, *args: Q.args, **kwargs: Q.kwargs,
    ) -> list[J]: ...  # fmt: skip
    @overload
    def map(
        self: ThreeFirst[A, B, C, Q, J],
        first: Iterable[A], second: Iterable[B], third: Iterable[C], /, *args: Q.args, **kwargs: Q.kwargs,
    ) -> list[J]: ...  # fmt: skip
    @overload
    def map(
        self,
        first: Iterable[object], second: Iterable[object], third: Iterable[object], fourth: Iterable[object], /,
        *more: Iterable[object], **kwargs: object,
    ) -> "list[BlockingJob[R]]": ...  # fmt: skip
    def map(self, *values: Iterable[Any], **kwargs: Any) -> list[BlockingJob[R]]:  # type: ignore[misc]  # it takes all of these
        """Send it for each value, and return the handles in the same order.

        Args:
            values: One iterable for each of the first arguments.
            kwargs: The same arguments for all, by their names.
        """
        return [BlockingJob(job) for job in drive(self._caller.map(*values, **kwargs))]

    def handle(self, job: str) -> BlockingJob[R]:
        """Return the handle of a job of this function by its id, from any sender."""
        return BlockingJob(self._caller.handle(job))


class BlockingStreams(Generic[P, T]):
    """The ways to have a generator run by a worker, for plain threads; see ``StreamCaller``, also for the errors.

    Args:
        caller: The same in Trio, over a link that blocks.
    """

    def __init__(self, caller: "StreamCaller[P, T]") -> None:
        self._caller = caller

    @contextmanager
    def stream(self, *args: P.args, **kwargs: P.kwargs) -> Iterator[Iterator[T]]:
        """Send it to a worker, and take its items: ``with f.blocking.stream(…) as items: for item in items: …``."""
        stream: JobStream[T] = drive(self._caller.begin(*args, **kwargs))
        try:
            yield _steps(stream.__anext__)
        finally:
            drive(stream.job.close())
