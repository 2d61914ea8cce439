"""Publishes that the broker has yet to confirm: it numbers what is published on a channel, from 1 (confirm.select).

    publish ──► sent: 1, 2, 3 …       pending = {1: …, 2: …, 3: …}, in order
    basic.ack 2, multiple ──► 1 and 2 are confirmed: popped from the front
    basic.nack 3 ───────────► 3 is refused: ``LimitExceeded``
    basic.return ───────────► which one?

Rules:

- The number of a publish is nowhere on the wire: both sides count. So ``sent`` is called for each publish in the order
  in which they are written, and there is one ``PublisherConfirms`` for each channel of each connection.
- A message that no queue took comes back before its number is confirmed, and without the number. It is known by its
  looks: the oldest unconfirmed mandatory publish with the same exchange, key, properties and body. Where several look
  the same it makes no difference which of them it was. A number in a header would have told them apart, but it would
  reach consumers too.
- ``pending`` holds all that it takes to publish again: after a reconnect the connection does that (``take_all``), in
  order, with new numbers.
- Confirms come in runs; an event for each would cost more than the publish.
"""

from collections.abc import Iterable
from typing import Protocol, TypeAlias

from triomq.clients.amqp.delivery import ReturnedMessage
from triomq.clients.amqp.pending_reply import PendingReply
from triomq.errors import LimitExceeded, TriomqError, Unroutable


class ConfirmReceiver(Protocol):
    """The owner of a publish: called once with what became of it."""

    @property
    def abandoned(self) -> bool:
        """Whether its task no longer waits."""

    def confirmed(self, size: int) -> None:
        """Called when the broker has confirmed a message with a body of so many bytes."""

    def failed(self, size: int, error: TriomqError) -> None:
        """Called when the broker has refused it, or when its fate is unknown."""


Publish: TypeAlias = tuple[ConfirmReceiver, str, str, bool, bytes, bytes]
"""Receiver of the outcome, exchange, routing key, mandatory, encoded properties, body: enough to send it again."""


class PendingConfirm(PendingReply[None]):
    """What the publisher of one message waits for."""

    __slots__ = ()

    def confirmed(self, size: int) -> None:
        """Wake the publisher."""
        self.resolve(None)

    def failed(self, size: int, error: TriomqError) -> None:
        """Wake the publisher with an error."""
        self.fail(error)


class PublisherConfirms:
    """Made by its line; counts publishes as the broker counts them."""

    __slots__ = ("_last", "_returned", "pending")

    def __init__(self) -> None:
        self._last = 0
        self._returned: dict[int, TriomqError] = {}
        self.pending: dict[int, Publish] = {}
        """Unconfirmed publishes by number, in order."""

    def sent(self, publish: Publish) -> None:
        """Count a publish that was just sent."""
        self._last += 1
        self.pending[self._last] = publish

    def ack(self, numbers: Iterable[int]) -> None:
        """Handle confirms of single publishes."""
        pending, returned = self.pending, self._returned
        for number in numbers:
            publish = pending.pop(number, None)
            if publish is not None:
                if returned and (error := returned.pop(number, None)):
                    publish[0].failed(len(publish[5]), error)
                else:
                    publish[0].confirmed(len(publish[5]))

    def ack_until(self, last: int) -> None:
        """Handle the confirm of everything up to a number; 0 is everything (section 1.8.3.13)."""
        self.ack(self._until(last))

    def _until(self, last: int) -> list[int]:
        if not last or last >= self._last:
            return list(self.pending)
        found = []
        for number in self.pending:
            if number > last:
                break
            found.append(number)
        return found

    def nack(self, last: int, *, multiple: bool) -> None:
        """Handle the refusal of one publish, or of all up to it."""
        for number in self._until(last) if multiple else [last]:
            publish = self.pending.pop(number, None)
            if publish is not None:
                error = self._returned.pop(number, None) or refused(publish[1], publish[2])
                publish[0].failed(len(publish[5]), error)

    def returned(self, message: ReturnedMessage) -> bool:
        """Find the publish that has come back; tell whether there is one."""
        looks = (message.exchange, message.routing_key, True, message.encoded_properties, message.body)
        for number, publish in self.pending.items():
            if publish[1:] == looks and number not in self._returned:
                self._returned[number] = unroutable(message)
                return True
        return False

    def take_all(self) -> list[Publish]:
        """Remove and return what is unconfirmed, in order; nothing is counted any more."""
        pending, self.pending = self.pending, {}
        self._returned.clear()
        return list(pending.values())


def unroutable(message: ReturnedMessage) -> Unroutable:
    """Return the error of a message that no queue took, with what to do."""
    return Unroutable(
        f"no queue took a message published to {_place(message.exchange)} with routing key {message.routing_key!r} "
        f"({message.code} {message.text}); declare or bind a queue first, or publish without mandatory"
    )


def refused(exchange: str, routing_key: str) -> LimitExceeded:
    """Return the error of a message that the broker refused, with what to do."""
    return LimitExceeded(
        f"the broker refused a message published to {_place(exchange)} with routing key {routing_key!r} (nack): a "
        "queue is full and rejects what is published (overflow reject-publish), or was stopped; consume from it, or "
        "raise its limit"
    )


def _place(exchange: str) -> str:
    return f"exchange {exchange!r}" if exchange else "the default exchange"
