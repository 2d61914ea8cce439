"""A conversation with an eMQP broker that goes on: one socket after the other, with an engine each.

    socket ──> _receive ──> engine.receive ──> the owner's ``heard``
    owner's commands ──> engine ──> flush ──> _outgoing ──> _send ──> socket
    _keep_time: heartbeats; INFORM again; silence

Rules:

- A socket has one connection, and says when that breaks: what was on its way is lost then, and both sides would wait
  for it if another connection took its place without a word. So there is another socket, and all is said again.
- A broker that is silent for two heartbeats has gone, or the network between us has: then a new socket is taken, and a
  new engine, which informs as soon as that is connected. The new socket has an identity of its own. The broker may
  still have our last connection, since the network has broken for us alone; and a ROUTER passes over what comes under
  an identity that it has. INFORM says which identity we had first, and by that a broker with extensions goes on to know
  us: jobs that are here stay here, and answers to what was sent find us.
- A socket that does not connect in time is replaced too: it may have gone where nobody answers, and the next one looks
  up the broker's name again.
- A loop that was blocked listens for a moment before it calls anybody silent: what has come meanwhile is read first.
- A broker that has forgotten us says so (``Unknown``), and is informed again. In all these cases the owner hears
  ``Opened`` again, and does again what the broker has to know.
- A broker that says goodbye is informed again a second later, and again and again, until one is there that answers.
  Answers to what was under way still go both ways.
- A broker that knew our extensions is not taken for one without because it was slow: then we inform again.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Container, Sequence
from math import inf
from secrets import token_urlsafe
from typing import Final, TypeAlias

import msgspec
import trio

from triomq.clients.emqp.connector import EMQPConnector, EMQPSocket
from triomq.errors import ConfigError, Disconnected
from triomq.process import refuse_in_forks
from triomq.protocols.emqp import (
    AnswerRun,
    Event,
    Extension,
    Frames,
    Opened,
    PeerEngine,
    PeerLeaving,
    RequestRun,
    Role,
    Silent,
    WeightedQueue,
    message_ids,
)

_MOST_OUTGOING: Final = 1000
"""Messages that wait for the socket before those who send more wait too."""

_PAUSE: Final = 1.0
"""Seconds after a broker's goodbye until it, or its successor, is informed again."""

_FIRST_RETRY: Final = 0.1
"""Seconds before a second socket is taken in a row; each further one waits twice as long."""

_LAST_RETRY: Final = 10.0
"""Seconds that it waits at most."""

_LISTEN: Final = 1.0
"""Seconds that a loop which was blocked listens before it judges the broker, or a heartbeat if that is shorter."""

_log = logging.getLogger("triomq.clients")

_ABOUT_US: Final = (Opened, PeerLeaving)
"""Events that the link itself has to know."""

Heard: TypeAlias = Callable[[Event | RequestRun | AnswerRun], None]


