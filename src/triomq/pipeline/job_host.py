"""The jobs of one registry in one of Spark's Python processes: loaded once, with a process for those that can crash.

    task of Spark ── JobHost.run(calls) ──▶ thread with Trio ── BrokerlessRunner ──▶ child process
                  ◀── outcomes ───────────

Spark uses a Python process for one task after the other. So does this with what it has started: a task that came to a
process without it would wait half a second for the imports of the child. All of it ends with the process, which Spark
kills when it has been idle for a minute, or when its task is cancelled.
"""

import os
import sys
import threading
from collections.abc import Sequence
from functools import cache
from typing import Final

import trio

from triomq.jobs import Jobs
from triomq.jobs.worker import BrokerlessRunner, LocalCall, LocalOutcome, load_jobs

_CONCURRENCY: Final = 100
"""Async jobs at a time in a process, as a worker has it by default."""


class JobHost:
    """Runs calls for the task of Spark that this process has now; made by ``job_host``.

    Args:
        target: The registry, ``MODULE:JOBS``.

    Raises:
        ConfigError: It is not here, or has a mistake.
    """

    def __init__(self, target: str) -> None:
        self.jobs: Jobs = load_jobs(target)
        self.jobs.check()
        self._runner = BrokerlessRunner(self.jobs, target, processes=1, concurrency=_CONCURRENCY)
        self._token: trio.lowlevel.TrioToken | None = None
        self._has_started = threading.Event()
        threading.Thread(target=trio.run, args=(self._serve,), name="triomq-jobs", daemon=True).start()
        self._has_started.wait()

    def run(self, calls: Sequence[LocalCall]) -> list[LocalOutcome]:
        """Run calls, and return what has become of each, in their order."""
        return trio.from_thread.run(self._runner.run, calls, trio_token=self._token)

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._has_started.set()
        await self._runner.serve()


@cache
def job_host(target: str, folder: str) -> JobHost:
    """Return the one of this process.

    Args:
        target: The registry, ``MODULE:JOBS``.
        folder: Where the driver was started, and where modules are looked for last, if this machine has it.

    Raises:
        ConfigError: The registry is not here, or has a mistake.
    """
    if folder not in sys.path and os.path.isdir(folder):
        sys.path.append(folder)
    return JobHost(target)
