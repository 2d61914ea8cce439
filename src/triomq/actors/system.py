"""A system: one tree of supervised actors, which exists as long as a block.

An error that supervision does not absorb is raised by that block, without an exception group around it.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from triomq.actors.backoff import Backoff
from triomq.actors.children import ChildSpec, RestartPolicy
from triomq.actors.deadletters import DeadLetters
from triomq.actors.events import Event, EventStream, EventSubscription
from triomq.actors.registry import Registry
from triomq.actors.running import require_trio, unwrap_group
from triomq.actors.supervisor import Supervisor
from triomq.actors.task_ref import TaskRef
from triomq.actors.tree import TreeNode, snapshot
from triomq.actors.turn import Turn
from triomq.actors.waits import Waits

if TYPE_CHECKING:
    from triomq.actors.actor import Actor, InPlaceActor
    from triomq.actors.ref import Ref


class System:
    """A tree of actors with one turn, one registry, one place for dead letters; created by :func:`open_system`."""

    def __init__(self, supervisor: Supervisor, *, check_waits: bool) -> None:
        self.turn = Turn(self)
        self.dead_letters = DeadLetters(self)
        self.waits = Waits(check=check_waits)
        self.hurried = False
        """Whether it ends after an error, so that no actor gets time to drain."""
        self._events: EventStream[Event] = EventStream()
        self._body = trio.CancelScope()  # around the owner's block
        self._more = trio.Event()
        self._failure: BaseException | None = None
        self._supervisor = supervisor
        self._root = TaskRef(ChildSpec(lambda: supervisor), "", None, self.turn, supervisor)
        self.registry = Registry(self._root)

    async def start(
        self,
        factory: Callable[[], Actor | InPlaceActor],
        *,
        name: str | None = None,
        restart: RestartPolicy = "permanent",
        shutdown: float | None = None,
    ) -> Ref:
        """Start an actor at the top of the tree; when this returns, its ``on_start`` has finished.

        Args:
            factory: Creates one incarnation; a class without arguments will do.
            name: Its name among its siblings; by default its class's name and a number.
            restart: permanent, transient or temporary.
            shutdown: Seconds to drain when stopped, then it is cancelled.

        Raises:
            NameTaken: a sibling has that name.
            ActorStopped: the system is stopping.
        """
        return await self._supervisor.start_child(ChildSpec(factory, name, restart, shutdown))

    async def stop(self, ref: Ref) -> None:
        """Stop an actor anywhere in the tree: it drains, then ends for good.

        Raises:
            ValueError: it is the root, which ends with the block.
        """
        if ref.parent is None:
            raise ValueError("the root ends with its block; leave `async with open_system()`")
        supervisor = ref.parent.actor
        if isinstance(supervisor, Supervisor):
            await supervisor.stop_child(ref)

    def tree(self) -> TreeNode:
        """Return the whole tree with states and counts, as it is now."""
        return snapshot(self._root)

    def events(self) -> EventSubscription[Event]:
        """Return a subscription to starts, exits, restarts, dead letters and full mailboxes from now on."""
        return self._events.subscribe()

    def publish(self, event: Callable[..., Event], ref: Ref, *details: object) -> None:
        if self._events.is_followed:
            self._events.publish(event(ref, *details))

    def continue_turn(self) -> None:
        """Continue a turn that was too long in another one, after a checkpoint."""
        self._more.set()

    async def _continue_turns(self) -> None:
        while True:
            await self._more.wait()
            self._more = trio.Event()
            self.turn.run(int)  # an empty body: a turn ends by doing what is left

    def fail(self, error: BaseException) -> None:
        """End the system with an error that no restart would mend; the owner's block raises it."""
        self.root_ended(error)

    def root_ended(self, error: BaseException | None) -> None:
        self._failure = self._failure or error
        self._body.cancel()

    async def _start(self, nursery: trio.Nursery) -> None:
        nursery.start_soon(self._continue_turns, name="turns")
        self._root.launch(self._supervisor, nursery)
        await self._root.wait_started()

    async def _stop(self) -> None:
        if not self._root.end(for_good=True, seconds=math.inf):
            await self._root.wait_ended()

    def _close(self) -> None:
        self._root.bury(self._failure)
        self._events.close()
        self.dead_letters.close()

    def _raise(self, error: BaseException | None) -> None:
        """Raise what went wrong: the block's own error first, else the one that supervision did not absorb."""
        failure = self._failure
        if error is not None:
            if failure is not None and failure is not error:
                error.add_note(f"The actor system failed too: {failure!r}")
            raise error
        if failure is not None:
            raise failure


@asynccontextmanager
async def open_system(
    *,
    max_restarts: int = 3,
    period: float = 5.0,
    backoff: Backoff | None = None,
    check_waits: bool = False,
    supervisor: Supervisor | None = None,
) -> AsyncIterator[System]:
    """Open a system whose actors live until the block is left.

    Leaving the block drains: mailboxes are closed, actors handle what is in them and stop, right to left, each within
    its ``shutdown``. An error in the block cancels them instead and is raised without a group; so is one that
    supervision did not absorb.

    Args:
        max_restarts: Restarts of top-level actors within ``period`` seconds; one more is a failure of the system.
        period: See ``max_restarts``.
        backoff: How long restarts of top-level actors are put off.
        supervisor: The root of the tree, instead of one that has the properties above.
        check_waits: Whether a wait that a class does not declare in ``waits_for`` is an error; for tests.

    Raises:
        RestartLimitExceeded: top-level actors crashed too often; ``__cause__`` is the last error.
        RuntimeError: this does not run in Trio.
    """
    require_trio(
        "open_system",
        asyncio_way="run it in a thread of its own, with trio.run",
        otherwise="call it in trio.run(main)",
    )
    root = supervisor or Supervisor(max_restarts=max_restarts, period=period, backoff=backoff)
    system = System(root, check_waits=check_waits)
    error: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            await system._start(nursery)
            try:
                with system._body:
                    yield system
            except trio.Cancelled:
                raise
            except BaseException as own:
                error = own
            system.hurried = error is not None
            await system._stop()
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        system._failure = unwrap_group(group)
    finally:
        system._close()
    system._raise(error)
