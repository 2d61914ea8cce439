"""The engine of one AMQP 0-9-1 connection: octets in, events and octets out, for server and client alike.

    receive_data ──► FrameReader ──► RunReader         publishes, deliveries and acks in runs
                          │    └───► ChannelTable      everything else on channels
                          └────────► Server/ClientHandshake
                                          │
                          Core: state, events, timers, outbox   shared by all parts
                                          │
    events() ◄────────────────────────────┤
    data_to_send() ◄── Outbox ◄───────────┴── send_…, close, accept_login, …

One class serves both roles: they share framing, channels and the end of a connection, and differ in a state table and
a handshake. The parts hold ``Core`` and never the engine, so nothing is a cycle: an engine goes when its driver drops
it, without the garbage collector, thousands of them when many clients leave.

Commands come in two kinds. ``send_method`` and ``send_content`` take any method and look up its row in the table: role,
content, state. ``send_publish``, ``send_deliveries`` and ``send_ack`` are for one method each, which is sent in runs;
they check what can differ, connection and channel, with three comparisons and no call, and go to the outbox.
"""

from collections.abc import Sequence

from triomq.errors import LocalProtocolError
from triomq.protocols.amqp.channels import ChannelTable
from triomq.protocols.amqp.codec import AMQP_METHODS, MethodTable
from triomq.protocols.amqp.content import Framing, FramingTable
from triomq.protocols.amqp.core import Core
from triomq.protocols.amqp.events import EndOfStream, Event, HeartbeatLost
from triomq.protocols.amqp.frames import HEARTBEAT_FRAME
from triomq.protocols.amqp.handshake import HANDSHAKE, ClientHandshake, ServerHandshake
from triomq.protocols.amqp.kinds import MethodCache
from triomq.protocols.amqp.methods import (
    BasicDeliver,
    BasicGetOk,
    BasicPublish,
    BasicReturn,
    ConnectionClose,
    Method,
    Row,
)
from triomq.protocols.amqp.outbox import Front
from triomq.protocols.amqp.reader import FrameReader
from triomq.protocols.amqp.runs import RunReader
from triomq.protocols.amqp.settings import Login, Settings
from triomq.protocols.amqp.states import ConnectionState, Role


