"""Settling what a broker has delivered: many acceptances leave as one confirmation where the order allows it.

A consumer that calls ``accept()`` a hundred times between two waits causes one confirmation of all hundred. One that
covers several covers all of its flow up to its number, so it may reach as far as nothing older is left, and no further;
what was accepted out of order is confirmed singly. Numbers belong to one channel or flow of one connection: what comes
too late for that, after a reconnect, is dropped, and the broker delivers the message again.
"""

from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import Self


class Settling:
    """All deliveries of one channel, or of one flow, that have to be settled there; how is told by a subclass.

    ``accepted`` holds what is yet to be confirmed; ``dirty`` is true when a flush is due already, or makes no sense.
    """

    __slots__ = ("_order", "_sent", "accepted", "closed", "dirty", "floor", "undoable")

    def __init__(self) -> None:
        self._order: deque[int] = deque()
        self._sent: set[int] = set()
        self.accepted: set[int] = set()
        self.floor = 0
        """Everything up to this tag is settled, whatever its delivery thinks."""
        self.dirty = False
        self.closed = False
        self.undoable: list[ClientDelivery] | None = None
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
            self._flush_soon()

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
        """Refuse one delivery, or all up to it: requeue it, or not."""
        if self.closed or tag <= self.floor:
            return
        if multiple:
            self._flush()  # what is accepted already must not be given back
            self._drop_until(tag)
        else:
            self._sent.add(tag)
        self._send_refused(tag, multiple=multiple, requeue=requeue)

    def _drop_until(self, last: int) -> None:
        order, sent = self._order, self._sent
        while order and order[0] <= last:
            sent.discard(order.popleft())
        self.floor = max(self.floor, last)

    def flush(self) -> None:
        """Confirm what has been accepted."""
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
            self._send_accepted(last, multiple=count > 1)
        if accepted:
            for tag in sorted(accepted):
                self._send_accepted(tag, multiple=False)
            sent |= accepted
            accepted.clear()

    def give_back(self, tags: Iterable[int]) -> None:
        """Requeue those of these deliveries that are not settled, with one refusal if that covers no others."""
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

    def restore(self, deliveries: "Iterable[ClientDelivery]") -> None:
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
        """Close: the channel or flow is gone, and nothing is settled there any more."""
        self.closed = self.dirty = True
        self.forget_all()

    # What a subclass knows

    def _flush_soon(self) -> None:
        """Have ``flush`` called soon."""
        raise NotImplementedError

    def _send_accepted(self, tag: int, *, multiple: bool) -> None:
        """Tell the broker that one is accepted, or all up to it."""
        raise NotImplementedError

    def _send_refused(self, tag: int, *, multiple: bool, requeue: bool) -> None:
        """Tell the broker that one is refused, or all up to it."""
        raise NotImplementedError


class ClientDelivery:
    """A message that a broker has delivered, and that is to be settled.

    ``with delivery:`` accepts it when the block ends, and puts it back when the block fails or is cancelled. Settling
    never waits; a second settling does nothing, nor does one that comes after the connection was lost: then the broker
    delivers the message again.

    Args:
        acks: Where it is settled; None if there is nothing to settle.
        tag: Its number there.
    """

    __slots__ = ("_acks", "_settled", "tag")

    def __init__(self, acks: Settling | None, tag: int) -> None:
        self._acks = acks
        self._settled = acks is None
        self.tag = tag
        """Its number, which belongs to its channel or flow."""

    @property
    def settled(self) -> bool:
        """Whether there is nothing left to settle."""
        return self._settled

    def accept(self, *, multiple: bool = False) -> None:
        """Accept it: its work is done, and the queue deletes it.

        Args:
            multiple: Accept all earlier deliveries of the channel or flow with it.
        """
        if self._settled:
            return
        self._settled = True
        acks = self._acks
        assert acks is not None
        if multiple:
            acks.accept_all(self.tag)
        elif self.tag > acks.floor:
            acks.accepted.add(self.tag)
            if not acks.dirty:
                acks.announce()
        if acks.undoable is not None:
            acks.undoable.append(self)

    def reject(self, *, multiple: bool = False) -> None:
        """Reject it: it is dropped, or goes where its queue sends dead letters.

        Args:
            multiple: Reject all earlier deliveries of the channel or flow too, but what is settled already.
        """
        self._refuse(requeue=False, multiple=multiple)

    def requeue(self, *, multiple: bool = False) -> None:
        """Put it back in its old place, for any consumer.

        Args:
            multiple: Put all earlier deliveries of the channel or flow back too, but what is settled already.
        """
        self._refuse(requeue=True, multiple=multiple)

    def _refuse(self, *, requeue: bool, multiple: bool) -> None:
        if self._settled:
            return
        self._settled = True
        assert self._acks is not None
        self._acks.refuse(self.tag, requeue=requeue, multiple=multiple)
        if self._acks.undoable is not None:
            self._acks.undoable.append(self)

    def unsettle(self) -> None:
        """Mark it as unsettled again, since its transaction was rolled back; for the channel."""
        self._settled = False

    def __enter__(self) -> Self:
        """Work on it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Accept it, or put it back after an error."""
        if kind is None:
            self.accept()
        else:
            self._refuse(requeue=True, multiple=False)
