"""The bases of actors: ``Actor`` has a task of its own, ``InPlaceActor`` runs in the turns of its tellers.

Stores, endpoints, supervisors and most of what users write have a task, and may wait. Queues, sinks and connections are
in place: such an actor has handled a message when ``tell_nowait`` returns, if no other handler is on the stack, for
about the price of two function calls, and an idle one takes less than a kilobyte. The contract is the same: one
reference, typed messages in order of arrival, one at a time, supervision. An actor in place cannot wait: its handlers
are plain functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, TypeVar, TypeVarTuple

import trio

from triomq.actors.answers import is_cancellation
from triomq.actors.mailbox import LIMIT, Overflow
from triomq.actors.messages import Ping
from triomq.actors.running import call_unprotected

if TYPE_CHECKING:
    from triomq.actors.in_place_ref import InPlaceRef
    from triomq.actors.system import System
    from triomq.actors.task_ref import TaskRef

R = TypeVar("R")
Ts = TypeVarTuple("Ts")


class Actor:
    """Base of actors that have a task: their handlers may be ``async``, their mailbox is bounded.

    Created by the factory in its supervisor's child spec, anew for each incarnation. Every method with one parameter,
    named ``message`` and annotated with a :class:`Message` class, is the handler of that class.

    A subclass that must hold something open for as long as an incarnation lives wraps ``run``::

        async def run(self) -> None:
            async with trio.open_nursery() as self.nursery:
                await super().run()
                self.nursery.cancel_scope.cancel()
    """

    limit: ClassVar[float] = LIMIT
    """Messages that the mailbox holds."""
    overflow: ClassVar[Overflow] = "wait"
    """The policy of a full mailbox, one of wait, reject, drop_oldest and drop_newest."""
    waits_for: ClassVar[tuple[type, ...]] = ()
    """The actor classes that this one may await (``tell``, ``ask``). Under test a wait that is not declared is an
    error, and so is a cycle of declarations: no circle of actors can ever wait for itself."""
    answers_in_place: ClassVar[bool] = False
    """Whether plain handlers run in the sender's turn while this actor idles, so that ``ask_nowait`` works."""

    ref: TaskRef
    """Its own reference; set before ``on_start``."""
    epoch: int
    """The number of this incarnation; the first is 1."""

    async def on_start(self) -> None:
        """Prepare; finished before a message is handled and before the next sibling starts."""

    def after_batch(self) -> None:
        """Do, once, what the messages of a batch have made necessary; a crash here runs none of them again."""

    async def on_stop(self) -> None:
        """Clean up, when stopped or ended, not when crashed; shielded, for at most ``shutdown`` seconds."""

    def ping(self, message: Ping) -> None:
        """Answer a ``Ping``: the actor runs."""

    _empty_hooks: ClassVar[tuple[object, ...]] = (on_start, after_batch, on_stop)

    @property
    def system(self) -> System:
        """The system that it lives in."""
        return self.ref.turn.system

    def stop(self) -> None:
        """End this actor normally, once what is in its mailbox has been handled."""
        self.ref.mailbox.finish()

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Start, handle messages until the mailbox ends, stop. Override to wrap it, and await ``super().run()``."""
        await self._open()
        self.ref.started()
        try:
            await self.ref.serve(self)
        except BaseException as error:
            if is_cancellation(error):  # any other error is a crash, and the state is not to be trusted
                await self._close()
            raise
        await self._close()

    async def _open(self) -> None:
        await call_unprotected(self.on_start)

    async def _close(self) -> None:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + self.ref.grace()):
            await call_unprotected(self.on_stop)


class InPlaceActor:
    """Base of actors whose plain handlers run in the teller's turn.

    A subclass that defines ``__slots__`` too stays small. One that defines ``async def run(self)`` has a task for as
    long as it runs (a connection's reader): its return ends the actor, its exception crashes it, stopping cancels it,
    and its ``finally`` is the place for clean-up. After a crash ``on_stop`` is not called: the state cannot be trusted.
    """

    __slots__ = ("ref",)

    ref: InPlaceRef

    def on_start(self) -> None:
        """Prepare; finished before a message is handled and before the next sibling starts."""

    def after_batch(self) -> None:
        """Do, once, what the messages of a turn have made necessary; a crash here runs none of them again."""

    def on_stop(self) -> None:
        """Clean up after the last message, when stopped or ended, not when crashed."""

    def ping(self, message: Ping) -> None:
        """Answer a ``Ping``: the actor runs."""

    _empty_hooks: ClassVar[tuple[object, ...]] = (on_start, after_batch, on_stop)

    @property
    def system(self) -> System:
        """The system that it lives in."""
        return self.ref.turn.system

    @property
    def epoch(self) -> int:
        """The number of this incarnation; the first is 1."""
        return self.ref.epoch

    def turn(self, function: Callable[[*Ts], R], *args: *Ts) -> R:
        """Call a function as a turn, from ``run``; what it raises is raised here, and so crashes ``run``."""
        return self.ref.turn.run(function, *args)


def check_actor(made: object) -> None:
    """Check that a factory has made an actor.

    Raises:
        TypeError: It has made something else; the text explains what a factory is.
    """
    if not isinstance(made, Actor | InPlaceActor):
        what = (
            f"the class {made.__qualname__}" if isinstance(made, type) else f"{made!r}, of type {type(made).__name__}"
        )
        raise TypeError(
            f"the factory gave {what}; it gives a new actor each time that it is called: a class that derives from "
            "Actor or InPlaceActor, or a function such as `lambda: Counter(start)`"
        )
