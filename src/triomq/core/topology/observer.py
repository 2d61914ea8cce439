"""Observers: actors that are told what happens in a domain, to copy it elsewhere or to write a log.

    domain ────────────▶ Observers ─────────▶ Changed                                    what comes and goes
    publishers, queues ▶ MessageObservers ─┬▶ Published HandedOut Settled Expired SentToDeadLetters
                                           └▶ Tracer                  calls, not messages: for very many of them

Rules:

- An observer is told in the very turn, after the fact, and may read the directory for what else it wants to know. It
  changes nothing and refuses nothing; if it crashes, only it does.
- Changes carry the origin of the thing, so that an observer that copies them elsewhere can leave out what came from
  there.
- Messages are observed by run or batch, never one by one. Contents are those of the run: lists that must not be
  changed. Most brokers have no such observer, so ``Directory.message_observers`` is None until the first one comes: one
  test for each run, each dispatch and each settlement is all that it costs then.
- What an observer is told is in the order in which it happened in each queue. A message that crashes its queue may be
  published and never handed out.
- A ``Tracer`` is not told but called, see ``tracer``.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from triomq.actors import Message, Ref
from triomq.core.delivery import Outcome
from triomq.core.message import Stretch
from triomq.core.routing.bindings import Binding
from triomq.core.topology.tracer import Tracer

if TYPE_CHECKING:
    from triomq.core.batch import Batch
    from triomq.core.queue.deadletter import Reason
    from triomq.core.queue.queue_state import QueueState
    from triomq.core.topology.session import Session


class Action(Enum):
    """What happened to it."""

    CREATED = "created"
    DELETED = "deleted"


class ChangeKind(Enum):
    """What came or went."""

    SINK = "sink"
    QUEUE = "queue"
    BINDING = "binding"


class Changed(Message, frozen=True):
    """To an observer: something came or went.

    Args:
        action: Whether it came or went.
        kind: What it is.
        name: Its name; of a binding, its source's.
        binding: The binding, if it is one.
        session: The session that did it; None for the broker itself, such as an expiry.
        origin: The peer whose thing it is; empty if it is this broker's own.
    """

    action: Action
    kind: ChangeKind
    name: str
    binding: Binding | None = None
    session: "Session | None" = None
    origin: str = ""


class Published(Message, frozen=True):
    """To an observer of messages: a run was taken.

    Args:
        messages: The messages; their heads name sink and key.
        queues: The queues that it goes to, by their actors (``Directory.name_of``); empty if no queue is bound.
    """

    messages: Stretch
    queues: Sequence[Ref]


class HandedOut(Message, frozen=True):
    """To an observer of messages: a batch went to a consumer.

    Args:
        queue: The queue's name.
        consumer: The actor that gets it; None for a single get.
        ids: The ids of the messages in the queue.
        messages: The messages.
        attempts: How often each of them was delivered before and came back.
    """

    queue: str
    consumer: Ref | None
    ids: Sequence[int]
    messages: Stretch
    attempts: int


class Settled(Message, frozen=True):
    """To an observer of messages: deliveries were settled, rejected or requeued.

    Args:
        queue: The queue's name.
        ids: Their ids in the queue.
        outcome: How.
    """

    queue: str
    ids: Sequence[int]
    outcome: Outcome


class Expired(Message, frozen=True):
    """To an observer of messages: ready messages of a queue have expired."""

    queue: str
    messages: Stretch


class SentToDeadLetters(Message, frozen=True):
    """To an observer of messages: a queue published messages that it gave up to its dead-letter sink.

    Args:
        queue: The queue's name.
        messages: The messages, as they were in the queue.
        reason: Why the queue gave them up.
        copies: How many copies went to queues.
    """

    queue: str
    messages: Stretch
    reason: "Reason"
    copies: int


class Observers:
    """The observers of changes; part of a domain's directory, so that it outlives the domain's incarnations."""

    __slots__ = ("_refs",)

    def __init__(self) -> None:
        self._refs: dict[Ref, None] = {}

    def __bool__(self) -> bool:
        return bool(self._refs)

    def add(self, ref: Ref) -> None:
        """Tell an actor from now on; one that has stopped is left out by itself."""
        self._refs[ref] = None

    def remove(self, ref: Ref) -> None:
        """Tell it no longer."""
        self._refs.pop(ref, None)

    def notify(self, message: Message) -> None:
        """Tell all."""
        for ref in list(self._refs):
            if ref.state == "stopped":
                self.remove(ref)
            else:
                ref.tell_nowait(message)


class MessageObservers(Observers):
    """The observers of messages, and the tracer; created by a domain's directory with the first, dropped with the last.

    Args:
        unused: Called when the last observer has stopped.
        tracer: Is called with all of it; None without a log of everything.
    """

    __slots__ = ("_unused", "tracer")

    def __init__(self, unused: Callable[[], None], tracer: Tracer | None = None) -> None:
        super().__init__()
        self._unused = unused
        self.tracer = tracer

    def notify(self, message: Message) -> None:
        """Tell all."""
        super().notify(message)
        if not self:
            self._unused()

    def published(self, messages: Stretch, queues: Sequence[Ref]) -> None:
        """Tell of a run."""
        if self._refs:
            self.notify(Published(messages, queues))

    def handed_out(self, queue: "QueueState", batch: "Batch") -> None:
        """Tell of a batch that nothing of is settled yet."""
        if self.tracer is not None:
            self.tracer.handed_out(queue, batch)
        if self._refs:
            consumer = None if batch.feed is None else batch.feed.consumer
            self.notify(HandedOut(queue.name, consumer, batch.ids, batch.stretch(), batch.attempts))

    def settled(self, queue: "QueueState", batch: "Batch", positions: Sequence[int] | None, outcome: Outcome) -> None:
        """Tell of deliveries that are about to be settled; all that are left, or those at some positions."""
        ids = batch.unsettled_ids(positions)
        if self.tracer is not None:
            self.tracer.settled(queue, ids, outcome)
        if self._refs:
            self.notify(Settled(queue.name, list(ids), outcome))

    def expired(self, queue: "QueueState", messages: Stretch) -> None:
        """Tell of expired messages."""
        if self._refs:
            self.notify(Expired(queue.name, messages))

    def dead_lettered(self, queue: "QueueState", messages: Stretch, reason: "Reason", copies: int) -> None:
        """Tell of dead letters."""
        if self._refs:
            self.notify(SentToDeadLetters(queue.name, messages, reason, copies))
