"""What both sides of a ZMTP connection have in common: octets in, messages out, and how it ends (RFC 23, 37).

    client                                       server
      │ ── greeting ──────── greeting ───────────► │  both at once, 64 octets: version, mechanism
      │ ── READY ─────────────── READY ──────────► │  NULL: both at once; what kind of socket, and its identity
      │ ── HELLO ────────────────────────────────► │  PLAIN: a name and a password, which are judged
      │ ◄──────────────────────────── WELCOME ──── │         or ERROR, after which libzmq never comes again
      │ ── INITIATE ─────────────────────────────► │         as READY
      │ ◄────────────────────────────── READY ──── │
      │ ◄══════════════ messages ════════════════► │  lists of frames; between them PING and PONG, SUBSCRIBE and CANCEL

Rules:

- What comes before the log-in may have 4 KiB in all, and must be over in time. From then on limits are judged by the
  lengths that stand before frames, so that nothing is stored which is too much.
- A thousand frames are read at a time. While ``has_more`` is true the driver looks after others, and then takes
  ``events()`` again.
- What is sent ahead of an answer that changes the state (a log-in's) waits, and is read then: it makes no difference
  how a stream is cut into pieces.
- A PING is answered here, unless much waits for the peer already, and one that is due is sent here.
- ERROR is for a wrong password alone: the peer does not try again. Whatever may pass ends without a word.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Final

from triomq.errors import LocalProtocolError
from triomq.protocols.pieces import Outbox
from triomq.protocols.zmtp.codes import PeerError
from triomq.protocols.zmtp.commands import (
    GREETING_SIZE,
    SIGNATURE_SIZE,
    encode_ping,
    encode_properties,
    greeting,
    identity_of,
    read_error,
    read_greeting,
    read_ping,
    read_properties,
    split,
)
from triomq.protocols.zmtp.events import (
    EndOfStream,
    ErrorReceived,
    Event,
    Failed,
    MessagesReceived,
    Opened,
    TopicCancelled,
    TopicSubscribed,
)
from triomq.protocols.zmtp.frames import FrameReader, Frames, encode, encode_command
from triomq.protocols.zmtp.settings import (
    AT_ONCE,
    HANDSHAKE_OCTETS,
    LONGEST_COMMAND,
    NAMED,
    PEERS,
    UNREAD_BEFORE_SILENCE,
    Settings,
)
from triomq.protocols.zmtp.states import HOLDING, TABLES, UNTIL_OPEN, Role, State
from triomq.protocols.zmtp.subscriptions import Subscriptions
from triomq.protocols.zmtp.timers import Timers

_HEAD: Final = 2
"""Octets that a command has at least before its name: each counts in the handshake."""

_KEEPS_SUBSCRIPTIONS: Final = frozenset(("PUB", "XPUB"))

_NO_MESSAGES: Final = -1


class ZMTPEngine:
    """One side of one connection, as ``Engine`` describes it; see ``ZMTPServerEngine`` and ``ZMTPClientEngine``.

    Nothing that a peer sends makes it raise. Commands that come too late are dropped: the peer would not read them;
    those that the state does not allow raise ``LocalProtocolError``. Take ``events()`` until there are none and
    ``has_more`` is false.

    Args:
        role: Which side.
        now: The present moment in seconds, on the clock that ``handle_timer`` will be given.
        settings: Limits and times, and what our side is.
    """

    __slots__ = (
        "_events",
        "_may_still_come",
        "_reader",
        "_settings",
        "_states",
        "_subscriptions",
        "_timers",
        "has_more",
        "outbox",
        "peer_version",
        "reading_paused",
        "state",
    )

    def __init__(self, role: Role, now: float, settings: Settings | None) -> None:
        self._settings = settings = settings or Settings()
        self._states = TABLES[role][settings.mechanism]
        self.state: State = "signature"
        self.reading_paused = False  # set by a driver that does not read; the peer's silence is not its fault then
        self.peer_version = (0, 0)
        """Of the protocol, as the peer has announced it; zeros before it has."""
        self._events: list[Event] = []
        self.has_more = False
        """Whether what has come was not read to its end, so that ``events`` wants to be called once more."""
        self._may_still_come = HANDSHAKE_OCTETS  # until the connection is open
        self._subscriptions: Subscriptions | None = None
        self._reader = FrameReader(self._may_still_come, _NO_MESSAGES, _NO_MESSAGES, settings.max_parts)
        self._timers = Timers(now, settings.handshake_timeout, settings.message_timeout, settings.heartbeat)
        self.outbox = Outbox()
        """What waits to be written; ``unsent`` octets, and nothing after them when it is ``finished``."""
        self.outbox.put(greeting(settings.mechanism, is_server=role == "server"))

    # What an engine is

    def receive_data(self, data: bytes) -> None:
        """Read octets from the peer; ``b""`` means that it will send no more."""
        if not data:
            self._read_last()
        elif self.state != "closed":
            self._timers.heard = True
            self._reader.feed(data)
            if not self.has_more:
                self._read()

    def _read_last(self) -> None:
        """Read what is left, for nothing follows it."""
        while self.has_more:
            self._read()
        if self.state != "closed":
            self._events.append(EndOfStream(self._reader.unfinished))
            self._end("received end")

    def events(self) -> list[Event]:
        """Return the next events, in the order of the wire; call it again as long as ``has_more`` is true."""
        if self.has_more and not self._events:
            self._read()
        events, self._events = self._events, []
        return events

    def data_to_send(self) -> list[bytes | memoryview]:
        """Return what is to be written since the last call, in order."""
        return self.outbox.take()

    def next_timer(self) -> float | None:
        """Return when to call ``handle_timer``; a moment that has passed means now."""
        return None if self.state == "closed" else self._timers.next(self._under_way)

    def handle_timer(self, now: float) -> None:
        """Handle what is due at ``now``: deadlines, a PING, the end of a peer that is silent."""
        if self.state == "closed":
            return
        is_read = not self.reading_paused and self.state not in HOLDING
        match self._timers.handle(now, self._under_way, is_read=is_read):
            case "handshake":
                self._fail(PeerError("TOO_SLOW", f"the handshake was not over in time: it is at {self.state!r}"))
            case "message":
                self._fail(PeerError("TOO_SLOW", "a message was begun and not finished in time"))
            case "silent":
                self._fail(PeerError("SILENT", "the peer says nothing, and answers no PING"))
            case "ping":
                self._move("sent PING")
                self.outbox.put(encode_command(b"PING", encode_ping(2 * self._settings.heartbeat)))
            case None:
                pass

    @property
    def _under_way(self) -> int:
        """The number of the message that was begun and is not whole; 0 if there is none, or we do not read."""
        if self.state != "open" or self.reading_paused or self.has_more or self._reader.is_between:
            return 0
        return self._reader.messages + 1

    @property
    def unfinished(self) -> int:
        """How many octets have come of messages that are not whole, or must wait."""
        return self._reader.unfinished

    @property
    def is_open(self) -> bool:
        """Whether messages may be sent."""
        return self.state == "open"

    # Reading

    def _read(self) -> None:
        """Read as far as octets are there, and may be read, and others need not wait."""
        self.has_more = False
        try:
            while self.state in UNTIL_OPEN and self._read_handshake():
                pass
            if self.state == "open":
                self._read_open()
            elif self.state != "closed" and self._reader.unread > self._may_still_come:
                raise PeerError("TOO_LARGE", f"more than {HANDSHAKE_OCTETS} octets have come before the log-in")
        except PeerError as error:
            self._fail(error)

    def _read_handshake(self) -> bool:
        """Read what is due next; return whether it has come."""
        reader = self._reader
        if self.state == "signature":
            found = reader.take(SIGNATURE_SIZE)
            if found is not None:
                self._take_signature(found)
        elif self.state == "greeting":
            found = reader.take(GREETING_SIZE - SIGNATURE_SIZE)
            if found is not None:
                self._take_greeting(found)
        else:
            reader.largest_command = self._may_still_come
            reader.room = 1
            found = reader.read([])
            if found is not None:
                self._may_still_come -= _HEAD
                self._take_command(found)
        if found is not None:
            self._may_still_come -= len(found)
        return found is not None

    def _read_open(self) -> None:
        """Read messages and commands, some of them at a time."""
        reader = self._reader
        reader.room = AT_ONCE
        while self.state == "open":
            found: list[Frames] = []
            try:
                command = reader.read(found)
            finally:
                if found:
                    self._take_messages(found)
            self.has_more = not reader.room
            if command is None:
                return
            self._take_command(command)
            if self.has_more:
                return

    def _take_messages(self, messages: list[Frames]) -> None:
        """Report messages; subscriptions of peers before 3.1 are among them."""
        if self._settings.socket_type not in _KEEPS_SUBSCRIPTIONS:
            self._events.append(MessagesReceived(messages))
            return
        for frames in messages:
            kind, topic = frames[0][:1], frames[0][1:]
            if len(frames) == 1 and kind == b"\1":
                self._subscribe(topic)
            elif len(frames) == 1 and kind == b"\0":
                self._cancel(topic)
            # else it is a message of an XSUB's own, for a program that wants such: ours has nobody to give it to

    def _take_signature(self, signature: bytes) -> None:
        if signature[0] != 0xFF or not signature[9] & 1:
            raise PeerError("UNFIT", "the peer does not speak ZMTP 3: ZeroMQ before 4.0, or no ZeroMQ at all")
        self._move("received signature")

    def _take_greeting(self, rest: bytes) -> None:
        peer = read_greeting(rest)
        if peer.version[0] < 3:
            raise PeerError("UNFIT", f"the peer speaks ZMTP {peer.version[0]}, which ZeroMQ before 4.0 does")
        if peer.mechanism != self._settings.mechanism:
            wanted = self._settings.mechanism
            raise PeerError("UNFIT", f"the peer's mechanism is {peer.mechanism!r}, and ours {wanted!r}")
        self.peer_version = peer.version
        self._timers.answers = peer.version >= (3, 1)
        self._move("received greeting")
        self._greeted()

    def _take_command(self, command: bytes) -> None:
        """Do what a command means."""
        name, data = split(command)
        following = self._states[self.state].get(f"received {name.decode('ascii', 'replace')}")
        if following is None:
            if self.state == "open":
                return  # a command of another version
            raise PeerError("MALFORMED", f"command {name!r} has no place in state {self.state!r}")
        if name in _COMMON:
            _COMMON[name](self, data)
        else:
            self._received(name, data, following)

    @abstractmethod
    def _greeted(self) -> None:
        """Send what follows on the peer's greeting."""

    @abstractmethod
    def _received(self, name: bytes, data: bytes, following: State) -> None:
        """Do what a command of the handshake means, and move to the state that follows; raises PeerError."""

    # Commands that both sides have

    def _take_ping(self, data: bytes) -> None:
        seconds, context = read_ping(data)
        self._timers.answers = True
        self._timers.patience = seconds
        if self.outbox.unsent <= UNREAD_BEFORE_SILENCE:
            self.outbox.put(encode_command(b"PONG", context))

    def _take_pong(self, _: bytes) -> None:
        self._timers.answers = True

    def _take_error(self, data: bytes) -> None:
        self._events.append(ErrorReceived(read_error(data)))
        self._end("received ERROR")

    def _subscribe(self, topic: bytes) -> None:
        if self._settings.socket_type in _KEEPS_SUBSCRIPTIONS:
            if self._subscriptions is None:
                self._subscriptions = Subscriptions()
            self._subscriptions.judge(topic)
            self._events.append(TopicSubscribed(topic))

    def _cancel(self, topic: bytes) -> None:
        if self._subscriptions is not None and self._subscriptions.cancel(topic):
            self._events.append(TopicCancelled(topic))

    def _open(self, data: bytes) -> None:
        """Begin with messages: the peer has said what it is."""
        properties = read_properties(data)
        identity = identity_of(properties)
        kind = properties.get(b"socket-type", b"").decode("ascii", "replace")
        ours = self._settings.socket_type
        if kind not in PEERS[ours]:
            raise PeerError("UNFIT", f"the peer is a socket of type {kind!r}, and ours a {ours}")
        reader, settings = self._reader, self._settings
        reader.largest_command = LONGEST_COMMAND
        reader.largest_frame, reader.largest_message = settings.max_frame, settings.max_message
        self._timers.end_handshake()
        self._events.append(Opened(kind, identity, self.peer_version))

    def _own_properties(self) -> bytes:
        settings = self._settings
        properties = {"Socket-Type": settings.socket_type.encode()}
        if settings.socket_type in NAMED:
            properties["Identity"] = settings.identity
        return encode_properties(properties)

    # Commands: what our side does

    def send(self, frames: Sequence[bytes]) -> None:
        """Send a message; nothing if the connection has ended.

        Raises:
            LocalProtocolError: The connection is not open yet.
        """
        self.send_all((frames,))

    def send_all(self, messages: Sequence[Sequence[bytes]]) -> None:
        """Send messages, each of at least one frame, as ``send`` does."""
        if self._may_send("message"):
            self.outbox.put(*encode(messages))

    def keep(self, topic: bytes) -> bool:
        """Keep a subscription that ``TopicSubscribed`` has asked for; return whether it is one that was not there yet.

        A peer that goes over its limits ends the connection instead.
        """
        if self.state != "open" or self._subscriptions is None:
            return False
        try:
            return self._subscriptions.add(topic)
        except PeerError as error:
            self._fail(error)
            return False

    @property
    def topics(self) -> Sequence[bytes]:
        """Subscriptions that are kept, also when the engine has ended."""
        return () if self._subscriptions is None else self._subscriptions.topics

    def close(self) -> None:
        """End the connection without a word: the peer may come again."""
        if self.state != "closed":
            self._end("lost")

    # Moving on

    def _may_send(self, name: str) -> bool:
        """Move to the state that sending something leads to; False if it is too late.

        Raises:
            LocalProtocolError: The state does not allow it.
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
        self.has_more = False
        self._reader.drop()


_COMMON: Final[dict[bytes, Callable[[ZMTPEngine, bytes], None]]] = {
    b"PING": ZMTPEngine._take_ping,
    b"PONG": ZMTPEngine._take_pong,
    b"SUBSCRIBE": ZMTPEngine._subscribe,
    b"CANCEL": ZMTPEngine._cancel,
    b"ERROR": ZMTPEngine._take_error,
}
