"""What a client gets from a broker: deliveries, the answers to get, and publishes that came back."""

from triomq.clients.amqp.acks import Acks
from triomq.clients.settling import ClientDelivery
from triomq.protocols import BasicProperties, decode_properties
from triomq.protocols.amqp import BasicDeliver, BasicGetOk, BasicReturn, Framing


class AMQPDelivery(ClientDelivery):
    """One message from a queue; see ``ClientDelivery`` for how it is settled.

    Made by ``Deliveries``, which puts back what is not settled when it closes.
    """

    __slots__ = ("_content", "_framing", "_method", "body")

    def __init__(
        self, acks: Acks | None, method: BasicDeliver | BasicGetOk, framing: Framing, tag: int, content: bytes
    ) -> None:
        self._acks = acks  # as ``ClientDelivery`` has it; its call would cost a tenth of a delivery
        self._settled = acks is None
        self.tag = tag
        self._method = method
        self._framing = framing
        self._content = content
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
