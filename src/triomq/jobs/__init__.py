"""Functions that workers run: ``Jobs`` and its decorators, handles of what was sent, and the job that runs here."""

from triomq.jobs.definition import Call, JobDefinition
from triomq.jobs.function import JobFunction, StreamFunction
from triomq.jobs.options import JobOptions
from triomq.jobs.registry import Jobs, JobSchedule, OptionArguments
from triomq.jobs.running import RunningJob, current_job, running

__all__ = [  # noqa: RUF022  # grouped for the reader
    # What a program writes
    "Jobs",
    "JobFunction",
    "StreamFunction",
    "OptionArguments",
    # Inside a job
    "RunningJob",
    "current_job",
    # What a worker needs
    "Call",
    "JobDefinition",
    "JobOptions",
    "JobSchedule",
    "running",
]
