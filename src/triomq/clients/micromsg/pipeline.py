"""Publishing on a MicroMsg2 connection without waiting for each ack."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from triomq.clients.publish_window import PublishWindow
from triomq.protocols.micromsg import PropertyValue

if TYPE_CHECKING:
    from triomq.clients.micromsg.connection import MicroMsgConnection


class MicroMsgPipeline(PublishWindow):
    """Made by ``MicroMsgConnection.open_pipeline``; leaving its block waits until every message is acknowledged.

    Args:
        connection: Where to publish.
        limit: How many messages may be on their way at once.
    """

    def __init__(self, connection: "MicroMsgConnection", limit: int) -> None:
        super().__init__(limit)
        self._connection = connection

    async def publish(
        self, destination: str, body: bytes, properties: Mapping[str, PropertyValue] | None = None
    ) -> None:
        """Send a message on its way; wait only while too many are, or while the peer takes none.

        Arguments are those of ``MicroMsgConnection.publish``.

        Raises:
            LimitExceeded: An earlier message is larger than what the peer takes.
            TriomqError: The connection has ended.
        """
        message = self._connection.encode(self, destination, body, properties)
        if self._is_full:
            await self._wait_room()
        await self._connection.put(message)
        self._sent(len(message.body))
