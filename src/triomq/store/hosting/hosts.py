"""Hosts of a store: a process of its own, or a thread; either serves the store at the other end of a socket pair.

A process is the default: on a thread the broker's own loop starves the store of the interpreter's lock
(``docs/topics/store.rst`` has figures). A thread is for programs that may start no child.
"""

import socket
import subprocess
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import trio

from triomq.process import close_in_forks, python_command, python_environment
from triomq.store.directory import PATIENCE
from triomq.store.presence import KnownStore
from triomq.store.reserve import DISK_RESERVE
from triomq.store.server import serve

HostKind = Literal["process", "thread"]

_GRACE = 5.0
"""Seconds that a process has to finish its last commit before it is killed."""


class StoreSettings(msgspec.Struct, frozen=True):
    """Where a store is, and which host it has.

    Args:
        directory: Created if it is not there.
        host: ``process``, or ``thread`` in programs that may start no child.
        patience: Seconds to wait for another broker that is closing its store in the directory.
        reserve: Bytes on the disk below which nothing is written that needs more room.
    """

    directory: Path
    host: HostKind = "process"
    patience: float = PATIENCE
    reserve: int = DISK_RESERVE


class Host(NamedTuple):
    """A running host; created by ``open_host``, ends with its block.

    Args:
        stream: The broker's end of the socket pair.
        pid: The process's number; None for a thread.
    """

    stream: trio.SocketStream
    pid: int | None


_BUFFER = 4 << 20
"""Bytes of the socket's buffer: a whole batch is sent at once, while the store still writes another."""


@asynccontextmanager
async def open_host(settings: StoreSettings, *, known: KnownStore | None = None) -> AsyncIterator[Host]:
    """Run a host until the block is left; batches that have been sent whole by then are committed.

    Args:
        settings: The store's.
        known: The store that has to be there; None if the broker starts, so that the host sends what it recovers.
    """
    ours, theirs = map(close_in_forks, socket.socketpair())
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
    opener = _open_process if settings.host == "process" else _open_thread
    try:
        async with opener(theirs, settings, known) as pid:
            try:
                yield Host(stream, pid)
            finally:
                stream.socket.close()  # the end of the stream tells the host to commit what it has, and to end
    finally:
        stream.socket.close()


@asynccontextmanager
async def _open_process(theirs: socket.socket, settings: StoreSettings, known: KnownStore | None) -> AsyncIterator[int]:
    try:
        command = python_command("triomq.store.server", "--wire", str(theirs.fileno()))
        command += ["--patience", str(settings.patience), "--reserve", str(settings.reserve)]
        command += ["--fresh"] if known is None else ["--known", f"{known.identity.hex()}:{known.committed}"]
        command += ["--", str(settings.directory)]
        process = await trio.lowlevel.open_process(
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=python_environment()
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
async def _open_thread(theirs: socket.socket, settings: StoreSettings, known: KnownStore | None) -> AsyncIterator[None]:
    thread = threading.Thread(
        target=serve,
        args=(theirs, settings.directory),
        kwargs={
            "fresh": known is None,
            "patience": settings.patience,
            "reserve": settings.reserve,
            "known": known,
        },
        name="triomq.store",
        daemon=True,
    )
    thread.start()
    try:
        yield None
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(thread.join)
