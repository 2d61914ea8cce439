"""The reference to an actor with a task: its mailbox, and the loop that handles batches from it.

    tell, ask ──▶ mailbox ──▶ get_batch() ──▶ plain handlers, as one turn ──▶ after_batch
                                   ▲      └──▶ async handler, awaited on its own, between turns
    ChildEnded ──▶ _control ───────┘           goes before the mailbox: a supervisor learns of crashes first

While an actor that answers in place waits for its mailbox, it is IDLE, and plain handlers run in the sender's turn. As
soon as anything is put into the mailbox (``MAILED``) all else goes there too, so the order of arrival holds.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar, cast

import trio

from triomq.actors.answers import Answer, Asked
from triomq.actors.children import SHUTDOWN, ChildEnded, Parent
from triomq.actors.events import MailboxOverflowed
from triomq.actors.handlers import handler_table
from triomq.actors.handling import Item
from triomq.actors.mailbox import Mailbox
from triomq.actors.messages import Message, Request
from triomq.actors.ref import Ref
from triomq.actors.running import call_unprotected
from triomq.actors.status import (
    CRASHED,
    DRAINING,
    HALTING,
    IDLE,
    MAILED,
    OWN_TIME,
    RESTED,
    STARTED,
    STARTING,
    WOKEN,
)
from triomq.actors.turn import BODY, HANDLER
from triomq.errors import ActorError, ActorStopped, HandlerFailed, MailboxFull, Refused

if TYPE_CHECKING:
    from triomq.actors.actor import Actor
    from triomq.actors.children import ChildSpec
    from triomq.actors.turn import Turn

R = TypeVar("R")
AsyncHandler = Callable[[object, Message], Awaitable[object]]


class TaskRef(Ref):
    """The reference to an actor with a task."""

    __slots__ = (
        "_answer_started",
        "_control",
        "_rested",
        "_waits_on",
        "is_awaited",
        "kids",
        "mailbox",
    )

    def __init__(self, spec: ChildSpec, name: str, parent: TaskRef | None, turn: Turn, actor: Actor) -> None:
        super().__init__(spec, name, parent, turn, handler_table(type(actor)))
        self.mailbox: Mailbox[Item] = Mailbox(
            limit=actor.limit, overflow=actor.overflow, on_drop=self._dropped, on_full=self._tell_full
        )
        self._touched = not (self._table.answers_in_place and self._table.has_after_batch)
        self._rested = RESTED if self._table.answers_in_place else WOKEN  # the event of waiting for messages
        self.kids: dict[str, Ref] = {}  # a supervisor's children; here, so that they outlive its incarnations
        self._control: list[ChildEnded] | None = None  # first in line, for supervisors
        self._answer_started: Answer[None] | None = None
        self.is_awaited = False  # whether start_child gets the error of a failed start, not the supervisor
        self._waits_on: Ref | None = None

    @property
    def children(self) -> Mapping[str, Ref]:  # see Ref.children
        return MappingProxyType(self.kids)

    @property
    def waiting(self) -> int:
        return super().waiting + len(self.mailbox)

    # telling and asking

    async def tell(self, message: Message) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        waits = self.turn.system.waits
        waits.check_declared(self)
        try:
            self.tell_nowait(message)
        except trio.WouldBlock:
            asker = waits.begin(self)
            try:
                await self._send(message)
            finally:
                waits.end(asker)
        else:
            await trio.lowlevel.cancel_shielded_checkpoint()

    async def _send(self, item: Item) -> None:
        self._leave_idle()
        try:
            await self.mailbox.send(item)
        except trio.ClosedResourceError:
            self._abandon(item, "stopped", self._stopped_error())

    async def ask(self, request: Request[R]) -> R:
        if not self._table.accepts(type(request)):
            raise self._table.no_handler(request)
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._status >= DRAINING:
            raise self._stopped_error()
        waits = self.turn.system.waits
        asker = waits.begin(self)
        try:
            asked = Asked(request)
            if self._status == IDLE and type(request) in self._plain:
                self.turn.run(self._ask_in_turn, asked)
            else:
                await self._send(asked)
            return cast("R", await asked.wait())
        finally:
            waits.end(asker)

    def ask_nowait(self, request: Request[R]) -> R:
        if not self._table.answers_in_place:
            raise TypeError(
                f"{self._table.actor_class.__qualname__} does not answer in place: `await ref.ask(...)`, or say "
                "`answers_in_place = True` in the class"
            )
        return super().ask_nowait(request)

    def _tell_otherwise(self, message: Message) -> None:
        if type(message) in self._plain:
            if self._status < OWN_TIME and not len(self.mailbox):
                if self.turn.phase:
                    self._append(message)
                else:
                    self.turn.run(self.tell_nowait, message)
                return
        elif type(message) not in self._table.asynchronous:
            raise self._table.no_handler(message)
        self._post(message)

    def _post(self, message: Message) -> None:
        if self._status >= DRAINING:
            self._abandon(message, "stopped", self._stopped_error())
            return
        self._leave_idle()
        try:
            self.mailbox.send_nowait(message)
        except trio.ClosedResourceError:
            self._abandon(message, "stopped", self._stopped_error())

    def _tell_surely(self, message: Message) -> None:
        if self._status >= DRAINING:
            self._abandon(message, "stopped", self._stopped_error())
        elif self._status < OWN_TIME and type(message) in self._plain and not len(self.mailbox):
            self._tell_otherwise(message)
        else:
            self._leave_idle()
            self.mailbox.force(message)

    def _leave_idle(self) -> None:
        """Stop answering in place: what goes to the mailbox must be handled before what comes later."""
        self._move(MAILED)

    def _collect(self) -> None:
        """Move what waited for a turn to the head of the mailbox."""
        if self._waiting is not None:
            self.mailbox.put_back(self._waiting)
            self._waiting = None

    def _dropped(self, item: Item) -> None:
        self._abandon(item, "mailbox full", MailboxFull(f"the mailbox of {self.path} is full"))

    def _tell_full(self) -> None:
        self.turn.system.publish(MailboxOverflowed, self)

    # one incarnation

    def launch(self, actor: Actor, nursery: trio.Nursery) -> None:
        """Start an incarnation in a task; ``wait_started`` waits for its ``on_start``."""
        self._begin(actor, handler_table(type(actor)))
        actor.ref = self
        actor.epoch = self.epoch
        self.mailbox.reopen()
        self._answer_started = Answer()
        self._scope = trio.CancelScope()
        nursery.start_soon(self._guard, actor.run, self._scope, name=self.path)

    async def wait_started(self) -> None:
        assert self._answer_started is not None
        await self._answer_started.wait()

    def started(self) -> None:
        self._move(STARTED)
        if self.parent is not None:
            self.parent.child_started(self)
        if self._answer_started is not None:
            self._answer_started.give(None)

    def _task_began(self) -> None:
        self.turn.system.waits.enter(trio.lowlevel.current_task(), self)

    def _task_ends(self) -> None:
        self.turn.system.waits.leave(trio.lowlevel.current_task())

    def _task_ended(self, error: BaseException | None) -> None:
        error = self.failure = error or self.failure
        self._move(CRASHED)
        started, self._answer_started = self._answer_started, None
        self._is_over(error)
        if started is None or started.is_given:
            self._report(error)
            return
        started.fail(error or ActorStopped(f"{self.path} ended before it had started"))
        if not self.is_awaited:
            self._report(error)

    async def serve(self, actor: Actor) -> None:
        """Handle batches until the mailbox ends; the loop of every actor with a task."""
        if self._retry or self._owing:
            self.turn.run(self._retry_singly)
        while True:
            self._collect()
            self._go_on(actor)
            self._move(WOKEN if len(self.mailbox) else self._rested)
            try:
                batch = await self.mailbox.get_batch()
            except trio.EndOfChannel:
                return
            self._move(WOKEN)
            if self._waiting is not None or self.failure is not None or self._control:  # these go first
                self.mailbox.put_back(batch)
            elif batch:
                await self._handle_batch(actor, batch)

    def _go_on(self, actor: Actor) -> None:
        """Check, between batches, for a crash in another's turn, which ends the loop, and for control messages."""
        if self.failure is not None:
            raise self.failure
        if self._control:
            control, self._control = self._control, None
            assert isinstance(actor, Parent)
            for ended in control:
                self.turn.call(actor._on_child_ended, ended)

    async def _handle_batch(self, actor: Actor, batch: list[Item]) -> None:
        position = 0
        while True:
            position = self.turn.run(self._run_plain, actor, batch, position)
            if position == len(batch):
                return
            await self._run_async(actor, batch, position)
            position += 1

    def _run_plain(self, actor: Actor, batch: list[Item], position: int) -> int:
        """Handle the messages from a position on up to one with an async handler; return its position."""
        turn = self.turn
        while position < len(batch):
            item = batch[position]
            handler = self._plain.get(type(item))
            if handler is None and not (isinstance(item, Asked) and type(item.message) in self._plain):
                return position
            turn.phase = HANDLER
            try:
                if handler is not None:
                    handler(actor, item)  # type: ignore[arg-type]  # Asked is never in the table
                else:
                    self._answer(item)
            except Refused as no:
                self._refuse(item, no)
            except BaseException:
                turn.phase = BODY
                self._retry_parts(item)
                self.mailbox.put_back(batch[position + 1 :])
                raise
            turn.phase = BODY
            self.handled += 1
            position += 1
            if turn.ready:
                turn.drain()
        if self._table.has_after_batch:
            turn.phase = HANDLER
            self._owing = False
            try:
                actor.after_batch()
            finally:
                turn.phase = BODY
        return position

    async def _run_async(self, actor: Actor, batch: list[Item], position: int) -> None:
        item = batch[position]
        message = item.message if isinstance(item, Asked) else item
        try:
            answer = await call_unprotected(
                cast("AsyncHandler", self._table.asynchronous[type(message)]), actor, message
            )
        except Refused as no:
            self._refuse(item, no)
        except BaseException as error:
            self._owing = True
            self.mailbox.put_back(batch[position + 1 :])
            self._abandon(item, "interrupted", error if isinstance(error, Exception) else self._cancelled_error())
            raise
        else:
            if isinstance(item, Asked):
                item.give(answer)
        self.handled += 1

    def _cancelled_error(self) -> ActorError:
        if self._status >= DRAINING:
            return ActorStopped(f"{self.path} was stopped, and its time was up while it handled this")
        return HandlerFailed(f"{self.path} was cancelled while it handled this")

    def _retry_singly(self) -> None:
        turn = self.turn
        turn.phase = HANDLER
        self._run_singly()
        if self.failure is None and self.actor is not None:
            self._owing = False
            try:
                self.actor.after_batch()
            except BaseException as error:
                self.crash(None, error)
        turn.phase = BODY

    def crash(self, item: Item | None, error: BaseException) -> None:
        """End the loop after a crash in another's turn, as if it had happened in the task."""
        self.failure = error
        self._move(CRASHED)
        if item is not None:
            self._retry_parts(item)
        self.mailbox.interrupt()

    # stopping

    def grace(self) -> float:
        """Return the seconds that ``on_stop`` may take."""
        seconds = self.spec.shutdown
        return SHUTDOWN if seconds is None or math.isinf(seconds) else seconds

    def end(self, *, for_good: bool, seconds: float) -> bool:
        """End the incarnation; see ``Ref.end``."""
        before = self._status
        self._status = DRAINING if for_good else HALTING
        self._collect()
        if for_good:
            self.mailbox.close()
        else:
            self.mailbox.halt()
        scope = self._scope
        if scope is None:
            return True
        if before == STARTING or seconds <= 0:
            scope.cancel()
        else:
            scope.deadline = min(scope.deadline, trio.current_time() + seconds)
        return False

    @property
    def is_alive(self) -> bool:
        return self._scope is not None

    def _finish_stop(self) -> None:
        """Nothing to do: the loop drains what is left and ends."""

    def _take_left(self) -> list[Item]:
        self.mailbox.close()
        return [*super()._take_left(), *self.mailbox.take_all()]

    def bury(self, reason: BaseException | None) -> None:
        super().bury(reason)
        for child in list(self.kids.values()):
            child.bury(reason)
        self.kids.clear()

    # a supervisor's side of its children

    def child_ended(self, ref: Ref, epoch: int, error: BaseException | None) -> None:
        if self._control is None:
            self._control = []
        self._control.append(ChildEnded(ref, epoch, error))
        self.mailbox.interrupt()

    def child_started(self, ref: Ref) -> None:
        """Tell the supervisor; an error in its hook is its own, not the child's."""
        if isinstance(self.actor, Parent):
            try:
                self.turn.call(self.actor._on_child_started, ref)
            except BaseException as error:
                self.crash(None, error)
