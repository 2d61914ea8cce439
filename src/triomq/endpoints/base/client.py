"""One client that has logged in, whatever carries what it sends: the middle of every endpoint.

    Listener ── a client has come ──> Endpoint.serve(Client)          a temporary child of the endpoint
                                         │
      identify(user)                     │  the endpoint may tell it now that its user has gone, or may less
      enter(user, domain)                │  rights, limits, session, publisher
      publish · subscribe · ask          │  as often as it likes
      leave()                            │  all that it had goes back; nothing of it is left in the broker
      released()                         ▼  what carries its words is closed

Rules:

- A client is no socket. ``StreamClient`` is a client that lives as long as one stream; others outlive their sockets
  (HTTP), share one with all other clients (a ZeroMQ ROUTER), and end by a time of silence.
- Handlers are final, and call plain methods, the hooks: ``delivered``, ``cancelled``, ``closing``, ``due_at`` and
  ``due``, ``put_back``, ``left``, ``released``. A subclass that hides a handler is refused when its class is made.
- Nothing that a client does can crash its endpoint, which has other clients. What the endpoint wants of it is a
  message, or done in a turn of the client's, so that an error ends this client; after that ``abandon`` puts back what
  it had, and goes on where a hook fails.
- Before the broker closes a client it answers what it has taken: nothing more is taken, what the disk has is confirmed,
  and then the client is asked to go (``close_client``). Else it would send again, to the next broker, what is stored.
- ``leave`` is idempotent and final. Subscriptions are closed before deliveries are put back, in one turn: the room that
  is given back would let the next messages come.
"""

import logging
from collections.abc import Awaitable, Callable
from math import inf
from time import time
from typing import TYPE_CHECKING, ClassVar, NoReturn, Self, TypeVar, TypeVarTuple, cast, final

import trio

from triomq.actors import Message
from triomq.core import (
    Batch,
    Deliver,
    Directory,
    FeedClosed,
    Persistence,
    Restarting,
    Session,
    Subscription,
)
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.domain_work import DomainWork
from triomq.endpoints.base.overriding import check_overriding
from triomq.endpoints.base.statistics import ClientStatistics, Role
from triomq.errors import AccessRefused, ActorStopped, NotFound, Refused
from triomq.security import Access

if TYPE_CHECKING:
    from triomq.endpoints.base.endpoint import Endpoint

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

_LAST_ANSWERS = 1.0
"""Seconds that what is under way may take to be answered before a client is closed, beside the time of the disk."""

_LOOK = 0.01
"""Seconds between two looks at whether that is so."""

_HOOKS = "started, delivered, cancelled, closing, take_no_more, due_at, due, put_back, left, released, after_batch"


class CloseClient(Message, frozen=True):
    """To a client: the broker wants it to end."""

    reason: str


class UserChanged(Message, frozen=True):
    """To a client: the record of its user may have changed."""


