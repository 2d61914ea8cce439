"""``Jobs`` finds functions by name, and refuses what would surprise a worker."""

import re
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from triomq.errors import ConfigError, UnknownJob
from triomq.jobs import JobFunction, Jobs, StreamFunction


def make() -> Jobs:
    jobs = Jobs()

    @jobs.job(queue="mail", retries=5, name="mail.send")
    async def send(to: str, subject: str = "") -> str:
        """Send it."""
        return f"{to} {subject}"

    @jobs.job
    def add(a: int, b: int) -> int:
        return a + b

    @jobs.job(name="numbers")
    async def numbers(count: int) -> AsyncIterator[int]:
        for number in range(count):
            yield number

    return jobs


async def test_function_stays_callable() -> None:
    jobs = Jobs()

    @jobs.job
    async def waits(a: int) -> int:
        """Wait."""
        return a

    @jobs.job
    def adds(a: int, b: int) -> int:
        return a + b

    assert await waits(5) == 5
    assert adds(1, b=2) == 3
    assert (waits.__name__, waits.__doc__) == ("waits", "Wait.")
    assert repr(adds) == f"<JobFunction {__name__}.adds>"


def test_jobs_are_found_by_name() -> None:
    jobs = make()
    assert set(jobs.definitions) == {"mail.send", f"{__name__}.add", "numbers"}
    assert jobs.queues == {"mail", "default"}
    found = jobs.find("mail.send")
    assert found is not None
    assert (found.options.retries, found.is_async) == (5, True)
    assert jobs.find("os.system") is None


def test_payload_finds_its_job() -> None:
    jobs = make()
    found = jobs.definitions["numbers"]
    assert jobs.definition_of(found.encode((3,), {})) is found
    with pytest.raises(UnknownJob, match=r"no job 'os\.system' here; there are .*, mail\.send, numbers"):
        jobs.definition_of(b'["run", {"path": "os", "callable": "system", "args": ["ls"]}]')


def test_generators_become_streams() -> None:
    jobs = Jobs()

    @jobs.job()
    async def some() -> AsyncIterator[int]:
        yield 1

    @jobs.job()
    async def none() -> None: ...

    assert isinstance(some, StreamFunction)
    assert isinstance(none, JobFunction)


def test_second_job_of_a_name_is_refused() -> None:
    jobs = make()
    with pytest.raises(ConfigError, match=re.escape("two jobs are called 'numbers'")):

        @jobs.job(name="numbers")
        def again() -> None: ...


def test_wrong_option_is_refused_by_the_decorator() -> None:
    with pytest.raises(ConfigError, match="priority: found 10"):
        Jobs().job(priority=10)


def test_schedules_are_jobs_and_may_stand_above_one() -> None:
    jobs = Jobs()

    @jobs.every(10)
    async def tick() -> None: ...

    @jobs.cron("0 6 * * *", timezone="Europe/Oslo")
    @jobs.job(queue="reports")
    def report() -> None: ...

    assert isinstance(tick, JobFunction)
    assert isinstance(report, JobFunction)
    assert [(each.definition.options.queue, each.timetable.cron) for each in jobs.schedules] == [
        ("default", ""),
        ("reports", "0 6 * * *"),
    ]


def test_schedule_that_is_never_due_is_refused() -> None:
    for cron, timezone, text in [
        ("0 6 * *", "UTC", "it has five fields"),
        ("0 0 31 2 *", "UTC", "Bad day-of-month"),
        ("0 6 * * *", "Oslo", "time zone 'Oslo' is not known"),
    ]:
        with pytest.raises(ConfigError, match=text):
            Jobs().cron(cron, timezone=timezone)
    with pytest.raises(ConfigError, match=r"an interval of -1"):
        Jobs().every(-1)


def test_schedule_is_for_functions_that_can_be_called_without_arguments() -> None:
    jobs = Jobs()
    with pytest.raises(ConfigError, match=r"cannot have a schedule: .*missing a required argument: 'a'"):

        @jobs.every(10)
        def needs(a: int) -> None: ...

    with pytest.raises(ConfigError, match="has a schedule already"):

        @jobs.every(10)
        @jobs.every(20)
        def twice() -> None: ...


def test_functions_are_jobs_without_trio_and_without_sockets() -> None:
    """Processes of workers import these modules, and save 10 MiB each."""
    program = (
        "import sys; from triomq import Jobs; jobs = Jobs(); "
        "jobs.job(name='f')(lambda: None).definition.check(); "
        "print([name for name in sys.modules if name in ('trio', 'zmq', 'triomq.clients')])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
