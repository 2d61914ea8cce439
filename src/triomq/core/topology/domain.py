"""A domain: a namespace of sinks and queues, and their supervisor. Nothing in the core refers across domains.

    endpoint ── DeclareQueue, Bind, … ──▶ Domain ──▶ Directory (data)
                                            ├──▶ persistence.recorded_…   if durable, in the same turn
                                            ├──▶ Observers                who copies or traces changes
                                            ├──▶ Sink and Queue actors    its children, restarted one by one
                                            └──▶ Chores                   what takes longer than a turn

Rules:

- Requests are answered in place, in the asker's turn: a declare is done when it returns.
- The states of sinks and queues stand in a ``Directory`` that outlives the domain, so that even a domain that crashes
  comes back with what it had.
- What is deleted is out of the directory at once; its bindings follow as a chore.
- A request is checked as a whole before anything changes: name, equivalence, owner, origin, quota.
- The domain runs the clock of its queues: one task that waits for the next deadline of them all.
"""

from collections.abc import Sequence

import trio

from triomq.actors import ChildSpec, DynamicSupervisor, Ref, Request
from triomq.core.persistence.recorded_topology import (
    forget_binding,
    forget_queue,
    forget_sink,
    record_binding,
    record_ledger,
    record_queue,
    record_sink,
)
from triomq.core.queue.expiry import is_unused
from triomq.core.queue.queue import Queue
from triomq.core.queue.queue_state import Enlist, QueueState, QueueStatistics
from triomq.core.queue.timekeeper import Due
from triomq.core.queue.traced import TracedQueue
from triomq.core.refusals import BeingDeleted, ForeignName, Restarting
from triomq.core.routing.bindings import Binding, Target
from triomq.core.routing.sink import AddBinding, Destination, RemoveBinding, Sink, SinkState
from triomq.core.streams.ledgers import (
    GroupLedger,
    Leased,
    LeaseMessages,
    lease_messages,
    ledgers_of,
    require_leasable,
)
from triomq.core.streams.log import StreamLog
from triomq.core.streams.partitions import (
    DeclareStream,
    DeleteStream,
    declare_stream,
    delete_stream,
    require_no_part,
    require_no_router,
)
from triomq.core.streams.stream import Stream
from triomq.core.streams.traced import TracedStream
from triomq.core.topology.chores import PER_TURN, ApplyPolicies, CloseFeeds, EndSession, Forget, TakeBindings
from triomq.core.topology.directory import QUEUE, Directory
from triomq.core.topology.observer import Action, Changed, ChangeKind
from triomq.core.topology.options import require_equivalent
from triomq.core.topology.policy import Policies, PolicyChange
from triomq.core.topology.requests import (
    Bind,
    DeclareQueue,
    DeclareSink,
    DeleteQueue,
    DeleteSink,
    ForgetOrigin,
    QueueExpired,
    QueueUnused,
    SessionEnded,
    SetPolicies,
    SinkUnused,
    Unbind,
)
from triomq.core.topology.session import Session
from triomq.errors import (
    ActorError,
    ActorStopped,
    ForeignResource,
    HandlerFailed,
    PreconditionFailed,
    QueueInUse,
    QueueLocked,
    QueueNotEmpty,
    SinkBroken,
    SinkInUse,
)

_COST = 10
"""What a declare or a bind counts against the turn's budget, in queue pushes: each takes some 20 µs."""


