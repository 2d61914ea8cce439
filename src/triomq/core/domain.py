"""A domain: a namespace of sinks and queues, and their supervisor. Nothing in the core refers across domains.

Its requests are answered in place, in the asker's turn: a declare is done when it returns. The stores of its sinks and
queues stand in a ``Directory`` that outlives it, so that even a domain that crashes comes back with what it had.
"""

import trio

from triomq.actors import ChildSpec, DynamicSupervisor, Ref, Request
from triomq.core.bindings import Binding, Target
from triomq.core.directory import Directory
from triomq.core.options import require_equivalent
from triomq.core.queue import Enlist, Queue
from triomq.core.queue_store import QueueStatistics, QueueStore
from triomq.core.refusals import QueueInUse, QueueLocked, QueueNotEmpty, Restarting, SinkBroken, SinkInUse
from triomq.core.requests import (
    Bind,
    DeclareQueue,
    DeclareSink,
    DeleteQueue,
    DeleteSink,
    QueueUnused,
    SinkUnused,
    Unbind,
)
from triomq.core.session import Session
from triomq.core.sink import AddBinding, Destination, RemoveBinding, Sink, SinkStore
from triomq.errors import ActorError, ActorStopped, HandlerFailed

__all__ = ["Domain"]

_QUEUE = "queue."
"""What the names of queues' actors begin with, as those of sinks do with ``sink.``: both may have the same name."""


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

    def declare_sink(self, message: DeclareSink) -> bool:
        """Make a sink, or check that the one there is the same."""
        directory = self.directory
        existing = directory.sinks.get(message.name)
        if existing is not None:
            require_equivalent(message.name, message.options, existing.options)
            return False
        store = SinkStore(message.name, message.options)
        self._start_sink(store)
        directory.sinks[message.name] = store
        directory.changed()
        return True

    def _start_sink(self, store: SinkStore) -> None:
        store.ref = self.start_child_nowait(
            ChildSpec(lambda: Sink(store, self.directory.changed), name=f"sink.{store.name}")
        )

    def delete_sink(self, message: DeleteSink) -> bool:
        """Delete a sink with all bindings from and to it."""
        store = self.directory.sinks.get(message.name)
        if store is None:
            return False
        if message.if_unused and store.bindings:
            raise SinkInUse(message.name)
        self._remove_sink(store)
        return True

    def _remove_sink(self, store: SinkStore) -> None:
        del self.directory.sinks[store.name]
        self.directory.changed()
        for binding, destination in store.bindings.items():
            if destination.bound is not None:
                destination.bound.pop(binding, None)
        self._unbind_all(store)
        self.stop_child_nowait(store.ref)

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
            require_equivalent(message.name, options, existing.options)
            return existing
        store = QueueStore(message.name, options, owner)
        self._start_queue(store)
        directory.queues[message.name] = store
        directory.changed()
        if owner is not None:
            owner.queues[message.name] = None
        return store

    def _start_queue(self, store: QueueStore) -> None:
        store.ref = self.start_child_nowait(ChildSpec(lambda: Queue(store), name=_QUEUE + store.name))

    def delete_queue(self, message: DeleteQueue) -> QueueStatistics | None:
        """Delete a queue with its messages, its feeds and all bindings to it."""
        store = self.directory.queues.get(message.name)
        if store is None:
            return None
        if store.owner is not None and store.owner is not message.session:
            raise QueueLocked(message.name)
        statistics = _enlist(store)
        if message.if_unused and statistics.feeds:
            raise QueueInUse(message.name)
        if message.if_empty and statistics.ready:
            raise QueueNotEmpty(message.name)
        self._remove_queue(store)
        return statistics

    def _remove_queue(self, store: QueueStore) -> None:
        del self.directory.queues[store.name]
        self.directory.changed()
        if store.owner is not None:
            store.owner.queues.pop(store.name, None)
        self._unbind_all(store)
        self.stop_child_nowait(store.ref)

    def queue_unused(self, message: QueueUnused) -> None:
        """Delete an auto-delete queue whose last feed has closed, unless a new one has opened meanwhile."""
        store = self.directory.queues.get(message.name)
        if store is not None and store.options.auto_delete and not store.feeds:
            self._remove_queue(store)

    def bind(self, message: Bind) -> bool:
        """Add a binding to its source."""
        sink = self.directory.sink(message.binding.source)
        destination = self._destination(message.binding, message.session)
        return _ask(sink, AddBinding(message.binding, destination))

    def _destination(self, binding: Binding, session: Session) -> Destination:
        if binding.target is Target.QUEUE:
            return self.directory.queue(binding.destination, session)
        return self.directory.sink(binding.destination)

    def unbind(self, message: Unbind) -> bool:
        """Remove a binding from its source."""
        binding = message.binding
        sink = self.directory.sinks.get(binding.source)
        if binding.target is Target.QUEUE and binding.destination in self.directory.queues:
            self.directory.queue(binding.destination, message.session)
        return sink is not None and _ask(sink, RemoveBinding(binding))

    def _unbind_all(self, destination: Destination) -> None:
        """Remove all bindings that lead to something that is going."""
        for binding in list(destination.bound or ()):
            sink = self.directory.sinks.get(binding.source)
            if sink is not None:
                sink.ref.tell_nowait(RemoveBinding(binding))

    def child_exited(self, ref: Ref, error: BaseException | None) -> None:
        """Close the feeds of a queue that has crashed: its consumers need not wait until it is restarted, if it is."""
        store = self.directory.queues.get(ref.name.removeprefix(_QUEUE))
        if store is not None and store.ref is ref:
            stopped = ref.state == "stopped"
            store.take_back("the queue was stopped by its supervisor" if stopped else "the queue has crashed")


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
