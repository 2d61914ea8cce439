"""Publishing with confirms: some messages are on their way at once, and each is accounted for.

The broker numbers what it confirms by order of publishing (confirm.select); a message that it gives back comes before
the confirm of the same message.
"""

from triomq.clients.channel import BlockingChannel
from triomq.clients.wire import BlockingWire
from triomq.errors import LimitExceeded, TriomqError, Unroutable
from triomq.protocols import NO_PROPERTIES
from triomq.protocols.amqp import (
    AckRun,
    BasicAck,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ConfirmSelect,
    ConfirmSelectOk,
    Event,
    Received,
    Returned,
)

__all__ = ["Publisher"]

MOST_UNCONFIRMED = 256
"""Messages on their way at once: enough to keep a broker busy, few to be uncertain of when the connection breaks."""

MOST_BYTES = 256 * 1024
"""Octets of bodies on their way at once, or one body of any size: a broker that gives all of them back must not wait
for us to read while we wait for it to read."""


class Publisher:
    """Made by its connection for all that is published on it.

    Args:
        wire: The connection.
        channel: A channel of it for publishing alone.
    """

    def __init__(self, wire: BlockingWire, channel: BlockingChannel) -> None:
        """Open nothing yet."""
        self.confirmed = 0
        """Messages that the broker has taken, and has not given back."""
        self._wire = wire
        self._channel = channel
        self._last = 0
        self._waiting: dict[int, int] = {}  # publish number to octets of the body, in order
        self._octets = 0
        self._trouble: TriomqError | None = None

    def send(
        self, exchange: str, routing_key: str, body: bytes, properties: bytes = NO_PROPERTIES, *, mandatory: bool = True
    ) -> None:
        """Send a message on its way; wait only while too many are.

        Args:
            exchange: Where to publish it.
            routing_key: How.
            body: Its body.
            properties: As ``encode_properties`` gives them.
            mandatory: Whether it is an error if no queue wants it.

        Raises:
            Unroutable: No queue wants this or an earlier message.
            LimitExceeded: A queue is full and refused this or an earlier one.
            TriomqError: The broker has closed the channel or the connection.
        """
        while len(self._waiting) >= MOST_UNCONFIRMED or self._octets + len(body) > MOST_BYTES:
            if not self._waiting:
                break
            self._hear()
        self._raise_trouble()
        if not self._last:
            self._channel.call(ConfirmSelect(), ConfirmSelectOk)
        self._last += 1
        self._waiting[self._last] = len(body)
        self._octets += len(body)
        method = BasicPublish(exchange, routing_key, mandatory=mandatory)
        self._wire.engine.send_content(self._channel.number, method, properties, body)
        self._wire.flush()

    def wait_confirmed(self) -> None:
        """Wait until nothing is on its way, then raise as ``send`` does; ``confirmed`` is exact now."""
        while self._waiting:
            self._hear()
        self._raise_trouble()

    def _hear(self) -> None:
        """Take one event; raises when the channel is gone."""
        try:
            event = self._channel.next()
        except TriomqError:
            # The channel is gone, and with it the numbers and what nobody will confirm.
            self._last = self._octets = 0
            self._waiting.clear()
            raise
        self._account(event)

    def _raise_trouble(self) -> None:
        """Raise the first thing that went wrong since this was asked last."""
        if self._trouble is not None:
            trouble, self._trouble = self._trouble, None
            raise trouble

    def _account(self, event: Event) -> None:
        match event:
            case AckRun(_, tags):
                for tag in tags:
                    self.confirmed += self._settle(tag, multiple=False)
            case Received(_, BasicAck(tag, multiple)):
                self.confirmed += self._settle(tag, multiple=multiple)
            case Received(_, BasicNack(tag, multiple)):
                self._settle(tag, multiple=multiple)
                self._trouble = self._trouble or LimitExceeded(
                    "the broker refused a message: a queue is full and rejects what is published (overflow "
                    "reject-publish), or was stopped; consume from it, or raise its limit"
                )
            case Returned(_, method):
                self.confirmed -= 1  # its confirm follows
                self._trouble = self._trouble or _unroutable(method)

    def _settle(self, tag: int, *, multiple: bool) -> int:
        """Forget one message, or all up to it; tell how many they were."""
        tags = [number for number in self._waiting if number <= tag] if multiple else [tag]
        for number in tags:
            self._octets -= self._waiting.pop(number, 0)
        return len(tags)


def _unroutable(method: BasicReturn) -> Unroutable:
    where = f"exchange {method.exchange!r}" if method.exchange else "the default exchange"
    return Unroutable(
        f"no queue took a message published to {where} with routing key {method.routing_key!r} "
        f"({method.reply_code} {method.reply_text}); declare or bind a queue first, or publish without mandatory"
    )
