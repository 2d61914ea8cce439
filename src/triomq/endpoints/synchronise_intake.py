"""What a peer delivers to us: from its pipes straight into our own queues.

Messages pass no sink, for the peer has routed them; so nothing can go round in circles. A message is acked when its
queue has it, on disk if it keeps it there: until then the peer keeps it, and delivers it again should the connection be
lost. So a message may come twice, and none is lost. What we may not take yet, since memory is short or the store cannot
be written, stays within the peer's prefetch.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

import trio

from triomq.actors import InPlaceActor
from triomq.clients import Peering
from triomq.core import Confirms, Directory, Publish, QueueStore
from triomq.endpoints.amqp_heads import head_of
from triomq.endpoints.amqp_modes import by_mode
from triomq.errors import RemoteProtocolError
from triomq.protocols.amqp import DeliverRun

__all__ = ["Intake"]

_TAGS = ("x:", "q:")
"""What stands before a pipe's name in a consumer tag: its own messages, and those of a feed that is a queue."""


class Intake:
    """Made for each connection to a peer, ends with it.

    Args:
        peering: The connection.
        directory: Where our queues are.
        knows: Tells whether a name is that of a pipe that the peer was told of: no other queue gets anything.
        actor: Whose turns it works in; its ``after_batch`` calls ``settle``.
    """

    def __init__(
        self, peering: Peering, directory: Directory, knows: Callable[[str], bool], actor: InPlaceActor
    ) -> None:
        """Start with nothing taken."""
        self.received = 0
        self._peering = peering
        self._directory = directory
        self._knows = knows
        self._confirms = Confirms(actor.ref.touch, directory.keeping, lambda: actor.ref.act(actor.ref.touch))
        self._next = 1
        self._kept: deque[DeliverRun] = deque()  # while memory is short, or the store cannot be written
        self._go_on = partial(_soon, actor, self._take_kept)

    def take(self, run: DeliverRun) -> None:
        """Take deliveries; to be called in a turn."""
        keeping, memory = self._directory.keeping, self._directory.memory
        unwritable = keeping is not None and keeping.journal.fault is not None
        if not (self._kept or memory.on or unwritable):
            self._place(run)
            return
        if not self._kept:
            if memory.on or keeping is None:
                memory.when_over(self._go_on)
            else:
                keeping.when_writable(self._go_on)
        self._kept.append(run)

    def _take_kept(self) -> None:
        kept, self._kept = self._kept, deque()
        for run in kept:
            self.take(run)

    def _place(self, run: DeliverRun) -> None:
        count = len(run.contents)
        if run.tags[0] != self._next:
            # Tags count deliveries (section 1.1, delivery-tag); a peer that counts otherwise could not be answered.
            self._peering.link.end(RemoteProtocolError(f"delivery {run.tags[0]} came where {self._next} was due"))
            return
        self._next += count
        self.received += count
        receipt, store = self._confirms.expect(count, 1), self._store(run.method.consumer_tag)
        if store is None:
            receipt.refused(0, count)
            return
        position = 0
        for persistent, contents in self._parts(run):
            head = head_of(
                run.method.exchange,
                run.method.routing_key,
                run.framing,
                persistent=persistent,
                repeated=run.method.redelivered,
            )
            store.ref.tell_nowait(Publish(head, contents, sum(map(len, contents)), receipt, position))
            position += len(contents)
        self._directory.memory.note(count, run.size)

    def _parts(self, run: DeliverRun) -> Sequence[tuple[bool, Sequence[bytes]]]:
        return [(False, run.contents)] if self._directory.keeping is None else by_mode(run.framing, run.contents)

    def _store(self, tag: str) -> QueueStore | None:
        name = tag[2:]
        store = self._directory.queues.get(name)
        known = store is not None and store.owner is None and tag.startswith(_TAGS) and self._knows(name)
        return store if known else None

    def settle(self) -> None:
        """Ack what has found its place, and reject what has none."""
        confirmed = self._confirms.take()
        if confirmed.up_to or confirmed.single or confirmed.refused:
            self._peering.settle(up_to=confirmed.up_to, single=confirmed.single, refused=confirmed.refused)

    def forget(self) -> None:
        """Take nothing more: the peer will deliver again what it has no ack for."""
        self._kept.clear()
        self._directory.memory.forget(self._go_on)
        if self._directory.keeping is not None:
            self._directory.keeping.forget_writable(self._go_on)


def _soon(actor: InPlaceActor, function: Callable[[], None]) -> None:
    """Call something in a turn of its own: whoever calls this may be in the middle of another."""
    trio.lowlevel.current_trio_token().run_sync_soon(actor.ref.act, function)
