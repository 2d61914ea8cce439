"""What one user does in one domain over HTTP: an actor that outlives connections, and has the user's pipes awake.

    connection ── a request ──▶ RestMSClient ── ask, subscribe, publish ──▶ the core
                                   │  wakes a pipe that is asked for
                                   ▼
                               ServedPipe ◀── deliveries of its queues

It comes with the first request of its user, and ends when it has no pipe and nothing was asked for a while. Pipes are
not its own: when it ends, or crashes, they sleep until they are asked for again.
"""

import logging
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final, cast

import trio

from triomq.core import Batch, CachedRoute, Forbidden, NoSuchQueue, QueueStopped, Restarting, RouteCache, Subscription
from triomq.endpoints.base.client import Client
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.domain_work import check_key
from triomq.endpoints.feeds import FeedView, MayNotRead, discard_pipe
from triomq.endpoints.restms.pipes import PipeMessage, ServedPipe
from triomq.endpoints.restms.resources import RestMSDomain
from triomq.errors import AccessRefused, ActorStopped, Refused
from triomq.protocols import restms

if TYPE_CHECKING:
    from triomq.endpoints.restms.endpoint import RestMSEndpoint

_IDLE: Final = 60.0
"""Seconds after which one without a pipe ends."""

LOOKS: Final = 8
"""How often pipes are looked at in the time after which they expire: they live an eighth longer at most."""


