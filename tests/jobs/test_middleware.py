"""Middleware is called around each job, and logs of jobs have fields."""

import logging

import msgspec
import pytest
from tests.jobs.party import Shop

from triomq.errors import LimitExceeded
from triomq.jobs import JobDefinition, JobOrder, Jobs, LogJobs, Middleware, RunningJob, current_job, running
from triomq.jobs.middleware import around


class Recorder(Middleware):
    """Records what it is called for."""

    def __init__(self, name: str = "") -> None:
        self.seen: list[str] = []
        self._name = name

    def before(self, job: RunningJob) -> None:
        self.seen.append(f"{self._name}before")

    def after(self, job: RunningJob) -> None:
        self.seen.append(f"{self._name}after")

    def failed(self, job: RunningJob, error: BaseException) -> None:
        self.seen.append(f"{self._name}failed {error!r}")

    def retried(self, job: RunningJob, error: BaseException) -> None:
        self.seen.append(f"{self._name}retried {error!r}")


def define(*middleware: Middleware) -> tuple[Jobs, JobDefinition]:
    jobs = Jobs(middleware=middleware)

    @jobs.job(name="shop.sell", final=(LookupError,))
    def sell() -> None: ...

    return jobs, sell.definition


def run(jobs: Jobs, definition: JobDefinition, error: BaseException | None, *, attempt: int = 1) -> None:
    job = RunningJob("7", definition.name, attempt=attempt, attempts=3, trace="00-abc")
    with running(job), around(jobs.middleware, definition, job):
        assert current_job() is job
        if error is not None:
            raise error


def test_functions_are_called_in_order_and_back() -> None:
    first, second = Recorder("1 "), Recorder("2 ")
    second.seen = first.seen
    run(*define(first, second), None)
    assert first.seen == ["1 before", "2 before", "2 after", "1 after"]


def test_failure_that_is_tried_again_is_told_from_the_last_one() -> None:
    recorder = Recorder()
    jobs, definition = define(recorder)
    for error, attempt in ((ValueError(), 1), (ValueError(), 3), (KeyError(), 1)):
        with pytest.raises(type(error)):
            run(jobs, definition, error, attempt=attempt)
    assert recorder.seen == [
        "before",
        "retried ValueError()",
        "before",
        "failed ValueError()",
        "before",
        "failed KeyError()",
    ]


def test_middleware_that_fails_fails_the_job() -> None:
    class Broken(Middleware):
        def before(self, job: RunningJob) -> None:
            raise RuntimeError("no database")

    first, last = Recorder(), Recorder()
    with pytest.raises(RuntimeError, match="no database"):
        run(*define(first, Broken(), last), None)
    assert (first.seen, last.seen) == (["before", "retried RuntimeError('no database')"], [])


def test_logs_of_jobs_have_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="triomq.jobs")
    jobs, definition = define(LogJobs())
    run(jobs, definition, None)
    with pytest.raises(ValueError, match="no"):
        run(jobs, definition, ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        run(jobs, definition, ValueError("no"), attempt=3)
    texts = [(record.levelname, record.message) for record in caplog.records]
    assert texts == [
        ("INFO", "job begins"),
        ("INFO", "job done"),
        ("INFO", "job begins"),
        ("WARNING", "job will be tried again: ValueError('no')"),
        ("INFO", "job begins"),
        ("ERROR", "job failed"),
    ]
    fields = vars(caplog.records[0])
    assert {name: fields[name] for name in ("job", "job_id", "attempt", "queue", "trace")} == {
        "job": "shop.sell",
        "job_id": "7",
        "attempt": 1,
        "queue": "default",
        "trace": "00-abc",
    }
    assert caplog.records[-1].exc_info is not None


async def test_orders_can_be_changed_and_refused(shop: Shop) -> None:
    class Tracing(Middleware):
        def before_enqueue(self, order: JobOrder) -> JobOrder:
            if order.queue == "other":
                raise LimitExceeded("nothing for that queue today")
            return msgspec.structs.replace(order, extension=msgspec.structs.replace(order.extension, trace="00-abc"))

    shop.jobs.middleware = (Tracing(),)
    await shop.parent.call(1)
    assert [job.trace for job in shop.seen] == ["00-abc", "00-abc"]
    with pytest.raises(LimitExceeded, match="nothing for that queue"):
        await shop.add.using(queue="other").send(1)


async def test_trace_goes_on_with_the_jobs_that_a_job_sends(shop: Shop) -> None:
    await shop.parent.using(trace="00-def").call(1)
    assert [job.trace for job in shop.seen] == ["00-def", "00-def"]
