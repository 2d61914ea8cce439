"""What both sides of a ZMTP connection have in common: octets in, messages out, and how it ends (RFC 23, 37).

    client                                       server
      │ ── greeting ──────── greeting ───────────► │  both at once, 64 octets: version, mechanism
      │ ── READY ─────────────── READY ──────────► │  NULL: both at once; what kind of socket, and its identity
      │ ── HELLO ────────────────────────────────► │  PLAIN: a name and a password, which are judged
      │ ◄──────────────────────────── WELCOME ──── │         or ERROR, after which libzmq never comes again
      │ ── INITIATE ─────────────────────────────► │         as READY; CURVE is alike, with keys in place of a name
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
- Peers before ZMTP 3 say neither what they are nor who; a server takes them where it asks nobody, if it is told to.
- ERROR is for a wrong password alone: the peer does not try again. Whatever may pass ends without a word.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Final, get_args

from triomq.errors import LocalProtocolError
from triomq.protocols.pieces import Outbox
from triomq.protocols.zmtp.codes import PeerError
from triomq.protocols.zmtp.commands import (
    GREETING_SIZE,
    SIGNATURE,
    SIGNATURE_SIZE,
    encode_ping,
    encode_properties,
    identity_of,
    read_error,
    read_greeting,
    read_ping,
    read_properties,
    rest_of_greeting,
    split,
)
from triomq.protocols.zmtp.curve import OVERHEAD, SealedReader, Traffic
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
from triomq.protocols.zmtp.frames import FrameReader, Frames, encode, encode_command, encode_old
from triomq.protocols.zmtp.settings import (
    AT_ONCE,
    HANDSHAKE_OCTETS,
    LONGEST_COMMAND,
    LONGEST_IDENTITY,
    NAMED,
    OLD_TYPES,
    PEERS,
    SEALED_AT_ONCE,
    UNREAD_BEFORE_SILENCE,
    Settings,
    SocketType,
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
        "_rest",
        "_sealed",
        "_settings",
        "_states",
        "_subscriptions",
        "_timers",
        "_traffic",
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
        self._traffic: Traffic | None = None  # with CURVE, what seals and opens on the open connection
        self._sealed: SealedReader | None = None
        self._reader = FrameReader(self._may_still_come, _NO_MESSAGES, _NO_MESSAGES, settings.max_parts)
        self._timers = Timers(now, settings.handshake_timeout, settings.message_timeout, settings.heartbeat)
        self.outbox = Outbox()
        """What waits to be written; ``unsent`` octets, and nothing after them when it is ``finished``."""
        self.outbox.put(SIGNATURE)
        self._rest = rest_of_greeting(settings.mechanism, is_server=role == "server")  # of our greeting
        if not self._takes_old_peers:
            self._send_rest(len(self._rest))

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
                self._put_command(b"PING", encode_ping(2 * self._settings.heartbeat))
            case None:
                pass

    @property
    def _under_way(self) -> int:
        """The number of the message that was begun and is not whole; 0 if there is none, or we do not read."""
        if self.state != "open" or self.reading_paused or self.has_more:
            return 0
        if self._reader.is_between and (self._sealed is None or self._sealed.is_between):
            return 0
        return self._reader.messages + 1

    @property
    def unfinished(self) -> int:
        """How many octets have come of messages that are not whole, or must wait."""
        return self._reader.unfinished + (0 if self._sealed is None else self._sealed.unfinished)

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
            found = self._read_signature()
        elif self.state == "greeting":
            found = self._read_greeting()
        elif self.state == "identity":
            found = self._read_identity()
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
        reader.room = AT_ONCE if self._sealed is None else SEALED_AT_ONCE
        while self.state == "open":
            found: list[Frames] = []
            try:
                command = reader.read(found)
            finally:
                if self._sealed is not None:
                    self._open_sealed(self._sealed, found)
                elif found:
                    self._take_messages(found)
            if self.state != "open":
                return
            self.has_more = not reader.room
            if command is None:
                return
            if self._sealed is not None:  # a frame of a message, as a command
                self._open_sealed(self._sealed, [[command]])
            else:
                self._take_command(command)
            if self.has_more:
                return

    def _open_sealed(self, sealed: SealedReader, found: list[Frames]) -> None:
        """Open frames, and do what is in them."""
        messages: list[Frames] = []
        try:
            for frames in found:
                if len(frames) != 1:
                    raise PeerError("MALFORMED", "a sealed frame is one of several")
                command = sealed.read(frames[0], messages)
                if command is not None:
                    if messages:
                        self._take_messages(messages)
                        messages = []
                    self._take_command(command)
                    if self.state != "open":
                        return
        finally:
            if messages:
                self._take_messages(messages)

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

    # Greetings. A peer of ZMTP 2.0 takes what stands behind the first octet of the version for something else, so where
    # such may come that is sent when the peer's version is known.

    @property
    def _takes_old_peers(self) -> bool:
        return self._settings.old_peers and "identity" in self._states

    def _send_rest(self, size: int) -> None:
        """Send so many octets more of our greeting."""
        self.outbox.put(self._rest[:size])
        self._rest = self._rest[size:]

    def _read_signature(self) -> bytes | None:
        first = self._reader.peek()
        if first is not None and first != SIGNATURE[0]:
            self._meet_old_peer()
            return b""
        signature = self._reader.take(SIGNATURE_SIZE)
        if signature is None:
            return None
        if not signature[-1] & 1:
            raise PeerError("UNFIT", "the peer's greeting has no signature of ZMTP: it is no ZeroMQ")
        self._move("received signature")
        if self._takes_old_peers:
            self._send_rest(1)
        return signature

    def _meet_old_peer(self) -> None:
        """Go on with a peer that does not greet: for ZMTP 1.0 our signature was an identity's frame."""
        if not self._takes_old_peers:
            raise PeerError("UNFIT", "the peer does not speak ZMTP 3: ZeroMQ before 4.0, or no ZeroMQ at all")
        self._move("received no signature")
        self._reader.is_old = True
        self.peer_version = (1, 0)

    def _read_greeting(self) -> bytes | None:
        version = self._reader.peek()
        if version is not None and version < 3:
            return self._read_old_greeting(version)
        rest = self._reader.take(GREETING_SIZE - SIGNATURE_SIZE)
        if rest is not None:
            self._take_greeting(rest)
        return rest

    def _read_old_greeting(self, version: int) -> bytes | None:
        """Read what is left of a greeting of ZMTP 2.0: a version, and a kind of socket."""
        if not self._takes_old_peers:
            raise PeerError("UNFIT", f"the peer speaks ZMTP {version + 1}, which ZeroMQ before 4.0 does")
        rest = self._reader.take(2)
        if rest is None:
            return None
        ours = self._settings.socket_type
        if not any(OLD_TYPES.get(each) == rest[1] for each in get_args(SocketType) if each in PEERS[ours]):
            raise PeerError("UNFIT", f"the peer is a socket of type {rest[1]}, and ours a {ours}")
        self._move("received old greeting")
        self._reader.is_old = version == 0
        self.peer_version = (version + 1, 0)
        self.outbox.put(bytes((OLD_TYPES[ours],)))
        self._put_messages([[b""]])  # our identity, which is none
        return rest

    def _read_identity(self) -> bytes | None:
        found: list[Frames] = []
        self._reader.largest_frame, self._reader.largest_message = LONGEST_IDENTITY, LONGEST_IDENTITY
        self._reader.room = 1
        if self._reader.read(found) is not None:
            raise PeerError("MALFORMED", "a command has come from a peer before ZMTP 3")
        if self._reader.has_begun:
            raise PeerError("MALFORMED", "an identity has several frames")
        if not found:
            return None
        self._timers.forgo_heartbeats()
        self._move("received identity")
        self._begin("", found[0][0])
        return found[0][0]

    def _take_greeting(self, rest: bytes) -> None:
        if self._rest:
            self._send_rest(len(self._rest))
        peer = read_greeting(rest)
        if peer.mechanism != self._settings.mechanism:
            wanted = self._settings.mechanism
            raise PeerError("UNFIT", f"the peer's mechanism is {peer.mechanism!r}, and ours {wanted!r}")
        self.peer_version = peer.version
        self._timers.answers = peer.version >= (3, 1)
        self._move("received greeting")
        self._greeted()

    def _take_command(self, command: bytes) -> None:
        """Do what a command means."""
        if self.peer_version < (3, 0):
            raise PeerError("MALFORMED", "a command has come from a peer before ZMTP 3")
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
            self._put_command(b"PONG", context)

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
        if self._subscriptions is not None:
            self._events.append(TopicCancelled(topic))

    def _open(self, data: bytes) -> None:
        """Begin with messages: the peer has said what it is."""
        properties = read_properties(data)
        identity = identity_of(properties)
        kind = properties.get(b"socket-type", b"").decode("ascii", "replace")
        ours = self._settings.socket_type
        if kind not in PEERS[ours]:
            raise PeerError("UNFIT", f"the peer is a socket of type {kind!r}, and ours a {ours}")
        self._begin(kind, identity)

    def _begin(self, kind: str, identity: bytes) -> None:
        reader, settings = self._reader, self._settings
        if self._traffic is None:
            reader.largest_command = LONGEST_COMMAND
            reader.largest_frame, reader.largest_message = settings.max_frame, settings.max_message
        else:
            self._sealed = SealedReader(self._traffic, settings.max_message, settings.max_parts)
            reader.largest_command = reader.largest_frame = reader.largest_message = settings.max_frame + OVERHEAD
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
            self._put_messages(messages)

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

    def drop(self, topic: bytes) -> bool:
        """Take back a subscription once, as ``TopicCancelled`` wants; return whether it is gone by that."""
        return self.state == "open" and self._subscriptions is not None and self._subscriptions.drop(topic)

    @property
    def topics(self) -> Sequence[bytes]:
        """Subscriptions that are kept, also when the engine has ended."""
        return () if self._subscriptions is None else self._subscriptions.topics

    def close(self) -> None:
        """End the connection without a word: the peer may come again."""
        if self.state != "closed":
            self._end("lost")

    def _put_messages(self, messages: Sequence[Sequence[bytes]]) -> None:
        if self._traffic is not None:
            self.outbox.put(*self._traffic.encode(messages))
        else:
            self.outbox.put(*(encode_old(messages) if self._reader.is_old else encode(messages)))

    def _put_command(self, name: bytes, data: bytes = b"") -> None:
        traffic = self._traffic
        self.outbox.put(encode_command(name, data) if traffic is None else traffic.encode_command(name, data))

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
        self._sealed = None
        self._reader.drop()


_COMMON: Final[dict[bytes, Callable[[ZMTPEngine, bytes], None]]] = {
    b"PING": ZMTPEngine._take_ping,
    b"PONG": ZMTPEngine._take_pong,
    b"SUBSCRIBE": ZMTPEngine._subscribe,
    b"CANCEL": ZMTPEngine._cancel,
    b"ERROR": ZMTPEngine._take_error,
}
