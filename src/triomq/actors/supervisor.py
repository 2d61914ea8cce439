"""Supervisors: they start children left to right, restart those that crash, stop them right to left.

    child crashes ──▶ ChildEnded, ahead of the mailbox ──▶ restart policy of its spec ── no ──▶ removed, watchers told
                                                                 │ yes
                        more than max_restarts within period? ───┴─▶ Supervisor: crashes itself (RestartLimitExceeded)
                                 │ no                                DynamicSupervisor: removes this child alone
                                 ▼
         first crash: at once; else a task waits for the backoff, ends the members that still run, starts all in order

OTP's words and rules, with two additions: a restart may be put off (exponential backoff, as a task of its own, never a
sleep in the supervisor's loop), and dynamic supervisors count restarts per child, so that one poisoned child is stopped
alone. A crash of a member during a restart takes the restart over: one task at a time works on a child.

Children are in a dict on the supervisor's own Ref: the Refs of declared children stay the same even when the supervisor
itself is restarted, so that what holds them needs no look-up.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import ClassVar, TypeVarTuple

import trio

from triomq.actors.actor import Actor, InPlaceActor, check_actor
from triomq.actors.answers import is_cancellation
from triomq.actors.backoff import Backoff
from triomq.actors.children import (
    SHUTDOWN,
    ChildEnded,
    ChildSpec,
    History,
    Parent,
    Restart,
    Restarts,
    Strategy,
    restarted_with,
)
from triomq.actors.events import Restarted, Started
from triomq.actors.in_place_ref import InPlaceRef
from triomq.actors.ref import Ref
from triomq.actors.task_ref import TaskRef
from triomq.actors.tasks import Tasks
from triomq.errors import ActorStopped, NameTaken, RestartLimitExceeded

Ts = TypeVarTuple("Ts")

logger = logging.getLogger("triomq.actors")


class Supervisor(Parent, Actor):
    """Starts its declared children in order, and restarts them by its strategy.

    Children that are started later (``start_child``) are supervised like the others, but are gone when the
    supervisor itself is restarted. Subclasses may have handlers of their own, override ``child_specs``, the hooks
    ``child_exited`` and ``child_restarted``, and the attributes.

    Args:
        children: Declared children, first to last.
        strategy: one_for_one, one_for_all or rest_for_one.
        max_restarts: Restarts within ``period`` seconds; one more ends this supervisor with ``RestartLimitExceeded``.
        period: See ``max_restarts``.
        backoff: How long restarts are put off.
    """

    strategy: Strategy = "one_for_one"
    max_restarts: int = 3
    period: float = 5.0
    backoff: Backoff = Backoff()

    _declared: tuple[ChildSpec, ...] = ()
    _nursery: trio.Nursery | None = None
    _gives_up_alone: ClassVar[bool] = False

    def __init__(
        self,
        children: Iterable[ChildSpec] = (),
        *,
        strategy: Strategy | None = None,
        max_restarts: int | None = None,
        period: float | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        self._declared = tuple(children)
        self.strategy = strategy or self.strategy
        self.max_restarts = self.max_restarts if max_restarts is None else max_restarts
        self.period = self.period if period is None else period
        self.backoff = backoff or self.backoff

    # what subclasses may override

    def child_specs(self) -> Sequence[ChildSpec]:
        """Return the declared children, first to last.

        Called when an incarnation starts and again when it ends: the Refs of children that are declared then are used
        by the next one.
        """
        return self._declared

    def child_exited(self, ref: Ref, error: BaseException | None) -> None:
        """React to a child that has crashed (``ref.state`` is then backing_off) or is gone for good (stopped)."""

    def child_restarted(self, ref: Ref) -> None:
        """React to a child that runs again; called before it handles what it was told meanwhile."""

    # children

    @property
    def children(self) -> Mapping[str, Ref]:
        """The children by name, in order of their start."""
        return self.ref.children

    def start_child_nowait(self, spec: ChildSpec) -> Ref:
        """Start a child without waiting.

        The ``on_start`` of a child in place has run when this returns, and its error is raised here. One with a
        task is still starting: messages wait for it, and its error is a crash like any other.

        Raises:
            NameTaken: a living sibling has that name.
            ActorStopped: this supervisor does not run, or is stopping.
        """
        nursery = self._open_nursery()
        if spec.name is not None and spec.name in self.ref.kids:
            raise NameTaken(f"{self.ref.path} has a child named {spec.name!r} already")
        ref = self._admit(spec, spec.factory())
        try:
            self._launch(ref, nursery)
        except BaseException as error:
            self.ref.turn.call(self._drop, ref, error)
            raise
        return ref

    async def start_child(self, spec: ChildSpec) -> Ref:
        """Start a child and wait until its ``on_start`` has finished; an error in that is raised here.

        Raises:
            NameTaken: a living sibling has that name.
            ActorStopped: this supervisor does not run, or is stopping.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        ref = self.start_child_nowait(spec)
        await self._wait_started(ref)
        return ref

    def stop_child_nowait(self, ref: Ref) -> None:
        """Stop a child for good: a child in place that has no task is gone when this returns.

        One with a handler on the stack goes when that has returned, one with a task when it has drained.
        """
        if self.ref.kids.get(ref.name) is ref and ref.end(for_good=True, seconds=self._seconds(ref)):
            self._remove(ref, ref.failure)

    async def stop_child(self, ref: Ref) -> None:
        """Stop a child for good and wait until it is gone."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self.stop_child_nowait(ref)
        if self.ref.kids.get(ref.name) is ref:
            await ref.wait_ended()
            self._remove(ref, ref.failure)
        else:
            await trio.lowlevel.cancel_shielded_checkpoint()

    def start_task(self, async_function: Callable[[*Ts], Awaitable[object]], *args: *Ts) -> trio.CancelScope:
        """Run a task of the supervisor's own, such as a loop that accepts connections.

        It ends, cancelled, before the first child is stopped; its crash crashes the supervisor.

        Returns:
            A scope to cancel it with.
        """
        self._open_nursery()
        return self._tasks.start(trio.CancelScope(), async_function, *args)

    # one incarnation

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:  # see Actor.run
        self._intensity = Restarts(self.max_restarts, self.period)
        self._histories: dict[Ref, History] = {}
        self._pending: dict[Restart, None] = {}
        self._closing = False
        failure: BaseException | None = None
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._tasks = Tasks(nursery, partial(self.ref.crash, None))
            try:
                await super().run()
            except BaseException as error:
                failure = error
                await self._stop_children()
                if is_cancellation(error):
                    raise
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _open(self) -> None:
        specs = self.child_specs()
        names = {spec.name for spec in specs}
        # Children that were not declared go first: on_start may start new ones of the same names.
        for ref in [ref for name, ref in self.ref.kids.items() if name not in names]:
            self._remove(ref, ref.failure)
        await super()._open()
        for spec in specs:
            existing = self.ref.kids.pop(spec.name, None) if spec.name is not None else None
            if existing is None:
                await self.start_child(spec)
            else:
                self.ref.kids[existing.name] = existing
                self._launch(existing, self._open_nursery(), again=True)
                await self._wait_started(existing, again=True)

    async def _close(self) -> None:
        await self._stop_children()
        await super()._close()

    async def _stop_children(self) -> None:
        """Stop all children, right to left, each within its own time.

        Shielded: when this supervisor has been cancelled so have its children, whose ends must still be seen.
        """
        self._closing = True
        with trio.CancelScope(shield=True):
            await self._tasks.stop()
            declared = {spec.name for spec in self.child_specs()}
            for ref in reversed(list(self.ref.kids.values())):
                comes_back = not self.ref.is_ending and ref.name in declared
                await self._end_child(ref, for_good=not comes_back)

    def _open_nursery(self) -> trio.Nursery:
        if self._nursery is None or self._closing:
            raise ActorStopped(f"{type(self).__qualname__} does not run, or is stopping: it starts nothing")
        return self._nursery

    # starting

    def _admit(self, spec: ChildSpec, actor: Actor | InPlaceActor) -> Ref:
        """Create the Ref of a new child and add it to its siblings."""
        check_actor(actor)
        kids = self.ref.kids
        name = spec.name
        number = len(kids)
        while name is None or (name in kids and spec.name is None):
            number += 1
            name = f"{type(actor).__name__.lower()}.{number}"
        ref: Ref
        if isinstance(actor, InPlaceActor):
            ref = InPlaceRef(spec, name, self.ref, self.ref.turn, actor)
        else:
            ref = TaskRef(spec, name, self.ref, self.ref.turn, actor)
        kids[name] = ref
        ref.actor = actor
        return ref

    def _launch(self, ref: Ref, nursery: trio.Nursery, *, again: bool = False) -> None:
        """Start an incarnation of a child; one in place has started when this returns."""
        actor = ref.actor
        if again or actor is None:
            actor = ref.spec.factory()
        if isinstance(ref, InPlaceRef) and isinstance(actor, InPlaceActor):
            self.ref.turn.call(self._launch_in_place, ref, actor, nursery)
        elif isinstance(ref, TaskRef) and isinstance(actor, Actor):
            ref.launch(actor, nursery)
        else:
            raise TypeError(f"the factory of {ref.path} makes {type(actor).__qualname__}, not the kind of actor it was")

    def _launch_in_place(self, ref: InPlaceRef, actor: InPlaceActor, nursery: trio.Nursery) -> None:
        ref.launch(actor, nursery)
        self.ref.child_started(ref)
        ref.resume()

    async def _wait_started(self, ref: Ref, *, again: bool = False) -> None:
        if not isinstance(ref, TaskRef):
            await trio.lowlevel.cancel_shielded_checkpoint()
            return
        ref.is_awaited = True
        try:
            await ref.wait_started()
        except trio.Cancelled:
            if not again:  # else it is stopped with its siblings, and comes back with them
                self.stop_child_nowait(ref)
            raise
        except BaseException as error:
            if self.ref.kids.get(ref.name) is ref:
                self.ref.turn.call(self._drop, ref, error)
            raise
        finally:
            ref.is_awaited = False

    def _on_child_started(self, ref: Ref) -> None:
        if ref.epoch == 1:
            self.system.publish(Started, ref)
        else:
            history = self._histories.get(ref)
            if history is not None:
                history.started = trio.current_time()
            self.system.publish(Restarted, ref, ref.epoch)
            self.child_restarted(ref)

    # restarting

    def _on_child_ended(self, ended: ChildEnded) -> None:
        ref, error = ended.ref, ended.error
        if ref.epoch != ended.epoch or self.ref.kids.get(ref.name) is not ref:
            return
        if ref.is_ending:
            self._remove(ref, error)
        elif ref.state == "backing_off":
            if error is not None and not isinstance(error, Exception):
                raise error  # Ctrl-C or exit: not for supervision to absorb
            if ref.spec.restarts_after(error):
                self._plan_restart(ref, error)
            else:
                self._log(ref, error, "it is not restarted")
                self._remove(ref, error)

    def _plan_restart(self, ref: Ref, error: Exception | None) -> None:
        now = trio.current_time()
        history = self._histories.setdefault(ref, History(self.max_restarts, self.period))
        history.fail(now)
        if (history.restarts if self._gives_up_alone else self._intensity).exceed(now):
            self._give_up(ref, error)
            return
        delay = self.backoff.delay(history.failures)
        self._log(ref, error, f"restart in {delay:.2f} s")
        self.child_exited(ref, error)
        ref.actor = None
        members = restarted_with(ref, list(self.ref.kids.values()), self.strategy)
        if members == [ref] and delay == 0:
            self._revive(ref)
        else:
            self._start_restart(members, delay)

    def _start_restart(self, members: list[Ref], delay: float) -> None:
        for pending in list(self._pending):
            if any(ref in members for ref in pending.members):
                pending.scope.cancel()
                members += [ref for ref in pending.members if ref not in members]
                self._pending.pop(pending)
        order = list(self.ref.kids.values())
        restart = Restart(sorted(members, key=order.index), delay)
        self._pending[restart] = None
        self._tasks.start(restart.scope, self._restart, restart)

    async def _restart(self, restart: Restart) -> None:
        """Stop members that still run, right to left; wait; start all, left to right."""
        try:
            for ref in reversed(list(restart.members)):
                if ref.is_alive:
                    await self._end_child(ref, for_good=ref.is_ending or ref.spec.restart == "temporary")
            await trio.sleep(restart.delay)
            while (
                restart.members and restart in self._pending
            ):  # else taken over: cancelled, but the task does not know yet
                ref = restart.members[0]
                if self.ref.kids.get(ref.name) is ref and not await self._revive_and_wait(ref):
                    return  # its own crash is reported, and takes the rest over
                del restart.members[0]
        finally:
            self._pending.pop(restart, None)

    async def _revive_and_wait(self, ref: Ref) -> bool:
        try:
            revived = self._revive(ref)
            if revived and isinstance(ref, TaskRef):
                await ref.wait_started()
        except Exception:
            return False
        return revived

    def _revive(self, ref: Ref) -> bool:
        """Start the next incarnation; an error of the factory counts as a crash."""
        epoch = ref.epoch
        try:
            self._launch(ref, self._open_nursery(), again=True)
        except Exception as error:
            ref.fail_to_start(error, epoch)
            return False
        return True

    def _give_up(self, ref: Ref, error: Exception | None) -> None:
        exceeded = RestartLimitExceeded(
            f"{ref.path} would be restarted more than {self.max_restarts} times in {self.period} s; last: {error!r}"
        )
        exceeded.__cause__ = error
        if not self._gives_up_alone:
            self._log(ref, error, f"{self.ref.path} gives up")
            self.child_exited(ref, error)
            raise exceeded
        self._log(ref, error, "too many restarts, it is stopped")
        self._remove(ref, exceeded)

    # stopping

    async def _end_child(self, ref: Ref, *, for_good: bool) -> None:
        if not ref.end(for_good=for_good, seconds=self._seconds(ref)):
            await ref.wait_ended()
        if for_good:
            self._remove(ref, ref.failure)
        else:
            ref.halted()

    def _remove(self, ref: Ref, error: BaseException | None) -> None:
        """Remove a child that is gone for good, and call the hook."""
        if self.ref.kids.get(ref.name) is ref:
            self.ref.turn.call(self._drop, ref, error, self.child_exited)

    def _drop(
        self, ref: Ref, error: BaseException | None, hook: Callable[[Ref, BaseException | None], None] | None = None
    ) -> None:
        del self.ref.kids[ref.name]
        self._histories.pop(ref, None)
        ref.bury(error)
        if hook is not None:
            hook(ref, error)
        ref.actor = None

    def _seconds(self, ref: Ref) -> float:
        """Return the seconds that a child may take to drain."""
        if self.system.hurried:
            return math.inf if ref.children else 0.0
        if ref.spec.shutdown is not None:
            return ref.spec.shutdown
        return math.inf if isinstance(ref.actor, Supervisor) else SHUTDOWN

    def _log(self, ref: Ref, error: BaseException | None, consequence: str) -> None:
        if error is not None:
            logger.error("%s crashed: %s", ref.path, consequence, exc_info=error)


class DynamicSupervisor(Supervisor):
    """A supervisor of children that come and go (queues, connections); counts restarts per child.

    A child that crashes too often is stopped alone, with a ``Down`` for its watchers, and nothing travels up.
    """

    _gives_up_alone: ClassVar[bool] = True