class Client(DomainWork):
    """Base of clients; made by a listener or by what it asks, a temporary child of its endpoint.

    Args:
        context: What the broker lends.
        peer: Where it comes from, for texts.
    """

    kind: ClassVar[str] = "client"
    """The first part of its name in the tree of actors."""

    noun: ClassVar[str] = "client"
    """What the log calls it."""

    tag: ClassVar[str] = "local"
    """The name of its protocol in the trace log; the tag of its endpoint's configuration."""

    log: ClassVar[logging.Logger] = logging.getLogger("triomq.endpoints")
    """Where its events go."""

    log_level: ClassVar[int] = logging.INFO
    """How its opening and its end are logged."""

    virtual_host: str = ""
    """What the client calls its domain; empty while it works in none."""

    until: float = inf
    """When its user's time is over, on Trio's clock."""

    rings_at: float = inf
    """For when its endpoint has set its timer, on Trio's clock; so a timer that stays is not set once more."""

    _left = False
    _is_closing = False  # whether its last answers are waited for, before it is asked to go
    _lost_by = ""  # why it is lost, if it is

    def __init_subclass__(cls, **options: object) -> None:
        """Refuse a class that hides a handler, or a name of the actor's own."""
        super().__init_subclass__(**options)
        check_overriding(cls, Client, f"{_HOOKS} (see triomq.endpoints.base.client)")

    def __init__(self, context: BrokerContext, peer: str = "") -> None:
        super().__init__()
        self.context = context
        self.peer = peer
        self.since = trio.current_time()

    @final
    def itself(self) -> Self:
        """Return this client: what its endpoint starts it by, in fewer bytes than a function takes."""
        return self

    # Hooks: what a protocol defines

    def started(self) -> None:
        """Begin: called once, in a turn, when the endpoint has it. What is refused in here ends it."""

    def delivered(self, subscription: Subscription, batch: Batch) -> None:
        """Send messages to the client, and settle them now or when it has answered."""
        raise NotImplementedError(f"{type(self).__qualname__} subscribes to queues, so it needs `delivered`")

    def cancelled(self, subscription: Subscription, reason: str) -> None:
        """Tell the client that nothing more comes for a subscription, since its queue has gone or has crashed."""

    def closing(self, reason: str) -> None:
        """Ask the client to go, since the broker wants that, or leave at once, as this does."""
        self.ending = self.ending or reason
        self.leave()

    def due_at(self) -> float:
        """Return when ``due`` is to be called, on Trio's clock; asked anew after that, and at each ``reschedule``."""
        return inf

    def due(self, now: float) -> None:
        """Do what is due."""

    def put_back(self) -> None:
        """Put back what the protocol has out, beside ``unsettled``; called once, with all subscriptions closed."""

    def left(self) -> None:
        """Do what follows on ``leave``: end, as this does, or linger for a while first."""
        self.end()

    def released(self) -> None:
        """Close what carries the client's words; the last call, also after a crash, and again after one in here."""

    def hold(self, gate: str) -> None:
        """Take nothing more of what the client wants until ``go_on`` is called with the same name."""
        raise NotImplementedError(f"{type(self).__qualname__} has something worked out meanwhile, so it needs `hold`")

    def go_on(self, gate: str) -> None:
        """Go on with what the client wants."""
        raise NotImplementedError(f"{type(self).__qualname__} has something worked out meanwhile, so it needs `go_on`")

    def take_no_more(self) -> None:
        """Take nothing more that would have to be answered: ``closing`` follows when the last answers are sent."""

    @property
    def owes_answers(self) -> bool:
        """Whether something is under way that will be answered, beside what waits for the disk."""
        return False

    @property
    def is_finished(self) -> bool:
        """Whether nothing more is expected of it."""
        return self._left

    @property
    def channels(self) -> int:
        """How many channels the client has open, for its statistics."""
        return 0

    @property
    def consumers(self) -> int:
        """How many consumers the client has open, for its statistics."""
        return len(self.subscriptions)

    @property
    def outstanding(self) -> int:
        """How many deliveries it has not settled."""
        return 0 if self._unsettled is None else len(self._unsettled)

    @property
    def role(self) -> Role | None:
        """What the client is to its protocol, for its statistics; None where all clients are alike."""
        return None

    @property
    def about(self) -> str:
        """What else the tree of actors shows of it, in a few words."""
        return self.peer

    @property
    def only_publishes(self) -> bool:
        """Whether it has no consumer and nothing unsettled, so that nobody waits for it while it is not read from."""
        return not self.consumers and (self._unsettled is None or self._unsettled.is_empty)

    # Into a domain

    @final
    def identify(self, user: str) -> None:
        """Set as whom the client has logged in; from now on it ends when that user's time is over."""
        self.user = user
        self._look_at_user()

    def enter(self, user: str, domain: str, *, virtual_host: str = "", origin: str = "") -> None:
        """Work in a domain from now on, as a user, in a session of its own.

        Args:
            user: The user's name, which was checked.
            domain: The domain's name.
            virtual_host: What the client calls it; its name if that is empty.
            origin: As which peer it may make things.

        Raises:
            NotFound: There is no such domain.
            AccessRefused: The user may not be there.
            UserLimitReached: The user has as many connections as it may have.
        """
        found = self.context.domains.get(domain)
        if found is None:
            raise NotFound(f"there is no domain {domain!r}")
        access = self._admit(user, found.directory)
        session = Session(found.ref, found.directory, user=user, origin=origin)
        self._work_in(session, found.directory, access, virtual_host or domain)

    @final
    def join(self, session: Session, directory: Directory, virtual_host: str) -> None:
        """Work in a session that is there already, as one more client of it; raises what ``enter`` does."""
        self._work_in(session, directory, self._admit(session.user, directory), virtual_host)

    def _admit(self, user: str, directory: Directory) -> Access:
        assert not self.entered, "it has entered a domain"
        access = self.context.users.access(user, directory.name)
        if not access.may_enter or self.context.users.get(user) is None:  # it was let in before its time was over
            raise AccessRefused(f"user {user!r} may not enter the domain {directory.name!r}")
        self.context.quotas.require("connect", user, "connections")
        most = directory.most.connections
        if most is not None and directory.connections >= most:
            raise AccessRefused(
                f"access to domain '{directory.name}' refused for user '{user}': connection limit ({most}) is reached"
            )
        return access

    def _work_in(self, session: Session, directory: Directory, access: Access, virtual_host: str) -> None:
        self.session, self.domain, self.directory, self.access = session, session.domain, directory, access
        self.virtual_host = virtual_host
        self.forget_last_domain()
        self.context.quotas.take(session.user, "connections")
        directory.connections += 1
        session.attach()
        self.entered = True
        if (tracer := directory.tracer) is not None:
            tracer.entered(directory.name, session.number, self.ref, self.tag)
        self.identify(session.user)
        self.reschedule()  # a client at work has timers of its own

    def _look_at_user(self) -> None:
        user = self.context.users.get(self.user)
        if user is not None:
            until = inf if user.expires is None else trio.current_time() + user.expires - time()
            if until != self.until:
                self.until = until
                self.reschedule()

    # What others tell

    @final
    def deliver(self, message: Deliver) -> None:
        """Send messages to the client, or put them back if it does not want them any more."""
        subscription = message.feed.key
        assert isinstance(subscription, Subscription)
        if subscription.open and not self._left:
            self.delivered(subscription, message.batch)
        else:
            self.give_back(message.batch)

    @final
    def feed_closed(self, message: FeedClosed) -> None:
        """Forget a subscription whose queue has gone or has crashed."""
        subscription = message.feed.key
        assert isinstance(subscription, Subscription)
        subscription.lost(message.feed)
        self.subscriptions.pop(subscription, None)
        if not self._left:
            self.cancelled(subscription, message.reason)

    @final
    def close_client(self, message: CloseClient) -> None:
        """Ask the client to go, once it is answered what it has done; at once if the disk takes nothing."""
        if self._left or self._is_closing:
            return
        persistence = self._writable
        if not self.owes_answers and (persistence is None or persistence.has_all):
            self.closing(message.reason)
            return
        self._is_closing = True
        self.take_no_more()
        self.start_task(self._answer_and_close, message.reason)

    @property
    def _writable(self) -> Persistence | None:
        """The store, if there is one that can be written."""
        persistence = self.directory.persistence if self.entered else None
        return None if persistence is None or persistence.journal.fault is not None else persistence

    async def _answer_and_close(self, reason: str) -> None:
        await self._wait_answered()  # which may add something to what the disk is to have
        if (persistence := self._writable) is not None:
            await persistence.wait_all_or_fault()
            await self._wait_answered()
        self.ref.run_in_turn(self._close_now, reason)

    async def _wait_answered(self) -> None:
        with trio.move_on_after(_LAST_ANSWERS):
            while self.owes_answers and not self._left:  # noqa: ASYNC110  # nothing tells: it matters at the end alone
                await trio.sleep(_LOOK)

    def _close_now(self, reason: str) -> None:
        self._is_closing = False
        if not self._left:
            self.closing(reason)

    @final
    def user_changed(self, message: UserChanged) -> None:
        """Look at the user's record again."""
        if not self._left:
            self._look_at_user()

    # Time

    @final
    def reschedule(self) -> None:
        """Ask ``due_at`` anew, soon."""
        self.endpoint.reschedule(self)

    @final
    def ring(self, now: float) -> None:
        """Do what is due, in a turn, and then set the timer anew; called by the endpoint's timers."""
        self.rings_at = inf
        self.ref.run_in_turn(self._ring, now)
        self.ref.run_in_turn(self.reschedule)

    def _ring(self, now: float) -> None:
        if self.until <= now:
            self.until = inf
            self.close_client(CloseClient(f"user '{self.user}' has expired"))
        self.due(now)

    # Tasks, and turns of its own

    @property
    def endpoint(self) -> "Endpoint":
        """The endpoint that it belongs to."""
        assert self.ref.parent is not None
        return cast("Endpoint", self.ref.parent.actor)

    @final
    def start_task(self, function: Callable[[*Ts], Awaitable[object]], *args: *Ts) -> trio.CancelScope:
        """Run a task for this client; its error ends the client. It ends with the endpoint at the latest.

        Returns:
            A scope to cancel it with.
        """
        return self.endpoint.start_task(self._guard, function, args)

    async def _guard(self, function: Callable[[*Ts], Awaitable[object]], args: tuple[*Ts]) -> None:
        try:
            await function(*args)
        except Exception as error:  # whatever a protocol's task raises is to end its own client alone
            self.ref.run_in_turn(_raise, error)

    @final
    def when_restarted(self, restarting: Restarting, callback: Callable[[], object]) -> None:
        """Call something, in a turn of this client's, when an actor that was asked can answer, or has been given up."""
        self.start_task(self._wait_over, restarting, callback)

    async def _wait_over(self, restarting: Restarting, callback: Callable[[], object]) -> None:
        try:
            await restarting.wait_over()
        except ActorStopped:
            pass  # the next try raises it
        self.ref.run_in_turn(callback)

    # Logging

    def note(self, level: int, event: str, **fields: object) -> None:
        """Log an event with all that tells whose it is."""
        whose = {
            "peer": self.peer,
            "user": self.user,
            "vhost": self.virtual_host,
            "connection": self.ref.name.removeprefix("connection-"),
        }
        known = {key: value for key, value in whose.items() if value}
        self.log.log(level, event, extra={"fields": known | fields})

    @final
    def note_cut(self) -> bool:
        """Log that the client was asked to go and has not gone, and return that; nothing if it has left."""
        if self._left:
            return False
        seconds = round(trio.current_time() - self.since, 3)
        self.note(logging.WARNING, "connection cut", reason="the client did not close in time", seconds=seconds)
        return True

    @final
    def statistics(self) -> ClientStatistics | None:
        """Return a snapshot; None as long as, or as soon as, it works in no domain."""
        if not self.entered:
            return None
        return ClientStatistics(
            peer=self.peer,
            user=self.user,
            domain=self.directory.name,
            virtual_host=self.virtual_host,
            channels=self.channels,
            consumers=self.consumers,
            since=self.since,
            role=self.role,
        )

    # The end

    @property
    def has_left(self) -> bool:
        """Whether everything is put back, and at most the end of a socket is awaited."""
        return self._left

    @final
    def mark_lost(self, reason: str) -> None:
        """Remember that the client is silent, or has gone without a word: a tracer hears of that when it leaves."""
        if not self.ending:  # else it is the broker that ends it, or the client that was refused
            self._lost_by = self.ending = reason

    @final
    def leave(self) -> None:
        """Put back what the client has, let its session go, and end; further calls do nothing."""
        if not self._left:
            # A client that has never worked anywhere only looked whether the port is open.
            level = self.log_level if self.entered else logging.DEBUG
            seconds = round(trio.current_time() - self.since, 3)
            self.note(level, f"{self.noun} closed", reason=self.ending, seconds=seconds)
            self._let_go()
            self.left()

    def _let_go(self) -> None:
        """Put back what the client has, and let its session go; also after a crash in the middle of it."""
        self._left = True
        self.withdraw()

    @final
    def withdraw(self) -> None:
        """Put back what the client has, and let its session go; after that it may enter a domain again."""
        if not self.entered:
            return
        self.entered = False
        tracer = self.directory.tracer
        if tracer is not None and self._lost_by:
            about = f"{self._lost_by} ({self.peer})"
            tracer.lost(self.directory.name, self.session.number, self.ref, about, self.outstanding)
        try:
            for subscription in list(self.subscriptions):
                subscription.close()
            self.subscriptions.clear()
            self.put_back()
            if self._unsettled is not None:
                self._unsettled.requeue_all()
        finally:
            for over in self._callbacks.values():
                self.publisher.forget(over)
            self._callbacks.clear()
            self.virtual_host = ""
            self.context.quotas.give(self.session.user, "connections")
            self.directory.connections -= 1
            self.session.detach()
            if tracer is not None:
                tracer.left(self.ref)

    def end(self) -> None:
        """End this actor; ``on_stop`` follows."""
        self.endpoint.stop_child_nowait(self.ref)

    @final
    def begin_work(self) -> None:
        """Call ``started``, in a turn; called by the endpoint."""
        self._open()
        try:
            self.started()
        except Refused as refused:
            self.ending = str(refused)
            self.note(logging.WARNING, f"{self.noun} refused", reason=self.ending)
            self.leave()

    def _open(self) -> None:
        """Open what carries the client's words."""

    @final
    def on_start(self) -> None:
        """Remember the turn; the endpoint calls ``started`` when it has this client among its own."""
        self._turn = self.system.turn

    @final
    def on_stop(self) -> None:
        """Put back what is left, and close what carries the client's words."""
        self._let_go()
        self.released()

    @final
    def abandon(self) -> None:
        """Do the same after a crash, when no handler runs any more; what fails is logged and passed over."""
        for step in (self._let_go, self.released):
            try:
                step()
            except Exception:  # the endpoint, which calls this, has other clients
                self.log.exception("cannot clean up after a crash", extra={"fields": {"connection": self.ref.path}})


def _raise(error: Exception) -> NoReturn:
    raise error
