"""What a client does in a domain: publish, consume, declare, with the rights of its user.

Rights are asked where the work is done: by ``Publisher`` and ``Subscription`` of the core, and by ``ask`` here. A
protocol that forgets them is refused, not let in. ``publish`` is for protocols whose messages are not sent on as they
came; one that has runs of such messages, as AMQP has, hands them to ``publisher`` with heads of its own.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from math import inf
from typing import Any, Final, TypeAlias, TypeVar, TypeVarTuple, final

import trio

from triomq.actors import InPlaceActor, Ref, Request, Turn
from triomq.core import (
    Batch,
    Bind,
    Browse,
    DeclareQueue,
    DeclareSink,
    DeleteQueue,
    DeleteSink,
    Directory,
    Get,
    Ledger,
    Outcome,
    Pause,
    Pressure,
    Properties,
    Publisher,
    PublishingPaused,
    Purge,
    Receipt,
    Restarting,
    RouteCache,
    Session,
    SingleReceipt,
    Subscription,
    Unbind,
    Window,
    core_message,
    settle,
)
from triomq.errors import AccessRefused, LimitExceeded, Refused
from triomq.security import Access

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

_NO_PROPERTIES = Properties()

LONGEST_KEY = 255
"""Bytes of a key: what a consumer over AMQP can be sent (AMQP 0-9-1 section 4.2.5.3, short strings)."""


class ClientEnded(Refused):
    """The client whose work this would be has ended; the reason is the broker's."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason or "the client has ended")


