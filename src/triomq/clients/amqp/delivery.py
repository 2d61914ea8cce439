"""What a client gets from a broker: deliveries, the answers to get, and publishes that came back."""

from types import TracebackType
from typing import Self

from triomq.clients.amqp.acks import Acks
from triomq.protocols import BasicProperties, decode_properties
from triomq.protocols.amqp import BasicDeliver, BasicGetOk, BasicReturn, Framing


class AMQPDelivery:
    """One message from a queue.

    ``with delivery:`` accepts it when the block ends, and puts it back when the block fails or is cancelled. Settling
    never waits; a second settling does nothing, nor does one that comes after the connection was lost: then the broker
    delivers the message again.

    Made by ``Deliveries``, which puts back what is not settled when it closes.
    """

    __slots__ = ("_acks", "_content", "_framing", "_method", "_settled", "body", "tag")

    def __init__(
        self, acks: Acks | None, method: BasicDeliver | BasicGetOk, framing: Framing, tag: int, content: bytes
    ) -> None:
        self._acks = acks
        self._settled = acks is None
        self._method = method
        self._framing = framing
        self._content = content
        self.tag = tag
        """Its delivery tag, which belongs to its channel."""
        self.body = content[framing.body_start : len(content) - framing.body_trailer]

    def __repr__(self) -> str:
        """Show where it came from and how large it is."""
        return f"<{type(self).__name__} {self.exchange!r} {self.routing_key!r} {len(self.body)} bytes>"

    @property
    def exchange(self) -> str:
        """The exchange that it was published to; empty for the default one."""
        return self._method.exchange

    @property
    def routing_key(self) -> str:
        """The key that it was published with."""
        return self._method.routing_key

    @property
    def redelivered(self) -> bool:
        """Whether a consumer may have seen it before."""
        return self._method.redelivered

    @property
    def properties(self) -> BasicProperties:
        """The properties that its publisher gave it; decoded anew each time."""
        return decode_properties(self._framing.properties(self._content))

    @property
    def encoded(self) -> bytes:
        """The properties as AMQP writes them, flags first."""
        return self._framing.properties(self._content)

    @property
    def settled(self) -> bool:
        """Whether there is nothing left to settle."""
        return self._settled

    def accept(self, *, multiple: bool = False) -> None:
        """Accept it: its work is done, and the queue deletes it.

        Args:
            multiple: Accept all earlier deliveries of the channel with it.
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
            multiple: Reject all earlier deliveries of the channel with it, but what is settled already.
        """
        self._refuse(requeue=False, multiple=multiple)

    def requeue(self, *, multiple: bool = False) -> None:
        """Put it back in its old place, for any consumer.

        Args:
            multiple: Put all earlier deliveries of the channel back with it, but what is settled already.
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


class Fetched(AMQPDelivery):
    """One message that ``AMQPChannel.get`` took from a queue; put back when the channel closes before it is settled."""

    __slots__ = ("remaining",)

    def __init__(self, acks: Acks | None, method: BasicGetOk, framing: Framing, content: bytes) -> None:
        super().__init__(acks, method, framing, method.delivery_tag, content)
        self.remaining = method.message_count
        """How many messages were ready behind it."""


class ReturnedMessage:
    """A message that was published as mandatory and that no queue took (basic.return)."""

    __slots__ = ("_properties", "body", "code", "exchange", "routing_key", "text")

    def __init__(self, method: BasicReturn, framing: Framing, content: bytes) -> None:
        self.code = method.reply_code
        """The reply code, 312 where nothing was bound, 313 where there was no consumer."""
        self.text = method.reply_text
        """The broker's words for it."""
        self.exchange = method.exchange
        """Where it was published."""
        self.routing_key = method.routing_key
        """How."""
        self._properties = framing.properties(content)
        self.body = framing.body(content)
        """Its body."""

    def __repr__(self) -> str:
        """Show why it came back, and where it was meant to go."""
        return f"<ReturnedMessage {self.code} {self.text} {self.exchange!r} {self.routing_key!r}>"

    @property
    def properties(self) -> BasicProperties:
        """The properties that it was published with; decoded anew each time."""
        return decode_properties(self._properties)

    @property
    def encoded_properties(self) -> bytes:
        """The same as they stand on the wire."""
        return self._properties
