"""What a client publishes: from runs of messages to queues, and back to acks.

    MicroMessageRun ──> route and head of its shape ──> Publisher ──> queues ─┐
    acks <── MessageIntake.confirm <── placed, and on disk if durable ────────┘

Messages of one shape, which have the same destination and the same properties, share a head and a route; so do those
whose properties differ and say the same to queues. A shape stands until the directory changes, for then its destination
may be gone.

A message that no queue takes cannot be refused alone, for acks say only how far all is well: so the messages before it
are acked, and an ERROR ends the connection. Its client has to send again what is not acked.

While memory is short, or the disk cannot be written, the connection is not read, as with all endpoints. One that has
messages to ack is the exception: its acks may be what makes room. What such a client publishes is parked until the
pressure is over, and too much of it ends the connection.
"""

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from triomq.core import Confirms, Head, Pressure, Publisher, PublishingPaused, RoutedHead, traits_of
from triomq.endpoints.content import InvalidProperties, check_expiration
from triomq.endpoints.micromsg.content import (
    EXPIRATION,
    FRAMED,
    HAS_KEY,
    MICROMSG_CODEC,
    PRIORITY,
    ROUTING_KEY,
    USER_ID,
    from_values,
    is_persistent,
)
from triomq.endpoints.micromsg.destinations import Destination, parse_destination, require_there
from triomq.errors import ActorError, LimitExceeded, Refused
from triomq.protocols.micromsg import MicroMessageRun, MicroMessageShape

if TYPE_CHECKING:
    from triomq.endpoints.micromsg.connection import MicroMsgServerConnection

_SHAPES: Final = 1024
"""Shapes of one connection that are remembered."""

_PROPERTIES: Final = 2
"""Where properties begin in a content, behind their length."""

_MOST_PARKED: Final = 1024 * 1024
"""Bytes of messages that wait for the end of a pressure without holding up the acks behind them."""


