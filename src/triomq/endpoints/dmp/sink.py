"""A direct connection that leads into a sink: from runs of messages to the queues that they are routed to.

The lease names the sink. What a message itself calls its exchange is carried along and not looked at.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from triomq.core import CachedRoute, Directory, Head, QueueMessage, RoutedHead, RoutedRun, Unrouted
from triomq.endpoints.content import (
    CC,
    CHECKED,
    HAS_DELIVERY_MODE,
    HAS_HEADERS,
    HAS_REPLY_TO,
    LOOKED_INTO,
    InvalidProperties,
    UnframedShape,
    by_mode,
    check_claims,
    copies_of,
    head_of,
    is_persistent,
    suspects,
    with_reply_name,
)
from triomq.endpoints.direct import Grant, ReturnMessage, SinkFlow, Undelivered
from triomq.endpoints.dmp.refusals import denial_of
from triomq.errors import Refused
from triomq.protocols.dmp import Envelope, MessageRun

if TYPE_CHECKING:
    from triomq.endpoints.dmp.connection import DMPServerConnection

WHOLE = -1
"""What a head's ``frame`` is where contents are whole messages of a direct connection, to be sent on as they are."""

_HEADS = 1024  # heads remembered: publishers repeat keys; those that do not only pay for a new head


class DirectSink:
    """What one direct connection publishes; made when its lease is accepted, ends with it.

    Args:
        connection: The connection.
        name: The sink's name.
        grant: What its lease was given for.
        flow: Gets the queues of each run.
    """

    __slots__ = (
        "_connection",
        "_directory",
        "_grant",
        "_has_store",
        "_looked_into",
        "_name",
        "_persistent",
        "_publisher",
        "_transient",
        "_version",
        "_went_to",
    )

    def __init__(self, connection: "DMPServerConnection", name: str, grant: Grant, flow: SinkFlow) -> None:
        self._went_to = flow.published
        self._connection = connection
        self._name = name
        self._grant = grant
        self._directory: Directory = connection.directory
        self._publisher = connection.publisher
        self._has_store = self._directory.persistence is not None
        self._looked_into = LOOKED_INTO | (HAS_DELIVERY_MODE if self._has_store else 0)
        # Where messages of each envelope go, those that do not concern a store and those that do.
        self._transient: dict[Envelope, RoutedHead] = {}
        self._persistent: dict[Envelope, RoutedHead] = {}
        self._version = -1  # of the directory, when these were begun

    def publish(self, run: MessageRun) -> None:
        """Hand a run of messages to the queues that it is routed to.

        Raises:
            LeaseDenied: The sink is gone, or a message is not acceptable; those before it count.
            PublishingPaused: Not now; nothing of the run was taken.
        """
        shape = run.envelope
        try:
            if shape.flags & self._looked_into or shape.immediate:
                self._look_into(run)
                return
            unrouted = self._lost if shape.mandatory else None
            if run.envelopes is not None:
                self._publish_mix(run, run.envelopes, unrouted)
                return
            known = self._transient.get(shape) or self._routed((shape,), persistent=False)[0]
            route, head = known.route, known.head
            if route.version == self._directory.version:
                self._publisher.publish(route, head, run.contents, run.size, None, unrouted)
                self._went_to.append(route.queues)
            else:
                self._publish_admitted([RoutedRun(route, head, run.contents, run.size)], unrouted)
        except Refused as error:
            raise denial_of(error) from None

    def _publish_mix(self, run: MessageRun, envelopes: Sequence[Envelope], unrouted: Unrouted | None) -> None:
        """Publish messages whose names differ; what is too much for one turn goes on in another one."""
        routed = self._routed(envelopes, persistent=False)
        taken = self._publisher.publish_mix(routed, run.contents, run.size, None, unrouted)
        self._went_to += taken.queues
        if taken.messages < len(routed):
            self._connection.do_next(run.behind(taken.messages))

    # What messages share

    def _routed(self, shapes: Sequence[Envelope], *, persistent: bool) -> Sequence[RoutedHead]:
        """Return route and head of messages with these shapes, which have the same flags and options."""
        known = self._persistent if persistent else self._transient
        if self._directory.version != self._version or len(known) >= _HEADS:
            self._transient.clear()  # which may name queues that are gone
            self._persistent.clear()
            self._version = self._directory.version
        new = [shape for shape in shapes if shape not in known]
        if new:
            self._learn(known, new, persistent=persistent)
        return [known[shape] for shape in shapes]

    def _learn(self, known: dict[Envelope, RoutedHead], shapes: Sequence[Envelope], *, persistent: bool) -> None:
        """Create routes and heads, which differ in names and offsets alone."""
        first, name = shapes[0], self._name
        # Where options are set it cannot be sent on as it is: on a feed they are 0.
        flags, frame = first.flags, 0 if first.options else WHOLE
        traits = self._make_head(first, UnframedShape(0, 0, 0, 0, 0, flags), persistent=persistent).traits
        for shape in shapes:
            key, stop = shape.routing_key, shape.properties_stop
            head = Head(shape.exchange, key, shape.properties_start, stop, stop + 4, 0, frame, flags, traits)
            known[shape] = RoutedHead(CachedRoute(name, key), head)

    def _make_head(self, shape: Envelope, layout: UnframedShape, *, persistent: bool) -> Head:
        publisher = self._connection.session.number
        return head_of(
            shape.exchange,
            shape.routing_key,
            layout,
            publisher=publisher,
            persistent=persistent,
            expendable=True,  # there are no confirms
        )

    # Runs with messages that concern the broker

    def _look_into(self, run: MessageRun) -> None:
        """Publish a run that does not go on as it came, or not as one; what comes before a bad message counts."""
        runs: list[RoutedRun] = []
        error: InvalidProperties | None = None
        try:
            for part in run.alike():
                runs.extend(self._parts(part.envelope, part.contents))
        except InvalidProperties as refusal:
            error = refusal
        self._publish_all(run.envelope, runs)
        if error is not None:
            raise error

    def _parts(self, shape: Envelope, contents: list[bytes]) -> Iterator[RoutedRun]:
        """Cut a run into messages that go together.

        Raises:
            InvalidProperties: The next message is not acceptable.
        """
        done = 0
        for number in suspects(shape, contents):
            encoded = shape.properties(contents[number])
            try:
                changed, keys = self._inspect(shape, encoded)
            except InvalidProperties:
                yield from self._neighbours(shape, contents[done:number])
                raise
            if changed is not encoded or keys:
                yield from self._neighbours(shape, contents[done:number])
                yield self._special(shape, changed, shape.body(contents[number]), keys)
                done = number + 1
        yield from self._neighbours(shape, contents[done:] if done else contents)

    def _inspect(self, shape: Envelope, encoded: bytes) -> tuple[bytes, tuple[str, ...]]:
        """Check one message's properties; give what is to be in their place, and further routing keys."""
        if shape.flags & CHECKED:
            check_claims(encoded, self._connection.user)
        changed = encoded
        if shape.flags & HAS_REPLY_TO and self._grant.lessee.open:
            changed = with_reply_name(self._grant.lessee, encoded)
        if shape.flags & HAS_HEADERS and CC in encoded:
            copies = copies_of(changed)
            return copies.properties or changed, copies.keys
        return changed, ()

    def _neighbours(self, shape: Envelope, contents: list[bytes]) -> Iterator[RoutedRun]:
        """Cut neighbours of a run, or all of it, where the delivery mode changes."""
        if not contents:
            return
        for persistent, some in by_mode(shape, contents) if self._has_store else [(False, contents)]:
            (known,) = self._routed((shape,), persistent=persistent)
            yield RoutedRun(known.route, known.head, some, sum(map(len, some)))

    def _special(self, shape: Envelope, properties: bytes, body: bytes, keys: tuple[str, ...]) -> RoutedRun:
        """Return the run of one message that does not go on as it came, by all its keys."""
        size = len(properties)
        flags = int.from_bytes(properties[:2], "big")
        persistent = self._has_store and is_persistent(properties)
        head = self._make_head(shape, UnframedShape(0, 0, size, size, 0, flags), persistent=persistent)
        content = properties + body
        return RoutedRun(CachedRoute(self._name, shape.routing_key, keys), head, [content], len(content))

    # Where they go

    def _publish_all(self, shape: Envelope, runs: Sequence[RoutedRun]) -> None:
        """Publish all runs or none, as their messages' options want it."""
        if not shape.immediate:
            self._publish_admitted(runs, self._lost if shape.mandatory else None)
            return
        for run in self._publisher.admit(runs):
            missed = self._publisher.offer(run)
            if run.route.queues:
                self._return(run.head, missed, Undelivered.NO_CONSUMERS)
            elif shape.mandatory:
                self._return(run.head, missed, Undelivered.NO_ROUTE)

    def _publish_admitted(self, runs: Sequence[RoutedRun], unrouted: Unrouted | None) -> None:
        """Publish all runs or none, and note where each of them goes."""
        for run in self._publisher.admit(runs):
            self._publisher.publish(*run, None, unrouted)
            self._went_to.append(run.route.queues)

    def _lost(self, head: Head, contents: Sequence[bytes]) -> None:
        self._return(head, contents, Undelivered.NO_ROUTE)

    def _return(self, head: Head, contents: Sequence[bytes], reason: Undelivered) -> None:
        """Send messages back to the lessee of the sink; nowhere if that has gone."""
        lessee = self._grant.lessee
        if not lessee.open:
            return
        tell = lessee.connection.ref.tell_nowait
        for content in contents:
            message = QueueMessage(head, content)
            tell(ReturnMessage(lessee, reason, self._name, head.routing_key, message.properties, message.body))

    @property
    def is_choked(self) -> bool:
        """Whether so many returns are unread that no more may come."""
        lessee = self._grant.lessee
        return lessee.open and lessee.connection.writer.is_choked
