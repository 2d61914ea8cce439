"""The engine of one direct connection (6/DMP): octets in, events and octets out, for server and client alike.

    client                                    server
      │ ── AMQP 0x0A 0x01 0x00 0x01 ────────────► │  waiting ─► leasing
      │ ◄──────────────────────── "200 DMP/0.1" ── │
      │ ── lease ───────────────────────────────► │  LeasePresented; the endpoint accepts or refuses
      │ ◄────── "200 Ready to write to ..." ────── │  a sink: the client writes messages, the server reads
      │ ◄────── "200 Ready to read from ..." ───── │  a feed: the server writes messages, the client reads

Rules:

- Messages go one way, and nothing is acknowledged. A server that reads from a sink can answer once, with a refusal, and
  that is the end. On a feed there is no place for even that, since only sized messages stand there.
- A null message, a size of zero, shows on a quiet feed that the server is alive; a client gives up after three times
  its interval. A message that was begun must be finished in time, or a peer could hold memory for nothing.
- Words before the messages are short strings, read one by one. Messages are read and written in runs
  (``messages.py``, ``outbox.py``), as AMQP's are, and with the same contents: what came over AMQP is sent without being
  decoded.
- A client that reads a feed has nothing to send; what it sends all the same is dropped.
"""

from collections.abc import Iterable, Sequence

from triomq.errors import LocalProtocolError
from triomq.protocols.dmp.codes import CODE_NAMES, LATE, PeerError, response
from triomq.protocols.dmp.envelope import IMMEDIATE, MANDATORY
from triomq.protocols.dmp.events import (
    EndOfStream,
    Event,
    Failed,
    LeasePresented,
    Ready,
    RefusalReceived,
    Silent,
)
from triomq.protocols.dmp.messages import NULL, MessageReader
from triomq.protocols.dmp.outbox import ContentForm, Outbox
from triomq.protocols.dmp.settings import Settings
from triomq.protocols.dmp.states import CLIENT, SERVER, Role, State, Target
from triomq.protocols.dmp.timers import Timers
from triomq.protocols.fields import encode_short_string

PROTOCOL_HEADER = b"AMQP\x0a\x01\x00\x01"
"""Protocol 10, instance 1, version 0.1."""

# What a client may send ahead while the endpoint judges its lease.
HELD_MAX = 256 * 1024


