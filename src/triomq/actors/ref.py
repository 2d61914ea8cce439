"""The one door to an actor: ``Ref`` outlives the actor's incarnations, and decides where each message is handled.

Telling must cost little more than a method call, for a broker tells its queues and connections something for every
message. So a Ref has a *status*, one small integer (``status`` has the table of all changes), and "can this be handled
right now?" is one comparison:

    IDLE (0)       running, nothing under way: the handler is called on the spot, in the teller's turn
    BUSY           its handler is on the stack: a second one must not start, so the message waits
    WAITING        messages wait for the present turn, so this one has to stand behind them
    OWN_TIME       an actor with a task: the message goes to its mailbox
    all above      starting, backing off, halting: kept for the next incarnation; draining, stopped: dead letters

Rules that the code below keeps:

- Order of arrival. Whoever finds something waiting waits behind it, tells and asks alike.
- One message at a time. There is never more than one told handler on the stack; ``turn`` explains the trampoline.
- A handler's crash is its supervisor's business and never comes out at the teller. What the handler had not finished
  is split (``Message.split``) and tried again by the next incarnation, one part at a time; the part that crashes alone
  goes to the dead letters. Those whose handler had returned are not run again.
- ``after_batch`` runs once for all messages of a turn. Its crash runs none of them again.

Everything of a turn that concerns one actor is here, since the two kinds share it: actors in place always, actors with
a task when their class answers in place. ``in_place_ref`` and ``task_ref`` add how each kind starts and ends.

Tried and dropped: a mailbox for every actor, also idle ones (48 µs for a round trip at prefetch 1 instead of 24, and
six times the memory for an idle queue); calling the method directly, without a Ref (no restart, no order, no tree).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
import trio

from triomq.actors.answers import Asked, answer_error
from triomq.actors.children import ENDED, ChildSpec
from triomq.actors.events import Exited
from triomq.actors.messages import Down, Message, Ping, Request
from triomq.actors.status import (
    BUSY,
    DRAINING,
    HALTING,
    IDLE,
    OWN_TIME,
    QUEUED,
    RETURNED,
    STARTING,
    STATES,
    STOPPED,
    WAITING,
    Move,
    State,
)
from triomq.actors.turn import BODY, HANDLER
from triomq.errors import ActorStopped, Refused

if TYPE_CHECKING:
    from triomq.actors.actor import Actor, InPlaceActor
    from triomq.actors.deadletters import Reason
    from triomq.actors.handlers import HandlerTable
    from triomq.actors.task_ref import TaskRef
    from triomq.actors.turn import Turn

R = TypeVar("R")
Item = Message | Asked

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


class Ref:
    """The one door to an actor.

    Made by its supervisor, it stays the same through all restarts. ``ref.actor`` is the present incarnation, or
    ``None`` from when its supervisor has taken note of a crash until the next one starts: reads are function calls,
    writes are messages.
    """

    __slots__ = (
        "_failure",
        "_over",
        "_owing",
        "_plain",
        "_retry",
        "_status",
        "_table",
        "_touched",
        "_turn",
        "_waiting",
        "_watchers",
        "actor",
        "epoch",
        "handled",
        "name",
        "parent",
        "spec",
    )

    def __init__(self, spec: ChildSpec, name: str, parent: TaskRef | None, turn: Turn, table: HandlerTable) -> None:
        self.spec = spec
        self.name = name
        self.parent = parent
        self.epoch = 0
        self.handled = 0
        self.actor: Actor | InPlaceActor | None = None
        self._turn = turn
        self._table = table
        self._plain = table.plain
        self._status: int = STARTING
        self._touched = not table.has_after_batch  # without the hook it counts as touched for ever: nothing to do
        self._waiting: list[Item] | None = None  # for the present turn, or for the next incarnation
        self._retry: list[Item] | None = None  # parts of what crashed the last incarnation, to be run singly
        self._owing = False  # whether a crashed handler has kept after_batch from running
        self._failure: BaseException | None = None  # what this incarnation crashed with
        self._over: trio.Event | None = None  # set when the incarnation has ended; made for who waits
        self._watchers: dict[Ref, None] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path} {self.state}>"

    @property
    def path(self) -> str:
        """Where in the tree it lives, ``/broker/domains/default/queue.a``; ``/`` inside a name is written ``%2F``."""
        if self.parent is None:
            return "/"
        return f"{self.parent.path.rstrip('/')}/{self.name.replace('%', '%25').replace('/', '%2F')}"

    @property
    def state(self) -> State:
        """Where in its life it is; one of starting, running, backing_off, draining and stopped."""
        return STATES[self._status]

    @property
    def actor_class(self) -> type:
        """The class of the present or last incarnation."""
        return self._table.actor_class

    @property
    def _waits_on(self) -> Ref | None:
        """Whom it is waiting for just now; only a task can wait."""
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
        """Give a snapshot of state and counts."""
        return RefStatistics(self.path, self.state, self.epoch, self.handled, self.waiting)

    # telling and asking

    def tell_nowait(self, message: Message) -> None:
        """Tell without waiting.

        In a turn with no handler on the stack an idle actor in place has handled the message when this returns. Its
        crash is its supervisor's business, never the teller's. Told to an actor that has stopped, the message goes
        to the dead letters.

        Raises:
            TypeError: the actor has no handler for it.
            trio.WouldBlock: the mailbox is full and its overflow policy is to wait.
            MailboxFull: the mailbox is full and its overflow policy is to reject.
        """
        turn = self._turn
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
                if self._status == BUSY:
                    self._status = IDLE
                else:
                    self._left_stack()
                if not self._touched:
                    self._touched = True
                    turn.touched.append(self)
                if turn.ready:
                    turn.drain()
                return
        self._tell_otherwise(message)

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
            Refused: the handler says no.
            RuntimeError: an actor asks itself, directly or in a circle; nobody would ever answer.
        """
        raise NotImplementedError

    def ask_nowait(self, request: Request[R]) -> R:
        """Ask an actor that answers in place, and have the answer at once.

        Only downwards (parent to child, user to used): one whose handler is on the stack cannot answer. A request that
        crashes its actor is not tried again, for the asker does not wait.

        Raises:
            trio.WouldBlock: it is busy, has messages waiting, or is being restarted.
            ActorStopped: it has stopped for good.
            HandlerFailed: the handler crashed; ``__cause__`` is its exception.
            Refused: the handler says no.
            TypeError: there is no plain handler for the request, or the class does not answer in place.
        """
        turn = self._turn
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

    async def wait_running(self) -> None:
        """Wait until a message would be handled: at once when it runs, else when it has been restarted.

        Raises:
            ActorStopped: it has stopped for good, or does so first.
        """
        await self.ask(Ping())

    def touch(self) -> None:
        """See to it that ``after_batch`` runs at the end of this turn, or of a new one."""
        if not self._touched:
            self._touched = True
            self._turn.touched.append(self)
        if not self._turn.phase:
            self._turn.run(int)  # a turn with an empty body: ends by running what is touched

    # watching

    def watch(self, watcher: Ref) -> None:
        """Have the watcher told ``Down(ref, reason)`` when this actor stops for good; at once if it has.

        Raises:
            TypeError: the watcher has no handler for ``Down``.
        """
        if not watcher._table.accepts(Down):
            raise watcher._table.no_handler(Down(self, None))
        if self._status == STOPPED:
            watcher._tell_surely(Down(self, self._failure))
        else:
            watchers = self._watchers or {}
            if not len(watchers) & (len(watchers) - 1):  # now and then: 0, 1, 2, 4, 8 … of them
                watchers = {ref: None for ref in watchers if ref._status != STOPPED}
            watchers[watcher] = None
            self._watchers = watchers

    def unwatch(self, watcher: Ref) -> None:
        """Watch no more; a ``Down`` that is on its way still arrives."""
        if self._watchers is not None:
            self._watchers.pop(watcher, None)

    # the framework's side: messages in a turn

    def _tell_otherwise(self, message: Message) -> None:
        """Take a message that cannot be handled on the spot."""
        raise NotImplementedError

    def _tell_surely(self, message: Message) -> None:
        """Tell something that must not be lost for want of room."""
        self.tell_nowait(message)

    def _ask_in_turn(self, asked: Asked) -> None:
        """Take a question in the body of a turn; an idle actor has answered when this returns."""
        self._append(asked)
        if self._turn.phase == BODY:
            self._turn.drain()

    def _append(self, item: Item) -> None:
        """Keep an item for the present turn, or for when the actor runs again."""
        if self._waiting is None:
            self._waiting = [item]
        else:
            self._waiting.append(item)
        if self._status <= BUSY:
            self._status = QUEUED[self._status]
            self._turn.ready.append(self)

    def _run_waiting(self) -> None:
        """Handle all that waits; called with no handler of this actor on the stack, ``turn.phase`` at HANDLER."""
        batch = self._waiting
        if self._status != WAITING or batch is None:
            return
        self._waiting = None
        self._status = BUSY
        for position, item in enumerate(batch):
            self._handle(item)
            if self._failure is not None:
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
            self._turn.touched.append(self)

    def _answer(self, item: Item) -> None:
        assert isinstance(item, Asked)
        item.give(self._plain[type(item.message)](self.actor, item.message))

    def _run_singly(self) -> None:
        """Try again, one by one, what crashed the last incarnation; what crashes alone is given up."""
        while self._retry and self._failure is None:
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
                    self._crashed(None, error)

    def _after_batch(self) -> None:
        """Run the hook at the end of a turn; a crash in it runs no message again."""
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
            self._crashed(None, error)
        if before == IDLE:
            if self._status == BUSY:
                self._status = IDLE
            else:
                self._left_stack()

    def _left_stack(self) -> None:
        """Settle the status after a handler has returned and something may have happened meanwhile."""
        if self._status in RETURNED:
            self._status = RETURNED[self._status]
        elif self._status == DRAINING:
            self._finish_stop()

    # the framework's side: failures

    def _failed(self, item: Item, error: BaseException) -> None:
        if isinstance(error, Refused):
            self._refuse(item, error)
        else:
            self._crashed(item, error)

    def _answer_failed(self, request: Message, error: BaseException) -> BaseException:
        if not isinstance(error, Refused):
            self._owing = True
            self._abandon(request, "crashed", error)
            self._crashed(None, error)
        return answer_error(self.path, request, error)

    def _crashed(self, item: Item | None, error: BaseException) -> None:
        """End this incarnation; the item that was being handled is kept for the next one, in parts."""
        raise NotImplementedError

    def _keep_parts(self, item: Item) -> None:
        self._owing = True
        parts: Iterable[Item] = (item,) if isinstance(item, Asked) else item.split()
        self._retry = [*parts, *(self._retry or ())]

    def _refuse(self, item: Item, error: Refused) -> None:
        if isinstance(item, Asked):
            item.fail(error)
        else:
            self._abandon(item, "refused", error)

    def _abandon(self, item: Item, reason: Reason, error: BaseException) -> None:
        """Give an item to the dead letters and its asker, if any, an error."""
        message = item.message if isinstance(item, Asked) else item
        self._turn.system.dead_letters.add(message, self, reason, error)
        if isinstance(item, Asked):
            item.fail(answer_error(self.path, message, error))

    def _cannot_answer(self, request: Message) -> BaseException:
        if type(request) not in self._plain:
            if self._table.accepts(type(request)):
                return TypeError(f"{self.path} handles {type(request).__qualname__} in an async handler: `await ask`")
            return self._table.no_handler(request)
        return self._stopped_error() if self._status >= DRAINING else trio.WouldBlock()

    def _stopped_error(self) -> ActorStopped:
        stopped = ActorStopped(f"{self.path} has stopped for good")
        stopped.__cause__ = self._failure
        return stopped

    # the framework's side: life

    def _move(self, event: Move) -> None:
        """Change the status as the table says, which may be not at all."""
        self._status = event.get(self._status, self._status)

    def _end(self, *, for_good: bool, seconds: float) -> bool:
        """End the incarnation, for good or for a restart with its siblings; say whether it is over already.

        Told for good, it handles what waits first.
        """
        raise NotImplementedError

    def _is_alive(self) -> bool:
        """Say whether there is an incarnation that has yet to end."""
        raise NotImplementedError

    def _finish_stop(self) -> None:
        raise NotImplementedError

    def _is_over(self, error: BaseException | None) -> None:
        """Tell whoever waits or looks on that this incarnation has ended."""
        self._turn.system._publish(Exited, self, self.epoch, error)
        over, self._over = self._over, None
        if over is not None:
            over.set()

    def _report(self, error: BaseException | None) -> None:
        """Tell the supervisor that an incarnation has ended; one that it halts itself it is waiting for already."""
        if self._status == HALTING:
            return
        if self.parent is None:
            self._turn.system._root_ended(error)
        else:
            self.parent._child_ended(self, self.epoch, error)

    def _bury(self, reason: BaseException | None) -> None:
        """Stop for good: nothing more is handled, and all who wait or watch are told."""
        if self._status == STOPPED:
            return
        self._status = STOPPED
        self._failure = reason
        self.spec = ENDED  # the factory may hold what this Ref is in: a cycle, which only the collector would find
        for item in self._take_left():
            self._abandon(item, "stopped", self._stopped_error())
        watchers, self._watchers = self._watchers, None
        for watcher in watchers or ():
            watcher._tell_surely(Down(self, reason))
        over, self._over = self._over, None
        if over is not None:
            over.set()

    def _take_left(self) -> list[Item]:
        left = [*(self._retry or ()), *(self._waiting or ())]
        self._retry = self._waiting = None
        return left

    async def _wait_over(self) -> None:
        """Wait until the present incarnation has ended."""
        if self._over is None:
            self._over = trio.Event()
        await self._over.wait()
