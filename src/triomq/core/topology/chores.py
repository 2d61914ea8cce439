"""Long work on a domain's topology, cut into turns: it is decided at once, and done bit by bit.

    a request ─▶ Chores.begin ─▶ steps until the turn's budget is used up ─▶ done, mostly
                                  └─ the rest waits ─▶ run: one turn at a time, chores take turns

A client may have 100,000 exclusive queues and 200,000 bindings; removing them all in one turn would hold the loop for
seconds. So a chore is done in steps, each some microseconds. What clients see meanwhile:

- *A deleted sink or queue is gone at once*: its name is free, routes pass over it, its actor has stopped. Its bindings
  are removed from the tables of others, and from the store, bit by bit; one that is made again meanwhile replaces the
  old one.
- *Consumers of a deleted queue* get nothing more, and are told ``FeedClosed`` when their turn comes.
- *Exclusive queues of a session that has ended* exist, and are locked, until their turn comes.
- *What a forgotten peer made* exists until its turn comes.
- *Policies* hold at once for what is declared from now on, and for what exists as soon as its turn comes.
- *Quotas of users* are given back as things go.

Rules for a chore:

- It holds lists of what is to go, not a dict that it empties from the front: there every key that was removed is passed
  again.
- It stands in the domain's directory as data, so that the next incarnation of a domain that crashed goes on with it.
- It looks again, in each step, at what it is about to remove: it may be gone, or made again.
- The store of a broker that was killed between two turns has bindings that lead nowhere; the next start removes them.
  They must not lead to a successor of the same name: so in a broker with a store the name of something durable is not
  free before its last binding has left the store, and a client that declares it waits so long.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import trio

from triomq.core.queue.queue_state import OptionsChanged, QueueState, close_feed
from triomq.core.routing.bindings import Binding
from triomq.core.routing.sink import SinkState
from triomq.core.topology.policy import PolicyChange

if TYPE_CHECKING:
    from triomq.core.topology.domain import Domain
    from triomq.core.topology.session import Session

_COST = 5
"""What a step counts against the turn's budget, in queue pushes: each takes some 10 µs."""

PER_TURN = 400
"""Steps in a turn of their own, when the budget is used up."""


class Chore(Protocol):
    """Something that takes many steps."""

    def step(self, domain: "Domain") -> bool:
        """Do a step; return whether there is more."""


class Chores:
    """The chores of one domain; part of its directory, so that they outlive its incarnations."""

    def __init__(self) -> None:
        self._waiting: deque[Chore] = deque()
        self._wanted = trio.Event()

    @property
    def waiting(self) -> int:
        """How many chores are not done yet."""
        return len(self._waiting)

    def begin(self, chore: Chore, domain: "Domain") -> None:
        """Do as much of a chore as fits into this turn, and the rest later; the rest as well if a step crashes."""
        more = True
        try:
            more = _work(chore, domain)
        finally:
            if more:
                self.add(chore)

    def add(self, chore: Chore) -> None:
        """Do a chore in turns of its own."""
        self._waiting.append(chore)
        self._wanted.set()

    async def run(self, domain: "Domain") -> None:
        """Work, in turns; for a task of the domain's own."""
        while True:
            await self._wanted.wait()
            await trio.lowlevel.checkpoint()
            domain.system.turn.run(self._go_on, domain)

    def _go_on(self, domain: "Domain") -> None:
        """Do a part of the chore that has waited longest; several take turns."""
        # A step that crashes the domain leaves its chore here, so that the next incarnation goes on behind that step.
        more = _work(self._waiting[0], domain)
        chore = self._waiting.popleft()
        if more:
            self._waiting.append(chore)
        elif not self._waiting:
            self._wanted = trio.Event()


def _work(chore: Chore, domain: "Domain") -> bool:
    """Do steps until the turn's budget is used up, which is shared with chores that begin in the same turn.

    Returns:
        Whether there are more.
    """
    turn = domain.system.turn
    while not turn.exhausted:
        turn.charge(_COST)
        if not chore.step(domain):
            return False
    return True


class EndSession:
    """Close the feeds of a session that has ended, then delete its exclusive queues.

    Args:
        session: The session.
    """

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._feeds = session.feeds
        self._queues = deque(session.queues)

    def step(self, domain: "Domain") -> bool:
        """Close a feed or delete a queue."""
        session = self._session
        if self._feeds:
            session.close_feed(self._feeds.popleft())
        elif self._queues:
            name = self._queues.popleft()
            if name in session.queues:
                domain.remove_queue(domain.directory.queues[name], session)
        else:
            return False
        return True


