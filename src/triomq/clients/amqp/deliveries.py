"""A consumer: ``async for delivery in deliveries``.

    Line ── put(run) ──► _inbox ── _begin ──► _ready ── __anext__ ──► the user's task
             reader task   runs      one checkpoint each    no task switch

Runs stay whole until a task takes from them: a hundred deliveries cost one entry, one wake-up and one checkpoint.
``_ready`` is stored backwards, since ``pop()`` at the end of a list costs nothing.

How much may wait depends on who could hold the broker back:

- With a prefetch the broker stops by itself; nothing is counted here.
- Without one, or with ``no_ack``, only the socket can. So what waits is counted, for the consumer and for its link,
  which stops reading at 4 MiB. Where the link has to read on, because a task waits for a reply, the consumer may fall
  behind by 64 MiB; then it fails, which is better than a process that grows until it is killed.
- Runs that come over a direct connection have a socket of their own and are not counted for the link.

What is not settled when a consumer ends is requeued. After a reconnect the broker delivers it again, and tags of the
old connection, which ``Acks`` belongs to, settle nothing.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

import msgspec
import trio

from triomq.clients.amqp.acks import Acks
from triomq.clients.amqp.delivery import AMQPDelivery
from triomq.clients.amqp.pending_reply import PendingReply, fresh
from triomq.errors import ConsumerCancelled, Disconnected, LimitExceeded, TriomqError
from triomq.protocols import Table
from triomq.protocols.amqp import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    BasicQosOk,
    DeliverRun,
)

if TYPE_CHECKING:
    from triomq.clients.amqp.consuming_methods import ConsumingMethods
    from triomq.clients.amqp.line import Line, Reply
    from triomq.clients.dmp.link import DirectLink

BEHIND_MOST = 64 * 1024 * 1024
"""Bytes that one consumer without a prefetch may leave unread while the connection has to be read for others."""


class Consuming(msgspec.Struct, frozen=True, kw_only=True):
    """What a consumer asked for, to ask for it again after a reconnect.

    Args:
        queue: The queue's name when it began.
        tag: Its consumer tag.
        prefetch: How many deliveries may be unsettled at a time; 0 sets no limit.
        no_ack: Whether deliveries are settled by being sent.
        exclusive: Whether no other consumer may be there.
        no_local: Whether messages that this connection publishes are left out.
        arguments: As ``x-priority``.
    """

    queue: str
    tag: str
    prefetch: int
    no_ack: bool
    exclusive: bool
    no_local: bool
    arguments: Table


class Deliveries:
    """Deliveries from one queue, in order; made by ``AMQPChannel.consume``, ends with its block.

    Several tasks may iterate over it; each gets other deliveries. After a reconnect it goes on by itself: what was not
    settled comes again, marked.
    """

    def __init__(self, channel: "ConsumingMethods", consuming: Consuming) -> None:
        self.consuming = consuming
        self._channel = channel
        self._line: Line | None = None
        self._inbox: deque[tuple[DeliverRun, Acks]] = deque()
        self._ready: list[AMQPDelivery] = []  # the last one first
        self._tags: deque[list[int]] = deque()
        self._arrived = trio.lowlevel.ParkingLot()
        self._error: TriomqError | None = None
        self._begun = False
        self._over = False
        self._is_lax = consuming.no_ack or not consuming.prefetch
        self._buffered = 0
        self._from_link = 0  # bytes of these that came over AMQP, and that the link has an account of
        self.on_taken: Callable[[], None] | None = None
        """Called when some of what waits was taken; for a direct connection."""
        self.direct: DirectLink | None = None
        """The direct connection over which deliveries come."""

    @property
    def consumer_tag(self) -> str:
        """The name of this consumer, unique on its channel."""
        return self.consuming.tag

    @property
    def buffered(self) -> int:
        """Bytes that wait to be taken, if nothing is to be settled."""
        return self._buffered

    # Iterating

    def __aiter__(self) -> Self:
        """Iterate."""
        return self

    async def __anext__(self) -> AMQPDelivery:
        """Wait for the next delivery.

        Raises:
            StopAsyncIteration: The block of ``consume`` is left.
            ConsumerCancelled: The broker has ended this consumer: its queue was deleted, or has failed.
            LimitExceeded: It has no prefetch, and fell too far behind.
            Disconnected: The connection is lost for good.
            TriomqError: The broker has closed the channel.
        """
        ready = self._ready
        if ready:
            return ready.pop()
        while True:
            if self._inbox:
                self._begin(*self._inbox.popleft())
                await trio.lowlevel.checkpoint()
            elif self._error is not None:
                raise fresh(self._error)
            elif self._over:
                raise StopAsyncIteration
            else:
                await self._arrived.park()
            if self._ready:
                return self._ready.pop()

    def _begin(self, run: DeliverRun, acks: Acks) -> None:
        """Make deliveries of a run, ready to be handed out."""
        method, framing = run.method, run.framing
        settling = None if self.consuming.no_ack else acks
        taken = [
            AMQPDelivery(settling, method, framing, tag, content)
            for tag, content in zip(run.tags, run.contents, strict=True)
        ]
        taken.reverse()
        self._ready[:0] = taken
        if self._is_lax:
            self._buffered -= run.size
            if self.on_taken is not None:
                self.on_taken()
            if run.tags[0] and self._line is not None:
                self._from_link -= run.size
                self._line.link.taken(run.size)

    # What the line calls

    def put(self, run: DeliverRun, acks: Acks) -> None:
        """Add a run; one that comes after the end is requeued."""
        if not self.consuming.no_ack:
            acks.received(run.tags)
            if self._over:
                acks.give_back(run.tags)
                return
            self._remember(run.tags, acks)
        if self._over:
            return
        self._inbox.append((run, acks))
        if self._is_lax:
            self._buffer(run)
        self._arrived.unpark_all()

    def _remember(self, tags: list[int], acks: Acks) -> None:
        """Store the tags, which are requeued at the end, and drop those that are settled."""
        oldest = acks.oldest()
        while self._tags and self._tags[0][-1] < oldest:
            self._tags.popleft()
        self._tags.append(tags)

    def _buffer(self, run: DeliverRun) -> None:
        self._buffered += run.size
        assert self._line is not None
        if run.tags[0]:  # a run that came directly has tags of 0, and a socket of its own that can be held back
            self._from_link += run.size
            self._line.link.buffered += run.size
        if self._buffered > BEHIND_MOST:
            self._drop()
            self._over = True
            self.failed(
                LimitExceeded(
                    f"this consumer of {self.consuming.queue!r} has left {BEHIND_MOST} bytes unread, and has no "
                    "prefetch that would hold the broker back; consume with a prefetch and accept what is done, or "
                    "read faster"
                )
            )
            self._cancel(self._line)

    def _drop(self) -> None:
        """Drop what has not been taken."""
        self._inbox.clear()
        self._ready.clear()
        if self._is_lax and self._line is not None:
            self._line.link.taken(self._from_link)
        self._buffered = self._from_link = 0

    def cancelled(self) -> None:
        """End: the broker has cancelled this consumer."""
        self._channel.forget(self)
        self.failed(
            ConsumerCancelled(
                f"the broker has ended this consumer of {self.consuming.queue!r}: the queue was deleted, or its server "
                "failed; declare the queue again and consume from it anew"
            )
        )

    def failed(self, error: TriomqError) -> None:
        """End with an error, once what has come is taken."""
        if self._error is None:
            self._error = error
            self._arrived.unpark_all()

    def put_back(self) -> None:
        """Drop what is not taken: the broker has it again, and delivers it anew."""
        self._tags.clear()
        if not self.consuming.no_ack:
            self._drop()

    # Beginning and ending

    async def begin(self, line: "Line") -> None:
        """Ask for deliveries on this line; raises what the broker refuses it with."""
        what = self.consuming
        self.put_back()
        self._line = line
        line.link.buffered += self._from_link
        if not what.no_ack:
            self._limit(line, what.prefetch)
        method = BasicConsume(
            self._channel.current(what.queue),
            what.tag,
            no_local=what.no_local,
            no_ack=what.no_ack,
            exclusive=what.exclusive,
            arguments=what.arguments,
        )
        line.consumers[what.tag] = self
        self._begun = False
        try:
            await line.ask(method, BasicConsumeOk, on_reply=self._began).wait()
        except TriomqError:
            line.consumers.pop(what.tag, None)
            raise

    def _limit(self, line: "Line", prefetch: int) -> None:
        """Send the prefetch that holds for consumers from here on.

        Replies come in order, so no task waits for them; a refusal closes the channel.
        """
        if prefetch == line.prefetch:
            return
        line.prefetch = prefetch
        line.ask(BasicQos(0, prefetch), BasicQosOk)
        if self._channel.shared_prefetch is not None:
            # RabbitMQ drops the limit of the whole channel when it gets one for consumers.
            line.ask(BasicQos(0, self._channel.shared_prefetch, True), BasicQosOk)

    def leave_direct(self) -> None:
        """End the direct connection, if there is one: the session that it belongs to is over for us."""
        if self.direct is not None:
            self.direct.end(Disconnected("its consumer has gone"))
            self.direct = None

    async def aclose(self) -> None:
        """End; ``consume`` calls this when its block is left."""
        try:
            await self._cancel_all()
        finally:
            self.leave_direct()

    async def _cancel_all(self) -> None:
        line, self._over = self._line, True
        self._arrived.unpark_all()
        self._channel.forget(self)
        self._drop()
        if line is None or line.error is not None or line.closing:
            return
        asked = None
        if self._begun and line.consumers.get(self.consuming.tag) is self:
            asked = self._cancel(line)
        if not self.consuming.no_ack:
            line.acks.give_back(tag for tags in self._tags for tag in tags)
        if asked is not None:
            await asked.wait()

    def _cancel(self, line: "Line") -> "PendingReply[Reply]":
        """Send basic.cancel; what comes before cancel-ok is requeued, so the line holds this consumer until then."""
        return line.ask(BasicCancel(self.consuming.tag), BasicCancelOk, on_reply=self._forgotten)

    def _began(self, reply: object, abandoned: bool) -> None:
        """Handle consume-ok: deliveries will come.

        One that was left before that is cancelled now and not earlier: a RabbitMQ channel crashes when the cancel comes
        before its consume-ok (3.10: 541 INTERNAL_ERROR).
        """
        self._begun = True
        if self._over and self._line is not None:
            self._cancel(self._line)

    def _forgotten(self, reply: object, abandoned: bool) -> None:
        """Handle cancel-ok: the broker sends nothing more."""
        if self._line is not None:
            self._line.consumers.pop(self.consuming.tag, None)