class DomainWork(InPlaceActor):
    """The part of a ``Client`` that works in a domain; its attributes are there once that has entered one."""

    user: str = ""
    """As whom it has logged in; empty until then."""

    entered: bool = False
    """Whether it works in a domain."""

    ending: str = ""
    """Why it ends, once it does."""

    access: Access
    """What it may do; the next ones too are there once it has entered a domain."""

    session: Session
    domain: Ref
    directory: Directory
    subscriptions: dict[Subscription, None]

    window: Window | None = None
    """The window that all its subscriptions share, where it has one."""

    _turn: Turn
    _unsettled: Ledger | None = None

    def __init__(self) -> None:
        self.subscriptions = {}

    # Made when they are used: thousands of idle clients publish nothing.

    @cached_property
    def publisher(self) -> Publisher:
        """What its messages are published by."""
        return Publisher(self.directory, self.access, self._turn)

    @cached_property
    def routes(self) -> RouteCache:
        """Where they go."""
        return RouteCache(self.directory, check_key)

    @cached_property
    def _callbacks(self) -> dict[Callable[[], None], Callable[[], None]]:
        return {}

    @final
    def forget_last_domain(self) -> None:
        """Drop what was made for the domain that it worked in before."""
        for name in ("publisher", "routes"):
            self.__dict__.pop(name, None)

    @final
    def in_turn(self, function: Callable[[*Ts], object], *args: *Ts) -> None:
        """Call something soon, in a turn of this client's: for callers that are in the middle of another turn."""
        trio.lowlevel.current_trio_token().run_sync_soon(self.ref.run_in_turn, function, *args)

    def publish(
        self,
        sink: str,
        key: str,
        body: bytes,
        properties: Properties | None = None,
        done: Callable[[bool], None] | None = None,
    ) -> int:
        """Publish one message; for protocols whose messages are not sent on as they came.

        Args:
            sink: Where to.
            key: By which key it is routed.
            body: The message.
            properties: What is known of it.
            done: Called once, in a turn of this client's, when each queue has answered, and with a durable message in a
                durable queue when the disk or a consumer has it: with True if all of them have taken it, with False if
                one was full. Not called if it went to no queue, nor after ``leave``.

        Returns:
            To how many queues it went; none is no error here.

        Raises:
            Forbidden: The user may not publish there.
            NoSuchSink: There is no such sink.
            SinkInternal: Only other sinks may publish into it.
            LimitExceeded: The key is longer than other protocols can carry.
            PublishingPaused: Not now, and nothing was taken: publish the same again when ``when_open`` calls.
        """
        number = self.session.number
        head, content = core_message(
            sink, key, body, properties or _NO_PROPERTIES, publisher=number, expendable=done is None
        )
        receipt: SingleReceipt | None = None
        if done is not None:
            receipt = SingleReceipt(lambda: self._placed(receipt, done), self.directory.persistence)
        return self.publisher.publish(self.routes.find(sink, key), head, [content], len(content), receipt)

    def _placed(self, receipt: Receipt | None, done: Callable[[bool], None]) -> None:
        """Tell what has become of a message; called in a handler of a queue, or outside of any turn."""
        assert receipt is not None
        # An error in there is this client's own.
        self.ref.run_in_turn(self._tell_placed, done, receipt.refusals is None)

    def _tell_placed(self, done: Callable[[bool], None], placed: bool) -> None:
        if self.entered:
            done(placed)

    @final
    def when_open(self, pressure: Pressure, callback: Callable[[], None]) -> None:
        """Call something once, in a turn of this client's, when a pressure is over that was met in this turn."""
        if callback in self._callbacks:
            return

        def over() -> None:  # may come in the middle of another turn
            self._callbacks.pop(callback, None)
            self.in_turn(callback)

        self._callbacks[callback] = over
        self.publisher.when_open(pressure, over)

    @final
    def forget(self, callback: Callable[[], None]) -> None:
        """Do not call that any more, should it not have been called yet."""
        over = self._callbacks.pop(callback, None)
        if over is not None:
            self.publisher.forget(over)

    def subscribe(
        self,
        queue: str,
        *,
        messages: int = 0,
        size: int = 0,
        no_ack: bool = False,
        exclusive: bool = False,
        priority: int = 0,
        weight: int = 0,
        no_local: bool = False,
        shared: tuple[Window, ...] = (),
        gate: Window | None = None,
    ) -> Subscription:
        """Consume from a queue: its messages come to ``delivered`` from now on.

        Args:
            queue: The queue's name.
            messages: How many may be unsettled at once; 0 is no limit.
            size: How many bytes may be; 0 is no limit.
            no_ack: Whether the client settles nothing; its messages are to be settled when they are delivered.
            exclusive: Whether it wants to be the queue's only consumer.
            priority: Of several consumers those with the highest get messages first.
            weight: The same among those of equal priority.
            no_local: Whether messages that this session has published never come.
            shared: Windows that it shares with other subscriptions.
            gate: A window that is held and released, and holds up nothing but what comes from this queue.

        Raises:
            Forbidden: The user may not consume from it.
            NoSuchQueue: There is no such queue.
            QueueLocked: It belongs to another session.
            InExclusiveUse: It has an exclusive consumer, or is to have one beside others.
            Restarting: It is being restarted.
        """
        subscription = Subscription(
            self.session,
            self.access,
            self.directory.queue(queue, self.session),
            self.ref,
            window=Window(messages, bytes=size),
            socket_window=self.window,
            settles=not no_ack,
            exclusive=exclusive,
            priority=priority,
            weight=weight,
            no_local=no_local,
            shared=shared,
            gate=gate,
        )
        self.begin(subscription)
        self.subscriptions[subscription] = None
        return subscription

    @final
    def begin(self, subscription: Subscription) -> None:
        """Let messages come for a subscription that the protocol has made, and ends, itself; raises as ``ask`` does."""
        try:
            subscription.begin()
        except trio.WouldBlock:
            raise Restarting(subscription.feed.queue) from None

    def unsubscribe(self, subscription: Subscription) -> None:
        """Let nothing more come for a subscription; what is unsettled stays so."""
        self.subscriptions.pop(subscription, None)
        subscription.close()

    @property
    def unsettled(self) -> Ledger:
        """The deliveries that the client is to settle, by numbers, for protocols that have one row of numbers.

        ``unsettled.enter(batch)`` returns the number of a batch's first message. All of it goes back with ``leave``.
        """
        if self._unsettled is None:
            self._unsettled = Ledger()
            self._unsettled.begin_later = self.directory.chores.add
        return self._unsettled

    def ask(self, ref: Ref, request: Request[R]) -> R:
        """Ask an actor of the core in place, if the user has the rights that the request needs.

        Raises:
            AccessRefused: The user has not.
            NoSuchQueue, QueueLocked: The queue is another user's, or another session's.
            Restarting: It cannot answer just now: ask again when ``wait_over`` of the exception ends.
            Refused: It refuses.
            ActorStopped: It has been given up.
            HandlerFailed: It has crashed over the request.
        """
        needs = _NEEDS.get(type(request))
        if needs is None:
            raise TypeError(f"there is no row for {type(request).__name__} in _NEEDS, which has the rights it needs")
        for may, name in needs(self.access, ref, request):
            self.require(may, name)
        if isinstance(request, _OF_QUEUES):
            self.directory.queue(Directory.name_of(ref), self.session)
        return self.ask_unguarded(ref, request)

    @final
    def require(self, may: Callable[[str], bool], name: str) -> None:
        """Require a right.

        Args:
            may: The question to ``access``.
            name: The name that it is about.

        Raises:
            AccessRefused: The user does not have it.
        """
        if not may(name):
            right = may.__name__.removeprefix("may_")
            raise AccessRefused(f"user {self.user!r} has no right to {right} {name!r}; an administrator can grant it")

    @final
    def ask_unguarded(self, ref: Ref, request: Request[R]) -> R:
        """Ask what the protocol itself has found to be allowed; otherwise as ``ask``."""
        try:
            return ref.ask_nowait(request)
        except trio.WouldBlock:
            raise Restarting(ref) from None

    @final
    def give_back(self, batch: Batch) -> None:
        """Return messages that the client has not seen to their places, unmarked."""
        return_unseen(batch, self.window)

    # For tasks that borrow this client, such as requests of HTTP: none of them is in a turn

    @final
    def perform(self, function: Callable[[*Ts], R], *args: *Ts) -> R:
        """Call something in a turn, and return what it returns; what it raises comes out, and ends nothing.

        Raises:
            ClientEnded: The client has left, or has never entered a domain.
        """
        if not self.entered:
            raise ClientEnded(self.ending)
        return self._turn.run(function, *args)

    async def publish_and_wait(
        self, sink: str, key: str, body: bytes, properties: Properties | None = None, *, patience: float = inf
    ) -> int:
        """Publish one message, and wait until each queue has answered, and until the disk has it if it is durable.

        Cancelled while it waits for the end of a pressure, nothing was published. Once this client leaves nothing more
        comes: have the task cancelled then.

        Args:
            sink: Where to.
            key: By which key it is routed.
            body: The message.
            properties: What is known of it.
            patience: Seconds to wait for the end of a pressure.

        Returns:
            To how many queues it went; none is no error here.

        Raises:
            LimitExceeded: A queue was full.
            PublishingPaused: A pressure has lasted for too long, and nothing was published.
            ClientEnded: As ``perform`` does.
            Refused: As ``publish`` does.
        """
        answers: list[bool] = []
        answered = trio.Event()

        def done(placed: bool) -> None:
            answers.append(placed)
            answered.set()

        deadline, pause = trio.current_time() + patience, Pause()
        while True:
            try:
                count = self.perform(self._publish_for_task, pause, sink, key, body, properties, done)
                break
            except PublishingPaused as paused:
                with trio.move_on_at(deadline) as waiting:
                    await self.publisher.wait_open(paused.pressure)
                if waiting.cancelled_caught:
                    raise
        if count:
            await answered.wait()
            if not all(answers):
                raise LimitExceeded("a queue has no room for the message")
            await pause.wait()
        else:
            await trio.lowlevel.checkpoint()
        return count

    def _publish_for_task(
        self,
        pause: Pause,
        sink: str,
        key: str,
        body: bytes,
        properties: Properties | None,
        done: Callable[[bool], None],
    ) -> int:
        """Publish so that the task pauses, and not this client, if it runs ahead of consumers."""
        source, self.publisher.source = self.publisher.source, pause
        try:
            return self.publish(sink, key, body, properties, done)
        finally:
            self.publisher.source = source


