"""The supervisor of a trace log's process: an actor that starts it, starts it again, and flushes the outbox.

The broker never waits for it: while there is no process, events are dropped, and counted.
"""

import logging
import socket
import subprocess

import trio

from triomq.actors import Exited, Ref, Restarted, Supervisor
from triomq.process import close_in_forks, python_command, python_environment
from triomq.tracelog.config import Trace
from triomq.tracelog.recorder import Recorder

_log = logging.getLogger("triomq.trace")

_FLUSH = 0.25
"""Seconds between flushes: how long an event waits at most before it is on its way."""

_PAUSE = 1.0
"""Seconds before a process is started that takes the place of one that has died."""

_GRACE = 10.0
"""Seconds that a process has to write its last file before it is killed."""

_BUFFER = 1 << 20
"""Bytes of the socket's buffer, as far as the machine allows."""

_LONGEST_TEXT = 200
"""Characters of an error's text."""

_MOST_ERRORS = 1_000
"""Actors that have crashed and may be restarted yet."""


def _about(error: BaseException) -> str:
    """Return type and text of an error, whose class may be anybody's."""
    name = type(error).__name__
    try:
        return f"{name}: {str(error)[:_LONGEST_TEXT]}"
    except Exception as other:
        return f"{name}: no text, since that raises {type(other).__name__}"


class TraceSupervisor(Supervisor):
    """The actor that runs the process of a trace log; a child of the broker.

    Args:
        trace: Where the files are.
        recorder: What writes to its outbox; outlives this actor.
    """

    shutdown = _GRACE + 5.0

    def __init__(self, trace: Trace, recorder: Recorder) -> None:
        super().__init__()
        self._trace = trace
        self._recorder = recorder
        self._outbox = recorder.outbox
        self._process: trio.Process | None = None
        self._ours: socket.socket | None = None
        self._told = 0  # of the lost events, those that the log knows of

    @property
    def pid(self) -> int | None:
        """The number of the process; None while there is none."""
        return None if self._process is None else self._process.pid

    async def on_start(self) -> None:
        """Start the process, and look after it from now on."""
        await super().on_start()
        await self._begin()
        self.start_task(self._look_after)
        self.start_task(self._follow_actors)

    async def on_stop(self) -> None:
        """Send what was gathered, and let the process write it."""
        with trio.move_on_after(_GRACE):
            self._outbox.flush()
            while self._ours is not None and not self._outbox.is_empty:
                await trio.lowlevel.wait_writable(self._ours)
                self._outbox.flush()
        await self._end()
        await super().on_stop()

    async def _begin(self) -> None:
        ours, theirs = map(close_in_forks, socket.socketpair())
        ours.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        try:
            command = python_command("triomq.tracelog.server", "--wire", str(theirs.fileno()))
            command += ["--node", self._trace.node_name, "--", self._trace.directory]
            self._process = await trio.lowlevel.open_process(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=python_environment()
            )
        except OSError as error:
            ours.close()
            _log.error("the trace log's process cannot be started", extra={"fields": {"trouble": error.strerror}})
            return
        finally:
            theirs.close()
        self._ours = ours
        self._outbox.connect(ours)

    async def _end(self) -> None:
        """Close the socket, at which the process writes what it has and ends; kill one that does not."""
        self._outbox.disconnect()
        if self._ours is not None:
            self._ours.close()
            self._ours = None
        process, self._process = self._process, None
        if process is not None:
            with trio.CancelScope(shield=True), trio.move_on_after(_GRACE):
                await process.wait()
            if process.returncode is None:
                process.kill()
                with trio.CancelScope(shield=True):
                    await process.wait()

    async def _look_after(self) -> None:
        while True:
            await trio.sleep(_FLUSH)
            self._outbox.flush()
            if self._outbox.lost > self._told:
                _log.warning("events of the trace log are lost", extra={"fields": {"events": self._outbox.lost}})
                self._told = self._outbox.lost
            died = self._process is None or self._process.poll() is not None
            if died or not self._outbox.is_connected:
                _log.warning("the trace log's process has ended; starting another")
                await self._end()
                await trio.sleep(_PAUSE)
                await self._begin()

    async def _follow_actors(self) -> None:
        """Record which actors are restarted, and after what."""
        errors: dict[Ref, str] = {}
        with self.system.events() as events:
            async for event in events:
                if isinstance(event, Exited) and event.error is not None:
                    errors[event.ref] = _about(event.error)
                    if len(errors) > _MOST_ERRORS:  # most of those are of actors that are not restarted
                        del errors[next(iter(errors))]
                elif isinstance(event, Restarted):
                    self._recorder.actor_restarted(event.ref.path, errors.pop(event.ref, ""))