class RestMSClient(Client):
    """One user in one domain.

    Args:
        context: What the broker lends.
        login: The user, who was checked.
        domain: Where it works.
    """

    kind: ClassVar[str] = "restms"
    noun: ClassVar[str] = "user of RestMS"

    def __init__(self, context: BrokerContext, login: str, domain: RestMSDomain) -> None:
        super().__init__(context)
        self.login = login
        self.shown = domain
        self.pipes: dict[str, ServedPipe] = {}
        self.busy = 0  # messages whose publish is not answered
        self._sources: dict[Subscription, tuple[ServedPipe, str]] = {}
        self._used = self._looked = trio.current_time()
        self._looks_every = min(_IDLE, domain.config.pipe_expires / LOOKS or _IDLE)

    @property
    def restms_endpoint(self) -> "RestMSEndpoint":
        """The endpoint that it belongs to."""
        return cast("RestMSEndpoint", self.endpoint)

    def started(self) -> None:
        """Enter the domain."""
        self.enter(self.login, self.shown.name)
        self.shown.clients[self.login] = self

    # Its time

    def use(self) -> None:
        """Record that something was asked for."""
        self._used = trio.current_time()

    def due_at(self) -> float:
        """Return when it is to look whether it, or a pipe, has been idle for long enough."""
        return self._looked + self._looks_every

    def due(self, now: float) -> None:
        """Delete pipes that nobody asks for; end if it has nothing to do."""
        self._looked = now
        if self.shown.config.pipe_expires:
            self._expire_pipes(self.shown.now() - self.shown.config.pipe_expires)
        if not self.pipes and not self.busy and now >= self._used + self._looks_every:
            self.ending = "nothing was asked for a while"
            self.leave()

    def _expire_pipes(self, before: float) -> None:
        for pipe in [pipe for pipe in self.shown.book.pipes.values() if pipe.record.user == self.login]:  # asleep too
            if self.shown.is_waited_for(pipe):
                pipe.used = self.shown.now()
            # As the broker does, since its user may have lost the right to; what fails now is tried at the next look.
            elif pipe.used <= before and discard_pipe(pipe):
                self.note(logging.INFO, "pipe expired", pipe=pipe.name)

    # Its end

    def closing(self, reason: str) -> None:
        """Leave when what was published is answered; connections that close as well answer their own polls before."""
        self.ending = self.ending or reason
        self.in_turn(self.look_whether_done)

    def look_whether_done(self) -> None:
        """Leave, if that is wanted and nothing is under way any more."""
        if self.ending and not self.busy:
            self.leave()

    def put_back(self) -> None:
        """Let all pipes sleep."""
        if self.shown.clients.get(self.login) is self:
            del self.shown.clients[self.login]
        for pipe in self.pipes.values():
            pipe.sleep()
        waited_for = [pipe for pipe in self.pipes.values() if pipe.is_waited_for]
        self.pipes.clear()
        self._sources.clear()
        if self.ending:
            for pipe in waited_for:
                pipe.end_waiting(restms.closing())
        elif waited_for:  # it has crashed; their polls need not know
            self.restms_endpoint.wake_later(waited_for, self.login)

    @property
    def about(self) -> str:
        """What the tree of actors shows of it."""
        return f"{self.login} in {self.shown.name}, {len(self.pipes)} pipes"

    # Feeds (RestMS's word)

    def route_to(self, feed: FeedView, key: str) -> CachedRoute:
        """Return where messages for a feed (RestMS's word) go; what is remembered is for this user alone."""
        routes = self._queue_routes if feed.is_queue else self.routes
        return routes.find(feed.sink, key)

    @cached_property
    def _queue_routes(self) -> RouteCache:
        """Routes into shared queues: the right to use them is asked by their names, not by the default sink's."""
        return RouteCache(self.directory, check_key)

    # Pipes

    def wake(self, pipe: ServedPipe) -> bool:
        """Let a pipe take what its queues have; return True if it begins with it only now: that comes behind this turn.

        Raises:
            Restarting: One of them is being restarted; those before it are open.
            NoSuchPipe: Its own queue was deleted, and so is the pipe.
        """
        pipe.state.used = self.shown.now()
        if pipe.has_orphans:
            pipe.forget_lost()
        if pipe.client is not None:
            return False
        pipe.client = self
        self.pipes[pipe.name] = pipe
        try:
            for queue in pipe.state.attach(pipe):
                self.open_source(pipe, queue)
        except Refused:
            pipe.client = None
            pipe.state.takers.pop(pipe, None)
            raise
        pipe.look_for_polls()  # those that waited while it slept
        return True

    def open_source(self, pipe: ServedPipe, queue: str) -> None:
        """Let messages of a queue come into a pipe; raises as ``wake`` does."""
        if queue in pipe.sources:
            return
        try:
            subscription = self.subscribe(queue, shared=(pipe.window,))
        except NoSuchQueue:
            self.shown.book.queue_gone(pipe.state, queue)
            return
        except Forbidden:
            raise MayNotRead("pipe" if queue == pipe.name else "feed", queue) from None
        pipe.sources[queue] = subscription
        self._sources[subscription] = pipe, queue

    def close_source(self, pipe: ServedPipe, queue: str) -> None:
        """Let no more messages of a queue come into a pipe; those that have come stay there."""
        subscription = pipe.sources.pop(queue, None)
        if subscription is not None:
            self._sources.pop(subscription, None)
            self.unsubscribe(subscription)
            pipe.has_orphans = bool(pipe.messages)

    def drop(self, pipe: ServedPipe) -> None:
        """Let nothing more come into a pipe."""
        for queue in list(pipe.sources):
            self.close_source(pipe, queue)
        self.pipes.pop(pipe.name, None)

    # Deliveries

    def delivered(self, subscription: Subscription, batch: Batch) -> None:
        """Give messages their URIs."""
        pipe, _ = self._sources[subscription]
        pipe.take(batch, self.shown.now())

    def cancelled(self, subscription: Subscription, reason: str) -> None:
        """Go on with a queue that has crashed, or without one that was deleted."""
        pipe, queue = self._sources.pop(subscription)
        pipe.lose(queue)
        self._reopen(pipe, queue)

    def _reopen(self, pipe: ServedPipe, queue: str) -> None:
        if pipe.client is not self or queue not in pipe.state.queues:
            return
        try:
            self.open_source(pipe, queue)
        except Restarting as restarting:
            self.when_restarted(restarting, lambda: self._reopen(pipe, queue))
        except (QueueStopped, ActorStopped):  # the second where the whole broker is being cancelled
            self.note(logging.WARNING, "pipe without its queue", pipe=pipe.name, queue=queue)
        except Refused as refused:
            self.note(logging.INFO, "pipe ended", pipe=pipe.name, reason=str(refused))

    def accept(self, message: PipeMessage) -> bool:
        """Settle a message and all older ones of its pipe; return whether one of them may be on disk."""
        messages = message.pipe.up_to(message)
        is_kept = any(each.is_persistent for each in messages)
        message.pipe.accept(messages, self.shown.now())
        return is_kept


def client_of(endpoint: "RestMSEndpoint", user: str, domain: RestMSDomain) -> RestMSClient:
    """Return what works for a user in a domain; a new one, if there is none.

    Raises:
        AccessRefused: The user may not be there.
    """
    client = domain.clients.get(user)
    if client is None or client.ending:
        client = RestMSClient(endpoint.context, user, domain)
        endpoint.serve(client)
        if client.has_left:
            raise AccessRefused(client.ending)
    client.use()
    return client
