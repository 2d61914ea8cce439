"""The publishing half of one AMQP channel: from runs of publishes to the queues that they are routed to."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from triomq.core import (
    CachedRoute,
    Confirms,
    Forbidden,
    Head,
    NoSuchSink,
    Pressure,
    PublishingPaused,
    QueueMessage,
    RoutedHead,
    RoutedRun,
    SinkInternal,
    Transaction,
)
from triomq.endpoints.amqp.inspecting import Inspector
from triomq.endpoints.amqp.permissions import access_refused
from triomq.endpoints.amqp.refusals import AMQPRefusal
from triomq.endpoints.content import InvalidProperties, head_of
from triomq.errors import Refused
from triomq.protocols.amqp import (
    BasicNack,
    BasicPublish,
    BasicReturn,
    Framing,
    PublishKind,
    PublishMix,
    PublishRun,
)

if TYPE_CHECKING:
    from triomq.endpoints.amqp.channel import ServerChannel
    from triomq.endpoints.amqp.connection import AMQPServerConnection

_HEADS = 1024  # heads remembered per channel: publishers repeat keys; those that do not only pay for a new head

# What channels have that publish nothing: those cost no memory.
_NOTHING = RoutedHead(CachedRoute("", ""), Head())
_NO_KINDS: dict[PublishKind, RoutedHead] = {}

_NO_ROUTE = (312, "NO_ROUTE")
_NO_CONSUMERS = (313, "NO_CONSUMERS")

_Routed = tuple[BasicPublish, RoutedRun]
"""A run, and the method that it came with."""


def publish_run(connection: "AMQPServerConnection", event: PublishRun) -> None:
    """Publish what came on a channel; what comes on one that is closing is dropped."""
    channel = connection.open_channels.get(event.channel)
    if channel is not None:
        channel.publisher.publish(event)


def publish_mix(connection: "AMQPServerConnection", event: PublishMix) -> None:
    """Publish what came on a channel with several keys, or in several shapes."""
    channel = connection.open_channels.get(event.channel)
    if channel is not None:
        channel.publisher.publish_mix(event)


class ChannelPublisher:
    """What one channel publishes; made with the channel, ends with it.

    Args:
        channel: The channel.
    """

    __slots__ = (
        "_alike",
        "_channel",
        "_framing",
        "_inspector",
        "_kinds",
        "_looked_into",
        "_method",
        "_persistent",
        "_publisher",
        "_routed",
        "_version",
        "confirms",
    )

    def __init__(self, channel: "ServerChannel") -> None:
        self.confirms: Confirms | None = None
        self._channel = channel
        self._publisher = channel.connection.publisher
        self._inspector = Inspector(channel)
        self._looked_into = self._inspector.looked_into
        # What was published last, and all that is known of messages like it.
        self._method: BasicPublish | None = None
        self._framing: Framing | None = None
        self._persistent = False
        self._routed = _NOTHING
        self._alike: dict[tuple[str, str, Framing, bool], RoutedHead] = {}
        self._kinds = _NO_KINDS  # of those that go on as they came
        self._version = -1  # of the directory, when the tables were begun

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
            if framing.flags & self._looked_into or self._is_apart(method):
                mode = None if self._is_apart(method) else self._inspector.mode_of(run)
                if mode is None:
                    self._look_into([run])
                    return
                persistent = mode
            if method is not self._method or framing is not self._framing or persistent is not self._persistent:
                self._look_up(method, framing, persistent=persistent)
            routed, unrouted = self._routed, self._return_unrouted if method.mandatory else None
            try:
                taken = self._publisher.publish_part(routed, run.contents, run.size, self.confirms, unrouted)
            except PublishingPaused as paused:
                part = RoutedRun(routed.route, routed.head, run.contents, run.size)
                self._wait_or_refuse(paused, [(method, part)])
            else:
                if taken < len(run.contents):
                    self._channel.connection.do_next(run.behind(taken))
        except Forbidden as refused:
            raise access_refused(self._channel, "exchange", refused.name) from None

    def publish_mix(self, mix: PublishMix) -> None:
        """Hand publishes of several keys to the queues that each of them is routed to; raises what ``publish`` does.

        What comes before a publish that is refused counts, as if each had come as a run.
        """
        try:
            routed = None if self._is_apart(mix.method) else self._routed_of(mix.kinds)
            if routed is None:
                self._look_into(mix.runs())
                return
            unrouted = self._return_unrouted if mix.method.mandatory else None
            try:
                taken = self._publisher.publish_mix(routed, mix.contents, mix.size, self.confirms, unrouted)
            except (Forbidden, NoSuchSink, SinkInternal):
                self._look_into(mix.runs())
            except PublishingPaused as paused:
                apart = zip(mix.kinds, routed, mix.contents, strict=True)
                runs = [(kind.method, RoutedRun(one.route, one.head, [some], len(some))) for kind, one, some in apart]
                self._wait_or_refuse(paused, runs)
            else:
                if taken.messages < len(routed):
                    kinds, contents = mix.kinds[taken.messages :], mix.contents[taken.messages :]
                    self._channel.connection.do_next(PublishMix(mix.channel, kinds, contents, sum(map(len, contents))))
        except Forbidden as refused:
            raise access_refused(self._channel, "exchange", refused.name) from None

    def _is_apart(self, method: BasicPublish) -> bool:
        """Return whether messages are not simply for queues: they belong to a transaction, or to consumers alone."""
        if not method.immediate:
            return self._channel.transaction is not None
        if self._channel.connection.as_rabbitmq:
            raise AMQPRefusal(540, "immediate=true")
        return True

    # What messages share

    def _look_up(self, method: BasicPublish, framing: Framing, *, persistent: bool) -> None:
        """Look up the head and the route of messages, the same ones for messages that are alike."""
        self._routed = self._find(method, framing, persistent=persistent)
        self._method, self._framing, self._persistent = method, framing, persistent

    def _find(self, method: BasicPublish, framing: Framing, *, persistent: bool) -> RoutedHead:
        alike = (method.exchange, method.routing_key, framing, persistent)
        return self._alike.get(alike) or self._learn(alike)

    def _learn(self, alike: tuple[str, str, Framing, bool]) -> RoutedHead:
        """Create head and route; what is known of queues that may be gone is forgotten first."""
        connection = self._channel.connection
        version = connection.directory.version
        if version != self._version or len(self._alike) >= _HEADS:
            self._alike.clear()
            self._kinds = _NO_KINDS
            self._version = version
        exchange, key, framing, persistent = alike
        head = head_of(exchange, key, framing, publisher=connection.session.number, persistent=persistent)
        known = self._alike[alike] = RoutedHead(CachedRoute(exchange, key), head)
        return known

    def _routed_of(self, kinds: Sequence[PublishKind]) -> list[RoutedHead] | None:
        """Return head and route of each message of a mix; None if some do not go on as they came."""
        try:
            return [self._kinds[kind] for kind in kinds]
        except KeyError:
            pass
        found: dict[PublishKind, RoutedHead] = {}
        for kind in dict.fromkeys(kinds):
            known = self._kinds.get(kind)
            if known is None:
                persistent = self._inspector.mode_in(kind.framing, kind.layout)
                if persistent is None:
                    return None
                known = self._find(kind.method, kind.framing, persistent=persistent)
            found[kind] = known
        if len(self._kinds) >= _HEADS or self._kinds is _NO_KINDS:
            self._kinds = {}
        self._kinds.update(found)
        return [found[kind] for kind in kinds]

    # Messages that concern the broker

    def _look_into(self, runs: Sequence[PublishRun]) -> None:
        """Publish runs that do not go on as they came, or not as one; what comes before a bad message counts."""
        parts: list[_Routed] = []
        error: Refused | None = None
        for run in runs:
            try:
                for part in self._inspector.parts(run):
                    routed = self._find(run.method, part.framing, persistent=part.persistent)
                    route = routed.route
                    if part.keys:
                        route = CachedRoute(route.sink, route.key, part.keys)
                    size = run.size if part.contents is run.contents else sum(map(len, part.contents))
                    parts.append((run.method, RoutedRun(route, routed.head, part.contents, size)))
            except InvalidProperties as refusal:
                error = refusal
                break
        try:
            if len(runs) > 1:
                parts, error = self._up_to_refused(parts, error)
            self._publish_all(parts)
        except PublishingPaused as paused:
            self._wait_or_refuse(paused, parts)
        if error is not None:
            if isinstance(error, InvalidProperties):
                self._require_exchange(run)  # that there is none comes first
            raise error

    def _up_to_refused(self, parts: list[_Routed], error: Refused | None) -> tuple[list[_Routed], Refused | None]:
        """Return what comes before the first message that may not go where it is to, and why it may not."""
        for place, (_, part) in enumerate(parts):
            try:
                self._publisher.admit([part])
            except (Forbidden, NoSuchSink, SinkInternal) as refusal:
                return parts[:place], refusal
        return parts, error

    def _require_exchange(self, run: PublishRun) -> None:
        """Refuse a run whose exchange is not there, or not for this user."""
        routed = self._find(run.method, run.framing, persistent=False)
        try:
            self._publisher.admit([RoutedRun(routed.route, routed.head, run.contents[:1], 0)])
        except PublishingPaused:
            pass

    # Where they go

    def _publish_all(self, parts: Sequence[_Routed]) -> None:
        """Publish all runs or none, as the flags of their methods, all the same, and the channel's mode want it."""
        if not parts:
            return
        method = parts[0][0]
        if self._is_apart(method):
            admitted = [(method, run) for method, part in parts for run in self._publisher.admit([part])]
            for method, run in admitted:
                self._place_apart(method, run)
        else:
            unrouted = self._return_unrouted if method.mandatory else None
            self._publisher.publish_all([part for _, part in parts], self.confirms, unrouted)

    def _place_apart(self, method: BasicPublish, run: RoutedRun) -> None:
        """Add messages to the transaction, or offer them to consumers that are there now."""
        if self._channel.transaction is not None:
            self._channel.transaction.publish(method, run)
        else:
            self.offer(method, run)

    def offer(self, method: BasicPublish, run: RoutedRun) -> None:
        """Deal with messages that are not for a queue: there is none, or they are for consumers that are there now."""
        missed = self._publisher.offer(run, self.confirms)
        if run.route.queues:
            self._return(run.head, missed, _NO_CONSUMERS)
        elif method.mandatory:
            self._return(run.head, missed, _NO_ROUTE)

    def return_unrouted(self, run: RoutedRun) -> None:
        """Send a mandatory run back whose queues have gone since it was routed."""
        self._return_unrouted(run.head, run.contents)

    def commit(self, work: Transaction) -> None:
        """Do what a transaction has gathered; raises what ``Transaction.commit`` does."""
        self._publisher.commit(work)

    def _return_unrouted(self, head: Head, contents: Sequence[bytes]) -> None:
        self._return(head, contents, _NO_ROUTE)

    def _return(self, head: Head, contents: Sequence[bytes], reason: tuple[int, str]) -> None:
        """Send messages back that were to reach a queue or a consumer (section 1.8.3.7, mandatory and immediate)."""
        answer = BasicReturn(*reason, head.exchange, head.routing_key)
        channel = self._channel
        for content in contents:
            message = QueueMessage(head, content)
            channel.connection.engine.send_content(channel.number, answer, message.properties, message.body)

    # When nothing is taken

    def _wait_or_refuse(self, paused: PublishingPaused, parts: Sequence[_Routed]) -> None:
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
        for method, run in parts:
            for content in run.contents:  # some of them may go to queues that take them
                try:
                    self._publish_all([(method, run._replace(contents=[content], size=len(content)))])
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
