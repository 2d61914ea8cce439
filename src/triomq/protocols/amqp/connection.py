"""The engine of one AMQP 0-9-1 connection: octets in, events and octets out, for server and client alike."""

from collections.abc import Sequence

from triomq.errors import LocalProtocolError
from triomq.protocols.amqp.channels import ChannelTable
from triomq.protocols.amqp.codec import AMQP_METHODS, MethodTable
from triomq.protocols.amqp.codes import PeerError, show_octets
from triomq.protocols.amqp.content import Framing, FramingTable
from triomq.protocols.amqp.core import Core
from triomq.protocols.amqp.events import EndOfStream, Event, HeartbeatLost, Received
from triomq.protocols.amqp.frames import (
    BODY,
    FRAME_END,
    FRAME_HEADER,
    HEADER,
    HEARTBEAT,
    HEARTBEAT_FRAME,
    METHOD,
    OVERHEAD,
    PROTOCOL_HEADER,
)
from triomq.protocols.amqp.handshake import HANDSHAKE, ClientHandshake, ServerHandshake
from triomq.protocols.amqp.methods import (
    BasicDeliver,
    BasicGetOk,
    BasicPublish,
    BasicReturn,
    ConnectionClose,
    ConnectionCloseOk,
    Method,
    Row,
)
from triomq.protocols.amqp.runs import MethodCache, RunReader
from triomq.protocols.amqp.settings import Login, Settings
from triomq.protocols.amqp.states import ConnectionState, Role

__all__ = ["AMQPEngine"]

# What a client may send ahead while the endpoint judges its login or its virtual host.
HELD_MAX = 256 * 1024

# The states of a server in which the next word is its own.
_HELD = ("authenticating", "admitting")

_CLOSE = b"\x00\x0a\x00\x32"
_CLOSE_OK = b"\x00\x0a\x00\x33"


