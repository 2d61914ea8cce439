"""Where the work of a store is done: a process of its own, or a thread. Either is at the other end of a socket pair.

On a thread the broker's own loop starves the store of the interpreter's lock: ``docs/topics/store.rst`` has figures.
"""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import trio

from triomq.store.server import serve

HostKind = Literal["process", "thread"]

_HOME = str(Path(__file__).parents[3])
"""Where triomq is found."""

_GRACE = 5.0
"""Seconds that a process has to finish its last commit before it is killed."""


class Host:
    """A store's host that runs; made by ``open_host``, ends with its block.

    Args:
        stream: Our end of the socket pair.
        pid: The number of its process; None on a thread.
    """

    def __init__(self, stream: trio.SocketStream, pid: int | None) -> None:
        self.stream = stream
        self.pid = pid


_BUFFER = 4 << 20
"""Octets that may be on their way to the store's process: a batch goes at once, while that still writes another."""


@asynccontextmanager
async def open_host(
    kind: HostKind, directory: Path, *, fresh: bool, patience: float, reserve: int = 0
) -> AsyncIterator[Host]:
    """Run the work of a store until the block is left; what has been sent whole by then is committed.

    Args:
        kind: ``process`` or ``thread``.
        directory: The store's.
        fresh: Whether the broker starts, so that what is there is told.
        patience: Seconds to wait for the directory's lock.
        reserve: Octets on the disk below which nothing new is kept.
    """
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
    opener = _open_process if kind == "process" else _open_thread
    try:
        async with opener(theirs, directory, fresh=fresh, patience=patience, reserve=reserve) as pid:
            try:
                yield Host(stream, pid)
            finally:
                stream.socket.close()  # that is how the other end knows that it may leave
    finally:
        stream.socket.close()


@asynccontextmanager
async def _open_process(
    theirs: socket.socket, directory: Path, *, fresh: bool, patience: float, reserve: int
) -> AsyncIterator[int]:
    command = [sys.executable, "-P", "-m", "triomq.store.server", "--wire", str(theirs.fileno())]
    command += [
        "--patience",
        str(patience),
        "--reserve",
        str(reserve),
        *(["--fresh"] if fresh else []),
        "--",
        str(directory),
    ]
    # Programs may find triomq by a path of their own, which a new interpreter does not know.
    places = [_HOME, os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))}
    try:
        process = await trio.lowlevel.open_process(
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=environment
        )
    finally:
        theirs.close()
    try:
        yield process.pid
    finally:
        with trio.CancelScope(shield=True):
            with trio.move_on_after(_GRACE):
                await process.wait()
            if process.returncode is None:
                process.kill()
                await process.wait()


@asynccontextmanager
async def _open_thread(
    theirs: socket.socket, directory: Path, *, fresh: bool, patience: float, reserve: int
) -> AsyncIterator[None]:
    thread = threading.Thread(
        target=serve,
        args=(theirs, directory),
        kwargs={"fresh": fresh, "patience": patience, "reserve": reserve},
        name="triomq.store",
        daemon=True,
    )
    thread.start()
    try:
        yield None
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(thread.join)
