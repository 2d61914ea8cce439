"""The publishing half of one AMQP channel: from runs of publishes to the queues that they are routed to."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from triomq.actors import Ref
from triomq.core import Confirms, Head, Message, Offer, Publish, Receipt, Route, take_now
from triomq.endpoints.amqp_answers import AnswerError
from triomq.endpoints.amqp_arguments import check_expiration
from triomq.endpoints.amqp_copies import CC, copies_of
from triomq.endpoints.amqp_heads import (
    HAS_DELIVERY_MODE,
    HAS_EXPIRATION,
    HAS_HEADERS,
    HAS_REPLY_TO,
    HAS_USER_ID,
    head_of,
)
from triomq.endpoints.amqp_modes import by_mode
from triomq.endpoints.amqp_permissions import require_write
from triomq.endpoints.amqp_properties import headers_of
from triomq.endpoints.amqp_reply_to import REPLY_TO, with_reply_name
from triomq.protocols import decode_properties
from triomq.protocols.amqp import BasicNack, BasicPublish, BasicReturn, Framing, FramingTable, PublishRun

if TYPE_CHECKING:
    from triomq.endpoints.amqp_channel import Channel

__all__ = ["CHECKED", "LOOKED_INTO", "Publisher", "check_claims", "suspects"]

_NOWHERE = Route(())

CHECKED = HAS_EXPIRATION | HAS_USER_ID
"""Flags of properties that the broker itself answers for."""
LOOKED_INTO = CHECKED | HAS_HEADERS | HAS_REPLY_TO
"""The same with those in which something may stand that concerns it."""

_SOUGHT = ((HAS_HEADERS, CC), (HAS_REPLY_TO, REPLY_TO.encode()))
"""Which octets, in which property, make it worth to decode what is not decoded anyway."""

_HEADS = 1024  # heads kept per channel: publishers repeat keys; those that do not only pay for a new head

_NO_ROUTE = (312, "NO_ROUTE")
_NO_CONSUMERS = (313, "NO_CONSUMERS")


class _Special(msgspec.Struct, frozen=True):
    """A message that does not go on as it came, or not by its own key alone."""

    framing: Framing
    content: bytes
    keys: tuple[str, ...]  # further routing keys


class Publisher:
    """What one channel publishes; made with the channel, ends with it.

    Args:
        channel: The channel.
    """

    __slots__ = (
        "_channel",
        "_framing",
        "_framings",
        "_head",
        "_heads",
        "_keeping",
        "_looked_into",
        "_method",
        "_persistent",
        "_plain",
        "_route",
        "_routes",
        "_version",
        "confirms",
    )

    def __init__(self, channel: "Channel") -> None:
        """Start in neither confirm nor transaction mode."""
        self.confirms: Confirms | None = None
        self._channel = channel
        self._method: BasicPublish | None = None
        self._framing: Framing | None = None
        self._framings: FramingTable | None = None  # of contents that were changed
        self._version = -1
        self._route = _NOWHERE
        self._plain = True  # messages that are alike go to the same queues, and are not refused
        self._head = Head()
        self._heads: dict[tuple[str, str, Framing, bool], Head] = {}
        self._routes: dict[tuple[str, str, Framing, bool], Route] = {}  # of plain ones, found in this version
        self._keeping = channel.connection.directory.keeping
        self._persistent = False  # what is published now, if there is a store
        self._looked_into = LOOKED_INTO | (HAS_DELIVERY_MODE if self._keeping is not None else 0)

    def publish(self, run: PublishRun) -> None:
        """Route a run of publishes and hand it to each queue.

        Raises:
            NoSuchSink: The exchange does not exist.
            SinkInternal: Only exchanges may publish into it.
            AnswerError: The properties or flags are not acceptable.
        """
        if run.framing.flags & self._looked_into:
            self._look_into(run)
        else:
            if self._persistent:
                self._be_persistent(False)
            self._publish(run.method, run.framing, run.contents, run.size)

    def _look_into(self, run: PublishRun) -> None:
        """Publish a run some of whose messages say what concerns the broker; those that do not go together."""
        contents, done = run.contents, 0
        for number in suspects(run.framing, contents):
            try:
                special = self._inspect(run.framing, contents[number])
            except AnswerError:
                self._publish_part(run, done, number)  # what came before a bad one counts
                self._resolve(run.method, run.framing, contents[number])  # that there is no such exchange comes first
                raise
            if special is not None:
                self._publish_part(run, done, number)
                self._publish_special(run.method, special)
                done = number + 1
        self._publish_part(run, done, len(contents))

    def _inspect(self, framing: Framing, content: bytes) -> _Special | None:
        """Check one message's properties, and see what is to be changed; None if it goes on as it came.

        Raises:
            AnswerError: A property is not acceptable.
        """
        encoded = framing.properties(content)
        if framing.flags & CHECKED:
            check_claims(encoded, self._channel.connection.session.user)
        changed = encoded
        keys: tuple[str, ...] = ()
        if framing.flags & HAS_REPLY_TO:
            changed = with_reply_name(self._channel, encoded)
        if framing.flags & HAS_HEADERS and CC in encoded:
            copies = copies_of(changed)
            changed, keys = copies.properties or changed, copies.keys
        if changed is encoded:
            return _Special(framing, content, keys) if keys else None
        if self._framings is None:
            self._framings = FramingTable()
        return _Special(self._framings.joined(changed), changed + framing.body(content), keys)

    def _publish_part(self, run: PublishRun, start: int, stop: int) -> None:
        """Publish some neighbours of a run, or all of it."""
        contents = run.contents
        if stop - start < len(contents):
            contents = contents[start:stop]
        if not contents:
            return
        for persistent, some in self._by_mode(run.framing, contents):
            self._be_persistent(persistent)
            size = run.size if some is run.contents else sum(map(len, some))
            self._publish(run.method, run.framing, some, size)

    def _by_mode(self, framing: Framing, contents: list[bytes]) -> Sequence[tuple[bool, list[bytes]]]:
        return [(False, contents)] if self._keeping is None else by_mode(framing, contents)

    def _be_persistent(self, persistent: bool) -> None:
        """Publish messages of one mode from now on."""
        if persistent is not self._persistent:
            self._persistent = persistent
            self._method = None  # what is known is of the other mode

    def _publish_special(self, method: BasicPublish, special: _Special) -> None:
        """Publish one message, by all its keys."""
        framing, content = special.framing, special.content
        (mode,) = self._by_mode(framing, [content])
        self._be_persistent(mode[0])
        if not special.keys:
            self._publish(method, framing, [content], len(content))
            return
        self._resolve(method, framing, content)
        message, directory = Message(self._head, content), self._channel.connection.directory
        route = directory.route_all(
            method.exchange,
            (method.routing_key, *special.keys),
            lambda: headers_of(message.properties),
            properties=lambda: directory.codecs.read(message),
        )
        self._place_or_refuse(method, content, route.queues)

    def _place_or_refuse(self, method: BasicPublish, content: bytes, queues: tuple[Ref, ...]) -> None:
        """Hand one message to its queues, unless memory is short or the store cannot be written.

        Raises:
            PublishingPaused: It is, and the connection is to wait.
            AnswerError: It is, and the publisher cannot be told otherwise.
        """
        channel, blocked = self._channel, self._channel.connection.blocked
        unwritable = self._is_refused(queues)
        if unwritable:
            blocked.tell_unwritable()
        elif not blocked.refuses() or not queues:
            self._place(method, [content], len(content), queues)
            return
        if channel.transaction is not None:
            reason = "the store cannot be written" if unwritable else "low on memory"
            raise AnswerError(406, f"{reason}; the whole transaction was rolled back")
        if self.confirms is not None:
            self.confirms.expect(1, 1).refused(0, 1)
        elif unwritable:
            raise AnswerError(506, "the store cannot be written: persistent messages are refused; use confirms")
        else:
            blocked.drop(Message(self._head, content), queues)

    def _publish(self, method: BasicPublish, framing: Framing, contents: list[bytes], size: int) -> None:
        """Route messages that are alike."""
        directory = self._channel.connection.directory
        if method is not self._method or framing is not self._framing or directory.version != self._version:
            self._resolve(method, framing, contents[0])
        if self._plain:
            self._place(method, contents, size, self._route.queues)
            return
        for content in contents:
            route = self._find(method, content) if self._route.by_headers else self._route
            self._place_or_refuse(method, content, route.queues)

    def _resolve(self, method: BasicPublish, framing: Framing, content: bytes) -> None:
        """Find head and route, and keep them for other runs that are alike, until a binding changes."""
        directory = self._channel.connection.directory
        if directory.version != self._version:
            self._routes.clear()
            self._version = directory.version
        alike = (method.exchange, method.routing_key, framing, self._persistent)
        head = self._heads.get(alike)
        if head is None:
            head = self._heads[alike] = self._make_head(method, framing)
        self._head = head
        self._plain, route = True, self._routes.get(alike)
        if route is None:
            self._method = None  # nothing is kept of a publish that is refused
            require_write(self._channel, "exchange", method.exchange)
            route = self._find(method, content)
            self._plain = not route.by_headers and not directory.memory.on and not self._is_refused(route.queues)
            if self._plain:
                self._routes[alike] = route
        self._route = route
        self._method, self._framing = method, framing

    def _is_refused(self, queues: Sequence[Ref]) -> bool:
        """Tell whether the store should keep what is published, and cannot."""
        return self._persistent and self._channel.connection.directory.fault_of(queues) is not None

    def _make_head(self, method: BasicPublish, framing: Framing) -> Head:
        if len(self._heads) >= _HEADS:
            self._heads.clear()
            self._routes.clear()
        publisher = self._channel.connection.session.number
        return head_of(method.exchange, method.routing_key, framing, publisher=publisher, persistent=self._persistent)

    def _find(self, method: BasicPublish, content: bytes) -> Route:
        message, directory = Message(self._head, content), self._channel.connection.directory
        return directory.route(
            method.exchange,
            method.routing_key,
            lambda: headers_of(message.properties),
            properties=lambda: directory.codecs.read(message),
        )

    def _place(self, method: BasicPublish, contents: list[bytes], size: int, queues: tuple[Ref, ...]) -> None:
        """Hand messages to their queues; what reaches none is returned if it is mandatory."""
        channel = self._channel
        receipt: Receipt | None = None
        if channel.transaction is not None:
            channel.transaction.publish(method, Publish(self._head, contents, size), queues)
        elif not queues or method.immediate:
            if self.confirms is not None:
                receipt = self.confirms.expect(len(contents), 0)  # nothing will be missing when the returns are said
            self.offer(method, self._head, contents, queues)
            if receipt is not None and queues and self._persistent and self._keeping is not None:
                receipt.number = self._keeping.journal.said  # a consumer may have got what its queue is to keep
        else:
            if self.confirms is not None:
                receipt = self.confirms.expect(len(contents), len(queues))
            message = Publish(self._head, contents, size, receipt)
            for queue in queues:
                queue.tell_nowait(message)
        channel.connection.spend(len(contents) * len(queues))

    def offer(self, method: BasicPublish, head: Head, contents: Sequence[bytes], queues: Sequence[Ref]) -> None:
        """Deal with messages that no queue may keep: there is none, or they are for consumers that are there now."""
        for content in contents:
            taken = [take_now(queue, Offer(head, content)) for queue in queues]
            if not any(taken):
                self._return(method, Message(head, content), _NO_CONSUMERS if queues else _NO_ROUTE)

    def _return(self, method: BasicPublish, message: Message, reason: tuple[int, str]) -> None:
        """Send a message back that was to reach a queue or a consumer (section 1.8.3.7, mandatory and immediate)."""
        if reason is _NO_ROUTE and not method.mandatory:
            return
        answer = BasicReturn(*reason, method.exchange, method.routing_key)
        self._channel.connection.engine.send_content(self._channel.number, answer, message.properties, message.body)

    def confirm(self) -> None:
        """Tell the publisher what is placed by now: refusals singly, then the rest."""
        channel = self._channel
        if self.confirms is None or not channel.open:
            return
        confirmed = self.confirms.take()
        for number in confirmed.refused:
            channel.reply(BasicNack(number, multiple=False, requeue=False))
        engine = channel.connection.engine
        for number in confirmed.single:
            engine.send_ack(channel.number, number, multiple=False)
        if confirmed.up_to:
            engine.send_ack(channel.number, confirmed.up_to, multiple=True)


def check_claims(encoded: bytes, user: str) -> None:
    """Check properties that the broker itself answers for.

    Raises:
        AnswerError: A user-id is not the user's, or an expiration is no number of milliseconds.
    """
    properties = decode_properties(encoded)
    if properties.user_id is not None and properties.user_id != user:
        text = f"user_id property set to '{properties.user_id}' but authenticated user was '{user}'"
        raise AnswerError(406, text)
    check_expiration(properties.expiration)


class Shape(Protocol):
    """Where properties stand in contents that are alike, and which."""

    @property
    def flags(self) -> int:
        """The property flags."""

    @property
    def properties_start(self) -> int:
        """Where the properties begin."""

    @property
    def properties_stop(self) -> int:
        """Where they end."""


def suspects(shape: Shape, contents: Sequence[bytes]) -> Sequence[int]:
    """Number the contents of a shape whose properties have to be decoded."""
    flags, start, stop = shape.flags, shape.properties_start, shape.properties_stop
    if flags & CHECKED:
        return range(len(contents))
    found: set[int] = set()
    for flag, octets in _SOUGHT:
        if flags & flag:
            found.update([number for number, content in enumerate(contents) if content.find(octets, start, stop) >= 0])
    return sorted(found)
