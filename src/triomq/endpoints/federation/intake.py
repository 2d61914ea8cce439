"""What a peer delivers to us: from its pipes straight into our own queues.

Messages pass no sink, for the peer has routed them; so nothing can go round in circles.

    basic.deliver x:weather ──► pipe known? queue there? ──► Publisher: on the queue, on disk if it is durable
                                      │ no                        │ confirmed       │ memory short, disk full
                                      ▼                           ▼                 ▼
                                basic.reject                 basic.ack       waits here, within the prefetch

Rules:

- A message is acked when its queue has it, on disk if the queue is durable: until then the peer stores it, and delivers
  it again should the connection be lost. So a message may come twice, and none is lost.
- Only queues that were announced to this peer get anything: a peer cannot fill others.
- Acks come in runs, in the order of the tags, after each turn; a later message that is on disk first waits for none.
- Delivery tags count from 1 on each connection, which is what confirms are counted by; a peer that counts otherwise
  could not be answered, and is disconnected.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

import trio

from triomq.actors import InPlaceActor
from triomq.clients import Peering
from triomq.core import (
    EVERYTHING,
    CachedRoute,
    Confirms,
    Directory,
    Publisher,
    PublishingPaused,
    RoutedRun,
)
from triomq.endpoints.content import by_mode, head_of
from triomq.errors import RemoteProtocolError
from triomq.protocols.amqp import DeliverRun

_TAGS = ("x:", "q:")
"""What stands before a pipe's name in a consumer tag: its own messages, and those of a feed that is a queue."""


class Intake:
    """Made for each connection to a peer, ends with it.

    Args:
        peering: The connection.
        directory: Where our queues are.
        knows: Returns whether a name is that of a pipe that was announced to the peer: no other queue gets anything.
        actor: Whose turns it works in; its ``after_batch`` calls ``settle``.
    """

    def __init__(
        self, peering: Peering, directory: Directory, knows: Callable[[str], bool], actor: InPlaceActor
    ) -> None:
        self.received = 0
        self._peering = peering
        self._directory = directory
        self._knows = knows
        self._confirms = Confirms(
            actor.ref.touch, directory.persistence, lambda: actor.ref.run_in_turn(actor.ref.touch)
        )
        self._next = 1
        self._publisher = Publisher(directory, EVERYTHING, actor.system.turn)  # the peer has asked who may publish
        self._delayed: deque[DeliverRun] = deque()  # while memory is short, or the store cannot be written
        self._go_on = partial(_soon, actor, self._take_delayed)

    def take(self, run: DeliverRun) -> None:
        """Handle deliveries; to be called in a turn."""
        if self._delayed:
            self._delayed.append(run)
            return
        try:
            self._place(run)
        except PublishingPaused as paused:
            self._delayed.append(run)
            self._publisher.when_open(paused.pressure, self._go_on)

    def _take_delayed(self) -> None:
        delayed, self._delayed = self._delayed, deque()
        for run in delayed:
            self.take(run)

    def _place(self, run: DeliverRun) -> None:
        count, name = len(run.contents), self._queue_of(run.method.consumer_tag)
        if run.tags[0] != self._next:
            # Tags count deliveries (section 1.1, delivery-tag); a peer that counts otherwise could not be answered.
            self._peering.link.end(RemoteProtocolError(f"delivery {run.tags[0]} came where {self._next} was due"))
            return
        if name is None:
            self._confirms.expect(count, count).refused(range(count))
        else:
            self._publisher.publish_all(list(self._parts(run, CachedRoute("", name))), self._confirms)
        self._next += count
        self.received += count

    def _parts(self, run: DeliverRun, route: CachedRoute) -> Iterator[RoutedRun]:
        """Cut a run where the delivery mode changes."""
        modes = [(False, run.contents)] if self._directory.persistence is None else by_mode(run.framing, run.contents)
        for persistent, contents in modes:
            head = head_of(
                run.method.exchange,
                run.method.routing_key,
                run.framing,
                persistent=persistent,
                repeated=run.method.redelivered,
            )
            yield RoutedRun(route, head, contents, sum(map(len, contents)))

    def _queue_of(self, tag: str) -> str | None:
        """Find the queue that a pipe leads to; None if it leads nowhere."""
        name = tag[2:]
        queue = self._directory.queues.get(name)
        known = queue is not None and queue.owner is None and tag.startswith(_TAGS) and self._knows(name)
        return name if known else None

    def settle(self) -> None:
        """Ack what has found its place, and reject what has none."""
        confirmed = self._confirms.take()
        if confirmed.up_to or confirmed.single or confirmed.refused:
            self._peering.settle(up_to=confirmed.up_to, single=confirmed.single, refused=confirmed.refused)

    def forget(self) -> None:
        """Drop what waits: the peer will deliver again what it has no ack for."""
        self._delayed.clear()
        self._publisher.forget(self._go_on)


def _soon(actor: InPlaceActor, function: Callable[[], None]) -> None:
    """Call a function in a turn of its own: the caller may be in the middle of another."""
    trio.lowlevel.current_trio_token().run_sync_soon(actor.ref.run_in_turn, function)