class Domain(DynamicSupervisor):
    """The supervisor of one namespace; a child of the broker.

    Args:
        directory: Where its sinks and queues stand; outlives it.
    """

    answers_in_place = True

    def __init__(self, directory: Directory) -> None:
        super().__init__()
        self.directory = directory

    async def on_start(self) -> None:
        """Start an actor for each store that is there already."""
        await super().on_start()
        directory = self.directory
        turn = self.system.turn
        directory.spend, directory.is_exhausted = turn.charge, lambda: turn.exhausted
        for number, sink in enumerate(directory.sinks.values()):
            self._start_sink(sink)
            await self._breathe(number)
        for number, queue in enumerate(directory.queues.values()):
            self._start_queue(queue)
            await self._breathe(number)
        for number, ledger in enumerate(directory.ledgers or ()):
            self._start_ledger(ledger)
            await self._breathe(number)
        directory.changed()  # routes found so far lead to the actors of an earlier incarnation
        self.start_task(self._run_clock)
        self.start_task(directory.chores.run, self)

    async def _breathe(self, number: int) -> None:
        """Yield to other tasks when the broker starts; after a crash of the domain no client is to see half of it."""
        if self.ref.epoch == 1 and number % PER_TURN == PER_TURN - 1:
            await trio.lowlevel.checkpoint()

    async def _run_clock(self) -> None:
        """Tell queues that their deadlines have come, and let what is staged expire."""
        clock, earlier = self.directory.clock, trio.Event()
        clock.on_earlier = lambda: earlier.set()
        while True:
            with trio.CancelScope(deadline=clock.next_deadline):
                await earlier.wait()
            earlier = trio.Event()
            for item in clock.take_due(clock.now()):
                if isinstance(item, QueueState):
                    item.ref.tell_nowait(Due())
                elif isinstance(item, GroupLedger):
                    self.start_task(item.hand_back, self.system.turn)
                else:
                    item.expire()
                await trio.lowlevel.checkpoint()

    def declare_sink(self, message: DeclareSink) -> bool:
        """Declare a sink, or check that the existing one is the same."""
        directory = self.directory
        existing = directory.sinks.get(message.name)
        if existing is not None:
            require_equivalent(message.name, message.options, existing.declared)
            record_sink(directory, existing, is_new=False)
            return False
        self._require_gone(SinkState, message.name)
        user = "" if message.session is None else message.session.user
        if message.options.durable:
            directory.require_store(f"sink {message.name!r}")
        directory.quotas.require(f"declare sink {message.name!r}", user, "sinks")
        self.system.turn.charge(_COST)
        sink = SinkState(message.name, message.options, directory.policies, message.origin, user)
        self._start_sink(sink)
        directory.sinks[message.name] = sink
        directory.quotas.take(user, "sinks")
        directory.changed()
        record_sink(directory, sink, is_new=True)
        self._notify(Action.CREATED, ChangeKind.SINK, sink, message.session)
        return True

    def _notify(self, action: Action, kind: ChangeKind, resource: Destination, session: Session | None) -> None:
        self.directory.observers.notify(Changed(action, kind, resource.name, session=session, origin=resource.origin))

    def _notify_binding(self, action: Action, binding: Binding, session: Session | None, origin: str) -> None:
        self.directory.observers.notify(Changed(action, ChangeKind.BINDING, binding.source, binding, session, origin))

    def _start_sink(self, sink: SinkState) -> None:
        sink.ref = self.start_child_nowait(
            ChildSpec(lambda: Sink(sink, self.directory.changed), name=f"sink.{sink.name}")
        )

    def delete_sink(self, message: DeleteSink) -> bool:
        """Delete a sink with all bindings from and to it."""
        sink = self.directory.sinks.get(message.name)
        if sink is None:
            return False
        if sink.origin != message.origin:
            raise ForeignResource(f"sink {sink.name!r}", sink.origin, message.origin)
        require_no_router(self.directory, sink.name)
        if message.if_unused and sink.bindings:
            raise SinkInUse(message.name)
        self.remove_sink(sink, message.session)
        return True

    def remove_sink(self, sink: SinkState, session: Session | None = None) -> None:
        """Remove a sink, and its bindings as far as they fit into this turn."""
        directory = self.directory
        self.system.turn.charge(_COST)
        del directory.sinks[sink.name]
        sink.gone = True
        directory.changed()
        directory.quotas.give(sink.user, "sinks")
        forget_sink(directory, sink)
        self._take_bindings(sink, session, durable=sink.declared.durable)
        self.stop_child_nowait(sink.ref)
        self._notify(Action.DELETED, ChangeKind.SINK, sink, session)

    def _take_bindings(self, resource: Destination, session: Session | None, *, durable: bool) -> None:
        """Remove the bindings from and to a deleted sink or queue."""
        chore = TakeBindings(resource, session)
        self.directory.chores.begin(chore, self)
        if durable and self.directory.persistence is not None and not chore.over.is_set():
            self.directory.leaving[type(resource), resource.name] = chore.over

    def _require_gone(self, kind: type[Destination], name: str) -> None:
        """Require that nothing is stored of what was deleted under a name.

        Raises:
            BeingDeleted: There is.
        """
        over = self.directory.leaving.get((kind, name))
        if over is not None:
            raise BeingDeleted(f"{'queue' if kind is QueueState else 'sink'} {name!r}", over)

    def sink_unused(self, message: SinkUnused) -> None:
        """Delete an auto-delete sink whose last binding is gone, unless a new one has come meanwhile."""
        sink = self.directory.sinks.get(message.name)
        if sink is not None and sink.options.auto_delete and not sink.bindings:
            self.remove_sink(sink)

    def declare_queue(self, message: DeclareQueue) -> QueueState:
        """Declare a queue, or check that the existing one is the same."""
        directory, options = self.directory, message.options
        owner = message.session if options.exclusive else None
        existing = directory.queues.get(message.name)
        if existing is not None:
            if existing.owner is not owner or existing.is_hidden_from(message.session.user):
                raise QueueLocked(message.name)  # a name that is taken cannot be hidden from who wants it
            directory.queue(message.name, message.session)
            if existing.origin != message.origin:
                raise ForeignName(message.name, existing.origin, message.origin)
            require_equivalent(message.name, options, existing.declared)
            existing.use()
            record_queue(directory, existing, is_new=False)
            return existing
        self._require_gone(QueueState, message.name)
        user = message.session.user
        if options.durable and owner is None:
            directory.require_store(f"queue {message.name!r}")
        directory.quotas.require(f"declare queue {message.name!r}", user, "queues")
        most = directory.most.queues
        if most is not None and len(directory.queues) >= most:
            raise PreconditionFailed(
                f"cannot declare queue '{message.name}': queue limit of domain '{directory.name}' ({most}) is reached"
            )
        self.system.turn.charge(_COST)
        queue = QueueState(message.name, options, directory, owner, message.origin, user=user)
        self._start_queue(queue)
        directory.queues[message.name] = queue
        directory.quotas.take(user, "queues")
        directory.changed()
        record_queue(directory, queue, is_new=True)
        if owner is not None:
            owner.queues[message.name] = None
        self._notify(Action.CREATED, ChangeKind.QUEUE, queue, message.session)
        return queue

    def _start_queue(self, queue: QueueState) -> None:
        kinds = (Queue, Stream) if self.directory.tracer is None else (TracedQueue, TracedStream)
        actor = kinds[queue.declared.stream is not None]
        queue.ref = self.start_child_nowait(ChildSpec(lambda: actor(queue), name=QUEUE + queue.name))

    def delete_queue(self, message: DeleteQueue) -> QueueStatistics | None:
        """Delete a queue with its messages, its feeds and all bindings to it."""
        queue = self.directory.queues.get(message.name)
        if queue is None or queue.is_hidden_from(message.session.user):
            return None
        queue.require_use(message.session)
        if queue.origin != message.origin:
            raise ForeignResource(f"queue {queue.name!r}", queue.origin, message.origin)
        require_no_part(queue)
        statistics = _enlist(queue)
        if message.if_empty and statistics.ready:
            raise QueueNotEmpty(message.name)
        if message.if_unused and statistics.feeds:
            raise QueueInUse(message.name)
        self.remove_queue(queue, message.session)
        return statistics

    def declare_stream(self, message: DeclareStream) -> Sequence[QueueState]:
        """Declare a stream with its partitions, or check that the existing one is the same."""
        return declare_stream(self, message)

    def delete_stream(self, message: DeleteStream) -> bool:
        """Delete a stream with all of its partitions."""
        return delete_stream(self, message)

    def remove_queue(self, queue: QueueState, session: Session | None = None) -> None:
        """Remove a queue, and the bindings to it as far as they fit into this turn."""
        directory = self.directory
        self.system.turn.charge(_COST)
        del directory.queues[queue.name]
        queue.gone = True
        directory.changed()
        directory.quotas.give(queue.user, "queues")
        if queue.owner is not None:
            queue.owner.queues.pop(queue.name, None)
        if queue.bound:
            self._take_bindings(queue, session, durable=queue.durable)
        if queue.feeds:
            directory.chores.begin(CloseFeeds(queue), self)
        self.stop_child_nowait(queue.ref)
        forget_queue(directory, queue)
        for ledger in () if directory.ledgers is None else directory.ledgers.of_queue(queue.name):
            self._remove_ledger(ledger)
        if directory.groups is not None and isinstance(queue.backlog, StreamLog):
            directory.groups.forget_stream(queue.name, queue.backlog.positions)
        self._notify(Action.DELETED, ChangeKind.QUEUE, queue, session)
        directory.look_idle()

    def lease_messages(self, message: LeaseMessages) -> Leased:
        """Move messages of a queue into the ledger of a group."""
        directory, ledgers = self.directory, ledgers_of(self.directory)
        queue = require_leasable(directory, message)
        user = message.session.user
        ledger = ledgers.find(message.queue, message.group, user)
        if ledger is None:
            if (oldest := ledgers.giving_way(user)) is not None:
                self._remove_ledger(oldest)
            self.system.turn.charge(_COST)
            ledger = ledgers.make(queue, message.group, user)
            self._start_ledger(ledger)
            record_ledger(directory, ledger)
        return lease_messages(message, ledger, queue)

    def _start_ledger(self, ledger: GroupLedger) -> None:
        state = ledger.state
        name = (
            f"ledger.{len(ledger.queue)}.{ledger.queue}.{len(ledger.group)}.{ledger.group}.{ledger.user}"  # of any text
        )
        actor = Stream if self.directory.tracer is None else TracedStream
        state.ref = self.start_child_nowait(ChildSpec(lambda: actor(state), name=name))
        ledger.set_clock()

    def _remove_ledger(self, ledger: GroupLedger) -> None:
        assert self.directory.ledgers is not None
        ledger.state.gone = True
        self.directory.ledgers.forget(ledger)
        self.stop_child_nowait(ledger.state.ref)
        forget_queue(self.directory, ledger.state)

    def session_ended(self, message: SessionEnded) -> None:
        """Close the feeds of a session that has ended and delete its exclusive queues."""
        self.directory.chores.begin(EndSession(message.session), self)
        self.directory.forget_session(message.session.number)
        if (tracer := self.directory.tracer) is not None:
            tracer.session_ended(self.directory.name, message.session.number)

    def queue_unused(self, message: QueueUnused) -> None:
        """Delete an auto-delete queue whose last feed has closed, unless a new one has opened meanwhile."""
        queue = self.directory.queues.get(message.name)
        if queue is not None and queue.options.auto_delete and not queue.feeds:
            self.remove_queue(queue)

    def queue_expired(self, message: QueueExpired) -> None:
        """Delete a queue that was unused for as long as it lives without, unless it was used meanwhile."""
        queue = self.directory.queues.get(message.name)
        if queue is not None and is_unused(queue, self.directory.clock.now()):
            self.remove_queue(queue)

    def set_policies(self, message: SetPolicies) -> PolicyChange:
        """Replace the policies, also for what exists."""
        directory = self.directory
        directory.policies = Policies(message.policies)
        apply_policy = ApplyPolicies(directory.sinks.values(), directory.queues.values())
        directory.chores.begin(apply_policy, self)
        return apply_policy.change

    def bind(self, message: Bind) -> bool:
        """Add a binding to its source."""
        directory, binding, user = self.directory, message.binding, message.session.user
        sink = directory.sink(binding.source)
        destination = self._destination(binding, message.session)
        there = sink.bindings.get(binding)
        if there is not None and there.gone:
            self.take_binding(sink, binding, None)
            there = None
        weight = sink.weight(binding)
        if there is None and user:
            self._require_room(sink, binding, user, weight)
        self.system.turn.charge(_COST * (1 + weight))
        added = _ask(sink, AddBinding(binding, destination))
        if added:
            sink.set_maker(binding, message.origin, user)
            directory.quotas.take(user, "bindings")
            directory.quotas.take(user, "steps", weight)
        record_binding(directory, binding, message.origin, user, is_new=added)
        if added:
            self._notify_binding(Action.CREATED, binding, message.session, message.origin)
        return added

    def _require_room(self, sink: SinkState, binding: Binding, user: str, weight: int) -> None:
        """Require that a user may have one more binding, and that routing stays cheap with it."""
        quotas, what = self.directory.quotas, f"bind {binding.destination!r} to sink {sink.name!r}"
        quotas.require(what, user, "bindings")
        quotas.require(what, user, "steps", weight)
        sink.require_room(binding)

    def _destination(self, binding: Binding, session: Session) -> Destination:
        if binding.target is Target.QUEUE:
            return self.directory.queue(binding.destination, session)
        return self.directory.sink(binding.destination)

    def unbind(self, message: Unbind) -> bool:
        """Remove a binding from its source."""
        binding = message.binding
        sink = self.directory.sinks.get(binding.source)
        if sink is None or binding not in sink.bindings:
            return False
        queue = self.directory.queues.get(binding.destination) if binding.target is Target.QUEUE else None
        if queue is not None:
            if queue.is_hidden_from(message.session.user):
                return False
            self.directory.queue(binding.destination, message.session)
        require_no_router(self.directory, sink.name, binding)
        origin = sink.origin_of(binding)
        if origin != message.origin:
            what = f"the binding of {binding.target.value} {binding.destination!r} to sink {sink.name!r}"
            raise ForeignResource(what, origin, message.origin)
        user, destination = sink.maker_of(binding), sink.bindings[binding]
        removed = _ask(sink, RemoveBinding(binding))
        if removed:
            self._record_removed(sink, binding, destination, origin, user, message.session)
        return removed

    def take_binding(self, sink: SinkState, binding: Binding, session: Session | None) -> None:
        """Remove a binding that is there; either of its ends may be gone."""
        origin, user, destination = sink.origin_of(binding), sink.maker_of(binding), sink.bindings[binding]
        sink.remove(binding)
        if not sink.gone:
            self.directory.changed()
            if sink.options.auto_delete and not sink.bindings:
                self.ref.tell_nowait(SinkUnused(sink.name))
        self._record_removed(sink, binding, destination, origin, user, session)

    def _record_removed(
        self,
        sink: SinkState,
        binding: Binding,
        destination: Destination,
        origin: str,
        user: str,
        session: Session | None,
    ) -> None:
        """Record that a binding is gone, unless another sink of that name has an equal one."""
        directory = self.directory
        directory.quotas.give(user, "bindings")
        directory.quotas.give(user, "steps", sink.weight(binding))
        successor = directory.sinks.get(sink.name)
        if successor is None or successor is sink or binding not in successor.bindings:
            forget_binding(directory, binding, sink, destination)
            self._notify_binding(Action.DELETED, binding, session, origin)

    def forget_origin(self, message: ForgetOrigin) -> int:
        """Delete what a peer made: bindings, then what they lead to and come from."""
        directory, origin = self.directory, message.origin
        if not origin:
            return 0  # that would be all of our own
        bindings = [
            (sink, binding)
            for sink in directory.sinks.values()
            for binding, whose in (sink.origins or {}).items()
            if whose == origin
        ]
        queues = [queue for queue in directory.queues.values() if queue.origin == origin]
        sinks = [sink for sink in directory.sinks.values() if sink.origin == origin]
        forget = Forget(origin, bindings, [*queues, *sinks])
        count = forget.count
        directory.chores.begin(forget, self)
        return count

    def child_exited(self, ref: Ref, error: BaseException | None) -> None:
        """Close the feeds of a queue that has crashed: its consumers need not wait until it is restarted, if it is."""
        queue = self.directory.queues.get(self.directory.name_of(ref))
        if queue is not None and queue.ref is ref:
            stopped = ref.state == "stopped"
            queue.take_back("the queue was stopped by its supervisor" if stopped else "the queue has crashed")
            if stopped:
                queue.notify_room()
                queue.notify_arrived()
            self.directory.look_idle()


def _ask(sink: SinkState, request: Request[bool]) -> bool:
    """Ask a sink; its troubles are an answer, not a crash of the domain.

    Raises:
        Restarting: It is being restarted.
        SinkBroken: It crashed.
    """
    try:
        return sink.ref.ask_nowait(request)
    except trio.WouldBlock:
        raise Restarting(sink.ref) from None
    except (ActorStopped, HandlerFailed) as error:
        raise SinkBroken(sink.name) from error


def _enlist(queue: QueueState) -> QueueStatistics:
    """Dispatch what a queue's feeds can take and count it; a queue that cannot answer is counted as it stands."""
    try:
        return queue.ref.ask_nowait(Enlist())
    except (trio.WouldBlock, ActorError):
        return queue.statistics()
