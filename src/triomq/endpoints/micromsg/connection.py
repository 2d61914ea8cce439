"""One client of MicroMsg2: what is the protocol's own of a client on a stream."""

import logging
from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Final

import trio

from triomq.core import Batch, Pressure, Subscription
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.stream_client import StreamClient
from triomq.endpoints.micromsg.config import MicroMsg
from triomq.endpoints.micromsg.events import EVENTS
from triomq.endpoints.micromsg.intake import MessageIntake
from triomq.endpoints.micromsg.kept import ClientKey, TopicClient
from triomq.endpoints.micromsg.login import EXTERNAL, MicroMsgLogin
from triomq.endpoints.micromsg.refusals import code_of
from triomq.endpoints.micromsg.sender import MessageSender
from triomq.endpoints.micromsg.subscriber import Subscriber
from triomq.errors import Refused, TriomqError
from triomq.protocols.micromsg import Event, MicroMsgServer, SubscribeAsked, UnsubscribeAsked
from triomq.security import MakeMechanism
from triomq.transports import Transport

if TYPE_CHECKING:
    from triomq.endpoints.micromsg.endpoint import MicroMsgEndpoint

_GRACE: Final = 1.0
"""Seconds in which a client may ack what it has, and hears what is safe, when the broker ends."""

_REPLY: Final = "x-reply"
_PUB_SUB: Final = "pub-sub"
"""Extensions."""


