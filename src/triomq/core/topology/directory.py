"""The directory of a domain: its sinks and queues by name, and the way from a sink to queues.

    domain (actor) ──writes──▶ sinks, queues, policies, version ──reads──▶ publishers, endpoints, console
    sinks (actors) ──write───▶ bindings, in their SinkState

Rules:

- Everything here is a read, which any code may call at any time, in any turn; only the domain and its sinks write. So a
  route costs a function call, not a message.
- ``version`` grows with every change that can lead messages elsewhere, or that changes what a publisher may do:
  publishers hold the routes they found until it differs, and need no other notice.
- It is data: it outlives the domain's incarnations, and a domain that crashes comes back with what it had.
- What one route may cost is limited, since bindings of sinks to sinks can multiply, and what each user may bind adds up
  where several users' sinks lead to each other.
"""

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING

import msgspec
import trio

from triomq.actors import Ref
from triomq.core.clock import Clock
from triomq.core.codecs import Codecs
from triomq.core.memory import MemoryAlarm
from triomq.core.message import Stretch
from triomq.core.persistence.persistence import Persistence
from triomq.core.queue.deadletter import Reason
from triomq.core.queue.queue_state import QueueState
from triomq.core.refusals import TooManyKeys, TooManySteps
from triomq.core.routing.bindings import Headers, PropertiesOf
from triomq.core.routing.sink import Destination, SinkState
from triomq.core.topology.chores import Chores
from triomq.core.topology.content_routes import ContentRoutes, queues_among
from triomq.core.topology.observer import MessageObservers, Observers
from triomq.core.topology.policy import Policies
from triomq.core.topology.quotas import DomainLimits, Quotas
from triomq.core.topology.shares import Shares
from triomq.core.topology.tracer import Tracer
from triomq.errors import (
    LimitExceeded,
    NoSuchQueue,
    NoSuchSink,
    QueueStopped,
    SinkInternal,
    StoreError,
    StoreLost,
)

if TYPE_CHECKING:
    from triomq.core.streams.groups import Groups
    from triomq.core.streams.ledgers import GroupLedger, Ledgers
    from triomq.core.streams.staging import Stages
    from triomq.core.topology.session import Session

QUEUE = "queue."
"""What the names of queues' actors begin with, as those of sinks do with ``sink.``: both may have the same name."""


OnRemoved = Callable[[QueueState, Stretch | None, Reason | None, Sequence[int]], None]
"""Gets the queue, the messages, why it gave them up, and their ids: without a reason it was asked to, without messages
it was all of them."""

Finder = Callable[[str], tuple[Ref, ...] | None]
"""Finds the queues for a key, until anything changes; returns None for one that ``Directory.route`` has to look up."""


class Route(msgspec.Struct, frozen=True):
    """Where messages go.

    Args:
        queues: The queues, each once.
        by_headers: Whether headers were looked at, so that the next message with the same key may go elsewhere.
    """

    queues: tuple[Ref, ...]
    by_headers: bool = False


_NOWHERE = Route(())


def _none() -> None:
    """Return no properties."""


def _none_to_spend(pushes: int) -> None:
    """Count nothing: no domain has been started."""


def _never_exhausted() -> bool:
    """Return False: no domain has been started."""
    return False


_MOST_BY_KEYS = 20_000
"""What finding the route of one message with several keys may cost, in queue pushes: some 15 ms through patterns."""

_MOST_BY_SINKS = 12_000
"""What finding the route of one message through several sinks may cost, in queue pushes: some 15 ms. One sink alone
costs 6,250 at most, and all that one user has bound 11,250."""

_CHEAP = 16
"""What finding a route may cost, in queue pushes, without being counted: less than what publishing costs anyway."""


