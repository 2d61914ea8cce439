"""A feed, as those who publish to it see it."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from triomq.clients.restms.requests import path_of
from triomq.errors import NotFound, RemoteProtocolError
from triomq.protocols import BasicProperties
from triomq.protocols.restms import ContentElement, Document, FeedElement, MessageElement, message_of

if TYPE_CHECKING:
    from triomq.clients.restms.connection import RestMSConnection

_EMBEDDED: Final = 256 * 1024
"""Bytes of a body that goes with its message: in base64, and with many headers, well below the MiB of a document."""


class RestMSMessage(msgspec.Struct, frozen=True, gc=False):
    """A message that is to be published with others.

    Args:
        body: Its body.
        address: What the feed routes by.
        properties: Its properties.
    """

    body: bytes
    address: str = ""
    properties: BasicProperties = BasicProperties()


class RestMSFeed:
    """What messages are published to; made by ``RestMSConnection``.

    Args:
        connection: Whose it is.
        uri: Where it is.
        definition: What was created, so that it can be created again; None if it was there.
    """

    def __init__(self, connection: "RestMSConnection", uri: str, definition: FeedElement | None = None) -> None:
        self._connection = connection
        self._requests = connection.requests
        self.uri = uri
        self.definition = definition

    def __repr__(self) -> str:
        return f"<RestMSFeed {path_of(self.uri)}>"

    async def publish(self, body: bytes, address: str = "", properties: BasicProperties | None = None) -> None:
        """Publish one message; when this returns it is routed, and on disk if it is persistent and its queue durable.

        A body of more than 256 KiB is staged first, as RestMS has it. A publish that is cancelled, or that raises
        ``Disconnected``, may or may not have arrived; one that was sent again (``Reconnect``) may have arrived twice.

        Args:
            body: Its body.
            address: What the feed routes by; at the default feed the name of a pipe or a queue.
            properties: Its properties; ``content_type`` is the body's, ``delivery_mode`` 2 makes it persistent.

        Raises:
            NotFound: The feed is not there.
            AccessRefused: The user may not.
            LimitExceeded: It is too large, or the broker is short of memory or disk.
            Refused: The broker refuses it otherwise.
            Disconnected: The connection broke.
        """
        await self.publish_many([RestMSMessage(body, address, properties or BasicProperties())])

    async def publish_many(self, messages: Iterable[RestMSMessage]) -> None:
        """Publish messages in one request: all of them, or none; raises as ``publish`` does.

        Together they fit into one document, which a broker takes up to a MiB of. Where a queue that they lead to is
        full and refuses new messages, ``LimitExceeded`` says which are not published.
        """
        elements = [await self._element(message) for message in messages]
        if not elements:
            return
        document = Document(messages=tuple(elements))
        try:
            await self._requests.ask("POST", self.uri, document, again=self._requests.resends)
        except NotFound:
            # After a restart without a store; nothing was published.
            if self.definition is None or not await self._connection.restore(self):
                raise
            await self._requests.ask("POST", self.uri, document, again=self._requests.resends)

    async def _element(self, message: RestMSMessage) -> MessageElement:
        body, properties = message.body, message.properties
        if len(body) <= _EMBEDDED:
            return message_of(properties, body, address=message.address)
        uri = await self._stage(body, properties.content_type)
        element = message_of(properties, b"", address=message.address)
        return msgspec.structs.replace(element, contents=(ContentElement(href=uri, type=properties.content_type),))

    async def _stage(self, body: bytes, content_type: str | None) -> str:
        fields = {"Content-Type": content_type or "application/octet-stream"}
        reply = await self._requests.ask("POST", self.uri, body=body, headers=fields, again=self._requests.resends)
        return location_of(reply.headers)

    async def delete(self) -> None:
        """Delete it, and the joins to it.

        Raises:
            AccessRefused: It is another one's, or configured.
        """
        await self._requests.ask("DELETE", self.uri)
        self._connection.forget(self)


def location_of(headers: Mapping[str, str]) -> str:
    """Return where something was created.

    Raises:
        RemoteProtocolError: The answer does not say it.
    """
    if "location" not in headers:
        raise RemoteProtocolError("the broker's answer has no Location; is it RestMS?")
    return headers["location"]