class EMQPLink:
    """One conversation; made by a connection or a worker, which starts it, and closes it.

    Args:
        connector: Where to, and as whom.
        role: What we are.
        heard: Called with each event; it waits for nothing.
        queues: Of a worker.
        outstanding: Ids of requests that wait for an answer.
        about: Returns what else a broker with extensions is told with INFORM.
        prepare: Called before anything is sent, to add what is to go with it.
    """

    def __init__(
        self,
        connector: EMQPConnector,
        role: Role,
        heard: Heard,
        *,
        queues: tuple[WeightedQueue, ...] = (),
        outstanding: Container[bytes] = (),
        about: Callable[[], Extension] | None = None,
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        refuse_in_forks(self, "the connection of a client")
        self._connector = connector
        self.identity = _new_identity()
        """By which the broker knows us: that of the first socket."""
        self._role = role
        self._heard = heard
        self._queues = queues
        self._outstanding = outstanding
        self._about = about or (lambda: Extension(name=connector.name))
        self._prepare = prepare
        self.new_id = message_ids(self.identity.encode())
        """Makes ids of messages."""
        self.engine: PeerEngine
        self.is_open = trio.Event()
        """Set while the broker knows us."""
        self.heard_at = -inf
        """When something came from the broker last, as far as it has been looked at."""
        self._was_extended = False
        settings = connector.settings()
        self._silence = settings.silence
        self._listen = min(_LISTEN, settings.heartbeat)
        self._connected_at = -inf  # when the present socket was, for the first time
        self._is_renewed = False  # whether the socket is another one than the first
        self._lost_at = -inf  # when the broker was lost, while it is
        self._begin_at = inf
        self._begun = trio.Event()  # set while there is a conversation, with its engine
        self._outgoing: deque[Frames] = deque()
        self._has_outgoing = trio.Event()
        self._flush_due = False
        self._room = trio.Event()
        self._sleep = trio.CancelScope()
        self._socket: EMQPSocket
        self._nursery: trio.Nursery

    async def start(self, nursery: trio.Nursery) -> None:
        """Connect, and run in a nursery from now on.

        Raises:
            Disconnected: No broker lets us in in time.
            ConfigError: A file of keys cannot be read, or the address is none.
        """
        self._nursery = nursery
        self._socket = self._connector.connect(self.identity, nursery)
        nursery.start_soon(self._run)
        with trio.move_on_after(self._connector.timeout) as waiting:
            await self.is_open.wait()
        if waiting.cancelled_caught:
            raise Disconnected(self._connector.trouble)

    async def close(self) -> None:
        """Say goodbye, and close the socket; what is sent already may take a second to go out."""
        with trio.CancelScope(shield=True):
            if hasattr(self, "engine"):
                self.engine.leave()
                if not self._socket.closed:
                    self._socket.send_all((*self._outgoing, *self.engine.messages_to_send()))
                self.engine.close()
            if hasattr(self, "_socket") and not self._socket.closed:
                await self._socket.aclose()

    # Tasks

    async def _run(self) -> None:
        try:
            async with trio.open_nursery() as nursery:
                await self._begin()
                nursery.start_soon(self._receive)
                nursery.start_soon(self._send)
                nursery.start_soon(self._keep_time)
        except* trio.ClosedResourceError:
            pass

    async def _begin(self) -> None:
        """Begin a conversation, when there is somebody to talk to."""
        if self._begun.is_set():
            self._begun = trio.Event()
        self._close_for_now()
        if self._was_extended:  # the owner says again what may not have been heard
            self._outgoing.clear()
        await self._connect()
        self.engine = PeerEngine(
            self._role,
            self.new_id,
            now=trio.current_time(),
            unix_time=time.time(),
            settings=self._connector.settings(),
            queues=self._queues,
            about=self._about_us,
            outstanding=self._outstanding,
        )
        if self.engine.state == "open":
            self._hear(Opened(()))
        self.flush()
        self._begun.set()

    async def _connect(self) -> None:
        """Wait until the socket is connected, or one that is made in its place."""
        tries = 0
        is_first = self._connected_at == -inf and not self._is_renewed  # ``start`` has a limit of its own
        while True:
            with trio.move_on_after(inf if is_first else self._connector.timeout):
                try:
                    await self._socket.wait_connected()
                except trio.BrokenResourceError:
                    self._note_lost("connection lost")
                    await trio.sleep(min(_FIRST_RETRY * 2**tries - _FIRST_RETRY, _LAST_RETRY))
                else:
                    if self._connected_at == -inf:
                        self._connected_at = trio.current_time()
                    return
            tries += 1
            if not self._socket.closed and tries > 1:
                self._log(logging.WARNING, "cannot connect again", attempt=tries, reason=self._connector.trouble)
            self._renew()

    def _renew(self) -> None:
        """Take another socket: the broker may have the last one's connection for a long time, and its identity."""
        last = self._socket
        if last.closed:
            raise trio.ClosedResourceError("the conversation is being closed")
        try:
            self._socket = self._connector.connect(_new_identity(), self._nursery)
        except ConfigError as error:  # a file of keys is being replaced, or the like
            self._log(logging.WARNING, "cannot connect again", reason=error)
            return
        self._is_renewed = True
        self._connected_at = -inf
        self._nursery.start_soon(last.aclose)  # which may take a second

    def _about_us(self) -> Extension:
        about = self._about()
        return msgspec.structs.replace(about, identity=self.identity) if self._is_renewed else about

    def _silent_for(self) -> float:
        """Return for how many seconds nothing has come though there was a connection."""
        return trio.current_time() - max(self.heard_at, self._connected_at)

    def _miss(self) -> None:
        """Say that the broker is silent, and take another socket."""
        self._note_lost("broker silent", seconds=round(self._silent_for(), 3))
        self._renew()

    def _note_lost(self, text: str, **fields: object) -> None:
        """Say once that the broker is lost, and how."""
        if self._lost_at == -inf:
            self._lost_at = trio.current_time()
            self._log(logging.WARNING, text, **fields)

    def _lose(self) -> None:
        """Note that the broker has gone."""
        self._close_for_now()
        self._outgoing.clear()
        self._hear(Silent())

    def _close_for_now(self) -> None:
        if self.is_open.is_set():
            self.is_open = trio.Event()

    async def _receive(self) -> None:
        while True:
            socket = self._socket
            try:
                messages = await socket.receive()
            except trio.BrokenResourceError:
                if self._begun.is_set():
                    self._broken()
                await self._begun.wait()
                continue
            except trio.ClosedResourceError:
                if socket is self._socket:
                    raise
                continue
            if socket is not self._socket:
                continue  # what is said there was given up
            self._take(messages)
            self.heard_at = trio.current_time()
            self.flush()

    def _take(self, messages: Sequence[Sequence[bytes]]) -> None:
        heard, engine, place = self._heard, self.engine, 0  # another engine comes with an await alone
        while place < len(messages):
            if (run := engine.receive_run(messages, place)) is not None:
                heard(run)
                place += run.count
                continue
            event = engine.receive(messages[place])
            place += 1
            if isinstance(event, _ABOUT_US):
                self._hear(event)
            elif event is not None:
                heard(event)

    def _broken(self) -> None:
        """Begin anew at once: the socket says that the broker has gone."""
        self._begun = trio.Event()
        self.engine.close()
        self._lose()
        self._begin_at = self._sleep.deadline = trio.current_time()

    async def _send(self) -> None:
        while True:
            if self._flush_due:
                self.flush()
            while self._outgoing:
                socket = self._socket
                for _ in range(socket.send_all(self._outgoing)):
                    self._outgoing.popleft()
                if self._outgoing:
                    try:
                        await socket.wait_connected()
                    except trio.ClosedResourceError:
                        if socket is self._socket:
                            raise
                    except trio.BrokenResourceError:  # ``_receive`` is told so too; what waits is given again
                        self._outgoing.clear()
            self._room.set()
            self._room = trio.Event()
            if self._flush_due:
                continue
            self._has_outgoing = trio.Event()
            await self._has_outgoing.wait()

    async def _keep_time(self) -> None:
        while True:
            timer = self.engine.next_timer()
            began = trio.current_time()
            with trio.CancelScope(deadline=min(self._begin_at, inf if timer is None else timer)) as self._sleep:
                await trio.sleep_forever()
            if self._begin_at <= trio.current_time():
                self._begin_at = inf
                await self._begin()
                continue
            if trio.current_time() - max(began, self._sleep.deadline) > self._listen:
                await trio.sleep(self._listen)
            if self._flush_due:
                self.flush()
            stuck = bool(self._outgoing)
            event = self.engine.handle_timer(trio.current_time())
            if stuck:  # INFORMs and heartbeats of a time without a connection help nobody
                self.engine.messages_to_send()
                self.engine.notices_to_send()
            if isinstance(event, Silent) or (isinstance(event, Opened) and self._was_extended):
                if isinstance(event, Silent) or self._silent_for() >= self._silence:
                    self._miss()
                self._lose()
                await self._begin()
            elif event is not None:
                self._hear(event)
            self.flush()

    def _hear(self, event: Event) -> None:
        if isinstance(event, Opened):
            if self._lost_at > -inf:
                self._log(logging.INFO, "broker is back", seconds=round(trio.current_time() - self._lost_at, 3))
                self._lost_at = -inf
            self._was_extended = self._was_extended or self.engine.is_extended
            self.is_open.set()
        elif isinstance(event, PeerLeaving):
            self._lost_at = trio.current_time()
            self._log(logging.INFO, "broker says goodbye")
            self._close_for_now()
            self._begin_at = trio.current_time() + _PAUSE
            self._sleep.deadline = min(self._sleep.deadline, self._begin_at)
        self._heard(event)

    def _log(self, level: int, text: str, **fields: object) -> None:
        """Log what becomes of the conversation; where it leads, without the password."""
        about = {"place": self._connector.place, "role": self._role, "name": self._connector.name}
        known = {key: value for key, value in about.items() if value}
        _log.log(level, text, extra={"fields": {**known, **fields}})

    # For owners

    def begin_again(self) -> None:
        """Begin anew: the broker does not know us, and what we say now is lost on it."""
        self.engine.close()
        self._close_for_now()
        self._begin_at = self._sleep.deadline = trio.current_time()

    def flush_soon(self) -> None:
        """Send what the engine has to say at the end of this turn: many commands are one wake-up."""
        if not self._flush_due:
            self._flush_due = True
            self._has_outgoing.set()

    def flush(self) -> None:
        """Send what the engine has to say."""
        self._flush_due = False
        self._prepare()
        timer = self.engine.next_timer()
        if timer is not None and timer < self._sleep.deadline:
            self._sleep.deadline = timer
        if self._socket.closed:
            return
        messages = self.engine.messages_to_send()
        if not self._outgoing:
            messages += self.engine.notices_to_send()
            messages = messages[self._socket.send_all(messages) :] if messages else messages
        if messages:
            self._outgoing.extend(messages)
            self._has_outgoing.set()

    async def wait_room(self) -> None:
        """Wait while too much waits to be sent, and until the broker knows us."""
        await trio.lowlevel.checkpoint()
        while len(self._outgoing) > _MOST_OUTGOING or not self.is_open.is_set():
            await (self.is_open if not self.is_open.is_set() else self._room).wait()


def _new_identity() -> str:
    return token_urlsafe(12)  # text, as released routers decode it; longer ids cost libzmq memory