class CloseFeeds:
    """Close the feeds of a queue that was deleted.

    Args:
        queue: The queue.
    """

    def __init__(self, queue: QueueState) -> None:
        feeds, queue.feeds = queue.feeds, None
        self._feeds = deque(feeds or ())

    def step(self, domain: "Domain") -> bool:
        """Close one feed."""
        if not self._feeds:
            return False
        close_feed(self._feeds.popleft(), "the queue is deleted")
        return True


class TakeBindings:
    """Remove the bindings from and to a deleted sink or queue.

    Args:
        resource: The queue or the sink.
        session: The session that deleted it.
    """

    def __init__(self, resource: QueueState | SinkState, session: "Session | None") -> None:
        self._resource = resource
        self._session = session
        self._own = deque(resource.bindings if isinstance(resource, SinkState) else ())
        self.over = trio.Event()

    def step(self, domain: "Domain") -> bool:
        """Remove one binding."""
        resource = self._resource
        if isinstance(resource, SinkState) and self._own:
            binding = self._own.popleft()
            if binding in resource.bindings:
                domain.take_binding(resource, binding, self._session)
            return True
        if not resource.bound:
            self.over.set()
            # Something else of that name may have been declared and deleted meanwhile, if this was not durable.
            leaving, key = domain.directory.leaving, (type(resource), resource.name)
            if leaving.get(key) is self.over:
                del leaving[key]
            return False
        binding, source = resource.bound.popitem()
        if source.bindings.get(binding) is resource:
            domain.take_binding(source, binding, self._session)
        return True


class Forget:
    """Delete what a peer made.

    Args:
        origin: The peer.
        bindings: Its bindings, with their sources.
        resources: Its queues, then its sinks.
    """

    def __init__(
        self, origin: str, bindings: Iterable[tuple[SinkState, Binding]], resources: Iterable[QueueState | SinkState]
    ) -> None:
        self._origin = origin
        self._bindings = deque(bindings)
        self._resources = deque(resources)
        self.count = len(self._bindings) + len(self._resources)

    def step(self, domain: "Domain") -> bool:
        """Delete one thing, if it is still there."""
        if self._bindings:
            source, binding = self._bindings.popleft()
            if source.origin_of(binding) == self._origin:  # unless it was removed meanwhile, and perhaps made here
                domain.take_binding(source, binding, None)
            return True
        if not self._resources:
            return False
        resource = self._resources.popleft()
        if resource.gone:
            return True
        if isinstance(resource, QueueState):
            domain.remove_queue(resource)
        else:
            domain.remove_sink(resource)
        return True


class ApplyPolicies:
    """Apply the policies of a domain to the sinks and queues that exist.

    Args:
        sinks: Its sinks.
        queues: Its queues.
    """

    def __init__(self, sinks: Iterable[SinkState], queues: Iterable[QueueState]) -> None:
        self._sinks = deque(sinks)
        self._queues = deque(queues)
        self.change = PolicyChange()

    def step(self, domain: "Domain") -> bool:
        """Check one sink or queue."""
        if self._sinks:
            if self._sinks.popleft().apply_policy(domain.directory.policies):
                self.change.changed += 1
                domain.directory.changed()
            return True
        if not self._queues:
            self.change.finish()
            return False
        queue = self._queues.popleft()
        if not queue.gone and queue.apply_policy():
            self.change.changed += 1
            queue.ref.tell_nowait(OptionsChanged())
        return True


_PER_PUSH = 50
"""Messages freed for each queue push of a turn's budget: 50 ns each, where a push takes some 2 µs."""


_AT_ONCE = 16
"""Runs that are freed in the turn in which they go: some 10,000 messages, half a millisecond."""


def free(remains: list[Sequence[bytes]], chores: Chores) -> None:
    """Free contents: few at once, many bit by bit."""
    if len(remains) > _AT_ONCE:
        chores.add(FreeContents(remains))


class FreeContents:
    """A chore of the domain: free contents, one run of messages in each step.

    Args:
        remains: The contents of the runs; no other reference to these lists should exist.
    """

    def __init__(self, remains: list[Sequence[bytes]]) -> None:
        self._remains = remains

    def step(self, domain: "Domain") -> bool:
        """Free one run."""
        if not self._remains:
            return False
        domain.system.turn.charge(len(self._remains.pop()) // _PER_PUSH)
        return bool(self._remains)
