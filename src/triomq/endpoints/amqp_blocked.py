"""What the memory alarm means for one AMQP connection (RabbitMQ's connection.blocked).

Queues are in memory, so only consuming makes room. Who cannot make any, since it has no consumer and nothing that it
could settle, is not read any more when it publishes, and told so. Nobody else may be paused, for its acks would wait
behind its publishes: what it publishes is refused.
"""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

import trio

from triomq.actors import Ref
from triomq.core import Directory, Message
from triomq.endpoints.amqp_answers import AnswerError
from triomq.protocols import decode_properties
from triomq.protocols.amqp import ConnectionBlocked, ConnectionUnblocked

if TYPE_CHECKING:
    from triomq.endpoints.amqp_connection import AMQPConnection

__all__ = ["Blocked", "PublishingPaused"]

_GATE = "memory alarm"
_REASON = "low on memory"  # RabbitMQ's word
_UNWRITABLE = "the store cannot be written"
_PERSISTENT = 2  # delivery-mode


class PublishingPaused(Exception):
    """The connection is to be paused before it publishes this; caught where events are worked off."""


class Blocked:
    """Pauses and refuses publishers over a memory alarm; made by the connection, ends with it.

    Args:
        connection: The connection.
    """

    __slots__ = ("_connection", "_drops_told", "_paused", "_unwritable_told")

    def __init__(self, connection: "AMQPConnection") -> None:
        """Start unpaused."""
        self._connection = connection
        self._paused = False
        self._drops_told = False  # that messages are dropped, in this alarm
        self._unwritable_told = False  # that the store cannot be written

    def refuses(self) -> bool:
        """Tell whether what is published now is to be refused.

        Raises:
            PublishingPaused: The connection is to wait instead.
        """
        if not self._connection.directory.memory.on:
            self._drops_told = False
            return False
        if not any(channel.can_make_room for channel in self._connection.channels.values()):
            raise PublishingPaused
        return True

    @property
    def is_to_wait(self) -> bool:
        """Whether the connection is to wait rather than publish: memory is short, and it can only add to it."""
        connection = self._connection
        return connection.directory.memory.on and not any(
            channel.can_make_room for channel in connection.channels.values()
        )

    def pause(self) -> None:
        """Read nothing until the alarm is over, and tell the client."""
        if self._paused:
            return
        connection = self._connection
        self._paused = True
        connection.gates.close(_GATE)
        if connection.login.client_can("connection.blocked"):
            connection.engine.send_method(0, ConnectionBlocked(_REASON))
        connection.note(logging.WARNING, "connection blocked", reason=_REASON)
        connection.directory.memory.when_over(self._over)

    def _over(self) -> None:
        """Go on in a turn of one's own: who ends the alarm is in the middle of another."""
        trio.lowlevel.current_trio_token().run_sync_soon(self._connection.ref.act, self.lift)

    def lift(self) -> None:
        """Read again, if nothing was read; to be called in a turn."""
        if not self._paused:
            return
        connection = self._connection
        self.forget()
        if connection.login.client_can("connection.blocked"):
            connection.engine.send_method(0, ConnectionUnblocked())
        connection.note(logging.INFO, "connection unblocked")
        connection.go_on(_GATE)

    def forget(self) -> None:
        """Wait for the end of the alarm no longer."""
        self._paused = False
        self._connection.directory.memory.forget(self._over)
        keeping = self._connection.directory.keeping
        if keeping is not None:
            keeping.forget_writable(self._writable)

    def tell_unwritable(self) -> None:
        """Tell the client, once, that durable messages are refused, since the store cannot be written.

        It is read on: its acks make room.
        """
        connection = self._connection
        keeping = connection.directory.keeping
        assert keeping is not None
        if self._unwritable_told:
            return
        self._unwritable_told = True
        connection.note(logging.WARNING, "durable messages are refused", reason=str(keeping.journal.fault))
        if connection.login.client_can("connection.blocked"):
            connection.engine.send_method(0, ConnectionBlocked(_UNWRITABLE))
        keeping.when_writable(self._writable)

    def _writable(self) -> None:
        self._connection.ref.act(self._tell_writable)

    def _tell_writable(self) -> None:
        connection = self._connection
        self._unwritable_told = False
        if connection.has_left:
            return
        if connection.login.client_can("connection.blocked"):
            connection.engine.send_method(0, ConnectionUnblocked())
        connection.note(logging.INFO, "durable messages are taken again")
        connection.ref.touch()

    def drop(self, message: Message, queues: Iterable[Ref]) -> None:
        """Drop a message whose publisher asked for no confirms, if that may be.

        Raises:
            AnswerError: It is persistent and was to go to a durable queue, so that losing it ends the connection.
        """
        connection = self._connection
        stores = connection.directory.queues
        durable = any(stores[Directory.name_of(queue)].options.durable for queue in queues)
        if durable and decode_properties(message.properties).delivery_mode == _PERSISTENT:
            raise AnswerError(506, "low on memory: persistent messages are refused; use confirms, or publish less")
        if not self._drops_told:
            self._drops_told = True
            connection.note(logging.WARNING, "transient messages are dropped", reason=_REASON)