class AMQPEngine:
    """One side of one AMQP 0-9-1 connection, as ``Engine`` describes it.

    The owner of the socket creates the engine, and drops it when ``outbox.finished`` is true and ``data_to_send()`` is
    written. Nothing that a peer sends makes it raise. Commands that the state does not allow raise
    ``LocalProtocolError``; those that only come too late, since the channel or the connection is closing, are dropped,
    since the peer would not read them.

    Two rules for the driver: look at ``next_timer()`` after each turn, it may have come nearer; and take ``events()``
    until there are none, for a command of the handshake reads on in what the peer sent ahead.
    """

    __slots__ = ("_channels", "_core", "_handshake", "_limits", "_open", "_pending", "_reader", "outbox")

    def __init__(
        self, role: Role, *, now: float, settings: Settings | None = None, methods: MethodTable = AMQP_METHODS
    ) -> None:
        """Begin one side of a conversation; a client's protocol header is to be sent at once.

        Args:
            role: which side.
            now: the present moment in seconds, on the clock that ``handle_timer`` will be given.
            settings: limits, deadlines and our own description.
            methods: the methods that are known; an extension class passes a table with more rows.
        """
        self._core = Core(role, now, settings or Settings(), methods)
        cache, framings = MethodCache(methods), FramingTable()
        self._channels = ChannelTable(self._core, cache, framings)
        self._handshake = ServerHandshake(self._core) if role == "server" else ClientHandshake(self._core)
        runs = RunReader(cache, framings, self._core.events)
        self._reader = FrameReader(self._core, self._channels, runs, self._handshake)
        self._pending, self._limits = self._reader.pending, self._channels.limits
        self._open = self._channels.open
        self.outbox = self._core.outbox
        """What waits to be written; ``unsent`` octets, and nothing after them when it is ``finished``."""

    # What an engine is

    def receive_data(self, data: bytes) -> None:
        """Read octets from the peer; ``b""`` means that it will send no more."""
        core = self._core
        if core.state == "closed" and not core.reads_closes:
            return
        if data:
            core.timers.has_received = True
            self._reader.feed(data)
            return
        core.reads_closes = False
        if core.state != "closed":
            core.events.append(EndOfStream())
        if core.state != "ending":  # a peer that has closed may still read the answer
            core.end()

    def events(self) -> list[Event]:
        """Return the events since the last call, in the order of the wire."""
        events = self._core.events.copy()
        # The readers hold the list itself, so it is emptied and not replaced.
        self._core.events.clear()
        return events

    def data_to_send(self) -> list[bytes | memoryview]:
        """Return what is to be written since the last call, in order."""
        return self.outbox.take()

    def next_timer(self) -> float | None:
        """Return when to call ``handle_timer``; a moment that has passed means now."""
        return self._core.timers.next()

    def handle_timer(self, now: float) -> None:
        """Handle what is due at ``now``: heartbeats, and deadlines for header, handshake and close-ok."""
        core, timers = self._core, self._core.timers
        timers.has_sent |= core.outbox.has_sent
        core.outbox.has_sent = False
        for due in timers.handle(now):
            if due == "heartbeat":
                core.outbox.put(HEARTBEAT_FRAME)
                core.outbox.has_sent = False  # the next one is due half an interval from now
            elif due == "lost":
                core.events.append(HeartbeatLost())
                core.end()
            elif core.state == "closing":
                core.end_closed()
            else:
                self._reader.give_up()

    @property
    def unfinished(self) -> int:
        """How many octets have come of frames and contents that are not whole."""
        return len(self._pending) + self._limits.unfinished  # once for each read: no further calls

    @property
    def unfinished_contents(self) -> int:
        """How many of these are of contents."""
        return self._limits.unfinished

    def take_begun(self) -> list[tuple[int, BasicPublish]]:
        """Return the publishes, with their channels, that have begun since the last call and have no whole content yet.

        They are not events, for how octets are cut makes no difference to these. One that lacks only octets of its one
        body frame is not among them, nor in ``unfinished_contents``: a frame later it is an event.
        """
        return self._channels.take_begun()

    @property
    def state(self) -> ConnectionState:
        """Where the connection stands, in the words of ``states.py``."""
        return self._core.state

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
        """Whether the driver does not read at present; the peer's silence is not held against it then."""
        return self._core.timers.paused

    @reading_paused.setter
    def reading_paused(self, paused: bool) -> None:
        self._core.timers.paused = paused

    def close(self, code: int, text: str, class_id: int = 0, method_id: int = 0) -> None:
        """Close the connection; ``Closed`` comes when the peer has answered, or has not in time.

        Args:
            code: reply code, 200 for no error.
            text: why; the name of the code is put before it.
            class_id: class of the method that was to blame.
            method_id: that method.
        """
        if not self._core.over:
            self._core.send_close(code, text, class_id, method_id)
            self._channels.drop()
            self._reader.read_on()

    # The handshake: a server's commands

    def accept_login(self) -> None:
        """Answer ``LoginRequested``: let the client in, and offer limits."""
        self._server("accept_login").accept_login()
        self._reader.read_on()

    def refuse_login(self, text: str) -> None:
        """Answer ``LoginRequested``: close with 403 and ``text``."""
        self._server("refuse_login").refuse_login(text)
        self._reader.read_on()

    def challenge(self, challenge: bytes) -> None:
        """Answer ``LoginRequested``: the mechanism needs one more step, ``ChallengeAnswered`` will come."""
        self._server("challenge").challenge(challenge)
        self._reader.read_on()

    def open_connection(self) -> None:
        """Answer ``OpenRequested``: the virtual host is there and the user may use it."""
        self._server("open_connection").open_connection()
        self._reader.start_running()
        self._reader.read_on()

    def _server(self, command: str) -> ServerHandshake:
        if isinstance(self._handshake, ServerHandshake):
            return self._handshake
        raise LocalProtocolError(f"{command}() is a server's command, this engine is a client")

    # The handshake: a client's commands

    def log_in(self, login: Login) -> None:
        """Answer ``ServerStarted``, where the settings hold no login."""
        self._client("log_in").log_in(login)

    def answer_challenge(self, response: bytes) -> None:
        """Answer ``ChallengeReceived``."""
        self._client("answer_challenge").answer_challenge(response)

    def _client(self, command: str) -> ClientHandshake:
        if isinstance(self._handshake, ClientHandshake):
            return self._handshake
        raise LocalProtocolError(f"{command}() is a client's command, this engine is a server")

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
            self._core.send_control(row.name, method)

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
            LocalProtocolError: no such channel is open, or the method or a client's properties do not fit into a frame.
        """
        self._sendable(method, content=True)
        if self._may_write(channel):
            if self._core.role == "client":
                self.outbox.check_properties(len(properties))
            self.outbox.content(channel, self._core.methods.encode(method), properties, body)

    def send_publish(
        self, channel: int, exchange: str, routing_key: str, mandatory: bool, properties: bytes, body: bytes
    ) -> int:
        """Send a basic.publish as ``send_content`` does, many times faster; for clients.

        Returns:
            How many octets wait for ``data_to_send``.

        Raises:
            LocalProtocolError: no such channel is open, a name is too long, or properties do not fit into a frame.
        """
        core, outbox = self._core, self.outbox
        if core.role != "client":
            self._client("send_publish")
        state = self._open.get(channel)
        usual = core.state == "running" and state is not None and state.state == "open"
        if usual or self._may_write(channel):
            outbox.publish(channel, exchange, routing_key, mandatory, properties, body)
        return outbox.unsent

    def send_ack(self, channel: int, tag: int, *, multiple: bool) -> None:
        """Send basic.ack, as ``send_method`` would, but in one step: it is what publishers wait for.

        Args:
            channel: an open channel.
            tag: delivery tag, or number of the publish that is confirmed.
            multiple: whether all up to it are meant.

        Raises:
            LocalProtocolError: no such channel is open.
        """
        state = self._open.get(channel)
        usual = self._core.state == "running" and state is not None and state.state == "open"
        if usual or self._may_write(channel):
            self.outbox.ack(channel, tag, multiple=multiple)

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
        if not contents:
            return
        state = self._open.get(channel)
        usual = self._core.state == "running" and state is not None and state.state == "open"
        if usual or self._may_write(channel):
            self.outbox.deliveries(
                channel, consumer_tag, first_tag, redelivered, exchange, routing_key, framing, contents
            )

    def send_mixed_deliveries(
        self, channel: int, first_tag: int, fronts: Sequence[Front], contents: Sequence[bytes]
    ) -> None:
        """Send one basic.deliver for each of ``contents``, which are not alike, with consecutive delivery tags.

        Args:
            channel: an open channel.
            first_tag: delivery tag of the first content.
            fronts: of each content its own, made by ``outbox.front`` for this channel.
            contents: as they came in a ``PublishRun``; at least one.

        Raises:
            LocalProtocolError: no such channel is open, or properties do not fit into a frame.
        """
        state = self._open.get(channel)
        usual = self._core.state == "running" and state is not None and state.state == "open"
        if usual or self._may_write(channel):
            self.outbox.mixed_deliveries(channel, first_tag, fronts, contents)

    def send_records(
        self,
        channel: int,
        first_tag: int,
        fronts: Front | Sequence[Front],
        offsets: Sequence[int],
        properties: bytes | Sequence[bytes],
        bodies: Sequence[bytes],
    ) -> None:
        """Send one basic.deliver for each record of a stream, with consecutive delivery tags.

        Each has its offset in the header ``x-stream-offset``.

        Args:
            channel: an open channel.
            first_tag: delivery tag of the first record.
            fronts: made by ``outbox.front`` for this channel and contents without frames: one for all, or one each.
            offsets: the records' offsets in their stream.
            properties: as they came, flags first: one for all, or one each.
            bodies: at least one.

        Raises:
            LocalProtocolError: no such channel is open, or properties do not fit into a frame.
        """
        if self._may_write(channel):
            self.outbox.records(channel, first_tag, fronts, offsets, properties, bodies)

    def _may_write(self, channel: int) -> bool:
        """Return whether what is written on a channel would be read.

        Methods that are called per run answer this by themselves where connection and channel are open, as usual: the
        three calls that it takes here cost more than encoding a message.

        Raises:
            LocalProtocolError: no such channel is open.
        """
        return not self._core.over and self._channels.writable(channel) is not None

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
