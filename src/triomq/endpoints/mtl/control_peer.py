"""One control session of the MTL endpoint: its log-in, its turn, and its end.

    frames ──> engine.receive ──> event ──> _HANDLERS ──> an answer, now or later ──> the next command that waits

What a session asks for once it is logged in stands in ``session_commands.py``.

Rules:

- Each command is answered before the next one is looked at: the engine lets them wait. So what takes a while (a slow
  password, an actor that is being restarted, a commit of the store) leaves the command unanswered, and goes on with it.
- A session hangs on the identity of its connection, or on that of a client of a proxy. One that the client has chosen
  itself gets no session where ZeroMQ asks nobody who it is: the next one to choose it would inherit the session.
- A peer without a session leaves nothing here: it is let go as soon as it has its 401.
- A session is idle for so long, then it is forgotten; its leases go on. Connection.Close ends both.
- A client that has guessed three times waits for its next 401, longer each time; with the tenth failure it begins anew.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final

import trio

from triomq.core import PublishingPaused, Restarting
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.peer_listener import Frames, PeerListener
from triomq.endpoints.mtl.listener import is_made, number_of
from triomq.endpoints.mtl.login import MTLLogin, make_login
from triomq.endpoints.mtl.mtl_peer import MTLPeer
from triomq.endpoints.mtl.profile import ResourceProfile
from triomq.endpoints.mtl.refusals import code_of
from triomq.endpoints.mtl.session_commands import ask_lease, call_profile, choose_profile, release_lease
from triomq.errors import (
    AccessRefused,
    ActorStopped,
    HandlerFailed,
    LocalProtocolError,
    NotFound,
    Refused,
    TriomqError,
)
from triomq.protocols.mtl import (
    AuthorizeReceived,
    CloseReceived,
    CommandReceived,
    ControlServerEvent,
    DataLeaseAsked,
    IllFormed,
    LeaseReleased,
    MTLControlServer,
    OpenReceived,
    ProfileChosen,
)

if TYPE_CHECKING:
    from triomq.endpoints.mtl.endpoint import MTLEndpoint

_GUEST_SECONDS: Final = 60.0
"""How long somebody may take to log in."""

_FREE_FAILURES, _MOST_FAILURES = 3, 10

_LONGEST_DELAY: Final = 30.0
"""Seconds that a 401 is held back at most."""

_CHOOSE_NONE: Final = "choose no identity of your own, so that no other peer can take it; ZeroMQ makes one"

_NUMBERS: Final = 8
"""Numbers of requests that a session remembers: several clients of a proxy may be taken for one, for so long."""


class MTLControlPeer(MTLPeer):
    """One control session; see ``MTLPeer``."""

    noun = "session"

    _login: MTLLogin | None = None
    _failures = 0
    _answer_at = inf  # when a 401 that is held back is due
    _event: ControlServerEvent | None = None  # the command that is to be answered
    _put_off_event: ControlServerEvent | None = None  # the one that waits for another turn
    _idle_for = _GUEST_SECONDS
    asked_host = ""
    """The virtual host that it has named, which may be none."""
    profile: ResourceProfile | None = None
    """The one that was chosen."""
    cuts_itself = True  # a command at a time

    _numbers: tuple[bytes, ...] = ()  # of the last requests

    def __init__(
        self, listener: PeerListener, identity: bytes, login: str, context: BrokerContext, hub: "MTLEndpoint"
    ) -> None:
        super().__init__(listener, identity, login, context, hub)
        self.mechanisms = hub.mechanisms_for(self.connection)
        self.engine = MTLControlServer(tuple(self.mechanisms), hub.settings)

    @property
    def about(self) -> str:
        """What it is, in a few words."""
        return f"session of {self.user}" if self.entered else "not logged in"

    # What comes

    def handle(self, frames: Frames) -> None:
        """Do what a message wants, as soon as it is its turn."""
        if (number := number_of(frames)) and self._is_known(number):
            self.ending = "what is to be the number of a request is an identity"
            self.engine.turn_away(frames, _CHOOSE_NONE)
            self.leave()
            return
        event = self.engine.receive(frames)
        if isinstance(event, IllFormed):
            self.drop(event)
        elif event is not None:
            self._event = event
            if self.system.turn.exhausted:  # by lists, or large messages: the engine lets what follows wait
                self._put_off(event)
            else:
                self._work()
        self.ref.touch()

    def _is_known(self, number: bytes) -> bool:
        """Return whether the number of a request was there already, as are identities that happen to look like one."""
        if number in self._numbers:
            return True
        self._numbers = (*self._numbers[1 - _NUMBERS :], number)
        return False

    def _work(self) -> None:
        """Act on the command that is to be answered, and on those behind it."""
        while (event := self._event) is not None and not self._left:
            try:
                is_answered = _HANDLERS[type(event)](self, event)
            except Restarting as restarting:
                self._put_off_event = event
                self.when_restarted(restarting, self._try_again)
                return
            except PublishingPaused as paused:
                self._put_off_event = event
                self.when_open(paused.pressure, self._try_again)
                return
            except (Refused, ActorStopped, HandlerFailed) as error:
                self._refuse(error)
                is_answered = True
            if not is_answered:
                return
            self._event = self.engine.next_event()
            if self._event is not None and self.system.turn.exhausted:
                self._put_off(self._event)
                return

    def _put_off(self, event: ControlServerEvent) -> None:
        """Act on a command in another turn."""
        self._put_off_event = event
        self.in_turn(self._try_again)

    def _try_again(self) -> None:
        """Act on the command that was put off, unless it has been answered meanwhile, since its user has gone."""
        if self._event is not None and self._event is self._put_off_event:
            self._work()
            self.ref.touch()

    def _look_for_next(self) -> None:
        """Go on with the commands that wait, unless another one came first."""
        if self._event is None:
            self._answered()

    def _answered(self) -> None:
        """Go on behind a command that is answered, in a turn of its own."""
        self._event = self.engine.next_event()
        self._work()
        self.ref.touch()

    def after_batch(self) -> None:
        """Send the answers; let go who has no session."""
        self._flush()
        super().after_batch()
        if self.engine.state == "unknown" and self._event is None and not self._left:
            self.leave()

    def _refuse(self, error: TriomqError) -> None:
        self.engine.refuse(code_of(error), str(error))

    def _flush(self) -> None:
        if messages := self.engine.messages_to_send():
            self.send_all(messages)

    # Log-in

    def _open_session(self, event: OpenReceived) -> bool:
        """Begin a session anew: user and profile are dropped, leases are not."""
        self._forget_login()
        if not self._may_have_session:
            self.engine.refuse(403, _CHOOSE_NONE)
            return True
        if not self.hub.make_room_for(self):
            self.engine.refuse(503, "there are as many sessions as there may be; try again later")
            return True
        self.asked_host = event.virtual_host
        self.hub.add_session(self)
        if not self._enter_as_guest():
            # "To challenge a client, the server responds with 401", whatever virtual host it has named: which ones
            # there are is for those who have shown who they are.
            self.engine.require_login()
        return True

    def _enter_as_guest(self) -> bool:
        """Let the client in without a log-in, if it may be let in so; others may log in where the guest may not be."""
        try:
            return bool(self.hub.config.guest) and self._enter(self.hub.config.guest)
        except (AccessRefused, NotFound):
            return False

    @property
    def _may_have_session(self) -> bool:
        """Whether the identities that the session hangs on are its client's own; that of its connection always is."""
        behind = self.key[1:] if isinstance(self.key, tuple) else ()  # of a proxy, who tells it from others
        return all(map(is_made, behind))

    def _forget_login(self) -> None:
        self.withdraw()
        self.user = ""
        self.until = inf
        self._login = self.profile = None
        self._idle_for = min(_GUEST_SECONDS, self.hub.config.session_seconds)
        self.reschedule()

    def _authorize(self, event: AuthorizeReceived) -> bool:
        """Take a step of a log-in, which may take a while."""
        if self._login is None or event.begins:
            self._login = make_login(self, self.mechanisms)
            self._login.first(self, event.mechanism, event.response or b"")
        else:
            self._login.next(self, event.response or b"")
        return self._event is not event or not self._is_held

    _is_held = False  # whether the answer to a log-in is still to come

    def hold(self, gate: str) -> None:
        """Answer nothing until a password is worked out; the engine lets other commands wait."""
        self._is_held = True

    def go_on(self, gate: str) -> None:
        """Go on behind a password that was worked out, unless its 401 is held back."""
        if self._answer_at == inf:
            self._is_held = False
            self._answered()

    def logged_in(self, user: str) -> None:
        """Answer 201 to a user whose log-in is judged, or refuse, if it may not be there."""
        self._login, self._failures = None, 0
        try:
            self._enter(user)
        except Refused as refused:
            self._forget_login()
            self._refuse(refused)
            self.engine.expire()  # of the user before it nothing is left

    def _enter(self, user: str) -> bool:
        """Work in the virtual host as a user, and return that; raises what ``enter`` does."""
        domain = self.hub.config.virtual_hosts.get(self.asked_host)
        if domain is None:
            raise NotFound(f"there is no virtual host {self.asked_host!r}")
        if self.entered and self.session.user != user:
            self.hub.leases.end_all_of(self.session, "its session has another user now")
            self.withdraw()
        if not self.entered:
            self.hub.require_share(user)
            self.enter(user, domain, virtual_host=self.asked_host)
            self.note(logging.INFO, "session opened")
        self.profile = None
        self._idle_for = self.hub.config.session_seconds
        self.engine.ready(self.hub.profile_names)
        self.reschedule()
        return True

    def log_in_failed(self) -> None:
        """Answer 401, now or after a delay."""
        self._login, self.ending = None, ""
        self._failures += 1
        if self._failures < _FREE_FAILURES:
            self.engine.require_login()
            return
        self._is_held = True
        self._answer_at = trio.current_time() + min(_LONGEST_DELAY, 2.0 ** (self._failures - _FREE_FAILURES))
        self.reschedule()

    def _answer_late(self) -> None:
        """Send the 401 that was held back."""
        self._answer_at, self._is_held = inf, False
        self.engine.require_login()
        if self._failures >= _MOST_FAILURES:
            self._flush()
            self.ending = "too many failed log-ins"
            self.leave()
        else:
            self._answered()

    # Answers

    def answer_when_safe(self, fields: dict[str, object]) -> bool:
        """Answer 200, when all is on disk that was recorded by now."""
        persistence = self.directory.persistence
        if persistence is None or persistence.sync_point <= persistence.journal.committed:
            self.done(fields)
            return True
        persistence.when_committed(
            persistence.sync_point, partial(self.in_turn, self._answer_safe, self._event, fields)
        )
        return False

    def _answer_safe(self, event: ControlServerEvent | None, fields: dict[str, object]) -> None:
        if self._event is event and not self._left:
            self.done(fields)
            self._answered()

    def done(self, fields: dict[str, object]) -> None:
        """Answer 200, or 500 if the answer is nothing that JSON can say."""
        try:
            self.engine.done(fields)
        except LocalProtocolError as error:
            self.engine.refuse(500, str(error))

    # Time

    def due_at(self) -> float:
        """Return when the session has been idle for too long, or a 401 is due."""
        return min(super().due_at(), self._last_message + self._idle_for, self._answer_at)

    def due(self, now: float) -> None:
        """Answer who has guessed; forget a session that is idle."""
        super().due(now)
        if self._left:
            return
        if now >= self._answer_at:
            self._answer_late()
        elif now >= self._last_message + self._idle_for:
            self.ending = "nothing was said for a while"
            self.leave()

    # The end

    def _close_session(self, event: CloseReceived) -> bool:
        """End the session, and its leases."""
        if self.entered:
            self.hub.leases.end_all_of(self.session, "its session was closed")
        self.engine.done()
        self._forget_login()
        self.ending = "the client has closed it"
        return True

    def closing(self, reason: str) -> None:
        """Let the log-in end, since its user may do less or nothing: the next command is answered by 401."""
        if self.hub.is_stopping:
            self.ending = self.ending or reason
            self.leave()
            return
        if self.entered:
            self.note(logging.INFO, "session expired", reason=reason)
            self.hub.leases.end_all_of(self.session, reason)
        self._forget_login()
        if self._event is not None and not self._is_held:  # it waits for something, and has no user any more
            self._event = None
            self.engine.require_login()
            self.in_turn(self._look_for_next)
        self.engine.expire()

    def give_way(self) -> None:
        """End, for somebody else wants to log in."""
        self.hub.remove_session(self)
        self.ending = "it was not logged in, and others want to"
        self.ref.run_in_turn(self.leave)

    def left(self) -> None:
        """Let the last words go out."""
        self._flush()
        super().left()

    def released(self) -> None:
        """Leave the endpoint's list too."""
        super().released()
        self.hub.remove_session(self)


_HANDLERS: Final[Mapping[type, Callable[[MTLControlPeer, Any], bool]]] = {
    OpenReceived: MTLControlPeer._open_session,
    AuthorizeReceived: MTLControlPeer._authorize,
    ProfileChosen: choose_profile,
    DataLeaseAsked: ask_lease,
    LeaseReleased: release_lease,
    CommandReceived: call_profile,
    CloseReceived: MTLControlPeer._close_session,
}
"""What each command does; whether it is answered by now."""
