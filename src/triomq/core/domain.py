"""A domain: a namespace of sinks and queues, and their supervisor. Nothing in the core refers across domains.

Its requests are answered in place, in the asker's turn: a declare is done when it returns. The stores of its sinks and
queues stand in a ``Directory`` that outlives it, so that even a domain that crashes comes back with what it had.

It also keeps the time for its queues: one task that waits for the next deadline of them all.
"""

import trio

from triomq.actors import ChildSpec, DynamicSupervisor, Ref, Request
from triomq.core.bindings import Binding, Target
from triomq.core.directory import QUEUE, Directory
from triomq.core.expiry import is_unused
from triomq.core.kept_topology import (
    forget_binding,
    forget_queue,
    forget_sink,
    keep_binding,
    keep_queue,
    keep_sink,
)
from triomq.core.observer import Action, Changed, Kind
from triomq.core.options import require_equivalent
from triomq.core.policy import Policies
from triomq.core.queue import Queue
from triomq.core.queue_store import Enlist, OptionsChanged, QueueStatistics, QueueStore
from triomq.core.refusals import (
    ForeignName,
    ForeignResource,
    QueueInUse,
    QueueLocked,
    QueueNotEmpty,
    Restarting,
    SinkBroken,
    SinkInUse,
)
from triomq.core.requests import (
    Bind,
    DeclareQueue,
    DeclareSink,
    DeleteQueue,
    DeleteSink,
    ForgetOrigin,
    QueueExpired,
    QueueUnused,
    SetPolicies,
    SinkUnused,
    Unbind,
)
from triomq.core.session import Session
from triomq.core.sink import AddBinding, Destination, RemoveBinding, Sink, SinkStore
from triomq.core.timekeeper import Due
from triomq.errors import ActorError, ActorStopped, HandlerFailed

__all__ = ["Domain"]


