"""What ``@jobs.job`` makes of a function: the function still, and the ways to have a worker call it."""

from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager
from copy import copy
from functools import partial, update_wrapper
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, Self, TypedDict, TypeVar, Unpack, cast, overload

from triomq.errors import ConfigError, WrongArguments
from triomq.jobs.definition import JobDefinition
from triomq.jobs.mappable import OneFirst, ThreeFirst, TwoFirst
from triomq.jobs.orders import CallOptions, JobOrder, OrderForm

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from triomq.jobs.blocking import BlockingCalls, BlockingStreams
    from triomq.jobs.handle import Job, JobStream
    from triomq.jobs.link import JobLink
    from triomq.jobs.registry import Jobs

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
J = TypeVar("J")
P = ParamSpec("P")
Q = ParamSpec("Q")
Returned = TypeVar("Returned")
R = TypeVar("R")
T = TypeVar("T")

_CHUNK = 250
"""Jobs of one ``map`` that are made in one turn: 5 ms at most, in which no other task runs."""


class CallArguments(TypedDict, total=False):
    """What ``using`` takes; see ``CallOptions``."""

    delay: float
    at: "datetime"
    deadline: float
    queue: str
    priority: int
    retries: int
    timeout: float
    unique: bool | str
    key: str
    keep: float
    trace: str
    detached: bool
    tied: bool


class Sender(Generic[P]):
    """What all ways to send have in common."""

    def __init__(self, jobs: "Jobs", definition: JobDefinition, options: CallOptions) -> None:
        self._jobs = jobs
        self._blocks = False
        self._form = OrderForm(definition, options)

    @property
    def definition(self) -> JobDefinition:
        """Name, options and conversion."""
        return self._form.definition

    @property
    def registry(self) -> "Jobs":
        """Where it is registered."""
        return self._jobs

    def _link(self) -> "JobLink":
        link = self._jobs.link()
        return link.for_threads() if self._blocks else link

    def _for_threads(self) -> Self:
        """Return the same, over a link that blocks."""
        other = copy(self)
        other._blocks = True
        return other

    def order(self, *args: P.args, **kwargs: P.kwargs) -> JobOrder:
        """Return a call as it would be sent, and send nothing; ``triomq.pipeline.run_batch`` takes these.

        Args:
            args: Those of the function.
            kwargs: Those of the function.

        Raises:
            WrongArguments: The function does not take them; the text has the path to the wrong one.
        """
        return self._order(args, kwargs)

    def _order(self, args: tuple[object, ...], kwargs: dict[str, object]) -> JobOrder:
        order = self._form.fill(args, kwargs)
        for middleware in self._jobs.middleware:
            order = middleware.before_enqueue(order)
        return order

    async def _send(self, args: tuple[object, ...], kwargs: dict[str, object]) -> "Job[R]":
        from triomq.jobs.handle import Job
        from triomq.jobs.link import place

        link = self._link()
        order = self._order(args, kwargs)
        request = await link.run(partial(place, link.connection, order))
        return Job(link, request.duplicate_of or request.id, order.definition, request)