def return_unseen(batch: Batch, window: Window | None) -> None:
    """Return messages to their places, unmarked, since no client has seen them, and their room to a window."""
    count, size = batch.left, batch.size
    settle(batch, Outcome.RETURN)
    if window is not None:
        window.give(count, size)


def check_key(key: str) -> None:
    """Refuse a key that not all protocols can carry.

    Raises:
        LimitExceeded: It is too long.
    """
    size = len(key.encode("utf-8", "surrogateescape"))
    if size > LONGEST_KEY:
        raise LimitExceeded(f"the key {key[:40]!r}… takes {size} bytes in UTF-8; keys have at most {LONGEST_KEY}")


# Rights (as RabbitMQ has them)

Need: TypeAlias = tuple[Callable[[str], bool], str]
"""A question to ``Access``, and the name that it is about."""


def _declare_queue(access: Access, ref: Ref, request: DeclareQueue) -> Iterator[Need]:
    yield access.may_configure, request.name
    if request.options.dead_letter_sink is not None:
        yield access.may_read, request.name
        yield access.may_write, request.options.dead_letter_sink


def _declare_sink(access: Access, ref: Ref, request: DeclareSink) -> Iterator[Need]:
    yield access.may_configure, request.name
    if request.options.alternate is not None:
        yield access.may_read, request.name
        yield access.may_write, request.options.alternate


def _delete(access: Access, ref: Ref, request: DeleteQueue | DeleteSink) -> Iterator[Need]:
    yield access.may_configure, request.name


def _bind(access: Access, ref: Ref, request: Bind | Unbind) -> Iterator[Need]:
    yield access.may_write, request.binding.destination
    yield access.may_read, request.binding.source


def _read(access: Access, ref: Ref, request: Browse | Get | Purge) -> Iterator[Need]:
    yield access.may_read, Directory.name_of(ref)


_OF_QUEUES = (Browse, Get, Purge)
"""What is asked of a queue itself, and not of its domain, which looks whose it is."""

_NEEDS: Final[Mapping[type, Callable[[Access, Ref, Any], Iterator[Need]]]] = {
    Bind: _bind,
    DeclareQueue: _declare_queue,
    DeclareSink: _declare_sink,
    DeleteQueue: _delete,
    DeleteSink: _delete,
    Browse: _read,
    Get: _read,
    Purge: _read,
    Unbind: _bind,
}
"""What a user needs for each request that clients may have; what has no row is for the protocol's own rules."""
