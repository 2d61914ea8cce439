"""The line that a worker writes when a job of its has no result.

On a worker of its own it is the first thing to look at, so that ``triomq worker`` writes it. In a program it is the
program's to log: ``LogJobs``, or what its caller gets.
"""

import logging
from typing import Final

from triomq.jobs.child.execution import Ending, Task

_log: Final = logging.getLogger("triomq.worker")

_TRIED_AGAIN: Final = ("failed", "timed-out")
"""States after which there may be another attempt; the broker decides by the same rule."""


def log_failure(task: Task, ending: Ending) -> None:
    """Log how an attempt has ended: as a warning if another one follows, as an error with a traceback if none does."""
    fields: dict[str, object] = {
        "job": task.name,
        "id": task.id,
        "queue": task.queue,
        "attempt": f"{task.attempt}/{task.attempts}",
        "error": f"{ending.type}: {ending.text}",
    }
    if ending.state == "cancelled":
        _log.info("job cancelled", extra={"fields": fields})
    elif ending.state == "lost":
        _log.error("job has killed its process, and is tried again unless it has too often", extra={"fields": fields})
    elif ending.retry and ending.state in _TRIED_AGAIN and task.attempt < task.attempts:
        _log.warning(f"job {ending.state}, and is tried again", extra={"fields": fields})
    else:
        _log.error(f"job {ending.state}", extra={"fields": fields, "traceback": ending.traceback})


def log_unknown(job: str, queue: str, error: Exception) -> None:
    """Log that a job has come which this worker cannot run."""
    fields = {"id": job, "queue": queue, "error": f"{type(error).__name__}: {error}"}
    _log.error("job cannot be run here", extra={"fields": fields})
