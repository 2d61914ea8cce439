"""How an actor handles its messages in a turn, and what a crash does to them; the base of ``Ref``.

A message waits in one of three places, and moves only as shown:

    tell, in a turn ──▶ handler, on the spot                 an idle actor
         │
         └─▶ _waiting ──▶ handler, when the stack is free    a busy one; also what was told while it is restarted
    crashed message ──▶ _retry ──▶ handler, singly           its parts, before all that waits, in the next incarnation
                           └─▶ dead letters                  the part that crashes alone

- A batch is what waits when its turn comes. A crash ends the batch: messages whose handler has returned are not run
  again, those behind the crashed one go back to the head of ``_waiting``.
- ``Refused`` is no crash: the asker gets it, or the message goes to the dead letters.
- ``_owing`` remembers that a crash has kept ``after_batch`` from running, so that the next incarnation runs it.

All of it is here since the two kinds of actors share it: actors in place always, actors with a task when their class
answers in place.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

import trio

from triomq.actors.answers import Asked, answer_error
from triomq.actors.messages import Message, Request
from triomq.actors.status import BUSY, DRAINING, IDLE, OWN_TIME, QUEUED, RETURNED, STARTING, WAITING, Move
from triomq.actors.turn import BODY, HANDLER
from triomq.errors import ActorStopped, Refused

if TYPE_CHECKING:
    from triomq.actors.actor import Actor, InPlaceActor
    from triomq.actors.deadletters import Reason
    from triomq.actors.handlers import HandlerTable
    from triomq.actors.turn import Turn

Item = Message | Asked
R = TypeVar("R")


class Handling:
    """Handles messages with the present incarnation of an actor; the part of ``Ref`` that turns call."""

    __slots__ = (
        "_owing",
        "_plain",
        "_retry",
        "_status",
        "_table",
        "_touched",
        "_waiting",
        "actor",
        "failure",
        "handled",
        "turn",
    )

    def __init__(self, turn: Turn, table: HandlerTable) -> None:
        self.turn = turn
        self.actor: Actor | InPlaceActor | None = None
        self.handled = 0
        self.failure: BaseException | None = None
        """The error that the present incarnation has crashed with, or the last one."""
        self._table = table
        self._plain = table.plain
        self._status: int = STARTING
        self._touched = not table.has_after_batch  # without the hook it counts as touched for ever: nothing to do
        self._waiting: list[Item] | None = None  # for the present turn, or for the next incarnation
        self._retry: list[Item] | None = None  # parts of what crashed the last incarnation, to be run singly
        self._owing = False  # whether a crashed handler has kept after_batch from running

    @property
    def path(self) -> str:
        """The place in the tree."""
        raise NotImplementedError

    def _move(self, event: Move) -> None:
        """Change the status as the table says, which may be not at all."""
        self._status = event.get(self._status, self._status)

    # telling and asking in a turn

    def tell_nowait(self, message: Message) -> None:
        """Tell without waiting.

        In a turn with no handler on the stack an idle actor in place has handled the message when this returns. Its
        crash is its supervisor's business, never the teller's. A message to an actor that has stopped goes to the
        dead letters.

        Raises:
            TypeError: the actor has no handler for it.
            trio.WouldBlock: the mailbox is full and its overflow policy is to wait.
            MailboxFull: the mailbox is full and its overflow policy is to reject.
        """
        # Written out, since a broker does this for every message: one more method call would add a quarter to its cost
        # (``benchmarks/actors.py``). It is IDLE → BUSY → IDLE of ``status``; all else is for ``_left_stack``.
        turn = self.turn
        if not self._status and turn.phase == BODY:
            handler = self._plain.get(type(message))
            if handler is not None:
                self._status = BUSY
                turn.phase = HANDLER
                try:
                    handler(self.actor, message)
                    self.handled += 1
                except BaseException as error:
                    self._failed(message, error)
                turn.phase = BODY
                if self._status == BUSY:  # nothing has happened to the actor meanwhile
                    self._status = IDLE
                else:
                    self._left_stack()
                if not self._touched:  # also true of actors without after_batch, so that they are never listed
                    self._touched = True
                    turn.touched.append(self)
                if turn.ready:  # the handler has told others, or itself
                    turn.drain()
                return
        self._tell_otherwise(message)

    def ask_nowait(self, request: Request[R]) -> R:
        """Ask an actor that answers in place, and return the answer at once.

        Only downwards (parent to child, user to used): one whose handler is on the stack cannot answer. A request that
        crashes its actor is not tried again, for the asker does not wait.

        Raises:
            trio.WouldBlock: it is busy, has messages waiting, or is being restarted.
            ActorStopped: it has stopped for good.
            HandlerFailed: the handler crashed; ``__cause__`` is its exception.
            Refused: the handler refuses.
            TypeError: there is no plain handler for the request, or the class does not answer in place.
        """
        turn = self.turn
        handler = self._plain.get(type(request))
        if self._status or handler is None:
            raise self._cannot_answer(request)
        place = turn.phase
        if not place:
            return turn.run(self.ask_nowait, request)
        self._status = BUSY
        turn.phase = HANDLER
        failure: BaseException | None = None
        try:
            answer = handler(self.actor, request)
            self.handled += 1
        except BaseException as error:
            failure = self._answer_failed(request, error)
        turn.phase = place
        if self._status == BUSY:
            self._status = IDLE
        else:
            self._left_stack()
        if not self._touched:
            self._touched = True
            turn.touched.append(self)
        if place == BODY and turn.ready:
            turn.drain()
        if failure is not None:
            raise failure
        return answer  # type: ignore[return-value]  # the handler table has compared the annotations

    def touch(self) -> None:
        """Run ``after_batch`` at the end of this turn, or of a new one."""
        if not self._touched:
            self._touched = True
            self.turn.touched.append(self)
        if not self.turn.phase:
            self.turn.run(int)  # a turn with an empty body: ends by running what is touched

    def _tell_otherwise(self, message: Message) -> None:
        """Tell a message that cannot be handled on the spot."""
        raise NotImplementedError

    def _ask_in_turn(self, asked: Asked) -> None:
        """Add a request in the body of a turn; an idle actor has answered when this returns."""
        self._append(asked)
        if self.turn.phase == BODY:
            self.turn.drain()

    def _append(self, item: Item) -> None:
        """Add an item for the present turn, or for the next incarnation."""
        if self._waiting is None:
            self._waiting = [item]
        else:
            self._waiting.append(item)
        if self._status <= BUSY:
            self._status = QUEUED[self._status]
            self.turn.ready.append(self)

    def run_waiting(self) -> None:
        """Handle all that waits; called by the turn with no handler of this actor on the stack, in phase HANDLER."""
        batch = self._waiting
        if self._status != WAITING or batch is None:
            return
        self._waiting = None
        self._status = BUSY
        for position, item in enumerate(batch):
            self._handle(item)
            if self.failure is not None:
                self._put_back(batch[position + 1 :])
                break
        self._left_stack()

    def _put_back(self, rest: list[Item]) -> None:
        """Return the rest of a batch to the head, before what came meanwhile."""
        self._waiting = rest + (self._waiting or []) or None

    def _handle(self, item: Item) -> None:
        handler = self._plain.get(type(item))
        try:
            if handler is not None:
                handler(self.actor, item)  # type: ignore[arg-type]  # Asked is never in the table
            else:
                self._answer(item)
            self.handled += 1
        except BaseException as error:
            self._failed(item, error)
        if not self._touched:
            self._touched = True
            self.turn.touched.append(self)

    def _answer(self, item: Item) -> None:
        assert isinstance(item, Asked)
        item.give(self._plain[type(item.message)](self.actor, item.message))

    def _run_singly(self) -> None:
        """Handle the parts of what crashed the last incarnation, one by one; what crashes again is abandoned."""
        while self._retry and self.failure is None:
            item = self._retry.pop(0)
            try:
                if isinstance(item, Asked):
                    self._answer(item)
                else:
                    self._plain[type(item)](self.actor, item)
                self.handled += 1
            except BaseException as error:
                if isinstance(error, Refused):
                    self._refuse(item, error)
                else:
                    self._owing = True
                    self._abandon(item, "crashed", error)
                    self.crash(None, error)

    def run_after_batch(self) -> None:
        """Call the hook at the end of a turn; a crash in it runs no message again."""
        self._touched = False
        if self._status > OWN_TIME or self.actor is None:
            return
        before = self._status
        if before == IDLE:
            self._status = BUSY
        self._owing = False
        try:
            self.actor.after_batch()
        except BaseException as error:
            self.crash(None, error)
        if before == IDLE:
            if self._status == BUSY:
                self._status = IDLE
            else:
                self._left_stack()

    def _left_stack(self) -> None:
        """Set the status after a handler has returned, by what happened meanwhile."""
        if self._status in RETURNED:
            self._status = RETURNED[self._status]
        elif self._status == DRAINING:
            self._finish_stop()

    # failures

    def _failed(self, item: Item, error: BaseException) -> None:
        if isinstance(error, Refused):
            self._refuse(item, error)
        else:
            self.crash(item, error)

    def _answer_failed(self, request: Message, error: BaseException) -> BaseException:
        if not isinstance(error, Refused):
            self._owing = True
            self._abandon(request, "crashed", error)
            self.crash(None, error)
        return answer_error(self.path, request, error)

    def crash(self, item: Item | None, error: BaseException) -> None:
        """End this incarnation; the item that was being handled is run again by the next one, in parts."""
        raise NotImplementedError

    def _finish_stop(self) -> None:
        """Go on with stopping for good, now that no handler is on the stack."""
        raise NotImplementedError

    def _retry_parts(self, item: Item) -> None:
        self._owing = True
        parts: Iterable[Item] = (item,) if isinstance(item, Asked) else item.split()
        self._retry = [*parts, *(self._retry or ())]

    def _refuse(self, item: Item, error: Refused) -> None:
        if isinstance(item, Asked):
            item.fail(error)
        else:
            self._abandon(item, "refused", error)

    def _abandon(self, item: Item, reason: Reason, error: BaseException) -> None:
        """Add an item to the dead letters, and give its asker, if any, an error."""
        raise NotImplementedError

    def _cannot_answer(self, request: Message) -> BaseException:
        if type(request) not in self._plain:
            if self._table.accepts(type(request)):
                return TypeError(f"{self.path} handles {type(request).__qualname__} in an async handler: `await ask`")
            return self._table.no_handler(request)
        return self._stopped_error() if self._status >= DRAINING else trio.WouldBlock()

    def _stopped_error(self) -> ActorStopped:
        stopped = ActorStopped(f"{self.path} has stopped for good")
        stopped.__cause__ = self.failure
        return stopped

    def _take_left(self) -> list[Item]:
        """Take all that was not handled, when the actor stops for good."""
        left = [*(self._retry or ()), *(self._waiting or ())]
        self._retry = self._waiting = None
        return left
