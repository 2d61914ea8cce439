"""The one reference to an actor: ``Ref`` outlives the actor's incarnations, and decides where each message is handled.

Telling must cost little more than a method call, for a broker tells its queues and connections something for every
message. So a Ref has a *status*, one small integer (``status`` has the table of all changes), and "can this be handled
right now?" is one comparison:

    IDLE (0)       running, nothing under way: the handler is called on the spot, in the teller's turn
    BUSY           its handler is on the stack: a second one must not start, so the message waits
    WAITING        messages wait for the present turn, so this one waits behind them
    OWN_TIME       an actor with a task: the message goes to its mailbox
    all above      starting, backing off, halting: held for the next incarnation; draining, stopped: dead letters

Rules that the code below obeys:

- Order of arrival: what finds something waiting waits behind it, tells and asks alike.
- One message at a time. There is never more than one told handler on the stack; ``turn`` explains the trampoline.
- A handler's crash is its supervisor's business and never raised at the teller. What the handler had not finished is
  split (``Message.split``) and tried again by the next incarnation, one part at a time; the part that crashes alone
  goes to the dead letters. Messages whose handler had returned are not run again.
- ``after_batch`` runs once for all messages of a turn. Its crash runs none of them again.

The classes: ``handling.Handling`` runs handlers in turns; ``Ref``, here, adds telling, asking, watching, and the life
of incarnations as the supervisor directs it; ``InPlaceRef`` and ``TaskRef`` add how each kind starts and ends.

Tried and dropped: a mailbox for every actor, also idle ones (48 µs for a round trip at prefetch 1 instead of 24, and
six times the memory for an idle queue); calling the method directly, without a Ref (no restart, no order, no tree).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
import trio

from triomq.actors.answers import Asked, answer_error, is_cancellation
from triomq.actors.children import ENDED, ChildSpec
from triomq.actors.events import Exited
from triomq.actors.handling import Handling, Item
from triomq.actors.messages import Down, Message, Ping, Request
from triomq.actors.running import call_unprotected
from triomq.actors.status import (
    CRASHED,
    DRAINING,
    HALTED,
    HALTING,
    LAUNCHED,
    STATES,
    STOPPED,
    State,
)

if TYPE_CHECKING:
    from triomq.actors.actor import Actor, InPlaceActor
    from triomq.actors.deadletters import Reason
    from triomq.actors.handlers import HandlerTable
    from triomq.actors.task_ref import TaskRef
    from triomq.actors.turn import Turn

R = TypeVar("R")

_NO_CHILDREN: Final[Mapping[str, Ref]] = MappingProxyType({})


class RefStatistics(msgspec.Struct, frozen=True):
    """A snapshot of one actor."""

    path: str
    state: State
    epoch: int
    handled: int
    """Messages whose handler has returned, over all incarnations."""
    waiting: int
    """Messages that wait to be handled."""


class Ref(Handling):
    """The one reference to an actor.

    Created by its supervisor, it stays the same through all restarts. ``ref.actor`` is the present incarnation, or
    ``None`` between a crash and the start of the next one: reads are function calls, writes are messages.
    """

    __slots__ = ("_over", "_scope", "_watchers", "epoch", "name", "parent", "spec")

    def __init__(self, spec: ChildSpec, name: str, parent: TaskRef | None, turn: Turn, table: HandlerTable) -> None:
        super().__init__(turn, table)
        self.spec = spec
        self.name = name
        self.parent = parent
        self.epoch = 0
        self._scope: trio.CancelScope | None = None  # around the incarnation's task, while it has one
        self._over: trio.Event | None = None  # set when the incarnation has ended; created by a task that waits
        self._watchers: dict[Ref, None] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path} {self.state}>"

    @property
    def path(self) -> str:
        """The place in the tree, ``/broker/domains/default/queue.a``; ``/`` inside a name is written ``%2F``."""
        if self.parent is None:
            return "/"
        return f"{self.parent.path.rstrip('/')}/{self.name.replace('%', '%25').replace('/', '%2F')}"

    @property
    def state(self) -> State:
        """One of starting, running, backing_off, draining and stopped."""
        return STATES[self._status]

    @property
    def actor_class(self) -> type:
        """The class of the present or last incarnation."""
        return self._table.actor_class

    @property
    def _waits_on(self) -> Ref | None:
        """The actor that it waits for at present; only one with a task can wait."""
        return None

    @property
    def children(self) -> Mapping[str, Ref]:
        """The children by name, when this is a supervisor."""
        return _NO_CHILDREN

    @property
    def waiting(self) -> int:
        """How many messages wait to be handled."""
        return len(self._waiting or ()) + len(self._retry or ())

    def statistics(self) -> RefStatistics:
        """Return a snapshot of state and counts."""
        return RefStatistics(self.path, self.state, self.epoch, self.handled, self.waiting)

    # telling and asking

    async def tell(self, message: Message) -> None:
        """Tell, waiting for room in the mailbox where its overflow policy is to wait.

        Raises:
            TypeError: the actor has no handler for it.
            MailboxFull: the mailbox is full and its overflow policy is to reject.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        self.tell_nowait(message)
        await trio.lowlevel.cancel_shielded_checkpoint()

    async def ask(self, request: Request[R]) -> R:
        """Ask and wait for the answer, through restarts if need be.

        There is no timeout: write ``with trio.fail_after(seconds):``. Cancelled, the request may or may not have
        been handled.

        Raises:
            ActorStopped: the actor has stopped for good, or does so before it answers.
            HandlerFailed: the handler crashed; ``__cause__`` is its exception.
            Refused: the handler refuses.
            RuntimeError: an actor asks itself, directly or in a circle; the answer would never come.
        """
        raise NotImplementedError

    async def wait_running(self) -> None:
        """Wait until a message would be handled: at once when it runs, else when it has been restarted.

        Raises:
            ActorStopped: it has stopped for good, or does so first.
        """
        await self.ask(Ping())

    # watching

    def watch(self, watcher: Ref) -> None:
        """Tell the watcher ``Down(ref, reason)`` when this actor stops for good; at once if it has.

        Raises:
            TypeError: the watcher has no handler for ``Down``.
        """
        if not watcher._table.accepts(Down):
            raise watcher._table.no_handler(Down(self, None))
        if self._status == STOPPED:
            watcher._tell_surely(Down(self, self.failure))
        else:
            watchers = self._watchers or {}
            if not len(watchers) & (len(watchers) - 1):  # now and then: 0, 1, 2, 4, 8 … of them
                watchers = {ref: None for ref in watchers if ref._status != STOPPED}
            watchers[watcher] = None
            self._watchers = watchers

    def unwatch(self, watcher: Ref) -> None:
        """Stop watching; a ``Down`` that is on its way still arrives."""
        if self._watchers is not None:
            self._watchers.pop(watcher, None)

    def _tell_surely(self, message: Message) -> None:
        """Tell a message that must not be lost for want of room."""
        self.tell_nowait(message)

    def _abandon(self, item: Item, reason: Reason, error: BaseException) -> None:
        """Add an item to the dead letters, and give its asker, if any, an error."""
        message = item.message if isinstance(item, Asked) else item
        self.turn.system.dead_letters.add(message, self, reason, error)
        if isinstance(item, Asked):
            item.fail(answer_error(self.path, message, error))

    # the life of an incarnation, as the supervisor directs it; called by nothing else

    @property
    def is_alive(self) -> bool:
        """Whether there is an incarnation that has yet to end."""
        raise NotImplementedError

    @property
    def is_ending(self) -> bool:
        """Whether it stops for good, or has stopped."""
        return self._status >= DRAINING

    def end(self, *, for_good: bool, seconds: float) -> bool:
        """End the incarnation, for good or for a restart with its siblings; return whether it is over already.

        One that stops for good handles what waits first, for so many seconds at most.
        """
        raise NotImplementedError

    def halted(self) -> None:
        """Go on from an end for a sibling's sake: the next incarnation is to be started."""
        if self._status == HALTING:
            self._move(HALTED)
            self.actor = None

    def fail_to_start(self, error: BaseException, before: int) -> None:
        """Count an incarnation whose start has failed as one that has crashed; ``before`` was the epoch until then."""
        if self.epoch == before:
            self.epoch += 1  # the factory crashed: an incarnation all the same
        self.failure = error
        self._move(CRASHED)
        self._is_over(error)
        self._report(error)

    def bury(self, reason: BaseException | None) -> None:
        """Stop for good: nothing more is handled, and all waiting tasks and watchers learn of it."""
        if self._status == STOPPED:
            return
        self._status = STOPPED
        self.failure = reason
        self.spec = ENDED  # the factory may hold what this Ref is in: a cycle, which only the collector would find
        for item in self._take_left():
            self._abandon(item, "stopped", self._stopped_error())
        watchers, self._watchers = self._watchers, None
        for watcher in watchers or ():
            watcher._tell_surely(Down(self, reason))
        self._wake_waiting()

    async def wait_ended(self) -> None:
        """Wait until the present incarnation has ended."""
        if self._over is None:
            self._over = trio.Event()
        await self._over.wait()

    def _begin(self, actor: Actor | InPlaceActor, table: HandlerTable) -> None:
        """Make an actor the present incarnation."""
        self._table = table
        self._plain = table.plain
        self._move(LAUNCHED)
        self.failure = None
        self.epoch += 1
        self.actor = actor

    @trio.lowlevel.enable_ki_protection
    async def _guard(self, run: Callable[[], Awaitable[object]], scope: trio.CancelScope) -> None:
        """Run the task of an incarnation, and process its end, whatever it is."""
        error: BaseException | None = None
        self._task_began()
        try:
            with scope:
                await call_unprotected(run)
        except BaseException as failure:
            if is_cancellation(failure):
                raise
            error = failure
        finally:
            self._scope = None
            self._task_ends()
            self.turn.run(self._task_ended, error)

    def _task_began(self) -> None:
        """Record the task of the incarnation, where it is of interest."""

    def _task_ends(self) -> None:
        """Drop that record."""

    def _task_ended(self, error: BaseException | None) -> None:
        """Process the end of the incarnation's task, in a turn."""
        raise NotImplementedError

    def _is_over(self, error: BaseException | None) -> None:
        """Publish that this incarnation has ended, and wake the tasks that wait for it."""
        self.turn.system.publish(Exited, self, self.epoch, error)
        self._wake_waiting()
        if self._status == DRAINING:
            # A supervisor that is cancelled before it hears of this waits for it once more.
            self._over = trio.Event()
            self._over.set()

    def _wake_waiting(self) -> None:
        over, self._over = self._over, None
        if over is not None:
            over.set()

    def _report(self, error: BaseException | None) -> None:
        """Tell the supervisor that an incarnation has ended; one that it halts itself it is waiting for already."""
        if self._status == HALTING:
            return
        if self.parent is None:
            self.turn.system.root_ended(error)
        else:
            self.parent.child_ended(self, self.epoch, error)
