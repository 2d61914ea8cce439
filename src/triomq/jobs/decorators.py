"""``@jobs.job(…)``, ``@jobs.every(…)`` and ``@jobs.cron(…)``: what they take, and what type they make of a function."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Never, ParamSpec, TypedDict, TypeVar, overload

import msgspec

from triomq.jobs.definition import JobDefinition
from triomq.jobs.function import JobFunction, StreamFunction
from triomq.jobs.options import JobOptions
from triomq.timetable import Timetable

if TYPE_CHECKING:
    from triomq.jobs.registry import Jobs

P = ParamSpec("P")
C = TypeVar("C")
R = TypeVar("R")
T = TypeVar("T")


class OptionArguments(TypedDict, total=False):
    """What decorators take; see ``JobOptions``."""

    queue: str
    retries: int
    backoff: tuple[float, float]
    timeout: float
    priority: int
    unique: bool | str
    key: str
    max_concurrency: int
    rate: float
    shared: bool
    keep: float
    final: tuple[type[Exception], ...]


class JobSchedule(msgspec.Struct, frozen=True):
    """A job that runs by itself, again and again.

    Args:
        definition: What runs.
        timetable: When.
    """

    definition: JobDefinition
    timetable: Timetable


class JobDecorator:
    """What ``jobs.job(…)`` returns: it makes a job of a function."""

    def __init__(self, jobs: "Jobs", options: JobOptions, name: str) -> None:
        self._jobs = jobs
        self._options = options
        self._name = name

    @overload
    def __call__(self, function: Callable[P, AsyncIterator[T]], /) -> StreamFunction[P, T]: ...  # type: ignore[overload-overlap]  # the first that fits
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[object, Never, R]], /
    ) -> JobFunction[P, Coroutine[object, Never, R], R]: ...
    @overload
    def __call__(self, function: Callable[P, Iterator[T]], /) -> StreamFunction[P, T]: ...  # type: ignore[overload-overlap]  # the first that fits
    @overload
    def __call__(self, function: Callable[P, R], /) -> JobFunction[P, R, R]: ...
    def __call__(self, function: Callable[..., object], /) -> object:
        """Register a function."""
        return self._jobs.add(JobDefinition(function, self._options, self._name))


class ScheduleDecorator:
    """What ``jobs.every(…)`` and ``jobs.cron(…)`` return: it gives a schedule to a function, or to a job."""

    def __init__(self, jobs: "Jobs", options: JobOptions, name: str, timetable: Timetable) -> None:
        self._jobs = jobs
        self._decorator = JobDecorator(jobs, options, name)
        self._timetable = timetable

    @overload
    def __call__(self, function: JobFunction[P, C, R], /) -> JobFunction[P, C, R]: ...  # type: ignore[overload-overlap]  # the first that fits
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[object, Never, R]], /
    ) -> JobFunction[P, Coroutine[object, Never, R], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> JobFunction[P, R, R]: ...
    def __call__(self, function: Callable[..., object], /) -> object:
        """Register a function, unless it is a job already, and its schedule."""
        made = function if isinstance(function, (JobFunction, StreamFunction)) else self._decorator(function)
        self._jobs.add_schedule(JobSchedule(made.definition, self._timetable))
        return made
