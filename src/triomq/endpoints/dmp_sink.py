"""A direct connection that leads into a sink: from runs of messages to the queues that they are routed to.

The lease says which sink that is. What a message itself calls its exchange is carried along and not looked at.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from triomq.actors import Ref
from triomq.core import Directory, Head, Message, Offer, Publish, Route, take_now
from triomq.endpoints.amqp_answers import AnswerError
from triomq.endpoints.amqp_copies import CC, copies_of
from triomq.endpoints.amqp_direct import Grant, ReturnMessage
from triomq.endpoints.amqp_heads import HAS_DELIVERY_MODE, HAS_HEADERS, HAS_REPLY_TO, head_of
from triomq.endpoints.amqp_modes import by_mode, is_persistent
from triomq.endpoints.amqp_properties import headers_of
from triomq.endpoints.amqp_publishing import CHECKED, LOOKED_INTO, check_claims, suspects
from triomq.endpoints.amqp_reply_to import with_reply_name
from triomq.endpoints.dmp_answers import denial_of
from triomq.endpoints.dmp_flow import SinkFlow
from triomq.errors import Refused
from triomq.protocols.amqp import BasicReturn, Framing
from triomq.protocols.dmp import Envelope, MessageRun

if TYPE_CHECKING:
    from triomq.endpoints.dmp_connection import DMPConnection

__all__ = ["WHOLE", "DirectSink", "SinkPaused"]

WHOLE = -1
"""What a head's ``frame`` is where contents are whole messages of a direct connection, to be sent on as they are."""

_HEADS = 1024  # heads kept: publishers repeat keys; those that do not only pay for a new head

_NOWHERE = Route(())
_NO_ROUTE = (312, "NO_ROUTE")
_NO_CONSUMERS = (313, "NO_CONSUMERS")


class SinkPaused(Exception):
    """Memory is short, and the connection is to be paused before it publishes this; caught where events are handled."""