class MessageIntake:
    """The way of a connection's messages into the core; made when it has entered a domain, ends with it.

    Args:
        connection: The connection.
        acks: Whether the client is told what is safe.
    """

    __slots__ = (
        "_answered",
        "_confirms",
        "_connection",
        "_heads",
        "_parked",
        "_parked_size",
        "_publishers",
        "_routed",
        "_taken",
        "_version",
    )

    def __init__(self, connection: "MicroMsgServerConnection", *, acks: bool) -> None:
        self._connection = connection
        persistence = connection.directory.persistence
        self._confirms = Confirms(self._confirm_soon, persistence, self._committed) if acks else None
        self._routed: dict[MicroMessageShape, RoutedHead] = {}
        self._heads: dict[Head, RoutedHead] = {}
        self._publishers: dict[str, Publisher] = {}  # by destination
        self._version = -1  # of the directory, when these were begun
        self._parked: deque[MicroMessageRun] = deque()
        self._parked_size = 0
        self._taken = 0  # the number of the last message that was published
        self._answered = 0  # the number up to which all are safe

    @property
    def is_open(self) -> bool:
        """Whether messages wait for their ack."""
        return self._confirms is not None and self._taken > self._answered

    def take(self, run: MicroMessageRun) -> None:
        """Publish messages, all of them or, if it raises, none; or park them.

        Raises:
            PublishingPaused: Not now.
            Refused: Its destination is not there, or not for this user, or a property is not acceptable.
        """
        if self._parked:
            self._park(run)
            return
        try:
            rest = self._publish(run)
        except PublishingPaused as paused:
            if paused.pressure is Pressure.BEHIND or not self._connection.can_make_room:
                raise
            self._connection.pausing(paused.pressure)
            self._park(run)
            self._connection.when_open(paused.pressure, self._go_on)
        else:
            if rest is not None:
                self._connection.do_next(rest)

    def _publish(self, run: MicroMessageRun) -> MicroMessageRun | None:
        """Publish as much as one turn should do; return the rest."""
        if self._version != self._connection.directory.version:
            self._forget()
        shapes, contents = run.shapes, run.contents
        first = self._routed.get(run.shape) or self._find(run.shape)
        mixed = None if shapes is None else [self._routed.get(shape) or self._find(shape) for shape in shapes]
        if mixed is not None and mixed.count(first) == len(mixed):
            mixed = None  # their properties differ, and say the same to queues
        publisher = self._publishers[run.shape.destination]
        if mixed is None:
            taken = publisher.publish_part(first, contents, run.size, self._confirms)
        else:
            taken = publisher.publish_mix(mixed, contents, run.size, self._confirms).messages
        self._taken = run.first + taken - 1
        return run.behind(taken) if taken < len(contents) else None

    def _forget(self) -> None:
        self._routed.clear()
        self._heads.clear()
        self._publishers.clear()
        self._version = self._connection.directory.version

    def _find(self, shape: MicroMessageShape) -> RoutedHead:
        """Return route and head of messages of a shape."""
        connection, values = self._connection, shape.values
        destination = parse_destination(shape.destination or connection.config.default_destination)
        require_there(connection, destination)
        claimed = values.get(USER_ID)
        if claimed is not None and claimed != connection.user:
            raise InvalidProperties(f"user-id is {claimed!r}, and you are {connection.user!r}; leave it out")
        if EXPIRATION in values:
            check_expiration(str(values[EXPIRATION]))
        if len(self._routed) >= _SHAPES:
            self._forget()
        if shape.destination not in self._publishers:
            own = connection.publisher
            self._publishers[shape.destination] = own if destination.is_topic else own.into_queue(destination.name)
        sink, key = _way(destination, shape)
        head = self._head(sink, key, shape)
        routed = self._heads.get(head)
        if routed is None:
            routed = self._heads[head] = RoutedHead(connection.routes.find(sink, key), head)
        self._routed[shape] = routed
        return routed

    def _head(self, sink: str, key: str, shape: MicroMessageShape) -> Head:
        connection, values = self._connection, shape.values
        properties = from_values(values)
        persistent = is_persistent(values)
        traits = traits_of(
            codec=MICROMSG_CODEC,
            publisher=connection.session.number,
            has_expiration=EXPIRATION in values and properties.expiration is not None,
            has_priority=PRIORITY in values and properties.priority is not None,
            persistent=self._confirms is not None if persistent is None else persistent,
            expendable=self._confirms is None,
        )
        flags = HAS_KEY if ROUTING_KEY in values else 0
        return Head(
            sink,
            key,
            _PROPERTIES,
            shape.properties_stop,
            shape.body_start,
            frame=FRAMED,
            flags=flags,
            traits=traits,
        )

    # While there is a pressure

    def _park(self, run: MicroMessageRun) -> None:
        self._parked.append(run)
        self._parked_size += run.size
        if self._parked_size > _MOST_PARKED:
            self._parked.clear()
            raise LimitExceeded("more is published than can wait; the broker is short of memory or of disk, try later")

    def _go_on(self) -> None:
        """Publish what is parked."""
        connection = self._connection
        while self._parked and not connection.has_left:
            run = self._parked.popleft()
            self._parked_size -= run.size
            try:
                rest = self._publish(run)
            except PublishingPaused as paused:
                self._put_first(run)
                connection.when_open(paused.pressure, self._go_on)
                return
            except (Refused, ActorError) as error:
                connection.refused(run, error)
                return
            if rest is not None:
                self._put_first(rest)
                connection.in_turn(self._go_on)
                return
        connection.note(logging.INFO, f"{connection.noun} goes on")

    def _put_first(self, run: MicroMessageRun) -> None:
        self._parked.appendleft(run)
        self._parked_size += run.size

    # Acks

    def _confirm_soon(self) -> None:
        self._connection.reply_later(self.confirm)

    def _committed(self) -> None:
        self._connection.ref.run_in_turn(self._confirm_soon)

    def confirm(self) -> None:
        """Ack what is safe by now; end where a queue has refused something."""
        assert self._confirms is not None
        connection = self._connection
        if connection.has_left or connection.is_finished:
            return
        found = self._confirms.take()
        up_to, single = found.up_to, found.single
        if found.refused:
            first = min(found.refused)
            up_to, single = min(up_to, first - 1), [number for number in single if number < first]
        connection.engine.accept(up_to, single)
        connection.engine.acknowledge_now()  # at most one ack for each turn, and nobody waits for the engine's timer
        self._answered = max(self._answered, up_to, *single)
        if found.refused:
            connection.fail(503, "a queue has no room for the message behind those that are acked; send it again later")
        else:
            connection.end_when_done()


def _way(destination: Destination, shape: MicroMessageShape) -> tuple[str, str]:
    """Return sink and key."""
    if not destination.is_topic:
        return "", destination.name
    key = shape.values.get(ROUTING_KEY, "")
    return destination.name, key if isinstance(key, str) else str(key)