class Caller(Sender[P], Generic[P, R]):
    """The ways to have a function called by a worker; a job is one, and ``using`` makes others."""

    async def send(self, *args: P.args, **kwargs: P.kwargs) -> "Job[R]":
        """Send it to a worker, and return its handle as soon as the broker has it safely.

        A job that is sent inside a job is a child of that attempt: it is cancelled when that fails or is cancelled.
        Cancelled while it waits for the broker, it may have been sent, or not.

        Args:
            args: Those of the function.
            kwargs: Those of the function.

        Raises:
            WrongArguments: The function does not take them; the text has the path to the wrong one.
            NotConnected: There is no ``jobs.connect`` around this.
            LimitExceeded: The queue is full, or the broker is short of memory or disk.
            AccessRefused: The user may not.
        """
        return await self._send(args, kwargs)

    async def call(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Send it to a worker, and wait for its result; cancelling this cancels the job.

        Its deadline is that of the task: ``with trio.fail_after(5): await f.call(…)`` gives it five seconds, wherever
        it is then; what is of no use any more is not begun.

        Args:
            args: Those of the function.
            kwargs: Those of the function.

        Raises:
            JobFailed: As ``Job.result`` does, also the others there.
            WrongArguments: As ``send`` does, also the others there.
        """
        from triomq.jobs.handle import Job
        from triomq.jobs.link import call

        link = self._link()
        order = self._order(args, kwargs)
        job, reply = await link.run(partial(call, link.connection, order))
        return Job[R](link, job, order.definition).outcome(reply)

    @overload
    async def map(
        self: OneFirst[A, Q, Coroutine[Any, Any, J]], first: Iterable[A], /, *args: Q.args, **kwargs: Q.kwargs
    ) -> list[J]: ...
    @overload
    async def map(
        self: TwoFirst[A, B, Q, Coroutine[Any, Any, J]],
        first: Iterable[A], second: Iterable[B], /, *args: Q.args, **kwargs: Q.kwargs,
    ) -> list[J]: ...  # fmt: skip
    @overload
    async def map(
        self: ThreeFirst[A, B, C, Q, Coroutine[Any, Any, J]],
        first: Iterable[A], second: Iterable[B], third: Iterable[C], /, *args: Q.args, **kwargs: Q.kwargs,
    ) -> list[J]: ...  # fmt: skip
    @overload
    async def map(
        self,
        first: Iterable[object], second: Iterable[object], third: Iterable[object], fourth: Iterable[object], /,
        *more: Iterable[object], **kwargs: object,
    ) -> "list[Job[R]]": ...  # fmt: skip
    async def map(self, *values: Iterable[Any], **kwargs: Any) -> "list[Job[R]]":  # type: ignore[misc]  # it takes all of these
        """Send it for each value, as many at a time as the broker takes, and return the handles in the same order.

        Args:
            values: The first arguments, as ``map`` of Python takes them: one iterable for each.
            kwargs: The same arguments for all, by their names.

        Raises:
            WrongArguments: As ``send`` does, also the others; the jobs before that one are sent.
        """
        from triomq.jobs.handle import Job
        from triomq.jobs.link import place_all, wait_placed

        for number, each in enumerate(values, 1):
            if not isinstance(each, Iterable):
                raise WrongArguments(
                    f"{self.definition.name}: found {type(each).__name__} as argument {number} of map, which takes an "
                    "iterable for each of the first arguments; give what is the same for all by its name"
                )
        link = self._link()
        orders = self._orders(zip(*values, strict=len(values) > 1), kwargs)
        jobs: list[Job[R]] = []
        while chunk := list(islice(orders, _CHUNK)):
            requests = await link.run(partial(place_all, link.connection, chunk))
            jobs += [Job(link, request.id, self.definition, request) for request in requests]
        await link.run(partial(wait_placed, link.connection, [job.request for job in jobs if job.request is not None]))
        return jobs

    def _orders(self, values: Iterable[tuple[object, ...]], kwargs: dict[str, object]) -> Iterator[JobOrder]:
        for place, args in enumerate(values):
            try:
                yield self._order(args, kwargs)
            except WrongArguments as error:
                raise WrongArguments(f"{error} (in value {place} of map)") from None

    def handle(self, job: str) -> "Job[R]":
        """Return the handle of a job of this function by its id, from any sender; see ``Jobs.handle``."""
        from triomq.jobs.handle import Job

        return Job(self._link(), job.encode(), self.definition)

    @property
    def blocking(self) -> "BlockingCalls[P, R]":
        """The same ways for plain threads, as in ``f.blocking.send(…)``."""
        from triomq.jobs.blocking import BlockingCalls

        return BlockingCalls(self._for_threads())


class StreamCaller(Sender[P], Generic[P, T]):
    """The ways to have a generator run by a worker; a job is one, and ``using`` makes others."""

    @asynccontextmanager
    async def stream(self, *args: P.args, **kwargs: P.kwargs) -> "AsyncIterator[JobStream[T]]":
        """Send it to a worker, and take its items: ``async with f.stream(…) as items: async for item in items: …``.

        The worker is held back by a slow reader. Leaving the block cancels the job, unless it has ended. Once its first
        item has gone out it is not tried again.

        Args:
            args: Those of the function.
            kwargs: Those of the function.

        Raises:
            WrongArguments: As ``Caller.send`` does, also the others.
        """
        stream = await self.begin(*args, **kwargs)
        try:
            yield stream
        finally:
            await stream.job.close()

    async def begin(self, *args: P.args, **kwargs: P.kwargs) -> "JobStream[T]":
        """Send it to a worker, and return its items; the caller cancels the job when it reads no more."""
        from triomq.jobs.handle import JobStream

        job: Job[None] = await self._send(args, kwargs)
        return JobStream(job)

    @property
    def blocking(self) -> "BlockingStreams[P, T]":
        """The same for plain threads, as in ``f.blocking.stream(…)``."""
        from triomq.jobs.blocking import BlockingStreams

        return BlockingStreams(self._for_threads())


class JobFunction(Caller[P, R], Generic[P, Returned, R]):
    """A function that workers call; made by the decorators of ``Jobs``."""

    def __init__(self, jobs: "Jobs", definition: JobDefinition) -> None:
        super().__init__(jobs, definition, CallOptions())
        update_wrapper(self, definition.function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Returned:
        """Call the function here and now, as if it were no job."""
        return cast("Returned", self.definition.function(*args, **kwargs))

    def __repr__(self) -> str:
        """Show the name."""
        return f"<JobFunction {self.definition.name}>"

    def using(self, **options: Unpack[CallArguments]) -> Caller[P, R]:
        """Return the ways to send it with other options: ``await f.using(delay=60, priority=5).send(…)``.

        Args:
            options: See ``CallOptions``.

        Raises:
            ConfigError: One of them is wrong.
        """
        return Caller(self._jobs, self.definition, CallOptions(**options))

    def map_on(
        self,
        spark: "SparkSession",
        table: "DataFrame",
        *,
        errors: Literal["column", "raise"] = "column",
        names: tuple[str, str] = ("result", "error"),
        timeout: float = 0.0,
    ) -> "DataFrame":
        """Return a table of Spark's with the result for each row, whose arguments are the columns of their names.

            small = resize.map_on(spark, spark.read.parquet("pictures")).where("error IS NULL")

        It runs on executors, without a broker, when the result is used, and once for each time that it is. Columns
        that are no arguments are passed by. The new column has the type that the result's annotation says, see
        ``triomq.pipeline.job_types``; without one it is JSON, as text.

        Args:
            spark: A session, also one of Spark Connect.
            table: The rows, of that session.
            errors: Whether a row without a result has a text in a second column, or ends the query.
            names: Of these two columns.
            timeout: Seconds for each row, if the job's decorator says nothing else; 0 is without limit.

        Raises:
            WrongArguments: A column is missing, or of a type that the argument cannot have.
            ConfigError: A column of such a name is there already, executors could not find the registry, or there is
                no PySpark.
        """
        try:
            from triomq.pipeline import map_on
        except ModuleNotFoundError as error:
            raise ConfigError(f"map_on: {error}; pip install 'triomq[spark]'") from None
        return map_on(self, spark, table, errors=errors, names=names, timeout=timeout)


class StreamFunction(StreamCaller[P, T], Generic[P, T]):
    """A generator whose items come from a worker; made by the decorators of ``Jobs``."""

    def __init__(self, jobs: "Jobs", definition: JobDefinition) -> None:
        super().__init__(jobs, definition, CallOptions())
        update_wrapper(self, definition.function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        """Call the function here and now, as if it were no job."""
        return cast("AsyncIterator[T]", self.definition.function(*args, **kwargs))

    def __repr__(self) -> str:
        """Show the name."""
        return f"<StreamFunction {self.definition.name}>"

    def using(self, **options: Unpack[CallArguments]) -> StreamCaller[P, T]:
        """Return the ways to run it with other options; see ``JobFunction.using``."""
        return StreamCaller(self._jobs, self.definition, CallOptions(**options))


AnyFunction = JobFunction[..., object, object] | StreamFunction[..., object]
