"""A client of a MicroMsg2 peer as its users see it: links come and go below it.

    MicroMsgConnection ── publish, open_pipeline ──▶ Outgoing ──────────────┐
         │             ── subscribe ───────────────▶ Subscriptions ─────────┴▶ MicroMsgLink, one at a time: LinkKeeper

On a new link everything is subscribed again, and what was not acknowledged is sent again, in order. So a message may be
there twice, and none is lost that was acknowledged.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

import msgspec
import trio

from triomq.clients.amqp.confirms import ConfirmReceiver, PendingConfirm
from triomq.clients.amqp.connecting import Reconnect
from triomq.clients.micromsg.connecting import Dial, settings_for
from triomq.clients.micromsg.keeping import LinkKeeper
from triomq.clients.micromsg.link import MicroMsgLink
from triomq.clients.micromsg.outgoing import GivenMessage, Outgoing, check_destination
from triomq.clients.micromsg.pipeline import MicroMsgPipeline
from triomq.clients.micromsg.subscription import MicroMsgSubscription
from triomq.clients.micromsg.subscriptions import Subscriptions
from triomq.clients.micromsg.url import MicroMsgUrl
from triomq.errors import Disconnected, LocalProtocolError, RemoteProtocolError, TriomqError
from triomq.protocols.micromsg import (
    CommandAnswered,
    ExtensionReceived,
    FilterCondition,
    HandshakeExtension,
    MicroMessageRun,
    PropertyValue,
    parse_filter,
)

ExtensionHandler: TypeAlias = Callable[[str, bytes], None]
"""Called with an extension's name and what a frame of it says."""


class MicroMsgConnectionStatistics(msgspec.Struct, frozen=True, gc=False):
    """A client at one moment.

    Args:
        is_connected: Whether there is a peer at the other end, and everything is subscribed as it was before.
        reconnects: How often it has come back.
        subscriptions: Subscriptions that are open.
        outstanding: Messages that are published, and not acknowledged.
        buffered: Messages that have come, and that nobody has taken yet.
    """

    is_connected: bool
    reconnects: int
    subscriptions: int
    outstanding: int
    buffered: int