class Domain(DynamicSupervisor):
    """The supervisor of one namespace; a child of the broker.

    Args:
        directory: Where its sinks and queues stand; outlives it.
    """

    answers_in_place = True

    def __init__(self, directory: Directory) -> None:
        """Take over what an earlier incarnation had."""
        super().__init__()
        self.directory = directory

    async def on_start(self) -> None:
        """Start an actor for each store that is there already."""
        await super().on_start()
        for sink in self.directory.sinks.values():
            self._start_sink(sink)
        for queue in self.directory.queues.values():
            self._start_queue(queue)
        self.directory.changed()  # routes found so far lead to the actors of an earlier incarnation
        self.start_task(self._keep_time)

    async def _keep_time(self) -> None:
        """Tell queues when their deadlines have come."""
        clock, earlier = self.directory.clock, trio.Event()
        clock.on_earlier = lambda: earlier.set()
        while True:
            with trio.CancelScope(deadline=clock.next_deadline):
                await earlier.wait()
            earlier = trio.Event()
            for store in clock.take_due(clock.now()):
                store.ref.tell_nowait(Due())
                await trio.lowlevel.checkpoint()

    def declare_sink(self, message: DeclareSink) -> bool:
        """Make a sink, or check that the one there is the same."""
        directory = self.directory
        existing = directory.sinks.get(message.name)
        if existing is not None:
            require_equivalent(message.name, message.options, existing.declared)
            keep_sink(directory, existing, is_new=False)
            return False
        store = SinkStore(message.name, message.options, directory.policies, message.origin)
        self._start_sink(store)
        directory.sinks[message.name] = store
        directory.changed()
        keep_sink(directory, store, is_new=True)
        self._tell(Action.CREATED, Kind.SINK, store, message.session)
        return True

    def _tell(self, action: Action, kind: Kind, store: Destination, session: Session | None) -> None:
        self.directory.observers.tell(Changed(action, kind, store.name, session=session, origin=store.origin))

    def _tell_binding(self, action: Action, binding: Binding, session: Session | None, origin: str) -> None:
        self.directory.observers.tell(Changed(action, Kind.BINDING, binding.source, binding, session, origin))

    def _start_sink(self, store: SinkStore) -> None:
        store.ref = self.start_child_nowait(
            ChildSpec(lambda: Sink(store, self.directory.changed), name=f"sink.{store.name}")
        )

    def delete_sink(self, message: DeleteSink) -> bool:
        """Delete a sink with all bindings from and to it."""
        store = self.directory.sinks.get(message.name)
        if store is None:
            return False
        if store.origin != message.origin:
            raise ForeignResource(f"sink {store.name!r}", store.origin, message.origin)
        if message.if_unused and store.bindings:
            raise SinkInUse(message.name)
        self._remove_sink(store, message.session)
        return True

    def _remove_sink(self, store: SinkStore, session: Session | None = None) -> None:
        del self.directory.sinks[store.name]
        self.directory.changed()
        forget_sink(self.directory, store)
        for binding, destination in store.bindings.items():
            if destination.bound is not None:
                destination.bound.pop(binding, None)
            forget_binding(self.directory, binding, store, destination)
            self._tell_binding(Action.DELETED, binding, session, store.origin_of(binding))
        self._unbind_all(store, session)
        self.stop_child_nowait(store.ref)
        self._tell(Action.DELETED, Kind.SINK, store, session)

    def sink_unused(self, message: SinkUnused) -> None:
        """Delete an auto-delete sink whose last binding is gone, unless a new one has come meanwhile."""
        store = self.directory.sinks.get(message.name)
        if store is not None and store.options.auto_delete and not store.bindings:
            self._remove_sink(store)

    def declare_queue(self, message: DeclareQueue) -> QueueStore:
        """Make a queue, or check that the one there is the same."""
        directory, options = self.directory, message.options
        owner = message.session if options.exclusive else None
        existing = directory.queues.get(message.name)
        if existing is not None:
            if existing.owner is not owner:
                raise QueueLocked(message.name)
            directory.queue(message.name, message.session)
            if existing.origin != message.origin:
                raise ForeignName(message.name, existing.origin, message.origin)
            require_equivalent(message.name, options, existing.declared)
            existing.use()
            keep_queue(directory, existing, is_new=False)
            return existing
        store = QueueStore(message.name, options, directory, owner, message.origin)
        self._start_queue(store)
        directory.queues[message.name] = store
        directory.changed()
        keep_queue(directory, store, is_new=True)
        if owner is not None:
            owner.queues[message.name] = None
        self._tell(Action.CREATED, Kind.QUEUE, store, message.session)
        return store

    def _start_queue(self, store: QueueStore) -> None:
        store.ref = self.start_child_nowait(ChildSpec(lambda: Queue(store), name=QUEUE + store.name))

    def delete_queue(self, message: DeleteQueue) -> QueueStatistics | None:
        """Delete a queue with its messages, its feeds and all bindings to it."""
        store = self.directory.queues.get(message.name)
        if store is None:
            return None
        if store.owner is not None and store.owner is not message.session:
            raise QueueLocked(message.name)
        if store.origin != message.origin:
            raise ForeignResource(f"queue {store.name!r}", store.origin, message.origin)
        statistics = _enlist(store)
        if message.if_empty and statistics.ready:
            raise QueueNotEmpty(message.name)
        if message.if_unused and statistics.feeds:
            raise QueueInUse(message.name)
        self._remove_queue(store, message.session)
        return statistics

    def _remove_queue(self, store: QueueStore, session: Session | None = None) -> None:
        del self.directory.queues[store.name]
        self.directory.changed()
        if store.owner is not None:
            store.owner.queues.pop(store.name, None)
        self._unbind_all(store, session)
        self.stop_child_nowait(store.ref)
        forget_queue(self.directory, store)
        self._tell(Action.DELETED, Kind.QUEUE, store, session)
        self.directory.look_idle()

    def queue_unused(self, message: QueueUnused) -> None:
        """Delete an auto-delete queue whose last feed has closed, unless a new one has opened meanwhile."""
        store = self.directory.queues.get(message.name)
        if store is not None and store.options.auto_delete and not store.feeds:
            self._remove_queue(store)

    def queue_expired(self, message: QueueExpired) -> None:
        """Delete a queue that nobody has used for long, unless somebody has begun to meanwhile."""
        store = self.directory.queues.get(message.name)
        if store is not None and is_unused(store, self.directory.clock.now()):
            self._remove_queue(store)

    def set_policies(self, message: SetPolicies) -> int:
        """Let other policies apply, to what is there already as well."""
        directory = self.directory
        directory.policies = Policies(message.policies)
        sinks = sum(sink.govern(directory.policies) for sink in directory.sinks.values())
        if sinks:
            directory.changed()
        queues = [queue for queue in directory.queues.values() if queue.govern()]
        for queue in queues:
            queue.ref.tell_nowait(OptionsChanged())
        return sinks + len(queues)

    def bind(self, message: Bind) -> bool:
        """Add a binding to its source."""
        sink = self.directory.sink(message.binding.source)
        destination = self._destination(message.binding, message.session)
        added = _ask(sink, AddBinding(message.binding, destination))
        if added and message.origin:
            sink.origins = {} if sink.origins is None else sink.origins
            sink.origins[message.binding] = message.origin
        keep_binding(self.directory, message.binding, message.origin, is_new=added)
        if added:
            self._tell_binding(Action.CREATED, message.binding, message.session, message.origin)
        return added

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
        if binding.target is Target.QUEUE and binding.destination in self.directory.queues:
            self.directory.queue(binding.destination, message.session)
        origin = sink.origin_of(binding)
        if origin != message.origin:
            what = f"the binding of {binding.target.value} {binding.destination!r} to sink {sink.name!r}"
            raise ForeignResource(what, origin, message.origin)
        destination = sink.bindings[binding]
        removed = _ask(sink, RemoveBinding(binding))
        if removed:
            forget_binding(self.directory, binding, sink, destination)
            self._tell_binding(Action.DELETED, binding, message.session, origin)
        return removed

    def _unbind_all(self, destination: Destination, session: Session | None) -> None:
        """Remove all bindings that lead to something that is going."""
        for binding in list(destination.bound or ()):
            sink = self.directory.sinks.get(binding.source)
            if sink is not None:
                origin = sink.origin_of(binding)
                sink.ref.tell_nowait(RemoveBinding(binding))
                forget_binding(self.directory, binding, sink, destination)
                self._tell_binding(Action.DELETED, binding, session, origin)

    def forget_origin(self, message: ForgetOrigin) -> int:
        """Delete what a peer had made: bindings, then what they lead to and come from."""
        directory, origin = self.directory, message.origin
        if not origin:
            return 0  # that would be all of our own
        bindings = [
            (sink, binding, sink.bindings[binding])
            for sink in directory.sinks.values()
            for binding, whose in (sink.origins or {}).items()
            if whose == origin
        ]
        for sink, binding, destination in bindings:
            if _ask(sink, RemoveBinding(binding)):
                forget_binding(directory, binding, sink, destination)
                self._tell_binding(Action.DELETED, binding, None, origin)
        queues = [queue for queue in directory.queues.values() if queue.origin == origin]
        for queue in queues:
            self._remove_queue(queue)
        sinks = [sink for sink in directory.sinks.values() if sink.origin == origin]
        for sink in sinks:
            self._remove_sink(sink)
        return len(bindings) + len(queues) + len(sinks)

    def child_exited(self, ref: Ref, error: BaseException | None) -> None:
        """Close the feeds of a queue that has crashed: its consumers need not wait until it is restarted, if it is."""
        store = self.directory.queues.get(self.directory.name_of(ref))
        if store is not None and store.ref is ref:
            stopped = ref.state == "stopped"
            store.take_back("the queue was stopped by its supervisor" if stopped else "the queue has crashed")
            if stopped:
                store.tell_room()
                store.tell_arrived()
            self.directory.look_idle()


def _ask(sink: SinkStore, request: Request[bool]) -> bool:
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


def _enlist(store: QueueStore) -> QueueStatistics:
    """Let a queue's feeds take what they can before it is counted; one that cannot answer is counted as it stands."""
    try:
        return store.ref.ask_nowait(Enlist())
    except (trio.WouldBlock, ActorError):
        return store.statistics()
