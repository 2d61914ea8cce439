"""What both sides of a tap connection have in common: bytes in, messages out, and how it ends.

    client                                     server
      │ ── GREETING ─────────────────────────────► │  greeting ─► login
      │ ◄──────────── GREETING, with mechanisms ── │
      │ ── LOGIN ────────────────────────────────► │  judging; CHALLENGE and RESPONSE as often as the mechanism wants
      │ ◄──────────────────────────── WELCOME ──── │  open
      │ ── FETCH 1 · FETCH 2 · ACK 3 ────────────► │  requests, as many as the client likes
      │ ◄──────── RECORDS 1 · RECORDS 2 · DONE 3 ─ │  answers, in the order of the requests

Rules:

- Each request has a number of the client's choice and one answer under that number, its own or ERROR. Answers come in
  the order of their requests, so a client may send ahead and needs no table of what is under way.
- A FETCH that waits for records ends its wait when a further request comes: nothing waits behind it.
- What is sent ahead of an answer that changes the state (a log-in's) waits, and is read then: it makes no difference
  how a stream is cut into pieces.
- A message that is none, or out of place, ends the connection: by CLOSE where the server finds it.
"""

from abc import abstractmethod
from typing import Any, Final, Generic, TypeVar

import msgspec

from triomq.errors import LocalProtocolError
from triomq.protocols.pieces import Outbox
from triomq.protocols.tap.codes import PeerError
from triomq.protocols.tap.events import EndOfStream, Failed
from triomq.protocols.tap.frames import FrameReader
from triomq.protocols.tap.messages import TapMessage
from triomq.protocols.tap.settings import FIRST_FRAMES, Settings
from triomq.protocols.tap.states import HOLDING, Role, State, StateTable
from triomq.protocols.tap.timers import Timers

Event_co = TypeVar("Event_co", covariant=True)

HELD_MAX: Final = 256 * 1024
"""Bytes that a peer may send ahead while it is our turn: some thousand requests."""

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class TapEngine(Generic[Event_co]):
    """One side of one connection, as ``Engine`` describes it; see ``TapServerEngine`` and ``TapClientEngine``.

    Nothing that a peer sends makes it raise. Commands that come too late are dropped: the peer would not read them;
    those that the state does not allow raise ``LocalProtocolError``. Take ``events()`` until there are none: what our
    side does about one may let the engine read on.

    Args:
        role: which side.
        states: that side's table.
        decoder: reads what comes.
        now: the present moment in seconds, on the clock that ``handle_timer`` will be given.
        settings: limits and times.
    """

    __slots__ = (
        "_decoder",
        "_events",
        "_holding",
        "_reader",
        "_settings",
        "_states",
        "_timers",
        "outbox",
        "reading_paused",
        "state",
    )

    def __init__(
        self,
        role: Role,
        states: StateTable,
        decoder: "msgspec.msgpack.Decoder[Any]",
        now: float,
        settings: Settings | None,
    ) -> None:
        self._settings = settings = settings or Settings()
        self.state: State = "greeting"
        self.reading_paused = False  # set by a driver that does not read; the peer's slowness is not its fault then
        self._states = states
        self._holding = HOLDING[role]
        self._decoder = decoder
        self._events: list[Event_co | Failed | EndOfStream] = []
        self.outbox = Outbox()
        """What waits to be written; ``unsent`` bytes, and nothing after them when it is ``finished``."""
        self._reader = FrameReader(min(FIRST_FRAMES, settings.max_frame))
        self._timers = Timers(now, settings.handshake_timeout, settings.frame_timeout)

    # What an engine is

    def receive_data(self, data: bytes) -> None:
        """Read bytes from the peer; ``b""`` means that it will send no more."""
        if self.state == "closed":
            return
        if not data:
            self._events.append(EndOfStream(self._reader.unread))
            self._end("received end")
            return
        self._reader.feed(data)
        self._read()

    def events(self) -> list[Event_co | Failed | EndOfStream]:
        """Return the events since the last call, in the order of the wire."""
        events, self._events = self._events, []
        return events

    def data_to_send(self) -> list[bytes | memoryview]:
        """Return what is to be written since the last call, in order."""
        return self.outbox.take()

    def next_timer(self) -> float | None:
        """Return when to call ``handle_timer``; a moment that has passed means now."""
        return None if self.state == "closed" else self._timers.next(self._under_way)

    def handle_timer(self, now: float) -> None:
        """Handle what is due at ``now``: the deadlines of the handshake and of a frame."""
        if self.state == "closed":
            return
        due = self._timers.handle(now, self._under_way)
        if due == "handshake":
            self._fail(PeerError("TOO_SLOW", f"the handshake was not over in time: it is at {self.state!r}"))
        elif due == "frame":
            self._fail(PeerError("TOO_SLOW", "a frame was begun and not finished in time"))

    @property
    def _under_way(self) -> int:
        """The number of the frame that was begun and is not whole; 0 if there is none, or we do not read."""
        reading = not self.reading_paused and self.state not in self._holding
        return self._reader.begun + 1 if reading and self._reader.unread else 0

    @property
    def unfinished(self) -> int:
        """How many bytes have come of frames that are not whole, or must wait."""
        return self._reader.unread

    # Reading

    def _read(self) -> None:
        """Read frames as far as they are there, and may be read."""
        try:
            while self.state not in self._holding and self.state != "closed":
                frame = self._reader.next()
                if frame is None:
                    return
                self._take(self._decode(frame))
            if self._reader.unread > HELD_MAX:
                raise PeerError("MALFORMED", f"more than {HELD_MAX} bytes were sent ahead of an answer")
        except PeerError as error:
            self._fail(error)

    def _decode(self, frame: memoryview) -> TapMessage:
        try:
            message = self._decoder.decode(frame)
        except _UNREADABLE as error:
            raise PeerError("MALFORMED", f"a frame has no message of this protocol: {error}") from None
        assert isinstance(message, TapMessage)
        return message

    def _take(self, message: TapMessage) -> None:
        """Do what a message means."""
        following = self._states[self.state].get(f"received {message.wire_name}")
        if following is None:
            raise PeerError("MALFORMED", f"{message.wire_name} has no place in state {self.state!r}")
        self.state = following
        self._received(message)

    @abstractmethod
    def _received(self, message: TapMessage) -> None:
        """Do what a message means that is in order; raises PeerError."""

    # Moving on

    def _may_send(self, name: str) -> bool:
        """Move to the state that sending something leads to; False if it is too late.

        Raises:
            LocalProtocolError: the state does not allow it.
        """
        if self.state == "closed":
            return False
        self._move(f"sent {name}")
        return True

    def _move(self, event: str) -> None:
        following = self._states[self.state].get(event)
        if following is None:
            raise LocalProtocolError(f"{event!r} has no place in state {self.state!r}")
        self.state = following

    def _open(self) -> None:
        """Begin with requests: the handshake is over, and frames may be large."""
        self._timers.end_handshake()
        self._reader.largest = self._settings.max_frame

    def _fail(self, error: PeerError) -> None:
        """End because of what the peer did."""
        self._events.append(Failed(error.code, error.text))
        self._end("found fault")

    def _end(self, event: str) -> None:
        self._move(event)
        self._finish()

    def _finish(self) -> None:
        """Forget what cannot be used any more: the state is the last one."""
        self.outbox.finished = True
        self._reader.drop()
