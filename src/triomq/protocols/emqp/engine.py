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

from collections.abc import Callable, Sequence
from typing import ClassVar

from triomq.errors import LocalProtocolError
from triomq.protocols.emqp.codes import Code, PeerError
from triomq.protocols.emqp.events import (
    Event,
    MessageDropped,
    Silent,
)
from triomq.protocols.emqp.extension import NO_EXTENSION, Extension, encode_extension
from triomq.protocols.emqp.frames import (
    Frames,
    command,
    goodbye_frames,
    is_id,
    is_text,
)
from triomq.protocols.emqp.outbox import Outbox
from triomq.protocols.emqp.reader import ReadingContext, find_row, shown
from triomq.protocols.emqp.settings import EXTENSIONS, Dialect, Settings
from triomq.protocols.emqp.states import Stale, State, StateTable
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
        self._reading = self._reading_context()
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
        self._reading = self._reading_context()

    def _reading_context(self) -> ReadingContext:
        """Return what the reader has to know."""
        raise NotImplementedError

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

    def _may_send(self, event: str, message: bytes = b"") -> bool:
        """Return whether an event of the table is still of use.

        Raises:
            LocalProtocolError: it is out of place, or the message cannot be sent.
        """
        if not self.carries(message):
            raise LocalProtocolError(self._misfit(message))
        if event in self._states[self.state]:
            return True
        if self.state in ("leaving", "left", "closed"):
            return False
        raise LocalProtocolError(f"{event} has no place in state {self.state}")

    def _misfit(self, message: bytes) -> str:
        """Return why a message cannot be sent."""
        return "the message is not UTF-8, and the peer has no extensions; see `carries`"

    def _must_send(self, event: str, message: bytes = b"") -> None:
        """Refuse what would be lost.

        Raises:
            LocalProtocolError: the command is out of place, or too late.
        """
        if not self._may_send(event, message):
            raise LocalProtocolError(f"{event} comes too late: the conversation is {self.state}")

    def _extension(self, extension: Extension | None) -> bytes | None:
        """Return the extension frame, unless the peer would not understand it, or it says nothing."""
        if extension is None or extension is NO_EXTENSION or not self.is_extended:
            return None
        return encode_extension(extension)

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
        patience = self._patience
        heard, self._has_heard = self._has_heard, False
        said, self.outbox.has_sent = self.outbox.has_sent, False
        event: Event | None = None
        for due in self._timers.handle(now, silence=patience, heard=heard, said=said):
            if due == "silent":
                self.close()
                return Silent()
            if due == "inform":
                event = self._inform_again()
            elif self._may_beat:
                self.outbox.notices.append(self._heartbeat(b"%.6f" % (now + self._epoch)))
        return event

    @property
    def _patience(self) -> float:
        """Seconds that the other side may be silent now."""
        return self._settings.parting if self.state in ("leaving", "left") else self._settings.silence

    @property
    def _may_beat(self) -> bool:
        """Whether heartbeats go out; released programs know nobody any more who has said goodbye."""
        return "sent HEARTBEAT" in self._states[self.state] and (self.state != "leaving" or self.is_extended)

    def _inform_again(self) -> Event | None:
        raise NotImplementedError

    def _heartbeat(self, unix_time: bytes) -> Frames:
        return command(b"HEARTBEAT", self._new_id(), unix_time)

    def disconnect(self) -> bytes:
        """Ask the other side to stop, and return the id of that; released workers come back at once."""
        self._must_send("sent DISCONNECT")
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