class MicroMsgConnection:
    """Made by ``open_micromsg``, ends with its block. Several tasks may use it.

    Args:
        url: Where to, and as whom.
        reach: Connects to it.
        policy: When to try again.
        extensions: Extensions of the user's own.
        on_extension: Called with what comes for these.
    """

    def __init__(
        self,
        url: MicroMsgUrl,
        reach: Dial,
        policy: Reconnect,
        extensions: Sequence[HandshakeExtension] = (),
        on_extension: ExtensionHandler | None = None,
    ) -> None:
        self.url = url
        self._keeper = LinkKeeper(url, reach, policy, settings_for(url, extensions), self)
        self._on_extension = on_extension
        self._outgoing = Outgoing(resends=policy.resend)
        self._subscriptions = Subscriptions()
        self._has_reader = False

    def __repr__(self) -> str:
        """Show where it leads."""
        return f"<MicroMsgConnection to {self.url.place}>"

    @property
    def peer_identity(self) -> str:
        """What the peer calls itself."""
        return self._keeper.agreed.identity

    @property
    def extensions(self) -> Sequence[HandshakeExtension]:
        """What was agreed on, with what the peer says about each."""
        return self._keeper.agreed.extensions

    def statistics(self) -> MicroMsgConnectionStatistics:
        """Return a snapshot."""
        return MicroMsgConnectionStatistics(
            is_connected=self._keeper.is_connected,
            reconnects=self._keeper.reconnects,
            subscriptions=len(self._subscriptions),
            outstanding=self._outgoing.outstanding,
            buffered=self._subscriptions.buffered,
        )

    # Publishing

    async def publish(
        self, destination: str, body: bytes, properties: Mapping[str, PropertyValue] | None = None
    ) -> None:
        """Publish one message.

        It returns when the peer has acknowledged it: a broker of ours does so when it is in its queues, and on disk
        where they are durable. Without acks it returns when the message is on its way.

        Args:
            destination: ``queue/NAME`` or ``topic/NAME``.
            body: Its body.
            properties: Its properties by lower-case names: texts, numbers, and times with a zone. Subscribers may
                filter by them.

        Raises:
            LimitExceeded: It is larger than what the peer takes.
            LocalProtocolError: It cannot be sent, or the block is left.
            NotFound: The broker has no such destination; it has ended the connection, for good.
            TriomqError: The connection has ended for another reason; the message has arrived or not.
        """
        confirm = PendingConfirm()
        await self.put(self.encode(confirm, destination, body, properties))
        await confirm.wait()

    @asynccontextmanager
    async def open_pipeline(self, *, limit: int = 1000) -> AsyncIterator[MicroMsgPipeline]:
        """Publish many messages without waiting for each; leaving the block waits until all of them are acknowledged.

        An error in the block leaves at once, and what is on its way may or may not arrive.

        Args:
            limit: How many messages may be on their way at once. More than the window wait here.

        Raises:
            TriomqError: As ``publish`` does, about any of them.
        """
        pipeline = MicroMsgPipeline(self, limit)
        yield pipeline
        await pipeline.wait_confirmed()

    def encode(
        self, receiver: ConfirmReceiver, destination: str, body: bytes, properties: Mapping[str, PropertyValue] | None
    ) -> GivenMessage:
        """Return a message as it can be given; for pipelines.

        Raises:
            LocalProtocolError: It cannot be written.
        """
        return self._outgoing.encode(receiver, destination, body, properties)

    async def put(self, message: GivenMessage) -> None:
        """Give a message of which a receiver hears what becomes; for pipelines."""
        outgoing = self._outgoing
        self._keeper.check()
        while outgoing.is_full:
            await outgoing.wait_room()
            self._keeper.check()
        outgoing.give(message)
        link = self._keeper.link
        if link is not None:
            link.expecting()
            link.write_later()

    # Subscribing

    @asynccontextmanager
    async def subscribe(
        self, destination: str, *, filter: str | Sequence[FilterCondition] = "", id: str = ""
    ) -> AsyncIterator[MicroMsgSubscription]:
        """Subscribe to a topic, or consume from a queue, until the block is left. What was not accepted then goes back.

        Args:
            destination: ``topic/NAME`` or ``queue/NAME``; once on each connection.
            filter: What properties of messages of a topic must be like: a text such as ``priority>=N5;customer=TAda``,
                or the conditions one by one.
            id: By what the broker keeps the subscription while the connection is lost, if the URL has a user: then what
                is published meanwhile comes when it is back.

        Raises:
            NotFound: The broker has no such topic or queue.
            AccessRefused: The user may not.
            LocalProtocolError: The filter is none, or the destination is subscribed here already.
            Refused: The broker refuses it otherwise, or knows no subscriptions.
            Disconnected: The peer is gone for good.
        """
        check_destination(destination)
        subscription = MicroMsgSubscription(destination, _conditions(filter), id)
        self._subscriptions.add(subscription)
        try:
            await self._begin(subscription)
            yield subscription
        finally:
            await self._subscriptions.end(self._keeper.link, subscription)

    @asynccontextmanager
    async def read_pushed(self) -> AsyncIterator[MicroMsgSubscription]:
        """Read what the peer sends without being asked to, as peers without subscriptions do. What is not taken waits.

        Raises:
            LocalProtocolError: Another block reads it.
        """
        if self._has_reader:
            raise LocalProtocolError("another block reads what is pushed; share it, several tasks may iterate")
        self._has_reader = True
        try:
            yield self._subscriptions.pushed
        finally:
            self._has_reader = False

    async def _begin(self, subscription: MicroMsgSubscription) -> None:
        """Subscribe for the first time; if the connection is lost meanwhile, when it has come back."""
        while True:
            link = await self._keeper.ready()
            try:
                await self._subscriptions.begin(link, subscription)
            except Disconnected:
                if link.error is None:
                    raise
            else:
                return

    # Extensions of one's own

    async def send_extension(self, name: str, payload: bytes) -> None:
        """Send a frame of an extension of one's own, which was given to ``open_micromsg``.

        Raises:
            LocalProtocolError: The peer has not agreed to it.
            Disconnected: The peer is gone for good.
        """
        link = await self._keeper.ready()
        link.engine.send_extension(name, payload)
        link.write_later()
        await trio.lowlevel.checkpoint()

    # Where the connection is

    async def wait_disconnected(self) -> None:
        """Wait until the connection is lost; returns at once while there is none."""
        await self._keeper.wait_lost()

    async def wait_connected(self) -> None:
        """Wait while there is no connection, until everything is subscribed as it was before.

        Raises:
            Disconnected: There will be none any more.
            TriomqError: The peer has ended it for another reason.
        """
        await self._keeper.ready()

    # What links tell

    def lost(self) -> None:
        """Note that there is no link now."""
        self._outgoing.lost(self.url.place)
        self._subscriptions.lost()

    async def recover(self, link: MicroMsgLink) -> None:
        """Subscribe to everything again."""
        await self._subscriptions.recover(link)

    def gave_up(self, error: TriomqError) -> None:
        """Fail everything that waits."""
        self._outgoing.fail(error)
        self._subscriptions.fail(error)

    @property
    def expects(self) -> bool:
        """Whether anybody waits for an ack."""
        return self._outgoing.outstanding > 0

    def fill(self, link: MicroMsgLink) -> None:
        """Give the engine what is to be sent, as far as it has room."""
        self._outgoing.fill(link)

    def took(self, link: MicroMsgLink, run: MicroMessageRun) -> None:
        """Take messages."""
        self._subscriptions.took(link, run)

    def acked(self, count: int) -> None:
        """Count messages that the peer has."""
        self._outgoing.acked(count)

    def told(self, link: MicroMsgLink, answer: CommandAnswered) -> None:
        """End a subscription that the broker has ended: it answers to its SUBSCRIBE a second time."""
        self._subscriptions.told(answer)

    def extended(self, event: ExtensionReceived) -> None:
        """Hand a frame of the user's own extension over."""
        if self._on_extension is not None:
            self._on_extension(event.name, event.payload)

    # Beginning and ending; for ``open_micromsg``

    async def start(self, nursery: trio.Nursery) -> None:
        """Connect for the first time; raises as ``open_micromsg`` does."""
        await self._keeper.start(nursery)

    async def close(self) -> None:
        """Close in order: what was accepted is told."""
        with trio.CancelScope(shield=True):
            await self._keeper.close()
        place = self.url.place
        self._keeper.give_up(LocalProtocolError(f"the connection to {place} was closed when its block was left"))


def _conditions(given: str | Sequence[FilterCondition]) -> Sequence[FilterCondition]:
    if not isinstance(given, str):
        return given
    try:
        return parse_filter(given)
    except RemoteProtocolError as error:
        raise LocalProtocolError(str(error)) from None
