"""What a client has given to its broker and what has not ended: requests, and commands that wait for their ACK.

    give ──> engine, or here until there is a broker
    ACK, ERROR, REPLY, PROGRESS ──> the PendingCommand with that id
    the broker, or its successor, is back ─┬─ all that is not acknowledged is given again, in its order
                                           └─ of the rest it is asked whether it has ended meanwhile

Each ends by its ACK, its answer or an error, and is counted out once. Who gives many of them waits for room, of which
there is less the more are not acknowledged.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import trio

from triomq.clients.emqp.link import EMQPLink
from triomq.clients.emqp.pending import Command, PendingCommand
from triomq.clients.emqp.request import EMQPReply, EMQPRequest, NotAnswered
from triomq.errors import AccessRefused, Disconnected, LimitExceeded, LocalProtocolError, NotFound, Refused
from triomq.protocols.emqp import (
    DURABLE,
    ENDED,
    MOST_IDS,
    NO_EXTENSION,
    Acknowledged,
    AnswerRun,
    Dispatched,
    Extension,
    PeerEngine,
    Progressed,
    RefusalReceived,
    Replied,
    StateReported,
)

_MOST_UNACCEPTED: Final = 2000
"""Requests without ACK before those who send more wait: what a broker takes in 100 ms, as a slow disk does."""

_ERRORS: Final[Mapping[str, type[Refused]]] = {
    "forbidden": AccessRefused,
    "full": LimitExceeded,
    "alarm": LimitExceeded,
    "disk": LimitExceeded,
    "unknown": NotFound,
}


class Outstanding:
    """All that is under way; made by a connection, and lives as long.

    Args:
        link: The conversation.
        pending: By id; the link's engines look into it too.
    """

    def __init__(self, link: EMQPLink, pending: dict[bytes, PendingCommand]) -> None:
        self._link = link
        self._pending = pending
        self.unaccepted = 0
        """How many the broker has not acknowledged."""
        self._room = trio.lowlevel.ParkingLot()
        self._unsure: set[bytes] = set()  # requests of which the broker is asked whether they have ended meanwhile
        self._broker_left = False  # and no other one has come

    async def wait_room(self) -> None:
        """Wait while too much waits to be sent, or to be accepted, and until the broker knows us."""
        await self._link.wait_room()
        while self.unaccepted >= _MOST_UNACCEPTED:
            await self._room.park()
            await self._link.wait_room()

    def give(self, pending: PendingCommand) -> None:
        """Say something, now or when the broker is there."""
        engine = self._link.engine
        if engine.state == "open":
            pending.give(engine)
            self._link.flush_soon()
        else:
            pending.id = pending.id or self._link.new_id()
        self.unaccepted += 1
        self._pending[pending.id] = pending
        if engine.state == "open" and not engine.is_extended:
            self._accept(pending, NO_EXTENSION)

    def command(self, say: Callable[[PeerEngine], bytes]) -> Command:
        """Give any command but a request."""
        command = Command(say)
        self.give(command)
        return command

    def forget(self, pending: PendingCommand) -> None:
        """Wait for something no more."""
        if not pending.is_over:
            self._fail(pending, Disconnected("it was abandoned here"))

    def close(self, error: Exception) -> None:
        """End all."""
        for pending in list(self._pending.values()):
            self._fail(pending, error)

    def tell_taken(self, request: bytes, extension: Extension) -> None:
        """Tell a worker how far its stream was read, if the broker is there; it is told again when it is back."""
        if self._link.engine.state == "open":
            self._link.engine.progress(request, b"", extension)
            self._link.flush_soon()

    def _accept(self, pending: PendingCommand, extension: Extension) -> None:
        if not pending.is_accepted:
            pending.accept(extension)
            self._count_accepted()
        if pending.is_over:
            self._pending.pop(pending.id, None)

    def _fail(self, pending: PendingCommand, error: Exception) -> None:
        if not pending.is_accepted:
            self._count_accepted()
        pending.fail(error)
        self._pending.pop(pending.id, None)

    def _count_accepted(self) -> None:
        self.unaccepted -= 1
        if self._room and self.unaccepted <= _MOST_UNACCEPTED // 2:
            self._room.unpark_all()

    # What comes

    def answered(self, run: AnswerRun) -> None:
        """The broker has some, and some are answered."""
        pending_of, accept, replied = self._pending.get, self._accept, self._replied
        for request in run.acknowledged:
            if (pending := pending_of(request)) is not None:
                accept(pending, NO_EXTENSION)
        for request, message, extension in run.replies:
            replied(request, message, extension)

    def replied(self, event: Replied) -> None:
        """A request is answered."""
        self._replied(event.request, event.message, event.extension)

    def _replied(self, request: bytes, message: bytes, extension: Extension) -> None:
        pending = self._pending.pop(request, None)
        if isinstance(pending, EMQPRequest):
            if not pending.is_accepted:
                self._count_accepted()
            pending.replied(EMQPReply(message, extension))

    def acknowledged(self, event: Acknowledged) -> None:
        """The broker has it."""
        pending = self._pending.get(event.request)
        if pending is not None:
            self._accept(pending, event.extension)

    def refused(self, event: RefusalReceived) -> None:
        """The broker does not take it."""
        pending = self._pending.get(event.request)
        if pending is not None:
            self._fail(pending, _ERRORS.get(event.code, Refused)(event.text))

    def dispatched(self, event: Dispatched) -> None:
        """A worker has it, and a released broker says no more."""
        pending = self._pending.get(event.request)
        if pending is not None:
            self._fail(pending, NotAnswered("a worker has the job; this broker brings no answers"))

    def progressed(self, event: Progressed) -> None:
        """A request has sent a value, or an item."""
        pending = self._pending.get(event.request)
        if isinstance(pending, EMQPRequest):
            pending.progressed(event)
            if pending.is_over:
                del self._pending[event.request]

    def reported(self, event: StateReported) -> None:
        """A request of which we were not sure has ended, or has not."""
        if event.request in self._unsure:
            self._unsure.discard(event.request)
            pending = self._pending.get(event.request)
            if isinstance(pending, EMQPRequest):
                self._resolve(pending, event)

    def _resolve(self, request: EMQPRequest, report: StateReported) -> None:
        """End a request that has ended while we were away, or is lost with the last broker."""
        if report.state.state == "unknown":
            # One that is on disk may wait in its queue: the broker will know it when it comes to it.
            if not (request.has_guarantee and DURABLE in self._link.engine.capabilities):
                self._fail(request, Disconnected("the broker knows nothing of the job any more: was it restarted?"))
        elif report.state.state in ENDED:
            del self._pending[request.id]
            request.has_ended(report)

    # The broker goes, and is back

    def broker_left(self) -> None:
        """The broker says goodbye."""
        self._broker_left = True

    def give_again(self) -> None:
        """Do again what the broker may not have heard, or has forgotten."""
        engine = self._link.engine
        if self._broker_left and not engine.is_extended:
            self._fail_forgotten()
        self._broker_left = False
        accepted = [pending for pending in self._pending.values() if pending.is_accepted]
        for pending in accepted:
            if isinstance(pending, EMQPRequest):
                pending.tell_taken(engine)
        for pending in [pending for pending in self._pending.values() if not pending.is_accepted]:
            del self._pending[pending.id]
            self.unaccepted -= 1
            try:
                self.give(pending)
            except LocalProtocolError as error:
                self.unaccepted += 1
                self._fail(pending, error)
        if engine.is_extended and engine.state == "open":
            self._ask_for_ends([pending.id for pending in accepted])

    def _ask_for_ends(self, requests: list[bytes]) -> None:
        """Ask whether jobs have ended while we were away: their answers had nowhere to go."""
        self._unsure = set(requests)
        for first in range(0, len(requests), MOST_IDS):
            self.command(partial(_ask_for_answers, jobs=requests[first : first + MOST_IDS]))

    def _fail_forgotten(self) -> None:
        """Fail what only the memory of the last broker had, which cannot be asked."""
        for pending in list(self._pending.values()):
            if pending.is_accepted and not pending.has_guarantee:
                self._fail(pending, Disconnected("the broker was restarted, and the job had no guarantee"))


def _ask_for_answers(engine: PeerEngine, jobs: Sequence[bytes]) -> bytes:
    return engine.ask_states(jobs, Extension(result=True))
