"""The publishing half of one AMQP channel: from runs of publishes to the queues that they are routed to."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from triomq.core import (
    CachedRoute,
    Confirms,
    Forbidden,
    Head,
    Pressure,
    PublishingPaused,
    QueueMessage,
    RoutedRun,
    Transaction,
)
from triomq.endpoints.amqp.permissions import access_refused
from triomq.endpoints.amqp.refusals import AMQPRefusal
from triomq.endpoints.content import (
    CC,
    CHECKED,
    HAS_DELIVERY_MODE,
    HAS_HEADERS,
    HAS_REPLY_TO,
    LOOKED_INTO,
    InvalidProperties,
    by_mode,
    check_claims,
    copies_of,
    head_of,
    suspects,
    with_reply_name,
)
from triomq.protocols.amqp import BasicNack, BasicPublish, BasicReturn, Framing, FramingTable, PublishRun

if TYPE_CHECKING:
    from triomq.endpoints.amqp.channel import ServerChannel
    from triomq.endpoints.amqp.connection import AMQPServerConnection

_HEADS = 1024  # heads remembered per channel: publishers repeat keys; those that do not only pay for a new head

_NO_ROUTE = (312, "NO_ROUTE")
_NO_CONSUMERS = (313, "NO_CONSUMERS")


class _Special(msgspec.Struct, frozen=True):
    """A message that does not go on as it came, or not by its own key alone."""

    framing: Framing
    content: bytes
    keys: tuple[str, ...]  # further routing keys


def publish_run(connection: "AMQPServerConnection", event: PublishRun) -> None:
    """Publish what came on a channel; what comes on one that is closing is dropped."""
    channel = connection.open_channels.get(event.channel)
    if channel is not None:
        channel.publisher.publish(event)


class ChannelPublisher:
    """What one channel publishes; made with the channel, ends with it.

    Args:
        channel: The channel.
    """

    __slots__ = (
        "_alike",
        "_channel",
        "_framing",
        "_framings",
        "_has_store",
        "_head",
        "_looked_into",
        "_method",
        "_persistent",
        "_publisher",
        "_route",
        "_version",
        "confirms",
    )

    def __init__(self, channel: "ServerChannel") -> None:
        self.confirms: Confirms | None = None
        self._channel = channel
        self._publisher = channel.connection.publisher
        self._has_store = channel.connection.directory.persistence is not None
        self._looked_into = LOOKED_INTO | (HAS_DELIVERY_MODE if self._has_store else 0)
        self._framings: FramingTable | None = None  # of contents that were changed
        # What was published last, and all that is known of messages like it.
        self._method: BasicPublish | None = None
        self._framing: Framing | None = None
        self._persistent = False
        self._head = Head()
        self._route = CachedRoute("", "")
        self._alike: dict[tuple[str, str, Framing, bool], tuple[Head, CachedRoute]] = {}
        self._version = -1  # of the directory, when the table was begun

    def publish(self, run: PublishRun) -> None:
        """Hand a run of publishes to the queues that it is routed to.

        Raises:
            NoSuchSink: The exchange does not exist.
            SinkInternal: Only exchanges may publish into it.
            AMQPRefusal: The user may not, or the publisher cannot be made to wait.
            InvalidProperties: The properties of a message are not acceptable.
            PublishingPaused: Not now; nothing of the run was taken.
        """
        method, framing = run.method, run.framing
        try:
            persistent = False
            if framing.flags & self._looked_into or method.immediate or self._channel.transaction is not None:
                mode = self._mode_of(run)
                if mode is None:
                    self._look_into(run)
                    return
                persistent = mode
            if method is not self._method or framing is not self._framing or persistent is not self._persistent:
                self._look_up(method, framing, persistent=persistent)
            try:
                self._publisher.publish(
                    self._route,
                    self._head,
                    run.contents,
                    run.size,
                    self.confirms,
                    self._return_unrouted if method.mandatory else None,
                )
            except PublishingPaused as paused:
                self._wait_or_refuse(paused, method, [RoutedRun(self._route, self._head, run.contents, run.size)])
        except Forbidden as refused:
            raise access_refused(self._channel, "exchange", refused.name) from None

    # What messages share

    def _look_up(self, method: BasicPublish, framing: Framing, *, persistent: bool) -> None:
        """Look up the head and the route of messages, the same ones for messages that are alike."""
        alike = (method.exchange, method.routing_key, framing, persistent)
        known = self._alike.get(alike)
        if known is None:
            known = self._learn(alike)
        self._head, self._route = known
        self._method, self._framing, self._persistent = method, framing, persistent

    def _learn(self, alike: tuple[str, str, Framing, bool]) -> tuple[Head, CachedRoute]:
        """Create head and route; what is known of queues that may be gone is forgotten first."""
        connection = self._channel.connection
        version = connection.directory.version
        if version != self._version or len(self._alike) >= _HEADS:
            self._alike.clear()
            self._version = version
        exchange, key, framing, persistent = alike
        head = head_of(exchange, key, framing, publisher=connection.session.number, persistent=persistent)
        known = self._alike[alike] = head, CachedRoute(exchange, key)
        return known

    # Runs with messages that concern the broker

    def _mode_of(self, run: PublishRun) -> bool | None:
        """Return whether a run is persistent, if it goes on as it came and as one; None if that is not clear yet."""
        framing = run.framing
        if framing.flags & self._looked_into != HAS_DELIVERY_MODE:
            return None
        if run.method.immediate or self._channel.transaction is not None:
            return None
        modes = by_mode(framing, run.contents)
        return modes[0][0] if len(modes) == 1 else None

    def _look_into(self, run: PublishRun) -> None:
        """Publish a run that does not go on as it came, or not as one; what comes before a bad message counts."""
        method, runs, error = run.method, [], None
        try:
            for part in self._parts(run):
                runs.append(part)
        except InvalidProperties as refusal:
            error = refusal
        try:
            self._publish_all(method, runs)
        except PublishingPaused as paused:
            self._wait_or_refuse(paused, method, runs)
        if error is not None:
            if not runs:
                self._require_exchange(run)  # that there is none comes first
            raise error

    def _parts(self, run: PublishRun) -> Iterator[RoutedRun]:
        """Cut a run into messages that go together.

        Raises:
            InvalidProperties: A property of the next message is not acceptable.
        """
        contents, done = run.contents, 0
        for number in suspects(run.framing, contents):
            try:
                special = self._inspect(run.framing, contents[number])
            except InvalidProperties:
                yield from self._neighbours(run, done, number)
                raise
            if special is not None:
                yield from self._neighbours(run, done, number)
                yield self._special(run.method, special)
                done = number + 1
        yield from self._neighbours(run, done, len(contents))

    def _inspect(self, framing: Framing, content: bytes) -> _Special | None:
        """Check one message's properties, and see what is to be changed; None if it goes on as it came.

        Raises:
            InvalidProperties: A property is not acceptable.
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

    def _neighbours(self, run: PublishRun, start: int, stop: int) -> Iterator[RoutedRun]:
        """Cut neighbours of a run, or all of it, where the delivery mode changes."""
        contents = run.contents
        if stop - start < len(contents):
            contents = contents[start:stop]
        if not contents:
            return
        for persistent, some in self._by_mode(run.framing, contents):
            self._look_up(run.method, run.framing, persistent=persistent)
            size = run.size if some is run.contents else sum(map(len, some))
            yield RoutedRun(self._route, self._head, some, size)

    def _by_mode(self, framing: Framing, contents: list[bytes]) -> Sequence[tuple[bool, list[bytes]]]:
        return by_mode(framing, contents) if self._has_store else [(False, contents)]

    def _special(self, method: BasicPublish, special: _Special) -> RoutedRun:
        """Return the run of one message, by all its keys."""
        content = special.content
        ((persistent, _),) = self._by_mode(special.framing, [content])
        self._look_up(method, special.framing, persistent=persistent)
        keys = special.keys
        route = CachedRoute(method.exchange, method.routing_key, keys) if keys else self._route
        return RoutedRun(route, self._head, [content], len(content))

    def _require_exchange(self, run: PublishRun) -> None:
        """Refuse a run whose exchange is not there, or not for this user."""
        self._look_up(run.method, run.framing, persistent=False)
        try:
            self._publisher.admit([RoutedRun(self._route, self._head, run.contents[:1], 0)])
        except PublishingPaused:
            pass

    # Where they go

    def _publish_all(self, method: BasicPublish, runs: Sequence[RoutedRun]) -> None:
        """Publish all runs or none, as the method's flags and the channel's mode want it."""
        if method.immediate or self._channel.transaction is not None:
            for run in self._publisher.admit(runs):
                self._place_apart(method, run)
        else:
            self._method = method  # for messages that come back
            self._publisher.publish_all(runs, self.confirms, self._return_unrouted if method.mandatory else None)

    def _place_apart(self, method: BasicPublish, run: RoutedRun) -> None:
        """Add messages to the transaction, or offer them to consumers that are there now."""
        if self._channel.transaction is not None:
            self._channel.transaction.publish(method, run)
        else:
            self.offer(method, run)

    def offer(self, method: BasicPublish, run: RoutedRun) -> None:
        """Deal with messages that are not for a queue: there is none, or they are for consumers that are there now."""
        missed = self._publisher.offer(run, self.confirms)
        self._return(method, run.head, missed, _NO_CONSUMERS if run.route.queues else _NO_ROUTE)

    def return_unrouted(self, method: BasicPublish, run: RoutedRun) -> None:
        """Send a mandatory run back whose queues have gone since it was routed."""
        self._return(method, run.head, run.contents, _NO_ROUTE)

    def commit(self, work: Transaction) -> None:
        """Do what a transaction has gathered; raises what ``Transaction.commit`` does."""
        self._publisher.commit(work)

    def _return_unrouted(self, head: Head, contents: Sequence[bytes]) -> None:
        assert self._method is not None
        self._return(self._method, head, contents, _NO_ROUTE)

    def _return(self, method: BasicPublish, head: Head, contents: Sequence[bytes], reason: tuple[int, str]) -> None:
        """Send messages back that were to reach a queue or a consumer (section 1.8.3.7, mandatory and immediate)."""
        if reason is _NO_ROUTE and not method.mandatory:
            return
        answer = BasicReturn(*reason, method.exchange, method.routing_key)
        channel = self._channel
        for content in contents:
            message = QueueMessage(head, content)
            channel.connection.engine.send_content(channel.number, answer, message.properties, message.body)

    # When nothing is taken

    def _wait_or_refuse(self, paused: PublishingPaused, method: BasicPublish, runs: Sequence[RoutedRun]) -> None:
        """Refuse what is not taken now, if waiting is worse: acks that make room would wait behind it.

        Raises:
            PublishingPaused: The connection is to wait.
            AMQPRefusal: The publisher cannot be told otherwise.
        """
        channel, blocked = self._channel, self._channel.connection.blocked
        is_answered = self.confirms is not None or channel.transaction is not None
        if paused.pressure is Pressure.BEHIND:
            raise paused
        if paused.pressure is Pressure.MEMORY and not (is_answered and blocked.can_make_room):
            raise paused
        if paused.pressure is Pressure.DISK:
            blocked.send_unwritable()
        if channel.transaction is not None:
            raise AMQPRefusal(406, f"{paused.pressure.value}; the whole transaction was rolled back")
        if self.confirms is None:
            raise AMQPRefusal(506, "the store cannot be written: persistent messages are refused; use confirms")
        for run in runs:
            for content in run.contents:  # some of them may go to queues that take them
                try:
                    self._publish_all(method, [run._replace(contents=[content], size=len(content))])
                except PublishingPaused:
                    self.confirms.expect(1, 1).refused((0,))

    # Confirms

    def select_confirms(self) -> None:
        """Confirm what is published from now on; a second time changes nothing."""
        if self.confirms is None:
            persistence = self._channel.connection.directory.persistence
            self.confirms = Confirms(self._confirm_soon, persistence, self._committed)

    def _confirm_soon(self) -> None:
        self._channel.connection.reply_later(self.confirm)

    def _committed(self) -> None:
        self._channel.connection.ref.run_in_turn(self._confirm_soon)

    def confirm(self) -> None:
        """Confirm what is placed by now: refusals singly, then the rest."""
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