class MicroMsgServerConnection(StreamClient):
    """The actor of one connection; a temporary child of the endpoint that accepted it.

    Args:
        transport: The bytes; owned from now on.
        engine: The protocol, in the server's role.
        context: What the broker lends.
        hub: The endpoint.
        mechanisms: How one may log in.
    """

    kind = "micromsg"
    noun = "MicroMsg2 connection"
    tag = "micromsg"
    log = logging.getLogger("triomq.micromsg")
    event_handlers = EVENTS
    patience = 30.0

    intake: MessageIntake
    """The next ones are there once it has entered a domain, as is the intake."""
    sender: MessageSender
    subscriber: Subscriber

    _client: TopicClient | None = None
    _close_at = inf  # when it ends, since the broker does

    def __init__(
        self,
        transport: Transport,
        engine: MicroMsgServer,
        context: BrokerContext,
        hub: "MicroMsgEndpoint",
        mechanisms: Mapping[str, MakeMechanism],
    ) -> None:
        super().__init__(transport, engine, context)
        self.engine = engine
        self.hub = hub
        self.has_certificate = EXTERNAL in mechanisms
        self.login = MicroMsgLogin(context, transport.peer, mechanisms)

    @property
    def config(self) -> MicroMsg:
        """The endpoint's configuration."""
        return self.hub.config

    @property
    def about(self) -> str:
        """Where it comes from, and what it calls itself."""
        identity = self.engine.peer_identity
        return f"{self.peer} as {identity!r}" if identity else self.peer

    @property
    def can_make_room(self) -> bool:
        """Whether what it has yet to say may take messages off a queue."""
        return self.engine.window > 0 and not self.only_publishes

    # Into the domain

    def let_in(self, user: str, *, is_known: bool) -> None:
        """Enter the domain, in the session of a client that is known from before; end if the user may not be there.

        Args:
            user: As whom.
            is_known: Whether it has said so, and not the configuration.
        """
        identity, kept = self.engine.peer_identity, self.hub.kept
        key = ClientKey(user, identity) if is_known and identity else None
        client = kept.find(key)
        try:
            if client is None:
                self.enter(user, self.config.domain)
            else:
                self.join(client.session, self.context.domains[self.config.domain].directory, self.config.domain)
        except Refused as refused:
            self.note(logging.WARNING, "connection refused", reason=str(refused))
            self.fail(code_of(refused), str(refused))
            return
        self._client = kept.come(self.session, key)
        self.intake = MessageIntake(self, acks=self.engine.window > 0)
        self.sender = MessageSender(self)
        self.subscriber = Subscriber(self, self._client)
        self.note(self.log_level, "connection opened", identity=identity)
        self._push()
        self.ref.touch()

    def _push(self) -> None:
        """Let messages come that the client cannot ask for, where that is configured."""
        pushed = "" if self.engine.speaks(_PUB_SUB) else self.config.pushed_to(self.engine.peer_identity)
        if pushed:
            self.do_next(SubscribeAsked(0, pushed, (), ""))

    # Refusals

    def refused(self, event: Event, error: TriomqError) -> None:
        """Answer a command that is refused; end over anything else, for there is no other word."""
        code, text = code_of(error), str(error)
        if isinstance(event, SubscribeAsked | UnsubscribeAsked) and event.number:
            self.answer(event.number, code, text)
        else:
            self.fail(code, text)

    def answer(self, number: int, code: int, text: str = "") -> None:
        """Answer a command: a refusal ends the connection where answers were not agreed."""
        if number:
            if code >= 300 and not self.engine.speaks(_REPLY):
                self.fail(code, text)
            else:
                self.engine.answer_command(number, code, text)
                self.ref.touch()

    def tell_gone(self, number: int, text: str) -> None:
        """Tell the client that nothing more comes for a subscription."""
        if number and self.engine.speaks(_REPLY):
            self.answer(number, 404, text)
        else:
            self.fail(404, text)

    def fail(self, code: int, text: str) -> None:
        """Send what is acked, and why the connection ends, and end."""
        if self.is_finished:
            return
        self.ending = self.ending or text
        self._events.clear()
        if self.entered:
            self.engine.acknowledge_now()
        self.engine.fail(code, text)
        self.ref.touch()

    # Deliveries

    def encode(self, batch: Batch) -> None:
        """Send a batch."""
        self.sender.give(batch)

    def cancelled(self, subscription: Subscription, reason: str) -> None:
        """Go on when a queue runs again; tell the client when it has gone."""
        self.subscriber.lost(subscription, reason)

    # What is too much

    def judge_unfinished(self) -> None:
        """Pause a client that has begun a message while memory is short: one that only publishes makes no room."""
        self._look_at_timer()  # what is begun is to be whole in time
        if self.entered and self.directory.memory.on and not self.can_make_room and not self._events:
            self.pause(Pressure.MEMORY)

    def refuse_unfinished(self, reason: str) -> None:
        """End: what the client has begun does not come, and others wait."""
        self.fail(503, reason)

    # Time

    def after_batch(self) -> None:
        """Write, and see when the next ack is due."""
        super().after_batch()
        self._look_at_timer()

    def _look_at_timer(self) -> None:
        """Have the timer set anew if the engine wants to be woken sooner."""
        if not self._left:
            timer = self.engine.next_timer()
            if timer is not None and timer < self.rings_at:
                self.reschedule()

    def due_at(self) -> float:
        """Return when something is due, be it the engine's or the end."""
        return super().due_at() if self._left else min(super().due_at(), self._close_at)

    def due(self, now: float) -> None:
        """Do what is due, and end when the broker has waited for long enough."""
        super().due(now)
        if now >= self._close_at and not self._left:
            self._say_goodbye()

    # The end

    def give_way(self) -> None:
        """End, since the same client has subscribed on another connection."""
        self.ref.run_in_turn(self._give_way)

    def _give_way(self) -> None:
        if not self._left:
            self.fail(409, "another connection of this user and identity has subscribed to the topic")
            self.after_batch()  # it is to leave now, so that all goes back before the other one gets anything
            self.leave()

    def closing(self, reason: str) -> None:
        """End, since the user may do less or nothing; or end soon, since the broker ends."""
        self.ending = self.ending or reason
        if not self.entered:
            self.leave()
        elif not self.hub.is_stopping:
            self.fail(403, reason)
        else:
            self.subscriber.stop()
            self._close_at = trio.current_time() + _GRACE
            self.end_when_done()
            self.reschedule()

    def end_when_done(self) -> None:
        """End, if the broker does and nothing is open any more."""
        if self._close_at < inf and not (self.intake.is_open or (self.engine.window and self.outstanding)):
            self._say_goodbye()

    def _say_goodbye(self) -> None:
        self._close_at = inf
        self.fail(503, self.ending)

    def put_back(self) -> None:
        """Return what is not sent, and keep what the client may come back for."""
        super().put_back()
        self.sender.drop()
        client, self._client = self._client, None
        if client is not None:
            self.hub.kept.go(client, self)

    def released(self) -> None:
        """Close the transport."""
        super().released()
        # These hold the connection: cycles, which only the collector would find.
        for name in ("intake", "sender", "subscriber"):
            self.__dict__.pop(name, None)
