"""Publishing without waiting for each confirm: some messages are on their way at once, and each is accounted for."""

from typing import TYPE_CHECKING

import trio

from triomq.clients.amqp.pending_reply import fresh
from triomq.errors import TriomqError
from triomq.protocols import BasicProperties

if TYPE_CHECKING:
    from triomq.clients.amqp.channel import AMQPChannel

BYTES_MOST = 8 * 1024 * 1024
"""Bytes of bodies on their way at once, or one body of any size: they stay in memory until they are confirmed."""


class Pipeline:
    """Made by ``AMQPChannel.open_pipeline``; leaving its block waits until every message is confirmed.

    Args:
        channel: Where to publish.
        limit: How many messages may be on their way at once.
    """

    abandoned = False

    def __init__(self, channel: "AMQPChannel", limit: int) -> None:
        self._channel = channel
        self._limit = limit
        self._outstanding = 0
        self._bytes = 0
        self._confirmed = 0
        self._failure: TriomqError | None = None
        self._room = trio.lowlevel.ParkingLot()

    @property
    def count_confirmed(self) -> int:
        """How many messages the broker has."""
        return self._confirmed

    @property
    def outstanding(self) -> int:
        """How many are on their way."""
        return self._outstanding

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
        if self._failure is not None or self._outstanding >= self._limit or self._bytes >= BYTES_MOST:
            await self._wait_room()
        line = channel.line
        if line is None or not line.go:
            line = await channel.wait_publishable()
        line.publish(self, exchange, routing_key, mandatory, channel.encode(properties, persistent), body)
        self._outstanding += 1
        self._bytes += len(body)

    async def wait_confirmed(self) -> None:
        """Wait until nothing is on its way; raises as ``publish`` does."""
        while self._outstanding:
            await self._room.park()
        self._raise_failure()

    async def _wait_room(self) -> None:
        """Wait until about half of it is confirmed, so that publishing goes on for a while then."""
        self._raise_failure()
        while self._outstanding > self._limit // 2 or self._bytes > BYTES_MOST // 2:
            await self._room.park()
            self._raise_failure()

    def _raise_failure(self) -> None:
        """Raise the first thing that went wrong since this was asked last."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    # What the line calls

    def confirmed(self, size: int) -> None:
        """Count a message that the broker has."""
        self._confirmed += 1
        self._forget(size)

    def failed(self, size: int, error: TriomqError) -> None:
        """Store the error, which the next call raises."""
        if self._failure is None:
            self._failure = fresh(error)
        self._forget(size)
        self._room.unpark_all()

    def _forget(self, size: int) -> None:
        self._outstanding -= 1
        self._bytes -= size
        if self._room and (not self._outstanding or self._outstanding <= self._limit // 2):
            self._room.unpark_all()


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