class AMQPEngine:
    """One side of one AMQP 0-9-1 connection, as ``Engine`` describes it.

    Whoever owns the socket creates the engine, and drops it when ``finished`` is true and what ``data_to_send()`` gave
    is written. Nothing that a peer sends makes it raise. Commands that the state does not allow raise
    ``LocalProtocolError``; those that only come too late, since the channel or the connection is closing, are dropped,
    for nobody would read them.

    Two habits of the driver: look at ``next_timer()`` after each turn, it may have come nearer; and take ``events()``
    until there are none, for a command of the handshake reads on in what the peer sent ahead.
    """

    __slots__ = ("_channels", "_client", "_core", "_needed", "_pending", "_runs", "_server")

    def __init__(
        self, role: Role, *, now: float, settings: Settings | None = None, methods: MethodTable = AMQP_METHODS
    ) -> None:
        """Begin one side of a conversation; a client's protocol header is to be sent at once.

        Args:
            role: which side.
            now: the present moment in seconds, on the clock that ``handle_timer`` will be given.
            settings: limits, deadlines and what to say of ourselves.
            methods: the methods that are known; an extension class passes a table with more rows.
        """
        self._core = Core(role, now, settings or Settings(), methods)
        cache, framings = MethodCache(methods), FramingTable()
        self._runs = RunReader(cache, framings, self._core.events)
        self._channels = ChannelTable(self._core, cache, framings)
        self._server = ServerHandshake(self._core)
        self._client = ClientHandshake(self._core)
        self._pending = bytearray()
        self._needed = 0
        if role == "client":
            self._core.outbox.put(PROTOCOL_HEADER)

    # What an engine is

    def receive_data(self, data: bytes) -> None:
        """Take octets from the peer; ``b""`` says that it will send no more."""
        core = self._core
        if core.state == "closed":
            return
        if not data:
            core.events.append(EndOfStream())
            core.end()
            self._pending.clear()
            return
        core.timers.heard = True
        pending = self._pending
        if pending:
            if len(pending) + len(data) < self._needed or self._held:
                self._keep(data)
                return
            data = b"".join((pending, data))
            pending.clear()
        self._read(data)

    def events(self) -> list[Event]:
        """Give what happened since the last call, in the order of the wire."""
        events = self._core.events.copy()
        # The readers hold the list itself, so it is emptied and not replaced.
        self._core.events.clear()
        return events

    def data_to_send(self) -> list[bytes | memoryview]:
        """Give what is to be written since the last call, in order."""
        return self._core.outbox.take()

    def next_timer(self) -> float | None:
        """Say when ``handle_timer`` wants to be called; a moment that has passed means now."""
        return self._core.timers.next()

    def handle_timer(self, now: float) -> None:
        """Do what is due at ``now``: heartbeats, and deadlines for header, handshake and close-ok."""
        core, timers = self._core, self._core.timers
        timers.spoke |= core.outbox.spoke
        core.outbox.spoke = False
        for due in timers.handle(now):
            if due == "heartbeat":
                core.outbox.put(HEARTBEAT_FRAME)
            elif due == "lost":
                core.events.append(HeartbeatLost())
                core.end()
            elif core.state == "closing":
                core.end_closed()
            else:
                self._fail(PeerError(320, f"the handshake was not done in time, it is at {core.state}"))

    @property
    def unsent(self) -> int:
        """How many octets wait for ``data_to_send``."""
        return self._core.outbox.unsent

    @property
    def state(self) -> ConnectionState:
        """Where the connection stands, in the words of ``states.py``."""
        return self._core.state

    @property
    def finished(self) -> bool:
        """Whether nothing more will be heard: write what is left to send, then shut the transport."""
        return self._core.state == "closed"

    @property
    def channel_max(self) -> int:
        """How many channels may be open at once."""
        return self._core.channel_max

    @property
    def frame_max(self) -> int:
        """How many octets a frame may have, agreed with the peer."""
        return self._core.frame_max

    @property
    def heartbeat(self) -> int:
        """The agreed seconds between heartbeats, 0 for none."""
        return self._core.timers.interval

    @property
    def reading_paused(self) -> bool:
        """Whether the driver does not read at present: then the peer's silence is not held against it."""
        return self._core.timers.paused

    @reading_paused.setter
    def reading_paused(self, paused: bool) -> None:
        self._core.timers.paused = paused

    # Reading

    def _read(self, data: bytes) -> None:
        """Read what is there, the protocol header first."""
        self._needed = 0
        if self._core.state != "waiting":
            self._read_frames(data, 0)
        elif self._core.role == "server":
            self._greet_client(data)
        elif data.startswith(b"AMQP"):
            # A server that wants another version says so with a protocol header of its own (section 2.2.4).
            self._fail(PeerError(501, f"the server wants protocol {data[:8]!r}, not {PROTOCOL_HEADER!r}"))
        else:
            self._read_frames(data, 0)

    def _greet_client(self, data: bytes) -> None:
        """Look for the protocol header; what is wrong with it is seen at its first wrong octet."""
        head = data[: len(PROTOCOL_HEADER)]
        if head == PROTOCOL_HEADER:
            self._server.header_seen()
            self._read_frames(data, len(PROTOCOL_HEADER))
        elif PROTOCOL_HEADER.startswith(head):
            self._keep(data)
        else:
            # "It MUST write a valid protocol header and then close the socket" (section 4.2.2).
            self._core.outbox.put(PROTOCOL_HEADER)
            self._fail(PeerError(501, f"protocol header {head!r} is not {PROTOCOL_HEADER!r}"))

    def _read_frames(self, data: bytes, position: int) -> None:
        """Read as many frames as are whole; keep the rest."""
        core, readers, channels = self._core, self._runs.readers, self._channels.open
        end, view = len(data), memoryview(data)
        while core.state == "running" or not self._held:
            if end - position < FRAME_HEADER.size:
                self._needed = FRAME_HEADER.size
                break
            kind, number, size = FRAME_HEADER.unpack_from(data, position)
            if size + OVERHEAD > core.frame_max:
                self._lose(kind, b"", f"{{frame_too_large,{size},{core.frame_max - OVERHEAD}}}")
                break
            stop = position + OVERHEAD + size
            if stop > end:
                self._needed = stop - position
                break
            channel = channels.get(number)
            if kind == METHOD and channel is not None and channel.plain:
                reader = readers.get(data[position + 7 : position + 11])
                if reader is not None and (reached := reader(data, position, stop, channel)) > position:
                    position = reached
                    continue
            if data[stop - 1] != FRAME_END:
                octets = data[position + 7 : stop - 1]
                self._lose(kind, octets, f"{{invalid_frame_end_marker,{data[stop - 1]}}}")
                break
            try:
                self._receive_frame(kind, number, view[position:stop])
            except PeerError as error:
                self._fail(error)
            position = stop
        if position < end and core.state != "closed":
            self._keep(view[position:])

    @property
    def _held(self) -> bool:
        """Whether reading must wait: at the end, and while the endpoint judges a login or a virtual host."""
        core = self._core
        return core.state == "closed" or (core.role == "server" and core.state in _HELD)

    def _keep(self, rest: bytes | memoryview) -> None:
        """Keep what is not read yet, but no more than a bound while the endpoint has yet to answer."""
        self._pending += rest
        if self._held and len(self._pending) > HELD_MAX:
            self._fail(PeerError(506, f"more than {HELD_MAX} octets were sent ahead of the handshake"))

    def _read_on(self) -> None:
        """Read what was held back."""
        if self._pending:
            data = bytes(self._pending)
            self._pending.clear()
            self._read(data)

    def _receive_frame(self, kind: int, number: int, frame: memoryview) -> None:
        """Take one whole frame."""
        core = self._core
        if core.state == "closing":
            if number == 0 and kind == METHOD:
                self._receive_last(bytes(frame[7:-1]))
        elif kind == HEARTBEAT and number == 0 and len(frame) == OVERHEAD:
            pass  # that it came was noted
        elif kind not in (METHOD, HEADER, BODY, HEARTBEAT) or (kind == HEARTBEAT and number == 0):
            raise PeerError(501, f"type {kind}, all octets = {show_octets(bytes(frame[7:-1]))}: unknown_frame")
        elif kind == HEARTBEAT or (number == 0 and kind != METHOD) or (number and core.state != "running"):
            raise PeerError(505, f"type {kind}, all octets = {show_octets(bytes(frame[7:-1]))}")
        elif number:
            self._channels.receive(kind, number, frame)
        else:
            self._receive_control(bytes(frame[7:-1]))

    def _receive_control(self, payload: bytes) -> None:
        """Take a method of channel 0."""
        core = self._core
        row = core.methods.find(payload).row
        method = core.methods.decode(payload)
        if row.sender == core.role or not core.move(f"received {row.name}"):
            text = f"unexpected method in connection state {core.state}"
            raise PeerError(504, text, row.class_id, row.method_id)
        if type(method) is ConnectionClose:
            core.closed_by_peer(method)
        elif type(method) in HANDSHAKE:
            (self._server if core.role == "server" else self._client).receive(method)
            self._start_running()
        else:
            core.events.append(Received(0, method))

    def _receive_last(self, payload: bytes) -> None:
        """Look for the answer to our connection.close; everything else is passed over (section 1.4.2.9)."""
        if payload[:4] == _CLOSE_OK:
            self._core.end_closed()
        elif payload[:4] == _CLOSE:
            self._core.send(ConnectionCloseOk())

    def _start_running(self) -> None:
        if self._core.state == "running":
            self._runs.begin(self._core.role, self._core.frame_max - OVERHEAD, self._core.settings.max_message_size)

    # The end

    def _fail(self, error: PeerError) -> None:
        self._core.fail(error)
        self._channels.drop()

    def _lose(self, kind: int, octets: bytes, reason: str) -> None:
        """Fail where frames cannot be told apart any more: nothing that follows can be read."""
        self._fail(PeerError(501, f"type {kind}, all octets = {show_octets(octets)}: {reason}"))
        self._core.end()

    def close(self, code: int, text: str, class_id: int = 0, method_id: int = 0) -> None:
        """Close the connection; ``Closed`` comes when the peer has answered, or has not in time.

        Args:
            code: reply code, 200 for no error.
            text: why; the name of the code is put before it.
            class_id: class of the method that was to blame.
            method_id: that method.
        """
        if not self._core.over:
            self._core.say_close(code, text, class_id, method_id)
            self._channels.drop()

    # The handshake: a server's commands

    def accept_login(self) -> None:
        """Answer ``LoginRequested``: let the client in, and offer limits."""
        if self._may("accept_login", "server"):
            self._server.accept_login()
            self._read_on()

    def refuse_login(self, text: str) -> None:
        """Answer ``LoginRequested``: close with 403 and ``text``."""
        if self._may("refuse_login", "server"):
            self._server.refuse_login(text)

    def challenge(self, challenge: bytes) -> None:
        """Answer ``LoginRequested``: the mechanism needs one more step, ``ChallengeAnswered`` will come."""
        if self._may("challenge", "server"):
            self._server.challenge(challenge)
            self._read_on()

    def open_connection(self) -> None:
        """Answer ``OpenRequested``: the virtual host is there and the user may use it."""
        if self._may("open_connection", "server"):
            self._server.open_connection()
            self._start_running()
            self._read_on()

    # The handshake: a client's commands

    def log_in(self, login: Login) -> None:
        """Answer ``ServerStarted``, where the settings hold no login."""
        if self._may("log_in", "client"):
            self._client.log_in(login)

    def answer_challenge(self, response: bytes) -> None:
        """Answer ``ChallengeReceived``."""
        if self._may("answer_challenge", "client"):
            self._client.answer_challenge(response)

    def _may(self, command: str, role: Role) -> bool:
        if self._core.role != role:
            raise LocalProtocolError(f"{command}() is for the {role}, this engine is the {self._core.role}")
        return not self._core.over

    # Methods and contents

    def send_method(self, channel: int, method: Method) -> None:
        """Send a method without content.

        Raises:
            LocalProtocolError: no such channel is open, or it is not ours to send, or its time is not now.
        """
        row = self._sendable(method, content=False)
        if self._core.over:
            return
        if channel:
            self._channels.send(channel, method, row)
        elif type(method) in HANDSHAKE or type(method) is ConnectionClose:
            raise LocalProtocolError(f"{row.name} is sent by a command of its own")
        else:
            self._core.sent(row.name)
            self._core.send(method)

    def close_channel(self, channel: int, code: int, text: str, class_id: int = 0, method_id: int = 0) -> None:
        """Close a channel; what comes on it is dropped until ``ChannelClosed``. Arguments as for ``close``."""
        if not self._core.over:
            self._channels.close(channel, code, text, class_id, method_id)

    def send_content(
        self,
        channel: int,
        method: BasicPublish | BasicReturn | BasicDeliver | BasicGetOk,
        properties: bytes,
        body: bytes,
    ) -> None:
        """Send a method with its content, in as many frames as the peer's limit asks for.

        Args:
            channel: an open channel.
            method: what the content belongs to.
            properties: property flags and fields, as ``encode_properties`` gives them.
            body: the body; a large one is not copied and must not change.

        Raises:
            LocalProtocolError: no such channel is open, or method or properties do not fit into a frame.
        """
        self._sendable(method, content=True)
        if not self._core.over and self._channels.writable(channel) is not None:
            self._core.outbox.content(channel, self._core.methods.encode(method), properties, body)

    def send_deliveries(
        self,
        channel: int,
        consumer_tag: str,
        first_tag: int,
        redelivered: bool,
        exchange: str,
        routing_key: str,
        framing: Framing,
        contents: Sequence[bytes],
    ) -> None:
        """Send one basic.deliver for each of ``contents``, with consecutive delivery tags.

        Contents that came in frames which suit this channel and this peer go out as they are; others are framed anew.

        Args:
            channel: an open channel.
            consumer_tag: the consumer.
            first_tag: delivery tag of the first content.
            redelivered: whether all of them are deliveries not seen for the first time.
            exchange: where they were published.
            routing_key: how they were published.
            framing: the one shape of all contents.
            contents: as they came in a ``PublishRun``.

        Raises:
            LocalProtocolError: no such channel is open, or properties do not fit into a frame.
        """
        if contents and not self._core.over and self._channels.writable(channel) is not None:
            self._core.outbox.deliveries(
                channel, consumer_tag, first_tag, redelivered, exchange, routing_key, framing, contents
            )

    def _sendable(self, method: Method, *, content: bool) -> Row:
        """Find the row of a method that this role may send."""
        layout = self._core.methods.by_type.get(type(method))
        if layout is None:
            raise LocalProtocolError(f"{type(method).__name__} is in no row of this engine's method table")
        row = layout.row
        if row.sender not in (self._core.role, "both"):
            raise LocalProtocolError(f"{row.name} is not sent by a {self._core.role}")
        if row.content is not content:
            needed = "send_content or send_deliveries" if row.content else "send_method"
            raise LocalProtocolError(f"{row.name} is sent with {needed}")
        return row
