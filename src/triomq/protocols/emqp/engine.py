"""One conversation of eMQP, messages of frames in and out: a broker with one peer, or a peer with its broker.

    client                       broker                        worker
      │                            │ ◄── INFORM queues, worker ── │  Informed; acknowledge
      │                            │ ── ACK ────────────────────► │  Opened
      │                            │ ◄── READY ────────────────── │  SlotsOffered: one for each free slot
      │ ── REQUEST queue, … ─────► │  Requested                   │
      │ ◄── ACK ────────────────── │  acknowledge, when it is safe│
      │                            │ ── REQUEST, same id ───────► │  Requested
      │                            │ ◄── REPLY value, id ──────── │  Replied; then READY again
      │ ◄── REPLY value, id ────── │  reply                       │
      │                            │ ◄──────── HEARTBEAT ───────► │  where nothing else goes

Rules:

- A message is whole, so it is one event at most, and ``receive`` returns that. Messages to send gather in the outbox.
- What is none of the protocol's is dropped, reported and, where the peer knows ERROR, answered. It changes no state:
  the same message may be received again, as a driver does that could not act on it at once.
- All that released programs write is read, whatever the dialect; the dialect is what is written to a peer that has not
  announced our extensions (``settings.py``). Announced ones are spoken at once, to this peer alone.
- Commands of the owner that come too late are dropped, since the peer would not hear them. Those that hand over a job
  raise ``LocalProtocolError``, or it would be lost.
"""

from collections.abc import Callable, Container, Sequence
from typing import ClassVar

import msgspec

from triomq.errors import LocalProtocolError
from triomq.protocols.emqp.codes import Code, PeerError
from triomq.protocols.emqp.events import (
    Acknowledged,
    AdminCommand,
    Dispatched,
    Event,
    Informed,
    MessageDropped,
    Opened,
    PeerLeaving,
    RefusalReceived,
    Replied,
    Silent,
    Unknown,
)
from triomq.protocols.emqp.extension import NO_EXTENSION, Extension
from triomq.protocols.emqp.frames import (
    Frames,
    command,
    goodbye_frames,
    inform_frames,
    is_text,
    name_frame,
    publish_frames,
    reply_frames,
    request_frames,
    schedule_frames,
)
from triomq.protocols.emqp.headers import NO_HEADERS, Headers
from triomq.protocols.emqp.outbox import Outbox
from triomq.protocols.emqp.queues import WeightedQueue
from triomq.protocols.emqp.reader import MOST_SLOTS, ReadingContext, find_row, is_id, shown
from triomq.protocols.emqp.settings import EXTENSIONS, Dialect, Settings
from triomq.protocols.emqp.states import BROKER, BROKER_STALE, PEER_STALE, PEERS, Role, Stale, State, StateTable
from triomq.protocols.emqp.timers import Timers


