"""What the links of Trio's clients are: a transport that is served by tasks until it ends, and an engine's timers."""

import math
from typing import Protocol

import trio

from triomq.errors import TriomqError
from triomq.process import refuse_in_forks
from triomq.transports import Poller, StreamTransport, Transport

WRITE_AT = 64 * 1024
"""Bytes that may gather before they are written though other tasks have yet to add theirs."""

UNTAKEN_MOST = 256 * 1024
"""Bytes that may wait for the broker to take them before publishing waits too."""

BUFFERED_MOST = 4 * 1024 * 1024
"""Bytes that consumers without a prefetch may leave unread before the socket is not read any more."""

CLOSE_TIMEOUT = 2.0
"""Seconds that a broker gets to answer our close."""


class LinkEngine(Protocol):
    """What a link asks of an engine, whatever it speaks."""

    reading_paused: bool

    def handle_timer(self, now: float) -> None:
        """Handle what is due."""

    def next_timer(self) -> float | None:
        """Return when something is due next."""


class TransportLink:
    """Base of links; what is sent and read on one is up to the protocols.

    Args:
        transport: Connected, and ours from now on.
        poller: Who watches it, where it is a plain socket.
        engine: The protocol, in the client's role.
    """

    def __init__(self, transport: Transport, poller: Poller, engine: LinkEngine) -> None:
        refuse_in_forks(self, "the connection of a client")
        self.ended = trio.Event()
        self.error: TriomqError | None = None
        self.armed = True
        """Whether what is sent now will be written soon; so it is also before the first task waits for it."""
        self.buffered = 0
        """Bytes that consumers without a prefetch have not taken."""
        self._transport = transport
        self._poller = poller
        self._any_engine = engine
        self._timer = trio.Event()
        self._due = math.inf
        self._writer: trio.lowlevel.Task | None = None
        self._paused = False

    async def run(self) -> None:
        """Serve until the end; then everything that waits knows why."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._run_transport)
                nursery.start_soon(self._run_writer)
                nursery.start_soon(self._run_timers)
                self._begin()
                await self.ended.wait()
                nursery.cancel_scope.cancel()
        finally:
            self._transport.close()
            self._poller.close()
            self._close()

    async def _run_transport(self) -> None:
        bottom = self._transport.bottom
        if isinstance(bottom, StreamTransport):
            await bottom.run()
        else:
            await self._poller.run()

    async def _run_timers(self) -> None:
        """Call the engine when it asks for that, with one timer for all its deadlines."""
        while True:
            self._timer = trio.Event()
            self._any_engine.handle_timer(trio.current_time())
            self._handle_events()
            self._due = self._next_due()
            with trio.move_on_at(self._due):
                await self._timer.wait()

    def _next_due(self) -> float:
        due = self._any_engine.next_timer()
        return math.inf if due is None else due

    def _keep_due(self) -> None:
        """Look at the engine's timers again if one of them has become due earlier than any was."""
        if self._next_due() < self._due:
            self._timer.set()

    # Writing what several tasks have given, at once

    async def _run_writer(self) -> None:
        self._writer = trio.lowlevel.current_task()
        while True:
            self._write_all()
            self.armed = False
            await trio.lowlevel.wait_task_rescheduled(self._stop_writing)

    def _stop_writing(self, raise_cancel: object) -> trio.lowlevel.Abort:
        self.armed = True  # the writer task has ended and cannot be woken
        return trio.lowlevel.Abort.SUCCEEDED

    def write_later(self) -> None:
        """Write what waits when the tasks that run now have had their turn."""
        if not self.armed and self._writer is not None:
            self.armed = True
            trio.lowlevel.reschedule(self._writer)

    # Reading no more than consumers take

    def taken(self, size: int) -> None:
        """Count bytes that a consumer without a prefetch has taken from its buffer."""
        self.buffered -= size
        if self._paused and self.buffered <= BUFFERED_MOST // 2:
            self.pause(paused=False)

    def expecting(self) -> None:
        """Read on, since a task waits for a reply."""
        if self._paused:
            self.pause(paused=False)

    def pause(self, *, paused: bool) -> None:
        """Read nothing, or again."""
        self._paused = self._any_engine.reading_paused = paused
        if paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    # What protocols do

    def _write_all(self) -> None:
        """Write what has gathered."""
        raise NotImplementedError

    def _begin(self) -> None:
        """Start the transport."""
        raise NotImplementedError

    def _close(self) -> None:
        """End because this program wants it, if nothing else has ended it."""
        raise NotImplementedError

    def _handle_events(self) -> None:
        """Deal with what the engine has found."""
        raise NotImplementedError