class DirectSink:
    """What one direct connection publishes; made when its lease is accepted, ends with it.

    Args:
        connection: The connection.
        name: The sink's name.
        grant: What its lease was given for.
        flow: Is told where messages go.
    """

    __slots__ = (
        "_connection",
        "_directory",
        "_flow",
        "_grant",
        "_head",
        "_heads",
        "_keeping",
        "_looked_into",
        "_name",
        "_persistent",
        "_plain",
        "_route",
        "_routes",
        "_shape",
        "_version",
    )

    def __init__(self, connection: "DMPConnection", name: str, grant: Grant, flow: SinkFlow) -> None:
        """Start without routes."""
        self._flow = flow
        self._connection = connection
        self._name = name
        self._grant = grant
        self._directory: Directory = connection.directory
        self._shape: Envelope | None = None
        self._version = -1
        self._route = _NOWHERE
        self._plain = True  # messages that are alike go to the same queues, and are not refused
        self._head = Head()
        self._heads: dict[tuple[Envelope, bool], Head] = {}
        self._routes: dict[tuple[Envelope, bool], Route] = {}  # of this version
        self._keeping = self._directory.keeping
        self._persistent = False  # what is published now, if there is a store
        self._looked_into = LOOKED_INTO | (HAS_DELIVERY_MODE if self._keeping is not None else 0)

    def publish(self, run: MessageRun) -> None:
        """Route a run of messages and hand it to each queue.

        Raises:
            Denied: The sink is gone, or a message is not acceptable; those before it count.
            SinkPaused: Memory is short.
        """
        shape = run.envelope
        try:
            if shape.flags & self._looked_into:
                self._look_into(shape, run.contents)
            else:
                if self._persistent:
                    self._be_persistent(False)
                self._publish(shape, run.contents, run.size)
        except (Refused, AnswerError) as error:
            raise denial_of(error) from None

    def _look_into(self, shape: Envelope, contents: list[bytes]) -> None:
        """Publish a run some of whose messages say what concerns the broker; those that do not go together."""
        done = 0
        if self._directory.memory.on:
            raise SinkPaused  # before any part of the run is published
        for number in suspects(shape, contents):
            encoded = shape.properties(contents[number])
            try:
                changed, keys = self._inspect(shape, encoded)
            except AnswerError:
                self._publish_part(shape, contents[done:number])  # what came before a bad one counts
                raise
            if changed is not encoded or keys:
                self._publish_part(shape, contents[done:number])
                self._publish_special(shape, changed, shape.body(contents[number]), keys)
                done = number + 1
        self._publish_part(shape, contents[done:] if done else contents)

    def _inspect(self, shape: Envelope, encoded: bytes) -> tuple[bytes, tuple[str, ...]]:
        """Check one message's properties; give what is to be in their place, and further routing keys."""
        if shape.flags & CHECKED:
            check_claims(encoded, self._connection.user)
        changed = encoded
        if shape.flags & HAS_REPLY_TO and self._grant.channel.open:
            changed = with_reply_name(self._grant.channel, encoded)
        if shape.flags & HAS_HEADERS and CC in encoded:
            copies = copies_of(changed)
            return copies.properties or changed, copies.keys
        return changed, ()

    def _publish_part(self, shape: Envelope, contents: list[bytes]) -> None:
        if not contents:
            return
        if self._keeping is None:
            self._publish(shape, contents, sum(map(len, contents)))
            return
        for persistent, some in by_mode(shape, contents):
            self._be_persistent(persistent)
            self._publish(shape, some, sum(map(len, some)))

    def _be_persistent(self, persistent: bool) -> None:
        """Publish messages of one mode from now on."""
        if persistent is not self._persistent:
            self._persistent = persistent
            self._shape = None  # what is known is of the other mode

    def _publish_special(self, shape: Envelope, properties: bytes, body: bytes, keys: tuple[str, ...]) -> None:
        """Publish one message that does not go on as it came, by all its keys."""
        size = len(properties)
        if self._keeping is not None:
            self._be_persistent(is_persistent(properties))
        flags = int.from_bytes(properties[:2], "big")
        head = self._make_head(shape, flags, 0, size, size, 0)
        content, directory = properties + body, self._directory
        message = Message(head, content)
        route = directory.route_all(
            self._name,
            (shape.routing_key, *keys),
            lambda: headers_of(properties),
            properties=lambda: directory.codecs.read(message),
        )
        self._place(shape, head, [content], len(content), route.queues)

    def _publish(self, shape: Envelope, contents: list[bytes], size: int) -> None:
        """Route messages that are alike."""
        if shape is not self._shape or self._directory.version != self._version:
            self._resolve(shape, contents[0])
        if self._plain:
            self._place(shape, self._head, contents, size, self._route.queues)
            return
        if self._directory.memory.on:
            raise SinkPaused
        for content in contents:
            route = self._find(shape, content) if self._route.by_headers else self._route
            self._require_writable(route.queues)
            self._place(shape, self._head, [content], len(content), route.queues)

    def _resolve(self, shape: Envelope, content: bytes) -> None:
        """Find head and route, and keep them as long as the next runs are alike and no binding changes."""
        directory = self._directory
        if directory.version != self._version:
            self._routes.clear()
            self._version = directory.version
        self._shape = None  # in case there is no way for it
        alike = (shape, self._persistent)
        route = self._routes.get(alike)
        if route is None:
            self._head = self._head_of(shape)
            route = self._find(shape, content)
            self._routes[alike] = route
        else:
            self._head = self._heads[alike]
        self._route = route
        unwritable = self._keeping is not None and self._keeping.journal.fault is not None
        self._plain = not (route.by_headers or directory.memory.on or unwritable)
        self._shape = shape

    def _head_of(self, shape: Envelope) -> Head:
        """Give the head of messages that go on as they came, the same for the same shape."""
        alike = (shape, self._persistent)
        head = self._heads.get(alike)
        if head is None:
            if len(self._heads) >= _HEADS:
                self._heads.clear()
                self._routes.clear()
            start, stop = shape.properties_start, shape.properties_stop
            # Where options are set it cannot be sent on as it is: on a feed they are 0.
            head = self._make_head(shape, shape.flags, start, stop, shape.body_start, 0 if shape.options else WHOLE)
            self._heads[alike] = head
        return head

    def _make_head(self, shape: Envelope, flags: int, start: int, stop: int, body: int, frame: int) -> Head:
        framing = Framing(frame, start, stop, body, 0, flags)
        publisher = self._connection.session.number
        return head_of(
            shape.exchange,
            shape.routing_key,
            framing,
            publisher=publisher,
            persistent=self._persistent,
            expendable=True,  # there are no confirms
        )

    def _require_writable(self, queues: Sequence[Ref]) -> None:
        """Wait rather than publish what the store should keep, and cannot.

        Raises:
            SinkPaused: That is so.
        """
        if self._persistent and self._directory.fault_of(queues) is not None:
            raise SinkPaused

    def _find(self, shape: Envelope, content: bytes) -> Route:
        message, directory = Message(self._head, content), self._directory
        return directory.route(
            self._name,
            shape.routing_key,
            lambda: headers_of(message.properties),
            properties=lambda: directory.codecs.read(message),
        )

    def _place(self, shape: Envelope, head: Head, contents: list[bytes], size: int, queues: tuple[Ref, ...]) -> None:
        """Hand messages to their queues; what reaches none is returned if it is mandatory."""
        if not queues or shape.immediate:
            if shape.options:
                self._offer(shape, head, contents, queues)
        else:
            message = Publish(head, contents, size)
            for queue in queues:
                queue.tell_nowait(message)
            self._flow.published(queues)
        self._connection.spend(len(contents) * len(queues))

    def _offer(self, shape: Envelope, head: Head, contents: Sequence[bytes], queues: Sequence[Ref]) -> None:
        """Deal with messages that no queue may keep: there is none, or they are for consumers that are there now."""
        for content in contents:
            taken = [take_now(queue, Offer(head, content)) for queue in queues]
            if not any(taken) and (queues or shape.mandatory):
                self._return(shape, Message(head, content), _NO_CONSUMERS if queues else _NO_ROUTE)

    def _return(self, shape: Envelope, message: Message, reason: tuple[int, str]) -> None:
        """Send a message back, over AMQP on the channel that has leased the sink; nowhere if that has gone."""
        channel = self._grant.channel
        if channel.open:
            method = BasicReturn(*reason, self._name, shape.routing_key)
            channel.connection.ref.tell_nowait(ReturnMessage(channel, method, message.properties, message.body))

    @property
    def is_choked(self) -> bool:
        """Whether so many returns are unread that no more may come."""
        channel = self._grant.channel
        return channel.open and channel.connection.outlet.is_choked
