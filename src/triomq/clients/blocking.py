"""A small AMQP client over a plain blocking socket, for scripts and the shell; no event loop.

One call at a time on one channel, which is opened again after the broker has closed it. Publishing has channels of its
own, because confirms come when they come.
"""

from collections.abc import Iterator
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from triomq.clients.channel import BlockingChannel
from triomq.clients.publisher import Publisher
from triomq.clients.url import AMQPUrl, parse_amqp_url
from triomq.clients.wire import BlockingWire
from triomq.errors import Refused
from triomq.protocols import BasicProperties, FieldValue, encode_properties
from triomq.protocols.amqp import (
    CONTROL_CAPABILITY,
    BasicAck,
    BasicGet,
    BasicGetEmpty,
    BasicNack,
    ControlRequest,
    ControlResponse,
    GetOk,
    Method,
    QueuePurge,
    QueuePurgeOk,
    Received,
)
from triomq.protocols.control import Listing, Operation, decode_result, encode, name_of

__all__ = ["BlockingConnection", "Got", "open_blocking"]

M = TypeVar("M", bound=Method)
R = TypeVar("R")
T = TypeVar("T")


class Got(msgspec.Struct, frozen=True, gc=False):
    """A message taken from a queue; it goes back when the connection ends before it is settled.

    Args:
        tag: What to settle it by.
        exchange: Where it was published.
        routing_key: How.
        redelivered: Whether somebody has had it before.
        remaining: Messages that are ready behind it.
        properties: What its content header says, flags first.
        body: Its body.
    """

    tag: int
    exchange: str
    routing_key: str
    redelivered: bool
    remaining: int
    properties: bytes
    body: bytes


class BlockingConnection:
    """A connection that is open; made by ``open_blocking``, ends with ``close`` or its ``with`` block.

    Every method raises ``Disconnected`` when the connection is lost, and the error of the broker's reply code when it
    refuses: ``NotFound``, ``AccessRefused`` and so on.
    """

    def __init__(self, wire: BlockingWire) -> None:
        """Take over a wire that is connected."""
        self._wire = wire
        self._channel = BlockingChannel(wire, 1)
        self.publisher = Publisher(wire, BlockingChannel(wire, 2))
        """For many messages in a row."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Say goodbye; what is not settled goes back to its queue."""
        self._wire.close()

    @property
    def server_properties(self) -> dict[str, FieldValue]:
        """What the broker says of itself."""
        return self._wire.server.server_properties

    @property
    def has_control(self) -> bool:
        """Whether the broker answers ``control``."""
        capabilities = self.server_properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(CONTROL_CAPABILITY) is True

    def call(self, method: Method, reply: type[M]) -> M:
        """Send a method and wait for its reply."""
        return self._channel.call(method, reply)

    # Publishing

    def publish(
        self,
        exchange: str,
        routing_key: str,
        body: bytes,
        properties: BasicProperties | None = None,
        *,
        mandatory: bool = True,
    ) -> None:
        """Publish one message; when this returns, the broker has it.

        Raises:
            Unroutable: ``mandatory`` is set and no queue wants it.
            LimitExceeded: A queue is full and refuses it.
        """
        encoded = encode_properties(properties or BasicProperties())
        self.publisher.send(exchange, routing_key, body, encoded, mandatory=mandatory)
        self.publisher.wait_confirmed()

    # Taking

    def get(self, queue: str) -> Got | None:
        """Take the first message of a queue, None if it is empty."""
        self._channel.send(BasicGet(queue))
        while True:
            match self._channel.next():
                case GetOk(_, method, framing, content):
                    return Got(
                        method.delivery_tag,
                        method.exchange,
                        method.routing_key,
                        method.redelivered,
                        method.message_count,
                        framing.properties(content),
                        framing.body(content),
                    )
                case Received(_, BasicGetEmpty()):
                    return None

    def accept(self, got: Got) -> None:
        """Settle a message for good."""
        self._channel.send(BasicAck(got.tag))

    def requeue_all(self) -> None:
        """Put everything back that was taken and not settled, marked as redelivered."""
        self._channel.send(BasicNack(0, multiple=True, requeue=True))

    def purge(self, queue: str) -> int:
        """Forget all ready messages of a queue and tell how many they were."""
        return self.call(QueuePurge(queue), QueuePurgeOk).message_count

    # Looking inside

    def control(self, operation: Operation[R]) -> R:
        """Ask the broker about itself.

        Raises:
            Refused: It is no triomq.
            RemoteProtocolError: The answer cannot be read.
        """
        if not self.has_control:
            raise Refused(
                f"the broker at {self._wire.url.place} is {self._description()} and cannot be looked into: it does not "
                f"offer {CONTROL_CAPABILITY}; publish, get and purge work with any AMQP 0-9-1 broker"
            )
        response = self.call(ControlRequest(name_of(operation), encode(operation)), ControlResponse)
        return decode_result(operation, response.result)

    def _description(self) -> str:
        said = (self.server_properties.get(name) for name in ("product", "version"))
        return " ".join(str(part) for part in said if part) or "of an unknown kind"

    def control_all(self, operation: Listing[T]) -> Iterator[T]:
        """Ask for a list, page by page; errors are those of ``control``."""
        while True:
            page = self.control(operation)
            yield from page.items
            if page.next is None:
                return
            operation = msgspec.structs.replace(operation, after=page.next)


def open_blocking(url: str | AMQPUrl) -> BlockingConnection:
    """Connect to a broker; the URL's ``timeout`` is how long it may be silent whenever something is awaited.

    Raises:
        ConfigError: The URL is wrong.
        Disconnected: No broker answers there.
        AccessRefused: It does not let this user in.
    """
    return BlockingConnection(BlockingWire(parse_amqp_url(url) if isinstance(url, str) else url))
