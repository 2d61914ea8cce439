"""A worker that another program has started, and looks after: ``triomq worker --supervised``.

Its standard input is a pipe whose end ends it, whatever it is doing. Its standard output gets one line, of JSON:
``{"state": "ready"}``, or ``{"state": "broken", "text": …}``.
"""

import os

import msgspec

from triomq.jobs import Jobs
from triomq.jobs.worker import end_with
from triomq.process import close_in_forks


class ParentProcess:
    """What has started this process; made before anything of the user's is imported."""

    def __init__(self) -> None:
        self._output, self._life = os.dup(1), os.dup(0)
        close_in_forks(self, lambda parent: [parent._output, parent._life])
        os.dup2(2, 1)  # jobs print what they like
        end_with(self._life)
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)

    def tell_ready(self, jobs: Jobs) -> None:
        """Say that the jobs are there; it is ``started`` of ``run_worker``."""
        self._tell({"state": "ready", "pid": os.getpid()})

    def tell_broken(self, error: BaseException) -> None:
        """Say why there is nothing to work on."""
        self._tell({"state": "broken", "text": f"{type(error).__name__}: {error}"})

    def _tell(self, line: dict[str, object]) -> None:
        os.write(self._output, msgspec.json.encode(line) + b"\n")
