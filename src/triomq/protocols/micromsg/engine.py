"""One MicroMsg2 connection, octets in and events out: what both sides have in common.

    client                                       server
      │ ── handshake: I require, I suggest ───────► │  hello ─► choosing
      │ ◄─────────── handshake: so do I, and I … ── │
      │ ── handshake: then it is these ───────────► │  open; with x-sasl login, until OUTCOME
      │ ── COMMAND subscribe ─────────────────────► │  SubscribeAsked
      │ ◄──────────── MESSAGE 1 · MESSAGE 2 … ───── │  as many as the window allows
      │ ── EXTENSION batch-ack 2 ─────────────────► │  MessagesAcked
      │ ── MESSAGE 1 · MESSAGE 2 … ───────────────► │  MicroMessageRun; accept
      │ ◄──────────────── EXTENSION batch-ack 2 ─── │

Rules:

- MESSAGE and SEND are one frame; the direction gives the name. Both directions number and acknowledge alike, each for
  itself.
- A message is acknowledged when this side's owner has said that it is safe, and all before it are: an ack means all
  up to its number. Acks go when half a window is safe, or after a short time. SharpMessaging sends everything again
  that an early ack does not cover; it is sent one for exactly a window, or when it has been silent for a while.
- Every handshake goes out as one piece: SharpMessaging takes the first octet of any piece for that of a frame.
- ERROR ends the connection, whoever sends it, whenever. What cannot be a conversation of ours is left without a word.
- Commands of the owner that come too late are dropped, for the peer would not read them; those that the state does
  not allow raise ``LocalProtocolError``.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, Literal

import msgspec

from triomq.errors import LocalProtocolError
from triomq.protocols.micromsg.codes import (
    COMMAND,
    ERROR,
    EXTENSION,
    LARGE,
    LONGEST_ERROR,
    LONGEST_REPORT,
    MAJOR,
    MINOR,
    PeerError,
    printable,
)
from triomq.protocols.micromsg.events import (
    EndOfStream,
    ErrorReceived,
    Event,
    ExtensionReceived,
    Failed,
    HandshakeCompleted,
    MessagesAcked,
    Silent,
)
from triomq.protocols.micromsg.extensions import DOTNET, HEARTBEAT, JSON, OFFICIAL, OWN, REPLY, SASL, HandshakeExtension
from triomq.protocols.micromsg.handshake import Agreement, Handshake, is_error, read_handshake
from triomq.protocols.micromsg.outbox import Outbox
from triomq.protocols.micromsg.properties import LONGEST_PROPERTIES
from triomq.protocols.micromsg.reader import MicroMsgReader, WireFrame
from triomq.protocols.micromsg.sending import JSON_TYPE, PropertyTranslator
from triomq.protocols.micromsg.settings import LARGEST_PAYLOAD, LONGEST_TYPE, SHARPMESSAGING_BODY, Settings
from triomq.protocols.micromsg.shapes import ShapeTable
from triomq.protocols.micromsg.states import State, StateTable
from triomq.protocols.micromsg.timers import Timers
from triomq.protocols.micromsg.windows import ReceivingWindow, SendingWindow

_ERROR_TEXT: Final = re.compile("([0-9]{3})(?: (.*))?", re.DOTALL)
_SMALL: Final = 255
"""Octets of a payload whose length is one octet."""


class MicroMsgStatistics(msgspec.Struct, frozen=True, gc=False):
    """What was odd on a connection, and no fault.

    Args:
        jumps: messages whose sequence number was neither the one that was due nor a recent one.
        repeats: messages that had come already, and were dropped.
        stale_acks: acks of what was not outstanding.
        skipped: frames of extensions that have none.
    """

    jumps: int
    repeats: int
    stale_acks: int
    skipped: int


class MicroMsgEngine:
    """One side of one connection, as ``Engine`` describes it; use ``MicroMsgServer`` or ``MicroMsgClient``.

    The owner of the socket creates the engine, and drops it when ``outbox.finished`` is true and ``data_to_send()`` is
    written. Nothing that a peer sends makes it raise. Look at ``next_timer()`` after each turn.

    Args:
        states: the table of its side.
        now: the present moment in seconds, on the clock that ``handle_timer`` will be given.
        settings: extensions, limits and times.
    """

    __slots__ = (
        "_ack_number",
        "_events",
        "_frame_size",
        "_has_heard",
        "_named",
        "_numbers",
        "_reader",
        "_receiving",
        "_rest",
        "_seen_repeats",
        "_sending",
        "_settings",
        "_skipped",
        "_stale_acks",
        "_states",
        "_timers",
        "_translator",
        "_type_name",
        "extensions",
        "is_sharpmessaging",
        "outbox",
        "peer_identity",
        "reading_paused",
        "state",
    )  # fmt: skip

    def __init__(self, states: StateTable, now: float, settings: Settings | None) -> None:
        self._settings = settings = settings or Settings()
        self.state: State = "hello"
        self.reading_paused = False  # set by a driver that does not read; the peer's slowness is not its fault then
        self.peer_identity = ""
        """What the peer calls itself; it proves nothing."""
        self.extensions: tuple[HandshakeExtension, ...] = ()
        """What was agreed, in the order of its numbers, with what the peer says about each."""
        self.is_sharpmessaging = False
        """Whether the peer is SharpMessaging, which has to be treated with care."""
        self.outbox = Outbox()
        """What waits to be written; ``unsent`` octets, and nothing after them when it is ``finished``."""
        self._states = states
        self._events: list[Event] = []
        self._rest = b""  # of handshakes
        self._frame_size = min(settings.max_payload, LARGEST_PAYLOAD)  # octets of a payload that is sent
        self._reader: MicroMsgReader | None = None
        self._sending = SendingWindow(0)
        self._receiving = ReceivingWindow(0, 0, is_exact=False)
        self._timers = Timers(now, settings.handshake_timeout, settings.frame_timeout, settings.ack_delay)
        self._has_heard = False
        self._numbers: dict[str, int] = {}  # of the extensions
        self._ack_number = 0
        self._translator: PropertyTranslator | None = None
        self._type_name = b""  # what `dotnet` has said last
        self._named: tuple[str, bytes] = "", b"\0"  # the last destination, and how it is written
        self._seen_repeats = self._skipped = self._stale_acks = 0

    # What an engine is

    def receive_data(self, data: bytes) -> None:
        """Read octets from the peer; ``b""`` means that it will send no more."""
        if self.state == "closed":
            return
        if not data:
            self._events.append(EndOfStream(self.unfinished))
            self._end("received end")
            return
        self._has_heard = True
        try:
            if self._reader is None:
                self._rest += data
                self._read_handshakes()
            else:
                self._reader.feed(data)
                self._read_frames(self._reader)
        except PeerError as error:
            self._fail(error)

    def events(self) -> list[Event]:
        """Return the events since the last call, in the order of the wire."""
        events, self._events = self._events, []
        return events

    def data_to_send(self) -> list[bytes | memoryview]:
        """Return what is to be written since the last call, in order."""
        return self.outbox.take()

    def next_timer(self) -> float | None:
        """Return when to call ``handle_timer``; a moment that has passed means now."""
        return None if self.state == "closed" else self._timers.next(self._under_way, self._receiving.waiting)

    def handle_timer(self, now: float) -> None:
        """Do what is due at ``now``: acks, heartbeats, silence, the deadlines of the handshake and of a frame."""
        if self.state == "closed":
            return
        heard = self._has_heard or self.reading_paused
        said, self._has_heard, self.outbox.has_sent = self.outbox.has_sent, False, False
        waiting = self._receiving.waiting
        for due in self._timers.handle(now, self._under_way, waiting, heard=heard, said=said):
            if due == "ack":
                self._send_ack()
            elif due == "heartbeat":
                self._put_extension(HEARTBEAT, b"")
                self.outbox.has_sent = False  # or the next one would wait until this one was noticed as traffic
            elif due == "silent":
                self._events.append(Silent())
                self._end("lost")
            else:
                what = f"the handshake is at {self.state!r}" if due == "handshake" else "a frame is not whole"
                self._fail(PeerError(408, f"{what}, and its time is over", is_told=False))
            if self.outbox.finished:
                return

    @property
    def _under_way(self) -> int:
        """The frame that was begun and is not whole; 0 if there is none, or we do not read."""
        return self._reader.under_way if self._reader is not None and not self.reading_paused else 0

    @property
    def unfinished(self) -> int:
        """How many octets have come of what is not whole."""
        return len(self._rest) + (self._reader.unfinished if self._reader is not None else 0)

    def statistics(self) -> MicroMsgStatistics:
        """Count what was odd."""
        reader = self._reader
        jumps, repeats = (0, 0) if reader is None else (reader.jumps, reader.repeats)
        return MicroMsgStatistics(jumps, repeats, self._stale_acks, self._skipped)

    # The handshake

    def _read_handshakes(self) -> None:
        """Read handshakes as far as they are there, and what follows the last one."""
        while self._rest and self._reader is None:
            if is_error(self._rest[0]):
                self._read_refusal()
                return
            found = read_handshake(self._rest, self._settings.max_handshake)
            if found is None:
                return
            handshake, stop = found
            self._rest = self._rest[stop:]
            self._shake(handshake)
        if self._reader is not None and self._rest:
            data, self._rest = self._rest, b""
            self._reader.feed(data)
            self._read_frames(self._reader)

    def _read_refusal(self) -> None:
        """Read an ERROR in the place of a handshake, or what looks like one: other protocols begin with letters."""
        data = self._rest
        if data[0] not in (ERROR, ERROR | LARGE):
            raise PeerError(400, f"{data[0]:#04x} begins no handshake, but another protocol", is_told=False)
        start = 5 if data[0] & LARGE else 2
        stop = start + min(int.from_bytes(data[1:start], "big"), LONGEST_REPORT)
        if len(data) >= start and len(data) >= stop:
            self._take_error(data[start:stop])

    def _shake(self, handshake: Handshake) -> None:
        """Do what a handshake means; raises PeerError."""
        raise NotImplementedError

    def _agree(self, agreement: Agreement, handshake: Handshake, event: str) -> None:
        """Go on with what is agreed."""
        names = agreement.names
        self.extensions = agreement.extensions
        self._numbers = {name: number for number, name in enumerate(names, 1)}
        self._ack_number = self._numbers.get(agreement.ack_name, 0)
        self._move(f"{event} with x-sasl" if SASL in names else event)
        settings, is_sharp = self._settings, self.is_sharpmessaging
        self._sending = SendingWindow(agreement.window)
        self._receiving = ReceivingWindow(agreement.window, agreement.peer_window, is_exact=is_sharp)
        implied = {"content-type": JSON_TYPE} if JSON in names else {}
        self._reader = MicroMsgReader(settings, self._receiving, ShapeTable(implied, is_typed=not is_sharp))
        if JSON in names or DOTNET in names or is_sharp:
            self._translator = PropertyTranslator(
                has_json=JSON in names, has_dotnet=DOTNET in names, is_typed=not is_sharp
            )
        ack = settings.sharpmessaging_delay if is_sharp else settings.ack_delay
        self._timers.agree(heartbeat=agreement.heartbeat, ack=ack)
        version = MAJOR, min(MINOR, handshake.minor)
        self._events.append(HandshakeCompleted(self.peer_identity, version, agreement.extensions, agreement.window))
        if self.state == "open":
            self._open()

    def _open(self) -> None:
        """Begin with messages: nobody has to log in, or somebody has."""
        assert self._reader is not None
        self._timers.end_handshake()
        self._reader.allows_messages = True

    def speaks(self, name: str) -> bool:
        """Return whether an extension was agreed."""
        return name in self._numbers

    # Frames that come

    def _read_frames(self, reader: MicroMsgReader) -> None:
        while self.state != "closed":
            try:
                frame = reader.next_frame()
            finally:
                if reader.runs:
                    self._events += reader.runs
                    reader.runs = []
            if frame is None:
                break
            if frame.kind == EXTENSION:
                self._take_extension(frame)
            elif frame.kind == COMMAND:
                self._receive("COMMAND")
                self._take_command(frame.payload)
            else:
                self._take_error(frame.payload)
        if reader.repeats != self._seen_repeats:
            self._seen_repeats = reader.repeats
            # It was sent again because its ack is missed.
            if self.state == "open" and self._receiving.acknowledged:
                self._put_ack(self._receiving.acknowledged_sequence)

    def _receive(self, name: str) -> None:
        """Move to the state that receiving something leads to.

        Raises:
            PeerError: the state does not allow it.
        """
        following = self._states[self.state].get(f"received {name}")
        if following is None:
            raise PeerError(400 if self.state == "open" else 401, f"{name} has no place in state {self.state!r}")
        self.state = following

    def _take_command(self, payload: bytes) -> None:
        """Do what a command means; raises PeerError."""
        raise NotImplementedError

    def _take_error(self, payload: bytes) -> None:
        text = printable(payload[:LONGEST_REPORT])
        found = _ERROR_TEXT.fullmatch(text)
        code, text = (int(found[1]), found[2] or "") if found else (0, text)
        self._events.append(ErrorReceived(code, text))
        self._end("received ERROR")

    def _take_extension(self, frame: WireFrame) -> None:
        number, payload = frame.extension, frame.payload
        if not 0 < number <= len(self.extensions):
            raise PeerError(400, f"extension {number}; {len(self.extensions)} were agreed, counted from 1")
        if number == self._ack_number:
            self._receive("ACK")
            self._take_ack(payload)
            return
        name = self.extensions[number - 1].canonical
        if name == SASL:
            self._take_sasl(payload)
        elif name == HEARTBEAT:
            self._receive("HEARTBEAT")
        elif name == REPLY and "received REPLY" in self._states[self.state]:
            self._take_reply(payload)
        else:
            self._receive("EXTENSION")
            if name == DOTNET:
                self._take_type(payload)
            elif name in OFFICIAL or name in OWN:
                self._skipped += 1
            else:
                self._events.append(ExtensionReceived(name, payload))

    def _take_ack(self, payload: bytes) -> None:
        if len(payload) != 2:
            raise PeerError(400, f"an ack of {len(payload)} octets; its sequence number has 2")
        sending = self._sending
        count = sending.acknowledge(payload[0] << 8 | payload[1])
        if count:
            self._events.append(MessagesAcked(sending.acknowledged, count))
        else:
            self._stale_acks += 1

    def _take_type(self, payload: bytes) -> None:
        assert self._reader is not None
        try:
            if len(payload) > LONGEST_TYPE:
                raise PeerError(400, f"a type of {len(payload)} octets; at most {LONGEST_TYPE} are allowed")
            self._reader.shapes.set_type(payload.decode())
        except UnicodeDecodeError:
            raise PeerError(400, f"type {payload[:40]!r} is not UTF-8") from None

    def _take_sasl(self, payload: bytes) -> None:
        """Do what a frame of a log-in means; raises PeerError."""
        raise NotImplementedError

    def _take_reply(self, payload: bytes) -> None:
        """Do what the answer to a command means; raises PeerError."""
        raise NotImplementedError

    # Messages that go

    @property
    def window(self) -> int:
        """How many messages this side may leave unacknowledged; 0 if none are acknowledged."""
        return self._sending.size

    @property
    def room(self) -> int:
        """How many messages may be sent now."""
        return self._sending.room

    @property
    def sent(self) -> int:
        """The number of the last message that was sent."""
        return self._sending.sent

    @property
    def largest_body(self) -> int:
        """Octets of the largest body that the peer can be sent."""
        return SHARPMESSAGING_BODY if self.is_sharpmessaging else self._settings.max_message

    def send_messages(self, destination: str, properties: bytes, bodies: Sequence[bytes]) -> None:
        """Send messages with one destination and the same properties; all of them or none.

        Args:
            destination: where they go, or come from.
            properties: as ``encode_properties`` writes them.
            bodies: large ones are not copied and must not change.

        Raises:
            LocalProtocolError: the connection is not open, there is no room, or something is too long.
        """
        if not bodies or not self._may_send(len(bodies)):
            return
        front = self._destination(destination)
        if len(properties) > LONGEST_PROPERTIES:
            raise LocalProtocolError(f"properties of {len(properties)} octets; there is room for {LONGEST_PROPERTIES}")
        self._check_bodies(max(map(len, bodies)))
        head = len(properties).to_bytes(2, "big") + properties
        if self._translator is not None:
            head = self._say_type(*self._translator.translate(properties))
        for form, some in groupby(bodies, self._form_of):
            if form == "fragments":
                for body in some:
                    self._send_fragments(front, head, memoryview(body))
                continue
            alike = list(some)
            number, is_large = self._sending.sent + 1, form == "large"
            self.outbox.bodies(number, front + head, alike, is_large=is_large)
            self._sending.took(len(alike))

    def _form_of(self, body: bytes) -> Literal["small", "large", "fragments"]:
        """Return in which frames a body goes."""
        size = len(body)
        return "small" if size <= _SMALL else "large" if size <= self._frame_size else "fragments"

    def send_contents(
        self, destination: str, contents: Sequence[bytes], *, properties_stop: int, body_start: int
    ) -> None:
        """Send messages as a ``MicroMessageRun`` has them, of one shape but for their properties' octets; all or none.

        Args:
            destination: where they go, or come from.
            contents: large ones are not copied and must not change.
            properties_stop: as their shape says.
            body_start: likewise.

        Raises:
            LocalProtocolError: the connection is not open, there is no room, or a body is too large.
        """
        if not contents or not self._may_send(len(contents)):
            return
        front = self._destination(destination)
        is_large = body_start - properties_stop == 4
        largest = max(map(len, contents)) - body_start if is_large else 0
        self._check_bodies(largest)
        if largest > self._frame_size:
            self._send_singly(front, contents, properties_stop, body_start)
            return
        flags = LARGE if is_large else 0
        if self._translator is None:
            self.outbox.messages(self._sending.sent + 1, front, contents, flags)
            self._sending.took(len(contents))
            return
        translate = self._translator.translate
        for (octets, type_name), some in groupby(contents, lambda each: translate(each[2:properties_stop])):
            head = self._say_type(octets, type_name)
            translated = [head + content[properties_stop:] for content in some]
            self.outbox.messages(self._sending.sent + 1, front, translated, flags)
            self._sending.took(len(translated))

    def _send_singly(self, front: bytes, contents: Sequence[bytes], properties_stop: int, body_start: int) -> None:
        """Send messages of which one is too large for a frame."""
        for content in contents:
            head = content[:properties_stop]
            if self._translator is not None:
                head = self._say_type(*self._translator.translate(content[2:properties_stop]))
            self._send_fragments(front, head, memoryview(content)[body_start:])

    def _send_fragments(self, front: bytes, head: bytes, body: memoryview) -> None:
        sending = self._sending
        self.outbox.fragments(sending.sent + 1, front, head, body, self._frame_size)
        sending.took(1)

    def _may_send(self, count: int) -> bool:
        """Return whether messages may be sent; False if it is too late.

        Raises:
            LocalProtocolError: the connection is not open, or there is no room.
        """
        if self.state == "closed":
            return False
        self._move("sent MESSAGE")
        if count > self._sending.room:
            raise LocalProtocolError(f"{count} messages; the window has room for {self._sending.room}")
        return True

    def _check_bodies(self, largest: int) -> None:
        if largest > self.largest_body:
            raise LocalProtocolError(f"a body of {largest} octets; this peer can be sent {self.largest_body}")

    def _destination(self, name: str) -> bytes:
        """Write a destination, or remember how it is written."""
        if name != self._named[0]:
            octets = name.encode("utf-8", "surrogateescape")
            if len(octets) > _SMALL:
                raise LocalProtocolError(f"destination {name[:40]!r} has {len(octets)} octets; {_SMALL} fit")
            self._named = name, bytes((len(octets),)) + octets
        return self._named[1]

    def _say_type(self, head: bytes, type_name: bytes) -> bytes:
        """Say by ``dotnet`` of what type the next messages are, if the last ones were not; return their properties."""
        if type_name != self._type_name and self.speaks(DOTNET) and (type_name or not self.is_sharpmessaging):
            self._type_name = type_name
            self._put_extension(DOTNET, type_name)
        return head

    # Messages that came

    def accept(self, up_to: int, single: Iterable[int] = ()) -> None:
        """Say that messages are safe: an ack of them is sent when it is due.

        Args:
            up_to: the number up to which all are.
            single: numbers of others, in any order.
        """
        receiving = self._receiving
        receiving.accept(up_to, single)
        if receiving.is_due or not self._settings.ack_delay:
            self.acknowledge_now()

    def acknowledge_now(self) -> None:
        """Acknowledge what is safe without waiting for more; SharpMessaging waits until that does no harm."""
        receiving = self._receiving
        if receiving.is_due or (receiving.unacknowledged and not receiving.is_exact):
            self._send_ack()

    def _send_ack(self) -> None:
        if self.state == "open" and self._receiving.size:
            self._put_ack(self._receiving.acknowledge())

    def _put_ack(self, sequence: int) -> None:
        self.outbox.put(bytes((EXTENSION, self._ack_number, 2, sequence >> 8, sequence & 255)))

    # Frames of extensions that go

    def send_extension(self, name: str, payload: bytes) -> None:
        """Send a frame of an extension of one's own.

        Raises:
            LocalProtocolError: the connection is not open, or the extension was not agreed, is not one's own, or the
                payload is too long.
        """
        if self.state == "closed":
            return
        self._move("sent EXTENSION")
        if name not in self._numbers or name in OFFICIAL or name in OWN:
            raise LocalProtocolError(f"extension {name!r} was not agreed, or is the engine's own business")
        if len(payload) > self._frame_size:
            raise LocalProtocolError(f"a frame of {len(payload)} octets; at most {self._frame_size} fit")
        self._put_extension(name, payload)

    def _put_extension(self, name: str, payload: bytes) -> None:
        number, size = self._numbers[name], len(payload)
        if size <= _SMALL:
            self.outbox.put(bytes((EXTENSION, number, size)) + payload)
        else:
            self.outbox.put(bytes((EXTENSION | LARGE, number)) + size.to_bytes(4, "big"), payload)

    # The end

    def fail(self, code: int, text: str) -> None:
        """End the connection, and tell the peer why.

        Args:
            code: three digits, as HTTP has them.
            text: is cut where it would be too long.
        """
        if self.state != "closed":
            self._put_error(code, text)
            self._end("sent ERROR")

    def close(self) -> None:
        """End the connection without a word."""
        if self.state != "closed":
            self._end("lost")

    def _put_error(self, code: int, text: str) -> None:
        octets = f"{code:03} {text}".encode("utf-8", "replace")[:LONGEST_ERROR]
        octets = octets.decode("utf-8", "ignore").encode()  # no half of a character
        self.outbox.put(bytes((ERROR, len(octets))) + octets)

    def _fail(self, error: PeerError) -> None:
        """End because of what the peer did."""
        self._events.append(Failed(error.code, error.text))
        if error.is_told:
            self._put_error(error.code, error.text)
            self._end("sent ERROR")
        else:
            self._end("found fault")

    def _end(self, event: str) -> None:
        self._move(event)
        self.outbox.finished = True
        self._rest = b""
        if self._reader is not None:
            self._reader.drop()

    def _move(self, event: str) -> None:
        """Go to the next state; an event that the table does not have is a mistake of our own."""
        following = self._states[self.state].get(event)
        if following is None:
            raise LocalProtocolError(f"{event!r} has no place in state {self.state!r}")
        self.state = following