class Directory:
    """What is in a domain, by name; created by the code that starts the domain, outlives the domain's incarnations.

    Args:
        name: The domain's name, for texts.
        codecs: How properties from each wire are decoded; without it only the core's own are.
        memory: Watches what its queues hold; without it there is no alarm.
        persistence: Records what is durable; without it everything is in memory alone.
        quotas: Counts what users have, in this domain and others; without it no user has a limit.
    """

    def __init__(
        self,
        name: str,
        codecs: Codecs | None = None,
        memory: MemoryAlarm | None = None,
        persistence: Persistence | None = None,
        quotas: Quotas | None = None,
    ) -> None:
        self.name = name
        self.quotas = quotas or Quotas()
        self.persistence = persistence
        if persistence is not None:
            persistence.watch(self)
        self.codecs = codecs or Codecs()
        self.memory = memory or MemoryAlarm()
        self.memory.watch(self)
        self.clock: Clock[QueueState | Stages | GroupLedger | Groups] = Clock()
        self.observers = Observers()
        self.message_observers: MessageObservers | None = None
        # The same, but None with a tracer alone, which hears of runs from their queues.
        self.run_observers: MessageObservers | None = None
        self.on_removed: OnRemoved | None = None
        """Called in the turn in which ready messages leave a queue though no consumer has taken them."""
        self.chores = Chores()
        self.leaving: dict[tuple[type[Destination], str], trio.Event] = {}  # durable things, until none of it is stored
        self.spend: Callable[[int], None] = _none_to_spend  # counts against the budget of the turn
        self.is_exhausted: Callable[[], bool] = _never_exhausted  # whether the budget of the turn is used up
        self.sinks: dict[str, SinkState] = {}
        self.queues: dict[str, QueueState] = {}
        self.policies = Policies()
        self.default_queue_type = ""
        """The type of queues whose declare names none (``x-queue-type``); empty for the usual one."""
        self.most = DomainLimits()
        self.connections = 0  # of clients that work in this domain
        self.stages: Stages | None = None  # what waits for its commit, if anything ever did (``stages_of``)
        self.ledgers: Ledgers | None = None  # what groups have leased, if any ever did (``ledgers_of``)
        self.groups: Groups | None = None  # who has positions in streams, if anybody ever did (``groups_of``)
        self.shares = Shares()
        self.version = 0
        self.content_routes = ContentRoutes(self)
        self._sessions = 0
        self._users: dict[int, str] = {}  # of sessions, by their numbers
        self.idle_wanted: list[Callable[[], None]] = []

    def number_session(self, user: str = "") -> int:
        """Return the next session's number, from 1; until ``forget_session`` it is known whose that is."""
        self._sessions += 1
        if user:
            self._users[self._sessions] = user
        return self._sessions

    def user_of(self, session: int) -> str:
        """Return whose session has a number; empty if it is the program's own, or has ended."""
        return self._users.get(session, "")

    def forget_session(self, session: int) -> None:
        """Forget whose session has a number: it has ended."""
        self._users.pop(session, None)

    def changed(self) -> None:
        """Invalidate the routes that were found so far."""
        self.version += 1

    def observe_messages(self, ref: Ref) -> None:
        """Tell an actor of messages from now on, as well as those before it; see ``MessageObservers``."""
        if self.message_observers is None:
            self.message_observers = MessageObservers(self._end_observing)
        self.run_observers = self.message_observers
        self.message_observers.add(ref)

    def ignore_messages(self, ref: Ref) -> None:
        """Tell an actor of messages no longer; one that has stopped is left out without it."""
        if self.message_observers is not None:
            self.message_observers.remove(ref)
            if not self.message_observers:
                self._end_observing()

    def trace(self, tracer: Tracer) -> None:
        """Call a tracer with all that happens to messages; before there is any queue."""
        self.message_observers = MessageObservers(self._end_observing, tracer)
        self.report_removed(None)

    def report_removed(self, on_removed: OnRemoved | None) -> None:
        """Set ``on_removed``; the tracer hears of the same, if there is one."""
        tracer = self.tracer
        if tracer is None:
            self.on_removed = on_removed
            return

        def both(queue: QueueState, messages: Stretch | None, reason: Reason | None, ids: Sequence[int]) -> None:
            tracer.removed(queue, None if messages is None else ids, reason)
            if on_removed is not None:
                on_removed(queue, messages, reason, ids)

        self.on_removed = both

    @property
    def tracer(self) -> Tracer | None:
        """What is called with all that happens to messages, if there is one."""
        return None if self.message_observers is None else self.message_observers.tracer

    def _end_observing(self) -> None:
        self.run_observers = None
        if self.tracer is None:
            self.message_observers = None

    def sink(self, name: str) -> SinkState:
        """Find a sink.

        Raises:
            NoSuchSink: There is none of that name.
        """
        sink = self.sinks.get(name)
        if sink is None:
            raise NoSuchSink(name)
        return sink

    def queue(self, name: str, session: "Session") -> QueueState:
        """Find a queue that a session may use.

        Raises:
            NoSuchQueue: There is none of that name, or it belongs to another user.
            QueueStopped: Its restarts have failed for good.
            QueueLocked: It belongs exclusively to another session.
        """
        queue = self.queues.get(name)
        if queue is not None:
            queue.require_use(session)
        return self.target(name)

    def target(self, name: str) -> QueueState:
        """Find a queue to send to, whoever it belongs to.

        Raises:
            NoSuchQueue: There is none of that name.
            QueueStopped: Its restarts have failed for good.
        """
        queue = self.queues.get(name)
        if queue is None:
            raise NoSuchQueue(name)
        if queue.ref.state == "stopped":
            raise QueueStopped(name)
        return queue

    def has_for(self, user: str, name: str) -> bool:
        """Return whether there is a queue of a name that is not another user's."""
        queue = self.queues.get(name)
        return queue is not None and not queue.is_hidden_from(user)

    @staticmethod
    def name_of(queue: Ref) -> str:
        """Return the name of the queue behind an actor."""
        return queue.name.removeprefix(QUEUE)

    def has(self, queue: Ref) -> bool:
        """Return whether a queue, known by its actor, is still there."""
        found = self.queues.get(self.name_of(queue))
        return found is not None and found.ref is queue

    def fault_of(self, queues: Iterable[Ref]) -> StoreError | None:
        """Return the store's fault if one of some queues is durable and the store cannot be written."""
        if self.persistence is None or self.persistence.journal.fault is None:
            return None
        durable = any(self.queues[self.name_of(queue)].durable for queue in queues)
        return self.persistence.journal.fault if durable else None

    def require_store(self, what: str) -> None:
        """Check that something durable can be declared; a store that is lost may never come back, so nobody waits.

        Raises:
            LimitExceeded: It is lost.
        """
        fault = None if self.persistence is None else self.persistence.journal.fault
        if isinstance(fault, StoreLost):
            raise LimitExceeded(f"{what} cannot be declared as durable: {fault}")

    @property
    def idle(self) -> bool:
        """Whether nothing more happens in any queue by itself."""
        return all(queue.idle for queue in self.queues.values())

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, at the end of the turn in which the domain becomes idle; at once if it is."""
        if self.idle:
            callback()
        else:
            self.idle_wanted.append(callback)

    def look_idle(self) -> None:
        """Call what waits for the domain to be idle, if it is; called by queues, when they may have become so."""
        if self.idle_wanted and self.idle:
            wanted, self.idle_wanted = self.idle_wanted, []
            for callback in wanted:
                callback()

    def route(
        self,
        exchange: str,
        key: str,
        headers: Headers,
        *,
        properties: PropertiesOf = _none,
        inside: bool = False,
    ) -> Route:
        """Return the queues for a message published into a sink; the empty name is the default sink.

        The default sink leads to the queue that is called like the key (AMQP 0-9-1 section 3.1.3.1).

        Args:
            exchange: The sink's name.
            key: The routing key.
            headers: Gives the message's headers, should a sink ask for them.
            properties: Gives all its properties, should a sink ask for one.
            inside: Whether the broker itself publishes, as it does with dead letters, so that internal sinks are open.

        Raises:
            NoSuchSink: There is none of that name.
            SinkInternal: Only other sinks may publish into it.
            TooManySteps: To look through all sinks that this one leads to would take too long.
        """
        if not exchange:
            queue = self.queues.get(key)
            return _NOWHERE if queue is None else Route((queue.ref,))
        sink = self.sink(exchange)
        if sink.options.internal and not inside:
            raise SinkInternal(exchange)
        if sink.is_plain:
            queues = queues_among(sink.table.match(key, headers))
            if queues is not None:
                if sink.table.cost > _CHEAP:
                    self.spend(sink.table.cost)
                return Route(queues)
        return self._walk(sink, (key,), headers, properties, inf if inside else _MOST_BY_SINKS)

    def finder(self, exchange: str) -> Finder | None:
        """Return how to find the queues of very many keys; None where more than the key counts, or look-ups are dear.

        Args:
            exchange: The sink's name.

        Raises:
            NoSuchSink: There is none of that name.
            SinkInternal: Only other sinks may publish into it.
        """
        if not exchange:
            return self._find_named
        sink = self.sink(exchange)
        if sink.options.internal:
            raise SinkInternal(exchange)
        if not sink.is_plain or sink.table.cost >= _CHEAP:
            return None
        match = sink.table.match
        seen: dict[int, tuple[object, tuple[Ref, ...] | None]] = {}  # what is found is held, or its id might come again

        def find(key: str) -> tuple[Ref, ...] | None:
            found = match(key, dict)
            known = seen.get(id(found))
            if known is None:
                known = seen[id(found)] = found, queues_among(found)
            return known[1]

        return find

    def _find_named(self, key: str) -> tuple[Ref, ...]:
        """Return the queue that is called like the key, if there is one."""
        queue = self.queues.get(key)
        return () if queue is None else (queue.ref,)

    def route_all(
        self,
        exchange: str,
        keys: Sequence[str],
        headers: Headers,
        *,
        properties: PropertiesOf = _none,
        inside: bool = False,
    ) -> Route:
        """Find the queues for a message that is routed by several keys; each is given once.

        A sink has led somewhere when one of the keys has; a consistent-hash sink takes the first key alone.

        Args:
            exchange: The sink's name.
            keys: The routing key, then the others.
            headers: Gives the message's headers, should a sink ask for them.
            properties: Gives all its properties, should a sink ask for one.
            inside: Whether the broker itself publishes.

        Raises:
            NoSuchSink: There is none of that name.
            SinkInternal: Only other sinks may publish into it.
            TooManyKeys: To look all of them up would take too long.
            TooManySteps: To look through all sinks that this one leads to would take too long.
        """
        if not exchange:
            found = [self.queues[key].ref for key in keys if key in self.queues]
            return Route(tuple(dict.fromkeys(found)))
        sink = self.sink(exchange)
        if sink.options.internal and not inside:
            raise SinkInternal(exchange)
        return self._walk(sink, tuple(keys), headers, properties, inf if inside else _MOST_BY_KEYS)

    def _walk(
        self, first: SinkState, keys: tuple[str, ...], headers: Headers, properties: PropertiesOf, most: float = inf
    ) -> Route:
        """Follow bindings from sink to sink, each sink once, so that a circle of bindings ends.

        Raises:
            TooManyKeys: To look up all of the keys would cost more than ``most`` queue pushes.
            TooManySteps: The one key, through several sinks, would.
        """
        queues: dict[Ref, None] = {}
        visited = {first: None}
        by_headers, cost, tried = False, 0, 0
        waiting = [first]
        key, several = keys[0], len(keys) > 1
        while waiting:
            sink = waiting.pop()
            cost += sink.table.cost + 1
            if tried + cost > most and len(visited) > 1 and not several:
                raise TooManySteps(first.name)
            found: Iterable[Destination]
            if sink.is_plain and not several:
                found = sink.table.match(key, headers)
            else:
                if several and tried + cost * len(keys) > most:
                    raise TooManyKeys(first.name, len(keys))
                found, looked, more = sink.search(keys, headers, properties, most - tried)
                tried += more
                if several and tried > most:
                    raise TooManyKeys(first.name, len(keys))
                by_headers = by_headers or looked
                found = found or self._alternate(sink)
            for destination in found:
                if destination.gone:
                    continue
                if isinstance(destination, QueueState):
                    queues[destination.ref] = None
                elif destination not in visited:
                    visited[destination] = None
                    waiting.append(destination)
        if cost + tried > _CHEAP:
            self.spend(cost * len(keys) + tried)
        return Route(tuple(queues), by_headers)

    def _alternate(self, sink: SinkState) -> tuple[SinkState, ...]:
        """Return the sink that takes what another leads nowhere, if there is one, and it is there."""
        alternate = self.sinks.get(sink.options.alternate or "")
        return () if alternate is None else (alternate,)
