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
from triomq.core import Directory, Message, Pressure
from triomq.endpoints.amqp_answers import AnswerError
from triomq.protocols import decode_properties
from triomq.protocols.amqp import ConnectionBlocked, ConnectionUnblocked

if TYPE_CHECKING:
    from triomq.endpoints.amqp_connection import AMQPConnection

__all__ = ["Blocked"]

_GATES = {Pressure.MEMORY: "memory alarm", Pressure.BEHIND: "store"}
_REASON = Pressure.MEMORY.value  # RabbitMQ's word
_UNWRITABLE = Pressure.DISK.value
_PERSISTENT = 2  # delivery-mode


class Blocked:
    """Pauses and refuses publishers over a memory alarm; made by the connection, ends with it.

    Args:
        connection: The connection.
    """

    __slots__ = ("_connection", "_drops_told", "_paused_by", "_unwritable_told")

    def __init__(self, connection: "AMQPConnection") -> None:
        """Start unpaused."""
        self._connection = connection
        self._paused_by: Pressure | None = None
        self._drops_told = False  # that messages are dropped, in this alarm
        self._unwritable_told = False  # that the store cannot be written

    @property
    def can_make_room(self) -> bool:
        """Whether the client may take messages off a queue without asking for more."""
        return any(channel.can_make_room for channel in self._connection.channels.values())

    @property
    def is_to_wait(self) -> bool:
        """Whether the connection is to wait rather than publish: memory is short, and it can only add to it."""
        return self._connection.directory.memory.on and not self.can_make_room

    def pause(self, pressure: Pressure) -> None:
        """Read nothing until a pressure is over; tell the client, unless that takes moments alone."""
        if self._paused_by is not None:
            return
        connection = self._connection
        self._paused_by = pressure
        connection.gates.close(_GATES[pressure])
        if pressure is Pressure.MEMORY:
            if connection.login.client_can("connection.blocked"):
                connection.engine.send_method(0, ConnectionBlocked(_REASON))
            connection.note(logging.WARNING, "connection blocked", reason=_REASON)
        connection.publisher.when_open(pressure, self._over)

    def _over(self) -> None:
        """Go on in a turn of one's own: who ends the pressure may be in the middle of another."""
        trio.lowlevel.current_trio_token().run_sync_soon(self._connection.ref.act, self.lift)

    def lift(self) -> None:
        """Read again, if nothing was read; to be called in a turn."""
        connection, pressure = self._connection, self._paused_by
        if pressure is None:
            return
        self.forget()
        if pressure is Pressure.MEMORY:
            self._drops_told = False
            if connection.login.client_can("connection.blocked"):
                connection.engine.send_method(0, ConnectionUnblocked())
            connection.note(logging.INFO, "connection unblocked")
        connection.go_on(_GATES[pressure])

    def forget(self) -> None:
        """Wait for the end of a pressure no longer."""
        self._paused_by = None
        self._connection.publisher.forget(self._over)
        self._connection.publisher.forget(self._writable)

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
