"""Settling what was delivered on one channel: many acceptances leave as one basic.ack where the order allows it.

A consumer that calls ``accept()`` a hundred times between two waits causes one ack of all hundred. An ack of several
(``multiple``) covers every delivery of the channel up to its tag, so it may reach as far as nothing older is left, and
no further; what was accepted out of order is acked singly. Delivery tags belong to one channel of one connection: what
comes too late for that, after a reconnect, is dropped, and the broker delivers the message again.
"""

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from triomq.protocols.amqp import BasicAck, BasicNack

if TYPE_CHECKING:
    from triomq.clients.amqp.delivery import AMQPDelivery
    from triomq.clients.amqp.link import Link


class Acks:
    """Made by its line, for all deliveries that have to be settled there.

    ``accepted`` holds what is yet to be acked; ``dirty`` is true when a flush is due already, or makes no sense.
    """

    __slots__ = ("_link", "_number", "_order", "_sent", "accepted", "closed", "dirty", "floor", "undoable")

    def __init__(self, link: "Link", number: int) -> None:
        self._link = link
        self._number = number
        self._order: deque[int] = deque()
        self._sent: set[int] = set()
        self.accepted: set[int] = set()
        self.floor = 0
        """Everything up to this tag is settled, whatever its delivery thinks."""
        self.dirty = False
        self.closed = False
        self.undoable: list[AMQPDelivery] | None = None
        """What was settled in the present transaction, for a rollback."""

    def __len__(self) -> int:
        """Count what is not settled."""
        return len(self._order) - len(self._sent) - len(self.accepted)

    def received(self, tags: Iterable[int]) -> None:
        """Add deliveries that are to be settled, in order."""
        self._order.extend(tags)

    def announce(self) -> None:
        """Ask for a call of ``flush`` soon: something is accepted."""
        if not self.dirty:
            self.dirty = True
            self._link.settle_soon(self)

    def accept_all(self, last: int) -> None:
        """Accept everything up to a tag."""
        for tag in self._order:
            if tag > last:
                break
            if tag not in self._sent:
                self.accepted.add(tag)
        self.floor = max(self.floor, last)
        self.announce()

    def refuse(self, tag: int, *, requeue: bool, multiple: bool) -> None:
        """Settle one delivery, or all up to it, with a nack: requeue it, or not."""
        if self.closed or tag <= self.floor:
            return
        if multiple:
            self._flush()  # what is accepted already must not be given back
            self._drop_until(tag)
        else:
            self._sent.add(tag)
        self._link.send(self._number, BasicNack(tag, multiple=multiple, requeue=requeue))

    def _drop_until(self, last: int) -> None:
        order, sent = self._order, self._sent
        while order and order[0] <= last:
            sent.discard(order.popleft())
        self.floor = max(self.floor, last)

    def flush(self) -> None:
        """Send acks of what has been accepted."""
        if not self.closed:
            self.dirty = False
            self._flush()

    def _flush(self) -> None:
        order, accepted, sent = self._order, self.accepted, self._sent
        last, count = 0, 0
        while order:
            tag = order[0]
            if tag in accepted:
                accepted.remove(tag)
                last = tag
                count += 1
            elif tag in sent:
                sent.remove(tag)
            else:
                break
            order.popleft()
        if count:
            self._link.send(self._number, BasicAck(last, multiple=count > 1))
        if accepted:
            for tag in sorted(accepted):
                self._link.send(self._number, BasicAck(tag))
            sent |= accepted
            accepted.clear()

    def give_back(self, tags: Iterable[int]) -> None:
        """Requeue those of these deliveries that are not settled, with one nack if that covers no others."""
        if self.closed:
            return
        self._flush()
        left = [tag for tag in self._order if tag not in self._sent]
        if not left:
            return
        ours = set(tags).intersection(left)
        if len(ours) == len(left):
            self.refuse(left[-1], requeue=True, multiple=True)
        else:
            for tag in sorted(ours):
                self.refuse(tag, requeue=True, multiple=False)

    def oldest(self) -> int:
        """Return the tag of the oldest delivery that may not be settled yet; 0 if there is none."""
        return self._order[0] if self._order else 0

    def restore(self, deliveries: "Iterable[AMQPDelivery]") -> None:
        """Mark deliveries as unsettled again: the transaction in which they were settled has been rolled back."""
        tags = {delivery.tag for delivery in deliveries}
        self.accepted -= tags
        self._sent -= tags
        self._order = deque(sorted(tags.union(self._order)))
        self.floor = min(self.floor, *(tag - 1 for tag in tags)) if tags else self.floor

    def forget_all(self) -> None:
        """Drop everything that was received: the broker has put it back."""
        if self._order:
            self.floor = max(self.floor, self._order[-1])
        self._order.clear()
        self._sent.clear()
        self.accepted.clear()

    def close(self) -> None:
        """Close: the channel is gone, and nothing is settled there any more."""
        self.closed = self.dirty = True
        self.forget_all()