class EMQPEngine:
    """What both sides have in common; use ``BrokerEngine`` or ``PeerEngine``.

    Whoever has the socket creates the engine, gives ``receive`` each message, sends what ``messages_to_send()`` and
    ``notices_to_send()`` return, and calls ``handle_timer`` when ``next_timer()`` has come, which is to be looked at
    after each turn. Nothing that a peer sends makes it raise.

    Args:
        new_id: makes ids of messages, as ``message_ids`` gives one; many engines may share it.
        now: the present moment in seconds, on the clock that ``handle_timer`` will be given.
        unix_time: the same moment, as heartbeats say it.
        settings: limits and times.
    """

    __slots__ = (
        "_epoch", "_has_heard", "_new_id", "_reading", "_settings", "_states", "_timers", "capabilities",
        "is_extended", "outbox", "state",
    )  # fmt: skip
    state: State
    _stale: ClassVar[Stale]

    def __init__(
        self, states: StateTable, new_id: Callable[[], bytes], now: float, unix_time: float, settings: Settings
    ) -> None:
        self.capabilities: tuple[str, ...] = ()
        """What the peer has announced."""
        self.is_extended = False
        """Whether the peer knows our extensions."""
        self.outbox = Outbox()
        self._states = states
        self._new_id = new_id
        self._epoch = unix_time - now
        self._settings = settings
        self._reading = ReadingContext(False, settings.max_message_size)
        self._timers = Timers(now, settings.heartbeat, settings.inform)
        self._has_heard = False

    # What comes

    def receive(self, frames: Sequence[bytes]) -> Event | None:
        """Take a message, without the identity that a ROUTER has before it; return what it means to the owner."""
        self._has_heard = True
        try:
            row = find_row(frames)
            event = row.read(frames, self._reading)
            name = row.received
            following = self._states[self.state].get(name)
            if following is None:
                name = self._full_name(name, event)
                following = self._states[self.state].get(name)
                if following is None:
                    return self._out_of_place(name, frames)
        except PeerError as error:
            return self._drop(frames, error)
        before, self.state = self.state, following
        return self._heard(event, before)

    def _full_name(self, name: str, event: Event | None) -> str:
        """Return the event of the table, where that is more than the command."""
        raise NotImplementedError

    def _heard(self, event: Event | None, before: State) -> Event | None:
        """Do what the engine itself has to do about an event, and return what the owner is to know."""
        raise NotImplementedError

    def _out_of_place(self, name: str, frames: Sequence[bytes]) -> Event | None:
        if name in self._stale.get(self.state, ()):
            return None
        code: Code = "leaving" if self.state == "leaving" else "malformed"
        return self._drop(frames, PeerError(f"{name} has no place in state {self.state}", code))

    def _drop(self, frames: Sequence[bytes], error: PeerError) -> MessageDropped | None:
        """Report a message that is not taken; after the end none is."""
        if self.state == "closed":
            return None
        name, msgid = (frames[place] if len(frames) > place else b"" for place in (2, 3))
        return MessageDropped(shown(name), msgid if is_id(msgid) else b"", error.code, error.text)

    def _announced(self, extension: Extension) -> None:
        """Note what the peer knows; it counts if this side knows it too."""
        self.capabilities = extension.capabilities
        self.is_extended = EXTENSIONS in extension.capabilities and EXTENSIONS in self._settings.capabilities
        self._reading = ReadingContext(self.is_extended, self._settings.max_message_size)

    # What goes

    def messages_to_send(self) -> list[Frames]:
        """Return what is to be sent since the last call, in order."""
        return self.outbox.take()

    def notices_to_send(self) -> list[Frames]:
        """Return what may be lost where the peer takes nothing at present."""
        return self.outbox.take_notices()

    def carries(self, message: bytes) -> bool:
        """Return whether a message can be sent: what is not UTF-8 would end a released peer."""
        return self.is_extended or is_text(message)

    def _may_send(self, name: str, message: bytes = b"") -> bool:
        """Return whether a command is still of use.

        Raises:
            LocalProtocolError: it is out of place, or the message cannot be sent.
        """
        if not self.carries(message):
            raise LocalProtocolError("the message is not UTF-8, and the peer has no extensions; see `carries`")
        if f"sent {name}" in self._states[self.state]:
            return True
        if self.state in ("leaving", "left", "closed"):
            return False
        raise LocalProtocolError(f"sent {name} has no place in state {self.state}")

    def _must_send(self, name: str, message: bytes = b"") -> None:
        """Refuse what would be lost.

        Raises:
            LocalProtocolError: the command is out of place, or too late.
        """
        if not self._may_send(name, message):
            raise LocalProtocolError(f"{name} comes too late: the conversation is {self.state}")

    def _extension(self, extension: Extension | None) -> Extension | None:
        """Strip what the peer would not understand, and what says nothing."""
        return extension if self.is_extended and extension is not NO_EXTENSION else None

    @property
    def _publish_dialect(self) -> Dialect:
        """How PUBLISH is written: peers with extensions read headers."""
        return "strict" if self.is_extended else self._settings.dialect

    def _put(self, name: bytes, *frames: bytes, extension: Extension | None = None) -> bytes:
        """Queue a command, and return its id."""
        msgid = self._new_id()
        self.outbox.put(command(name, msgid, *frames, extension=self._extension(extension)))
        return msgid

    # Time and the end

    def next_timer(self) -> float | None:
        """Return when to call ``handle_timer``; a moment that has passed means now, ``None`` never."""
        return self._timers.next()

    def handle_timer(self, now: float) -> Event | None:
        """Do what is due at ``now``: heartbeats, INFORM again, silence. Called early or late it does no harm."""
        patience = self._settings.parting if self.state in ("leaving", "left") else self._settings.silence
        heard, self._has_heard = self._has_heard, False
        said, self.outbox.has_sent = self.outbox.has_sent, False
        event: Event | None = None
        for due in self._timers.handle(now, silence=patience, heard=heard, said=said):
            if due == "silent":
                self.close()
                return Silent()
            if due == "inform":
                event = self._inform_again()
            elif "sent HEARTBEAT" in self._states[self.state]:
                self.outbox.notices.append(self._heartbeat(b"%.6f" % (now + self._epoch)))
        return event

    def _inform_again(self) -> Event | None:
        raise NotImplementedError

    def _heartbeat(self, unix_time: bytes) -> Frames:
        return command(b"HEARTBEAT", self._new_id(), unix_time)

    def disconnect(self) -> bytes:
        """Ask the other side to stop, and return the id of that; released workers come back at once."""
        self._must_send("DISCONNECT")
        return self._put(b"DISCONNECT")

    def leave(self) -> None:
        """Say goodbye; replies to jobs that are under way may follow, from both sides. Leaving twice is once."""
        if "sent KBAI" not in self._states[self.state]:
            return
        goodbye = goodbye_frames(self._new_id(), is_extended=self.is_extended, dialect=self._settings.dialect)
        (self.outbox.notices if self.state == "guest" else self.outbox.messages).extend(goodbye)
        self.state = self._states[self.state]["sent KBAI"]
        self._timers.informing = False

    def close(self) -> None:
        """End: nothing will be heard or said any more, but for what waits to be sent."""
        self.state = self._states[self.state].get("lost", "closed")
        self.outbox.finished = True
        self._timers.informing = self._timers.running = False


