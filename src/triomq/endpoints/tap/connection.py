"""One client of tap: what is tap's own of a client on a stream.

Requests are done and answered one after the other. As a rule that is at once, in the turn in which they come. Where an
answer has to be waited for, later requests stand in line, and when the line is long nothing more is read.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import trio

from triomq.core import Forbidden, StageTarget
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.stream_client import StreamClient
from triomq.endpoints.tap.arrivals import Arrivals
from triomq.endpoints.tap.fetching import PendingFetch
from triomq.endpoints.tap.login import TapLogin
from triomq.endpoints.tap.partitions import OtherIdentity, shown
from triomq.endpoints.tap.refusals import code_of
from triomq.endpoints.tap.requests import EVENTS
from triomq.errors import TriomqError
from triomq.protocols.tap import (
    CloseCode,
    FetchAsked,
    Request,
    ServerEvent,
    TapRequest,
    TapServerEngine,
)
from triomq.security import MakeMechanism
from triomq.transports import Transport

_ANSWER = "answer"
"""Why nothing is read: too many requests stand in line."""

_LINE: Final = 64
"""Requests that stand in line before nothing more is read: a client that sends ahead has a few."""

_UNSENT: Final = 256 * 1024
"""Bytes of answers that wait to be written, from which on a FETCH waits too: so one client makes the broker hold one
answer, however many it asks for."""


class TapServerConnection(StreamClient):
    """The actor of one connection; a temporary child of the endpoint that accepted it.

    Args:
        transport: The bytes; owned from now on.
        engine: The protocol, in the server's role.
        context: What the broker lends.
        mechanisms: How one may log in.
        domain: Where clients work that name no domain.
        arrivals: Who waits for records, of all the endpoint's clients.
        max_batch: Bytes that may be staged for a batch.
    """

    kind = "tap"
    noun = "tap connection"
    tag = "tap"
    log = logging.getLogger("triomq.tap")
    log_level = logging.DEBUG  # a query in Spark opens some for each micro-batch
    event_handlers = EVENTS

    def __init__(
        self,
        transport: Transport,
        engine: TapServerEngine,
        context: BrokerContext,
        *,
        mechanisms: Mapping[str, MakeMechanism],
        domain: str,
        arrivals: Arrivals,
        max_batch: int,
    ) -> None:
        super().__init__(transport, engine, context)
        self.engine = engine
        self.login = TapLogin(context, transport.peer, mechanisms, domain)
        self.max_batch = max_batch
        self._arrivals = arrivals
        self._line: deque[Request] = deque()
        self._waiting: PendingFetch | None = None  # for records
        self._working: object = None  # on what a task works
        self._task: trio.CancelScope | None = None
        self._is_lent = False  # whether the store writes to the socket

    # Rights: a stream's are asked by its name, whatever its partitions are called

    def require_read(self, stream: str) -> None:
        """Check that the user may read a stream; raises Forbidden."""
        if not self.access.may_read(stream):
            raise Forbidden("queue", stream)

    def require_write(self, target: StageTarget) -> None:
        """Check that the user may write to a queue, a stream or a sink; raises Forbidden."""
        if not self.access.may_write(target.name):
            raise Forbidden("sink" if target.is_sink else "queue or stream", target.name)

    # One request after the other

    def may_go_on(self, event: Request) -> bool:
        """Return whether a request can be done now; otherwise it stands in line."""
        self.system.turn.charge(1)
        if self._waiting is not None:
            self._end_waiting()  # nothing waits behind a FETCH that waits
        choked = isinstance(event, FetchAsked) and not (self.writer.may_write and self._outbox.unsent < _UNSENT)
        if self._working is None and not self._line and not choked:
            return True
        self._line.append(event)
        if len(self._line) >= _LINE:
            self.hold(_ANSWER)
        return False

    def _go_on_with_line(self) -> None:
        if self._left or self._working is not None:
            return
        for event in reversed(self._line):
            self.do_next(event)
        self._line.clear()
        self.go_on(_ANSWER)

    def refused(self, event: ServerEvent | PendingFetch, error: TriomqError) -> None:
        """Answer why a request is refused; what is no request is a log-in, and ends with it."""
        asked = event.event if isinstance(event, PendingFetch) else event
        if isinstance(asked, TapRequest):
            bounds = error.bounds if isinstance(error, OtherIdentity) else None
            self.engine.refuse(asked.number, code_of(error), str(error), bounds)
            self.ref.touch()
        else:
            self.close("DENIED", str(error))

    # Requests that cannot be answered at once

    def wait_for(self, waiting: PendingFetch) -> None:
        """Answer when there are records, when the time is over, or when something else is asked."""
        self._waiting = waiting
        self._arrivals.wait(waiting.stream, waiting.arrived)
        self.reschedule()

    def arrived(self, waiting: PendingFetch) -> None:
        """Look for the records that a FETCH waits for: there are some, or the stream is gone."""
        if self._waiting is waiting:
            self._waiting = None
            self.ask_again(waiting)

    def ask_again(self, pending: PendingFetch) -> None:
        """Have a FETCH looked at anew, before all that was asked later."""
        self.do_next(pending)
        self.work_off()

    def _end_waiting(self) -> None:
        """Answer that there are no records."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._arrivals.forget(waiting.stream, waiting.arrived)
            self.engine.records(waiting.event.number, shown(waiting.bounds), [])
            self.ref.touch()

    def work_on(self, what: object, work: Callable[[], Awaitable[None]]) -> None:
        """Have a task work on a request, which ends with ``has_done``; later ones stand in line."""
        self._working = what
        self._task = self.start_task(work)

    def lend(self) -> int | None:
        """Lend the socket to the store for the answer that is worked on, if that can be; until it is done none is sent.

        Returns:
            A duplicate of its descriptor.
        """
        if self._outbox.unsent or not self.writer.may_write or self.writer.is_held:
            return None
        descriptor = self._transport.lend()
        self._is_lent = descriptor is not None
        return descriptor

    def has_done(self, what: object, answer: Callable[[], None]) -> None:
        """Answer a request that a task has worked on."""
        if not self._left and self._working is what:
            self._working = self._task = None
            self._is_lent = False
            answer()
            self.ref.touch()

    def after_batch(self) -> None:
        """Write, and go on with the line when the transport has taken that."""
        if self._is_lent:
            if self._outbox.finished:
                self.leave()  # the client has half an answer, so it cannot be told why
            return
        super().after_batch()
        written = self.writer.may_write and not self._outbox.unsent
        if self._line and written and self._working is None and not self._left:
            self.in_turn(self._go_on_with_line)

    # Time

    def due_at(self) -> float:
        """Return when a FETCH has waited for long enough, or what is due for all clients."""
        due = super().due_at()
        return due if self._waiting is None or self._left else min(due, self._waiting.deadline)

    def due(self, now: float) -> None:
        """Answer a FETCH that has waited for long enough, and do what is due for all clients."""
        if self._waiting is not None and self._waiting.deadline <= now:
            self._end_waiting()
        super().due(now)

    # The end

    @property
    def owes_answers(self) -> bool:
        """Whether a request is worked on, or stands in line."""
        return self._working is not None or bool(self._line) or super().owes_answers

    def close(self, code: CloseCode, text: str) -> None:
        """Say why the connection ends, and end."""
        self.ending = self.ending or text
        self._events.clear()
        self.engine.close(code, text)
        self.ref.touch()

    def closing(self, reason: str) -> None:
        """End, since the broker wants that; what was asked and is not answered has been done or not."""
        self.close("CLOSED", reason)

    def break_off(self) -> None:
        """End without a word: the client has half an answer."""
        self.ending = self.ending or "an answer could not be written to its end"
        self.leave()

    def refuse_unfinished(self, reason: str) -> None:
        """End: what the client has begun does not come, and others wait."""
        self.close("TOO_SLOW", reason)

    def put_back(self) -> None:
        """Wait for nothing any more."""
        super().put_back()
        self._line.clear()
        if self._waiting is not None:
            self._arrivals.forget(self._waiting.stream, self._waiting.arrived)
            self._waiting = None
        if self._task is not None:
            self._task.cancel()
            self._task = None
