"""A worker on its own: it runs until a signal stops it, in two steps, or until its source changes.

The first SIGTERM or SIGINT drains: the broker hears a goodbye, what has not begun goes back to it, what runs ends and
is answered. The second ends everything at once; the broker gives to other workers what was not answered.
"""

import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Final, TypeAlias
from urllib.parse import quote

import msgspec
import trio

from triomq.app.config import Log
from triomq.app.logs import set_up_logging
from triomq.jobs import Jobs
from triomq.jobs.worker import CONCURRENCY, Worker, load_jobs, open_worker

_log = logging.getLogger("triomq.worker")

_POLL: Final = 0.5
"""Seconds between looks at the source: sooner than a person can change windows, and nothing for a few hundred files."""

_COLLECT_AFTER: Final = 10_000
"""The threshold of the garbage collector's first generation, not Python's 700: the objects of the jobs that are here
are no garbage, and to visit them took 8 % of a worker's time."""

CHANGED: Final = -1
"""What ``work`` returns in place of an exit code when the source has changed."""

Times: TypeAlias = dict[str, int]
"""When files were changed, in nanoseconds."""


class WorkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A worker on its own.

    Args:
        target: The registry, ``MODULE:JOBS``.
        broker: Its URL.
        queues: Queues with weights; those that the registry names if there are none.
        concurrency: How many async jobs run at a time.
        processes: How many processes there are for sync jobs.
        reload: Whether to start anew when the source of the jobs changes.
        log: What is logged, and how.
    """

    target: str
    broker: str
    queues: Mapping[str, int] = {}
    concurrency: int = CONCURRENCY
    processes: int = os.cpu_count() or 1
    reload: bool = False
    log: Log = Log()


def run_worker(settings: WorkSettings, *, started: Callable[[Jobs], None] | None = None) -> int:
    """Work until a signal comes, with a log and an event loop of its own.

    Args:
        settings: What to do.
        started: Called with the registry, when it is imported.

    Returns:
        The exit code for the process, 0 after a drain, 128 plus the signal's number when cut. With ``reload`` this
        process may go on as another program, and this returns nothing.

    Raises:
        ConfigError: There is no such registry, or it has a mistake, or the URL does.
    """
    set_up_logging(settings.log)
    times = _files_of(settings.target)  # before the import, so that no change is missed
    try:
        jobs = load_jobs(settings.target)
        jobs.check()
    except Exception as error:
        if not settings.reload:
            raise
        _log.error("the registry cannot be imported; waiting for a change", exc_info=error)
        code = trio.run(_wait_change, modules_of_user(sys.modules) | times)
    else:
        if started is not None:
            started(jobs)
        code = trio.run(work, jobs, settings)
    if code == CHANGED:
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    return code


async def work(jobs: Jobs, settings: WorkSettings) -> int:
    """Work until a signal comes: the first SIGTERM or SIGINT drains, the second ends everything.

    Returns:
        As ``run_worker``, or ``CHANGED`` after a drain because the source has changed.
    """
    working = _Working(jobs, settings)
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals, working.everything:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(working.watch, signals)
            if settings.reload:
                nursery.start_soon(working.watch_source)
            await working.work()
            nursery.cancel_scope.cancel()
    return working.exit_code


class _Working:
    """One worker on its own, from its start to its end."""

    def __init__(self, jobs: Jobs, settings: WorkSettings) -> None:
        self.everything = trio.CancelScope()
        self.exit_code = 0
        self._jobs = jobs
        self._settings = settings
        self._drain = trio.Event()

    async def work(self) -> None:
        """Open the worker, and let it run until the drain."""
        settings = self._settings
        opened = open_worker(
            self._jobs,
            _with_name(settings.broker, settings.target),
            queues=settings.queues or None,
            concurrency=settings.concurrency,
            processes=settings.processes,
            target=settings.target,
            sync_place="thread",
            owner=settings.target,
            patient=True,
            log_failures=True,
        )
        async with opened as worker, trio.open_nursery() as nursery:
            gc.collect()
            gc.freeze()  # the user's modules stay, so no collection has to visit them
            gc.set_threshold(_COLLECT_AFTER)
            nursery.start_soon(_log_connected, worker)
            await self._drain.wait()
            nursery.cancel_scope.cancel()
        statistics = worker.statistics()
        fields = {"done": statistics.done, "failed": sum(statistics.failed.values()), "returned": statistics.returned}
        _log.info("worker has ended", extra={"fields": fields})

    async def watch(self, signals: AsyncIterator[int]) -> None:
        """Turn the first signal into a drain, the second into a cancellation."""
        async for number in signals:
            if not self._drain.is_set():
                _log.info("draining", extra={"fields": {"signal": signal.Signals(number).name}})
                self._drain.set()
            else:
                self.exit_code = 128 + number
                self.everything.cancel()
                return

    async def watch_source(self) -> None:
        """Drain when a file of the user's has changed."""
        path = await _changed(modules_of_user(sys.modules))
        _log.info("source has changed", extra={"fields": {"file": path}})
        self.exit_code = CHANGED
        self._drain.set()


def _with_name(url: str, target: str) -> str:
    """Return a URL by which ``triomq top`` shows who works, and where, if it has no name yet."""
    if "name=" in url.partition("?")[2]:
        return url
    name = quote(f"{target} {socket.gethostname()}:{os.getpid()}")
    return f"{url}{'&' if '?' in url else '?'}name={name}"


async def _log_connected(worker: Worker) -> None:
    await worker.wait_connected()
    _log.info("worker takes jobs", extra={"fields": {"queues": ",".join(sorted(worker.queues))}})


def _files_of(target: str) -> Times:
    """Return the files of a module or a package in this folder, and when they were changed."""
    paths: list[Path] = []
    for found in Path.cwd().glob(f"{target.partition(':')[0].replace('.', '/')}*"):
        paths += found.rglob("*.py") if found.is_dir() else [found]
    return {str(path): _time_of(str(path)) for path in paths}


async def _wait_change(times: Times) -> int:
    """Wait until a module that cannot be imported has changed, or a signal comes."""
    code = 0
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:

            async def change() -> None:
                nonlocal code
                await _changed(times)
                code = CHANGED
                nursery.cancel_scope.cancel()

            nursery.start_soon(change)
            await anext(signals)
            nursery.cancel_scope.cancel()
    return code


async def _changed(times: Times) -> str:
    """Wait until a file has another time than it had; return its path."""
    while True:
        for path, time in times.items():
            if _time_of(path) != time:
                return path
        await trio.sleep(_POLL)


def modules_of_user(modules: Mapping[str, ModuleType]) -> Times:
    """Return the files of imported modules that are neither Python's nor installed, and when they were changed."""
    files = (getattr(module, "__file__", None) for module in list(modules.values()))
    installed = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)
    return {
        file: _time_of(file)
        for file in files
        if file
        and file.endswith(".py")
        and not file.startswith(_PYTHON)
        and not any(part in file for part in installed)
    }


_PYTHON = (os.path.dirname(os.__file__) + os.sep, str(Path(__file__).parents[1]) + os.sep)
"""The folders of Python's own library, and of triomq."""


def _time_of(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:  # between two versions of it
        return 0