class BrokerEngine(EMQPEngine):
    """A broker's side of the conversation with one peer, whatever that turns out to be."""

    __slots__ = ("_informed",)
    _stale = BROKER_STALE

    def __init__(
        self, new_id: Callable[[], bytes], *, now: float, unix_time: float, settings: Settings | None = None
    ) -> None:
        super().__init__(BROKER, new_id, now, unix_time, settings or Settings())
        self.state = "guest"
        self._informed = b""  # the id of the peer's INFORM

    def _full_name(self, name: str, event: Event | None) -> str:
        return f"{name} {event.role}" if isinstance(event, Informed) else name

    def _heard(self, event: Event | None, before: State) -> Event | None:
        if isinstance(event, Informed):
            self._informed = event.msgid
            self._announced(event.extension)
            self._timers.running = True
        elif isinstance(event, PeerLeaving) and before == "left":
            return None  # KBYE and KBAI are one goodbye
        return event

    def _out_of_place(self, name: str, frames: Sequence[bytes]) -> Event | None:
        if self.state == "guest" and name == "received HEARTBEAT" and len(frames) > 5:
            # Only a peer that this broker, or its predecessor, has told of extensions has such a frame.
            text = "this broker does not know you; begin with INFORM"
            self.outbox.put(command(b"ERROR", self._new_id(), frames[3], b"inform", text.encode()))
        return super()._out_of_place(name, frames)

    def _drop(self, frames: Sequence[bytes], error: PeerError) -> MessageDropped | None:
        dropped = super()._drop(frames, error)
        if dropped is not None and dropped.msgid:
            self.refuse(dropped.msgid, dropped.code, dropped.reason)
        return dropped

    def _inform_again(self) -> None:
        """Do nothing: a broker does not say INFORM."""

    # Commands

    def acknowledge(self, msgid: bytes, extension: Extension | None = None) -> None:
        """Say that INFORM is accepted, or that what has this id is safe."""
        if not self._may_send("ACK"):
            return
        if msgid == self._informed and self.is_extended:
            extension = Extension(capabilities=self._settings.capabilities)
        frames = command(b"ACK", self._new_id(), msgid, extension=self._extension(extension))
        if self.is_extended or msgid == self._informed:
            self.outbox.put(frames)
        else:
            self.outbox.notices.append(frames)

    def refuse(self, msgid: bytes, code: Code, text: str) -> bool:
        """Say that what has this id is not taken; return whether the peer can be told, or it is for the log alone."""
        if not self.is_extended or not self._may_send("ERROR"):
            return False
        self._put(b"ERROR", msgid, code.encode(), text.encode("utf-8", "replace"))
        return True

    def request(
        self, msgid: bytes, queue: str, headers: Headers, message: bytes, extension: Extension | None = None
    ) -> None:
        """Give a worker a job, under the id that its reply will name; one for each slot that it has offered.

        Raises:
            LocalProtocolError: the peer is no worker, or is leaving, or cannot be sent such a message.
        """
        self._must_send("REQUEST", message)
        self.outbox.put(request_frames(msgid, queue, headers, message, self._extension(extension)))

    def reply(self, request: bytes, message: bytes, extension: Extension | None = None) -> None:
        """Send the answer to a request, or to a question of ``emq-cli``.

        Raises:
            LocalProtocolError: the peer cannot be sent such a message.
        """
        if self._may_send("REPLY", message):
            extension = self._extension(extension)
            self.outbox.put(reply_frames(self._new_id(), request, message, extension, self._settings.dialect))

    def publish(
        self, topic: str, message: bytes, headers: Headers = NO_HEADERS, extension: Extension | None = None
    ) -> None:
        """Send what was published to a client that has subscribed.

        Raises:
            LocalProtocolError: the peer is no client, or cannot be sent such a message.
        """
        if self._may_send("PUBLISH", message):
            extension = self._extension(extension)
            self.outbox.put(publish_frames(self._new_id(), topic, message, headers, extension, self._publish_dialect))

    def schedule(
        self, queue: str, headers: Headers, message: bytes, *, interval: float = 0.0, cron: str = "", ends: bool = False
    ) -> None:
        """Hand a schedule to a scheduler, or end one; released ones need a ``complete_call``.

        Raises:
            LocalProtocolError: the peer is no scheduler, or is leaving; or it is no schedule (``schedule_frames``).
        """
        self._must_send("UNSCHEDULE" if ends else "SCHEDULE", message)
        frames = schedule_frames(self._new_id(), queue, headers, message, interval=interval, cron=cron, ends=ends)
        self.outbox.put(frames)


