"""``Jobs``: the functions that a program sends to workers, and that a worker of that program runs."""

import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Never, ParamSpec, Self, TypeVar, Unpack, overload

from triomq.errors import AlreadyConnected, ConfigError, NotConnected, Refused, UnknownJob
from triomq.jobs.arguments import read_name
from triomq.jobs.decorators import JobDecorator, JobSchedule, OptionArguments, ScheduleDecorator
from triomq.jobs.definition import JobDefinition
from triomq.jobs.function import JobFunction, StreamFunction
from triomq.jobs.middleware import Middleware
from triomq.jobs.options import JobOptions
from triomq.opening import opening, opening_blocking
from triomq.process import notice_fork, tell_forks
from triomq.timetable import Missed, Timetable

if TYPE_CHECKING:
    from triomq.jobs.connecting import Where
    from triomq.jobs.handle import Job
    from triomq.jobs.link import JobLink
    from triomq.jobs.outside import WhereOutside
    from triomq.jobs.worker import SyncPlace, Worker

P = ParamSpec("P")
C = TypeVar("C")
R = TypeVar("R")
T = TypeVar("T")


class Jobs:
    """The jobs of a program: its functions, their schedules, and the broker that they are sent to.

        jobs = Jobs()

        @jobs.job(queue="mail", retries=5, timeout=30)
        async def send_mail(to: str, subject: str) -> str: ...

        async with jobs.connect("emqp://127.0.0.1:47291"):
            await send_mail.send("ada@example.org", subject="hi")

    A module makes one, and workers are started with it: ``triomq worker module:jobs``.

    Args:
        middleware: What is called around each of its jobs.
    """

    def __init__(self, *, middleware: Sequence[Middleware] = ()) -> None:
        self.middleware = tuple(middleware)
        """What is called around each of its jobs."""
        self._link: JobLink | None = None
        self._link_of_worker: JobLink | None = None
        self._where = ""
        self._needed = ""
        self._functions: dict[str, JobFunction[..., object, object] | StreamFunction[..., object]] = {}
        self._schedules: list[JobSchedule] = []

    # Decorators

    @overload
    def job(self, function: Callable[P, AsyncIterator[T]], /) -> StreamFunction[P, T]: ...  # type: ignore[overload-overlap]  # the first that fits
    @overload
    def job(
        self, function: Callable[P, Coroutine[object, Never, R]], /
    ) -> JobFunction[P, Coroutine[object, Never, R], R]: ...
    @overload
    def job(self, function: Callable[P, Iterator[T]], /) -> StreamFunction[P, T]: ...  # type: ignore[overload-overlap]  # the first that fits
    @overload
    def job(self, function: Callable[P, R], /) -> JobFunction[P, R, R]: ...
    @overload
    def job(self, function: None = None, /, *, name: str = "", **options: Unpack[OptionArguments]) -> JobDecorator: ...
    def job(
        self, function: Callable[..., object] | None = None, /, *, name: str = "", **options: Unpack[OptionArguments]
    ) -> object:
        """Make a job of a plain or an async function, or of a generator: ``@jobs.job`` or ``@jobs.job(…)``.

        Args:
            function: The function.
            name: How it is called on the wire; ``module.function`` if empty.
            options: See ``JobOptions``.

        Raises:
            ConfigError: It cannot be a job, an option is wrong, or there is a job of that name.
        """
        decorator = JobDecorator(self, _options(options), name)
        return decorator if function is None else decorator(function)

    def every(
        self,
        seconds: float,
        *,
        haste: bool = False,
        missed: Missed = "once",
        name: str = "",
        **options: Unpack[OptionArguments],
    ) -> ScheduleDecorator:
        """Have a function run again and again, as soon as a worker with it has started.

        Args:
            seconds: Between two runs; at least one.
            haste: Whether the first run is at once, and not when the seconds have passed.
            missed: Whether runs that the broker was down for come to one, or to none (``skip``).
            name: As for ``job``.
            options: As for ``job``.

        Raises:
            ConfigError: As ``job`` does; or the function has arguments without defaults.
        """
        timetable = Timetable(interval=seconds, haste=haste, missed=missed)
        return self._scheduled(timetable, name, options)

    def cron(
        self,
        cron: str,
        *,
        timezone: str = "UTC",
        missed: Missed = "once",
        name: str = "",
        **options: Unpack[OptionArguments],
    ) -> ScheduleDecorator:
        """Have a function run at the times of a cron text.

        Args:
            cron: Five fields: minute, hour, day of the month, month, day of the week.
            timezone: In which they are meant, as the IANA calls it.
            missed: As for ``every``.
            name: As for ``job``.
            options: As for ``job``.

        Raises:
            ConfigError: As ``every`` does.
        """
        timetable = Timetable(cron=cron, timezone=timezone, haste=False, missed=missed)
        return self._scheduled(timetable, name, options)

    def _scheduled(self, timetable: Timetable, name: str, options: OptionArguments) -> ScheduleDecorator:
        try:
            timetable.check(time.time())
        except Refused as error:
            raise ConfigError(str(error)) from None
        if timetable.interval % 1:
            raise ConfigError(f"seconds: found {timetable.interval}, expected a whole number from 1")
        return ScheduleDecorator(self, _options(options), name, timetable)

    # What decorators register

    def add(self, definition: JobDefinition) -> JobFunction[..., object, object] | StreamFunction[..., object]:
        """Register a job.

        Raises:
            ConfigError: There is another one of that name.
        """
        found = self._functions.get(definition.name)
        if found is not None:
            raise ConfigError(
                f"two jobs are called {definition.name!r}: {found.definition.function!r} and {definition.function!r}; "
                "give one of them a name=, or import its module under one name only"
            )
        kind = StreamFunction if definition.is_stream else JobFunction
        made = self._functions[definition.name] = kind(self, definition)
        return made

    def add_schedule(self, schedule: JobSchedule) -> None:
        """Register when a job runs by itself.

        Raises:
            ConfigError: It cannot be called without arguments, is a stream, or has a schedule already.
        """
        name = schedule.definition.name
        if schedule.definition.is_stream:
            raise ConfigError(f"{name} cannot have a schedule: it is a generator, whose items would have no reader")
        try:
            schedule.definition.encode((), {})
        except Exception as error:
            raise ConfigError(f"{name} cannot have a schedule: {error}") from None
        if any(other.definition is schedule.definition for other in self._schedules):
            raise ConfigError(f"{name} has a schedule already; make a second function for the second one")
        self._schedules.append(schedule)

    # The broker

    @opening("async with jobs.connect(url):")
    async def connect(self, where: "Where") -> AsyncIterator[Self]:
        """Connect with a broker for as long as a block lasts: ``async with jobs.connect("emqp://127.0.0.1"): …``.

        Leaving the block does not end what was sent; answers to it are lost then, but for those of jobs with ``keep=``.

        Args:
            where: The URL of a broker, or one that was opened in this program, which is reached without a socket.

        Raises:
            AlreadyConnected: They are connected; one ``Jobs`` has one broker at a time.
            ConfigError: The URL is wrong.
            Disconnected: No broker lets us in.
        """
        from triomq.jobs.connecting import open_link

        with self._connecting(where):
            async with open_link(where, self._where) as self._link:
                yield self

    @asynccontextmanager
    async def connect_worker(self, where: "Where") -> AsyncIterator[None]:
        """Connect with the broker of a worker that runs here: its jobs send by this where ``connect`` is not around.

        Args:
            where: As for ``connect``.

        Raises:
            Disconnected: No broker lets us in.
        """
        from triomq.jobs.connecting import open_link

        async with open_link(where, _shown(where)) as link:
            self._link_of_worker = link
            try:
                yield
            finally:
                if self._link_of_worker is link:
                    self._link_of_worker = None

    @opening("async with jobs.connect_asyncio(url):")
    async def connect_asyncio(self, where: "WhereOutside") -> AsyncIterator[Self]:
        """Connect with a broker for the tasks of the running event loop: ``await f.send(…)`` works as in Trio.

        The connection runs in a thread. A task that is cancelled in ``call`` cancels its job; deadlines of asyncio are
        not known to the broker: write ``f.using(deadline=5).call(…)`` for that.

        Args:
            where: The URL of a broker, or an ``AsyncioBroker`` or a ``BlockingBroker`` of this program.

        Raises:
            AlreadyConnected: As ``connect`` does, also the others.
        """
        from triomq.jobs.outside import open_asyncio_link

        with self._connecting(where):
            async with open_asyncio_link(where, self._where) as self._link:
                yield self

    @opening_blocking("with jobs.connect_blocking(url):")
    def connect_blocking(self, where: "WhereOutside") -> Iterator[Self]:
        """Connect with a broker for plain threads: ``with jobs.connect_blocking(url): f.blocking.send(…)``.

        Any number of threads may send. The connection runs in a thread of its own.

        Args:
            where: As for ``connect_asyncio``.

        Raises:
            AlreadyConnected: As ``connect`` does, also the others.
        """
        from triomq.jobs.outside import open_blocking_link

        with self._connecting(where), open_blocking_link(where, self._where) as self._link:
            yield self

    def connect_when_needed(self, where: str) -> None:
        """Connect this process for plain threads, once a job is sent, until it ends.

        For programs that have no block to connect in: web applications, and processes of workers. A fork of the
        process, such as one of a web server's, has a connection of its own.

        Args:
            where: The URL of a broker.
        """
        self._needed = where

    def _in_fork(self) -> None:
        """Forget the connection of the process before the fork: this one opens its own when it needs one."""
        self._link = None

    @contextmanager
    def _connecting(self, where: object) -> Iterator[None]:
        """Refuse a second connection, and forget the first one at its end."""
        if self._where:
            raise AlreadyConnected(
                f"these jobs are connected with {self._where} already; leave that block first, or make a second Jobs()"
            )
        self._where = _shown(where)
        try:
            yield
        finally:
            self._where = ""
            self._link = None

    def work(
        self,
        where: "Where",
        *,
        queues: Sequence[str] | Mapping[str, int] | None = None,
        concurrency: int = 100,
        processes: int = 0,
        sync_place: "SyncPlace" = "here",
    ) -> "AbstractAsyncContextManager[Worker]":
        """Run jobs in this program: ``async with jobs.connect(broker), jobs.work(broker): …``; see ``open_worker``.

        Args:
            where: As for ``connect``.
            queues: The queues to serve, with weights if they differ; those of these jobs if None.
            concurrency: How many jobs run at a time in this Trio program.
            processes: How many processes there are for sync jobs.
            sync_place: Where sync jobs run without processes: ``here``, or in a ``thread``.
        """
        from triomq.jobs.worker import open_worker

        return open_worker(
            self, where, queues=queues, concurrency=concurrency, processes=processes, sync_place=sync_place
        )

    @property
    def is_connected(self) -> bool:
        """Whether there is a broker to send to."""
        return self._link is not None or self._link_of_worker is not None

    def link(self) -> "JobLink":
        """Return the way to the broker.

        Raises:
            NotConnected: There is none.
        """
        if self._needed:
            notice_fork()
        if self._link is None and self._needed:
            from triomq.jobs.outside import open_for_process

            self._link = open_for_process(self._needed, _shown(self._needed))
            tell_forks(self, Jobs._in_fork)
        found = self._link or self._link_of_worker
        if found is None:
            raise NotConnected(
                "these jobs are not connected with a broker; send them inside of "
                "`async with jobs.connect('emqp://127.0.0.1:47291'):`, or with a broker of this program for a URL"
            )
        return found

    def handle(self, job: str) -> "Job[object]":
        """Return the handle of a job by its id, from any sender; that of ``f.handle(id)`` knows its type, too.

        Raises:
            NotConnected: There is no broker to ask.
        """
        from triomq.jobs.handle import Job

        return Job(self.link(), job.encode())

    # For workers

    def find(self, name: str) -> JobDefinition | None:
        """Return the job of a name, if there is one; nothing is imported."""
        found = self._functions.get(name)
        return None if found is None else found.definition

    def definition_of(self, payload: bytes) -> JobDefinition:
        """Return the job that a payload calls.

        Raises:
            UnknownJob: There is none of that name.
            WrongArguments: The payload is no call.
        """
        name = read_name(payload)
        found = self._functions.get(name)
        if found is None:
            raise UnknownJob(f"no job {name!r} here; there are {', '.join(sorted(self._functions)) or 'none'}")
        return found.definition

    @property
    def definitions(self) -> Mapping[str, JobDefinition]:
        """All jobs, by name."""
        return {name: function.definition for name, function in self._functions.items()}

    @property
    def queues(self) -> frozenset[str]:
        """The queues that its jobs go to."""
        return frozenset(function.definition.options.queue for function in self._functions.values())

    @property
    def schedules(self) -> tuple[JobSchedule, ...]:
        """The jobs that run by themselves."""
        return tuple(self._schedules)

    def check(self) -> None:
        """Look at all annotations, as a worker does before it takes jobs.

        Raises:
            ConfigError: One of them names what is not there, or nothing that JSON could be converted to.
        """
        for function in self._functions.values():
            function.definition.check()


def _options(given: OptionArguments) -> JobOptions:
    return JobOptions(**given)


def _shown(where: object) -> str:
    """Return a broker as texts call it; never with its password."""
    return re.sub("//.*@", "//", where) if isinstance(where, str) else "the broker of this program"
