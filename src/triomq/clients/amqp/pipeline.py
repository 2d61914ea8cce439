"""Publishing on a channel without waiting for each confirm."""

from typing import TYPE_CHECKING

from triomq.clients.publish_window import PublishWindow
from triomq.protocols import BasicProperties

if TYPE_CHECKING:
    from triomq.clients.amqp.channel import AMQPChannel


class Pipeline(PublishWindow):
    """Made by ``AMQPChannel.open_pipeline``; leaving its block waits until every message is confirmed.

    Args:
        channel: Where to publish.
        limit: How many messages may be on their way at once.
    """

    def __init__(self, channel: "AMQPChannel", limit: int) -> None:
        super().__init__(limit)
        self._channel = channel

    async def publish(
        self,
        exchange: str,
        routing_key: str,
        body: bytes,
        properties: BasicProperties | None = None,
        *,
        mandatory: bool = False,
        persistent: bool = True,
    ) -> None:
        """Send a message on its way; wait only while too many are, or while the broker takes none.

        Arguments are those of ``AMQPChannel.publish``.

        Raises:
            Unroutable: No queue took an earlier mandatory message.
            LimitExceeded: The broker refused an earlier message.
            TriomqError: The channel or the connection is closed.
        """
        if type(body) is not bytes:
            check_body(body)
        channel = self._channel
        if self._is_full:
            await self._wait_room()
        line = channel.line
        if line is None or not line.go:
            line = await channel.wait_publishable()
        line.publish(self, exchange, routing_key, mandatory, channel.encode(properties, persistent), body)
        self._sent(len(body))


def check_body(body: object) -> None:
    """Refuse a body that is no bytes; one that is empty in its own way, such as ``{}``, would go unnoticed.

    Raises:
        TypeError: The text has the way out.
    """
    if isinstance(body, bytes | bytearray | memoryview):
        return
    way = "body.encode()" if isinstance(body, str) else 'b"" for an empty one, or for instance json.dumps(…).encode()'
    raise TypeError(f"the body is of type {type(body).__name__}; a body is bytes: write {way}")


def check_properties(properties: object) -> None:
    """Refuse what are no properties.

    Raises:
        TypeError: The text has the way out.
    """
    if not isinstance(properties, BasicProperties):
        raise TypeError(
            f"the properties are of type {type(properties).__name__}; write BasicProperties(content_type=…), and "
            "BasicProperties(headers={…}) for headers of your own"
        )