class PeerEngine(EMQPEngine):
    """A peer's side of the conversation with its broker; it begins with INFORM, where there is something to say.

    A client without capabilities says none, as released ones, and is open at once.

    Args:
        role: what the peer is.
        new_id: as for both sides.
        now: as for both sides.
        unix_time: as for both sides.
        settings: limits and times.
        queues: that a worker takes jobs from; none stand for the default one.
        about: what else a broker with extensions is told with INFORM.
        outstanding: ids of requests that wait for an answer, which their owner keeps; a released router's notice looks
            like an answer, but for its place.
    """

    __slots__ = ("_about", "_inform_id", "_outstanding", "_queues", "role")
    _stale = PEER_STALE

    def __init__(
        self,
        role: Role,
        new_id: Callable[[], bytes],
        *,
        now: float,
        unix_time: float,
        settings: Settings | None = None,
        queues: tuple[WeightedQueue, ...] = (),
        about: Extension = NO_EXTENSION,
        outstanding: Container[bytes] = (),
    ) -> None:
        settings = settings or Settings()
        super().__init__(PEERS[role], new_id, now, unix_time, settings)
        self.state = "open"
        self.role = role
        self._queues = queues
        self._about = about
        self._outstanding = outstanding
        self._inform_id = b""
        if role != "client" or settings.capabilities:
            self.state = "informing"
            self._timers.running = self._timers.informing = True
            self._inform()

    def _inform(self) -> None:
        """Say INFORM, under the same id if it was not answered."""
        self._inform_id = self._inform_id or self._new_id()
        about: Extension | None = None
        if self._settings.capabilities:
            about = msgspec.structs.replace(self._about, capabilities=self._settings.capabilities)
        dialect = self._settings.dialect
        self.outbox.put(inform_frames(self._inform_id, self.role, self._queues, about, dialect))

    def _inform_again(self) -> Event | None:
        """Repeat INFORM; a client goes on without, as with a broker that knows no clients who say it."""
        if self.role != "client":
            self._inform()
            return None
        self.state = self._states[self.state]["unanswered"]
        self._announced(NO_EXTENSION)
        self._timers.informing = self._timers.running = False
        return Opened(())

    def _full_name(self, name: str, event: Event | None) -> str:
        if isinstance(event, Acknowledged):
            return f"{name}-of-INFORM" if event.request == self._inform_id else f"{name}-of-a-command"
        return name

    def _heard(self, event: Event | None, before: State) -> Event | None:
        if isinstance(event, Acknowledged) and event.request == self._inform_id:
            return self._opened(event.extension, before)
        if isinstance(event, RefusalReceived) and event.code == "inform" and before == "open" and self.is_extended:
            self.state = self._states[before]["unknown"]
            self._inform_id = b""
            self._timers.informing = True
            self._inform()
            return Unknown()
        if isinstance(event, Replied) and event.message in self._outstanding and event.request not in self._outstanding:
            return Dispatched(event.message)
        if isinstance(event, PeerLeaving):
            self._timers.informing = False
            return event if before != "left" else None
        return event

    def _opened(self, extension: Extension, before: State) -> Opened | None:
        """Begin; an INFORM that was repeated is acknowledged more than once."""
        self._timers.informing = False
        self._announced(extension)
        self._timers.running = self.role != "client" or self.is_extended
        return Opened(self.capabilities) if before == "informing" else None

    def _heartbeat(self, unix_time: bytes) -> Frames:
        """Write HEARTBEAT so that a broker that has forgotten this peer can say so."""
        about = Extension(capabilities=self._settings.capabilities) if self.is_extended else None
        return command(b"HEARTBEAT", self._new_id(), unix_time, extension=about)

    # Commands: each returns the id of its message, which ACK and ERROR name

    def request(
        self, queue: str, message: bytes, headers: Headers = NO_HEADERS, extension: Extension | None = None
    ) -> bytes:
        """Ask for a job to be done; with ``reply_requested`` its answer will be ``Replied``.

        Raises:
            LocalProtocolError: the conversation is not open, or the broker cannot be sent such a message.
        """
        self._must_send("REQUEST", message)
        msgid = self._new_id()
        self.outbox.put(request_frames(msgid, queue, headers, message, self._extension(extension)))
        return msgid

    def publish(
        self, topic: str, message: bytes, headers: Headers = NO_HEADERS, extension: Extension | None = None
    ) -> bytes:
        """Publish a message to a topic; raises as ``request`` does."""
        self._must_send("PUBLISH", message)
        msgid = self._new_id()
        extension = self._extension(extension)
        self.outbox.put(publish_frames(msgid, topic, message, headers, extension, self._publish_dialect))
        return msgid

    def schedule(
        self,
        queue: str,
        message: bytes,
        headers: Headers = NO_HEADERS,
        *,
        interval: float = 0.0,
        cron: str = "",
        ends: bool = False,
        extension: Extension | None = None,
    ) -> bytes:
        """Have a job run at times, or end that (see ``schedule_frames``); raises as that and ``request`` do."""
        self._must_send("UNSCHEDULE" if ends else "SCHEDULE", message)
        msgid = self._new_id()
        self.outbox.put(
            schedule_frames(
                msgid, queue, headers, message, interval=interval, cron=cron, ends=ends,
                extension=self._extension(extension), dialect=self._settings.dialect,
            )
        )  # fmt: skip
        return msgid

    def subscribe(self, topic: str) -> bytes:
        """Ask for what is published to a topic.

        Raises:
            LocalProtocolError: the conversation is not open, or the broker has no extensions.
        """
        return self._subscribe("SUBSCRIBE", topic)

    def unsubscribe(self, topic: str) -> bytes:
        """Ask for no more of a topic; raises as ``subscribe`` does."""
        return self._subscribe("UNSUBSCRIBE", topic)

    def _subscribe(self, name: str, topic: str) -> bytes:
        self._must_send(name)
        if not self.is_extended:
            raise LocalProtocolError(f"the broker knows no {name}; subscribe with a SUB socket instead")
        return self._put(name.encode(), name_frame(topic))

    def ask(self, question: AdminCommand) -> bytes:
        """Ask what ``emq-cli`` asks; the answer is ``Replied``."""
        self._must_send(question)
        return self._put(question.encode())

    def ready(self, count: int = 1) -> None:
        """Offer slots for so many jobs more.

        Raises:
            LocalProtocolError: the count is none, or the conversation is not open.
        """
        if not 0 < count <= MOST_SLOTS:
            raise LocalProtocolError(f"ready for {count} jobs; it takes 1 to {MOST_SLOTS}")
        if not self._may_send("READY"):
            return
        if self.is_extended and count > 1:
            self._put(b"READY", b"%d" % count)
        else:
            for _ in range(count):
                self._put(b"READY")

    def reply(self, request: bytes, message: bytes, extension: Extension | None = None) -> None:
        """Answer a request.

        Raises:
            LocalProtocolError: the broker cannot be sent such a message.
        """
        if self._may_send("REPLY", message):
            extension = self._extension(extension)
            self.outbox.put(reply_frames(self._new_id(), request, message, extension, self._settings.dialect))
