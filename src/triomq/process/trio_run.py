"""What Trio itself opens for a run: an epoll set, and pairs of sockets by which it is woken."""

import select
import socket

from triomq.process.forks import close_in_forks

_PATHS = (
    "io_manager._epoll",
    "io_manager._force_wakeup.wakeup_sock",
    "io_manager._force_wakeup.write_sock",
    "entry_queue.wakeup.wakeup_sock",
    "entry_queue.wakeup.write_sock",
)


def close_run_in_forks() -> None:
    """Close in forks what Trio has opened for the run that this is called in; only for a thread that is ours.

    Nothing public leads to it. Where a version of Trio has other names it stays open in forks, which costs them some
    descriptors and nothing else: a test would say so.
    """
    import trio  # here: the store's process, the children of workers and tap's client load none

    runner = trio._core._run.GLOBAL_RUN_CONTEXT.runner
    close_in_forks(runner, _descriptors_of)


def _descriptors_of(runner: object) -> list[int]:
    return [found for path in _PATHS if (found := _descriptor_of(runner, path)) is not None]


def _descriptor_of(found: object, path: str) -> int | None:
    for name in path.split("."):
        found = getattr(found, name, None)
    return found.fileno() if isinstance(found, select.epoll | socket.socket) else None