class DMPEngine:
    """One side of one direct connection, as ``Engine`` describes it.

    The owner of the socket creates the engine, and drops it when ``outbox.finished`` is true and ``data_to_send()`` is
    written. Nothing that a peer sends makes it raise. Commands that come too late are dropped: the peer would not
    read them; those that the state does not allow raise ``LocalProtocolError``.

    Two rules for the driver, as with AMQP: look at ``next_timer()`` after each turn, and take ``events()`` until there
    are none, for accepting a sink reads on in what the client sent ahead.

    Args:
        role: which side.
        now: the present moment in seconds, on the clock that ``handle_timer`` will be given.
        settings: limits and times.
        lease: a client's lease.
        target: what a client's lease is for.
    """

    __slots__ = (
        "_events",
        "_heartbeat",
        "_lease",
        "_reader",
        "_received",
        "_rest",
        "_states",
        "_target",
        "_timers",
        "outbox",
        "reading_paused",
        "state",
    )

    def __init__(
        self, role: Role, *, now: float, settings: Settings | None = None, lease: str = "", target: Target = "sink"
    ) -> None:
        settings = settings or Settings()
        self.state: State = "waiting"
        self.reading_paused = False  # set by a driver that does not read; the peer's slowness is not its fault then
        self._states = SERVER if role == "server" else CLIENT
        self._events: list[Event] = []
        self.outbox = Outbox()
        """What waits to be written; ``unsent`` octets, and nothing after them when it is ``finished``."""
        self._reader = MessageReader(settings.max_message_size)
        self._timers = Timers(now, settings.handshake_timeout, settings.message_timeout)
        self._rest = b""  # what has come and is not looked at yet, but for messages
        self._received = False
        self._lease = encode_short_string(lease)
        self._target = target
        self._heartbeat = settings.heartbeat
        if role == "client":
            self.outbox.put(PROTOCOL_HEADER)

    # What an engine is

    def receive_data(self, data: bytes) -> None:
        """Read octets from the peer; ``b""`` means that it will send no more."""
        if self.state == "closed":
            return
        if not data:
            self._events.append(EndOfStream(self._reader.unfinished))
            self._end("received end")
            return
        self._received = True
        if self.state == "reading":
            self._read_messages(data)
        elif self.state != "writing" or self._states is CLIENT:
            self._rest += data
            self._read_words()

    def events(self) -> list[Event]:
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
        """Handle what is due at ``now``: null messages, silence, the deadlines of the handshake and of a message."""
        if self.state == "closed":
            return
        traffic = self.outbox.has_sent if self.state == "writing" else self._received
        self._received = self.outbox.has_sent = False
        for due in self._timers.handle(now, self._under_way, traffic):
            if due == "null":
                self.outbox.put(NULL)
                self.outbox.has_sent = False  # or the next one would wait until this one was noticed as traffic
            elif due == "silent":
                self._events.append(Silent())
                self._end("lost")
            elif due == "message":
                self._fail(PeerError(503, "a message was begun and not finished in time"))
            else:
                self._fail(PeerError(402, LATE))

    @property
    def _under_way(self) -> int:
        """The number of the message that was begun and is not whole; 0 if there is none, or we do not read."""
        return self._reader.begun if self._reader.unfinished and not self.reading_paused else 0

    @property
    def unfinished(self) -> int:
        """How many octets have come of words and messages that are not whole."""
        return len(self._rest) + self._reader.unfinished

    # The dialog

    def _read_words(self) -> None:
        """Read what comes before messages, as far as it is there."""
        while self._rest:
            before = self._rest
            try:
                if self._states is SERVER:
                    self._read_request()
                else:
                    self._read_answer()
            except PeerError as error:
                self._fail(error)
            if self._rest is before or self.state == "closed":
                return

    def _read_request(self) -> None:
        """Read one word of a client's."""
        if self.state == "waiting":
            if not PROTOCOL_HEADER.startswith(self._rest[:8]):
                # As AMQP has it (section 4.2.2): a header that is not ours is answered with ours.
                self.outbox.put(PROTOCOL_HEADER)
                self._events.append(Failed(501, f"a protocol header {self._rest[:8]!r} is not {PROTOCOL_HEADER!r}"))
                self._end("found fault")
            elif len(self._rest) >= len(PROTOCOL_HEADER):
                self._rest = self._rest[len(PROTOCOL_HEADER) :]
                self._move("received protocol header")
                self.outbox.put(response(200, "DMP/0.1"))
        elif self.state == "leasing":
            lease = self._take_word()
            if lease == b"":
                raise PeerError(502, "the lease is empty")
            if lease is not None:
                self._move("received lease")
                self._events.append(LeasePresented(lease.decode("utf-8", "surrogateescape")))
        elif len(self._rest) > HELD_MAX:
            raise PeerError(503, f"more than {HELD_MAX} octets were sent ahead of the answer to the lease")

    def _read_answer(self) -> None:
        """Read one response of a server's."""
        if self.state == "waiting" and self._rest.startswith(b"AMQP"):
            raise PeerError(540, "the server does not speak DMP")
        octets = self._take_word()
        if octets is None:
            return
        text = octets.decode("utf-8", "replace")
        if self.state == "writing" or not text.startswith("200"):
            code = int(text[:3]) if text[:3].isdecimal() else 0
            if code not in CODE_NAMES or code == 200:
                raise PeerError(502, f"a response that begins with {text[:40]!r}")
            self._events.append(RefusalReceived(code, text))
            self._end("received refusal")
        elif self.state == "waiting":
            self._move("received greeting")
            self.outbox.put(self._lease)
        else:
            self._start(f"received {self._target} ready")
            self._events.append(Ready(text))
            if self.state == "reading":
                data, self._rest = self._rest, b""
                self._read_messages(data)

    def _take_word(self) -> bytes | None:
        """Remove and return a short string, if it is whole."""
        rest = self._rest
        if len(rest) <= rest[0]:
            return None
        self._rest = rest[1 + rest[0] :]
        return rest[1 : 1 + rest[0]]

    def _read_messages(self, data: bytes) -> None:
        """Read messages."""
        reader = self._reader
        fault = None
        try:
            reader.feed(data)
        except PeerError as error:
            fault = error
        if reader.runs:
            self._events += reader.runs
            reader.runs = []
        if fault is not None:
            self._fail(fault)

    # A server's commands

    def accept_sink(self, name: str) -> None:
        """Answer ``LeasePresented``: messages for the sink may come."""
        self._accept(f'Ready to write to "{name}"', "sink")
        if self.state == "reading" and self._rest:
            data, self._rest = self._rest, b""
            self._read_messages(data)

    def accept_feed(self, name: str) -> None:
        """Answer ``LeasePresented``: messages of the feed will come; what the client sends is dropped."""
        self._accept(f'Ready to read from "{name}"', "feed")
        self._rest = b""

    def _accept(self, text: str, target: Target) -> None:
        if self.state != "closed":
            self._start(f"sent {target} ready")
            self.outbox.put(response(200, text))

    def refuse(self, code: int, text: str) -> None:
        """Send the reason, where a client would read it, and end; messages that were begun are dropped."""
        if self._states is not SERVER:
            raise LocalProtocolError("refuse() is a server's command, this engine is a client")
        if self.state != "closed":
            self._send_fault(code, text)
            self._end("sent refusal")

    # Messages

    def send_message(
        self,
        exchange: str,
        routing_key: str,
        properties: bytes,
        body: bytes,
        *,
        mandatory: bool = False,
        immediate: bool = False,
    ) -> None:
        """Send one message.

        Args:
            exchange: where it is published; a sink routes by its lease and only carries this along.
            routing_key: how it is routed.
            properties: property flags and fields, as ``encode_properties`` gives them.
            body: at most ``LARGEST_MESSAGE`` octets; a large one is not copied and must not change.
            mandatory: whether it is to come back, over AMQP, if it reaches no queue.
            immediate: whether it is to come back if it reaches no consumer at once.

        Raises:
            LocalProtocolError: the connection is not ready, a name is too long or the body too large.
        """
        if self._may_send():
            options = mandatory * MANDATORY | immediate * IMMEDIATE
            self.outbox.message(exchange, routing_key, properties, options, body)

    def send_whole(self, messages: Sequence[bytes], size: int) -> None:
        """Send whole messages of a total size, as a ``MessageRun`` without options has them."""
        if self._may_send():
            self.outbox.whole(messages, size)

    def send_framed(self, forms: Iterable[ContentForm], contents: Sequence[bytes]) -> None:
        """Send messages whose properties and bodies stand in contents of another form; all of them or none.

        Args:
            forms: the form of each content; further ones are not looked at.
            contents: what the messages are in.

        Raises:
            LocalProtocolError: the connection is not ready, a name is too long or a body too large.
        """
        if self._may_send():
            self.outbox.framed(forms, contents)

    def _may_send(self) -> bool:
        if self.state not in ("writing", "closed"):
            raise LocalProtocolError(f"messages cannot be sent in state {self.state}")
        return self.state == "writing"

    # Moving on

    def _move(self, event: str) -> None:
        """Go to the next state; an event that the table does not have is a mistake of our own."""
        following = self._states[self.state].get(event)
        if following is None:
            raise LocalProtocolError(f"{event!r} has no place in state {self.state}")
        self.state = following

    def _start(self, event: str) -> None:
        """Begin with messages."""
        self._move(event)
        if event.endswith("feed ready"):
            self._timers.run("null" if self._states is SERVER else "silent", self._heartbeat)
        else:
            self._timers.run("null", 0.0)

    def _fail(self, error: PeerError) -> None:
        """End because of what the peer did."""
        self._events.append(Failed(error.code, error.text))
        self._send_fault(error.code, error.text)
        self._end("found fault")

    def _send_fault(self, code: int, text: str) -> None:
        """Send a response, where a client would read one."""
        if self._states is SERVER and self.state != "writing":
            self.outbox.put(response(code, text))

    def _end(self, event: str) -> None:
        self._move(event)
        self.outbox.finished = True
        self._timers.stop()
        self._rest = b""
