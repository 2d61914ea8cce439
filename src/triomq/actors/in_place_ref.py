"""The reference to an actor in place: no task, no mailbox; handlers run in the turn of the teller.

Starting and stopping take no time, for there is nothing to wait for: ``launch`` has called ``on_start`` when it
returns, and ``end`` is over at once unless a handler is on the stack, or the actor has a ``run``, whose task is
cancelled first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar, TypeVarTuple, cast

import trio

from triomq.actors.actor import InPlaceActor
from triomq.actors.answers import Asked
from triomq.actors.handlers import HandlerTable, handler_table
from triomq.actors.messages import Message, Request
from triomq.actors.ref import Ref
from triomq.actors.status import (
    BACKING_OFF,
    BUSY,
    CRASHED,
    DRAINING,
    HALTING,
    IDLE,
    STARTED_IN_PLACE,
    STARTING,
    WAITING,
)

if TYPE_CHECKING:
    from triomq.actors.children import ChildSpec
    from triomq.actors.task_ref import TaskRef
    from triomq.actors.turn import Turn

R = TypeVar("R")
Ts = TypeVarTuple("Ts")


class _HasRun(Protocol):
    async def run(self) -> None: ...


class InPlaceRef(Ref):
    """The reference to an actor in place."""

    __slots__ = ()

    def __init__(self, spec: ChildSpec, name: str, parent: TaskRef, turn: Turn, actor: InPlaceActor) -> None:
        super().__init__(spec, name, parent, turn, _checked_table(type(actor)))

    def run_in_turn(self, function: Callable[[*Ts], object], *args: *Ts) -> None:
        """Call a function on this actor's behalf as the body of a turn, with no handler on the stack.

        For events from outside that are no messages, such as data on a socket. What the function raises
        crashes this actor, not the caller; an actor that is not running does nothing.
        """
        if self._status >= STARTING:
            return
        try:
            self.turn.run(function, *args)
        except Exception as error:
            self.crash(None, error)

    async def ask(self, request: Request[R]) -> R:  # see Ref.ask
        if type(request) not in self._plain:
            raise self._table.no_handler(request)
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._status >= DRAINING:
            raise self._stopped_error()
        waits = self.turn.system.waits
        asker = waits.begin(self)
        try:
            asked = Asked(request)
            self.turn.run(self._ask_in_turn, asked)
            return cast("R", await asked.wait())
        finally:
            waits.end(asker)

    def _tell_otherwise(self, message: Message) -> None:
        if type(message) not in self._plain:
            raise self._table.no_handler(message)
        if self._status >= DRAINING:
            self._abandon(message, "stopped", self._stopped_error())
        elif self._status == IDLE and not self.turn.phase:
            self.turn.run(self.tell_nowait, message)
        else:
            self._append(message)

    # the life of an incarnation

    def launch(self, actor: InPlaceActor, nursery: trio.Nursery) -> None:
        """Start an incarnation; raises what ``on_start`` raises."""
        table = _checked_table(type(actor))
        self._touched = not table.has_after_batch
        self._begin(actor, table)
        actor.ref = self
        if table.has_on_start:
            self.turn.call(actor.on_start)
        self._move(STARTED_IN_PLACE)
        if table.has_run:
            self._scope = trio.CancelScope()
            nursery.start_soon(self._guard, cast("_HasRun", actor).run, self._scope, name=self.path)

    def resume(self) -> None:
        """Handle what was told while it was starting or being restarted; to be called as a handler."""
        if self._retry and self._status == IDLE:
            self._status = BUSY
            self._run_singly()
            self._left_stack()
        if self._waiting and self._status == IDLE:
            self._status = WAITING
            self.turn.ready.append(self)
        if self._owing and self._status < STARTING:
            self.touch()

    def _task_ended(self, error: BaseException | None) -> None:
        failure = self.failure or error
        if failure is None:
            failure = self._call_on_stop()
        self.failure = failure
        self._move(CRASHED)
        self._is_over(failure)
        self._report(failure)

    def crash(self, item: Message | Asked | None, error: BaseException) -> None:
        self.failure = error
        if self._status >= DRAINING:
            if item is not None:
                self._abandon(item, "crashed", error)
            return
        self._move(CRASHED)
        if item is not None:
            self._retry_parts(item)
        if self._scope is not None:
            self._scope.cancel()  # reported when the task has ended
        else:
            self._is_over(error)
            self._report(error)

    def end(self, *, for_good: bool, seconds: float) -> bool:  # it never takes time to drain
        if self._status in (STARTING, BACKING_OFF):
            if for_good:
                self._status = DRAINING
            return self._end_task()
        if self._status == WAITING and for_good:
            self.turn.call(self.run_waiting)
        if self._status in (IDLE, WAITING):
            self._status = DRAINING if for_good else HALTING
            return self._wind_up()
        if self._status == BACKING_OFF:  # it has crashed on its last messages
            self._status = DRAINING
            return self._end_task()
        if for_good:
            self._status = DRAINING  # a handler is on the stack; it ends when that has returned
        return False

    @property
    def is_alive(self) -> bool:
        return self._status < STARTING or self._scope is not None

    def _end_task(self) -> bool:
        """Cancel the task if there is one; return whether there is none."""
        if self._scope is None:
            return True
        self._scope.cancel()
        return False

    def _wind_up(self) -> bool:
        if not self._end_task():
            return False  # goes on when the task has ended
        if self.failure is None:
            self.failure = self._call_on_stop()
        self._is_over(self.failure)
        return True

    def _finish_stop(self) -> None:
        while self._waiting and self.failure is None:
            self._handle(self._waiting.pop(0))
        if self._wind_up():
            self._report(self.failure)

    def _call_on_stop(self) -> BaseException | None:
        assert isinstance(self.actor, InPlaceActor)
        try:
            self.turn.call(self.actor.on_stop)
        except BaseException as error:
            return error
        return None


def _checked_table(actor_class: type[InPlaceActor]) -> HandlerTable:
    table = handler_table(actor_class)
    if table.asynchronous:
        names = ", ".join(sorted(function.__name__ for function in table.asynchronous.values()))
        raise TypeError(
            f"{actor_class.__qualname__} is in place, but has async handlers: {names}. Make them plain, or derive "
            "from Actor, which has a task to wait with"
        )
    return table
