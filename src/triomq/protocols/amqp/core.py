"""What the parts of one engine share: state, events, what is to be sent, how it ends."""

from triomq.errors import LocalProtocolError
from triomq.protocols.amqp.codec import MethodTable
from triomq.protocols.amqp.codes import PeerError, close_text
from triomq.protocols.amqp.events import Closed, Event, Failed
from triomq.protocols.amqp.methods import ConnectionClose, ConnectionCloseOk, Method
from triomq.protocols.amqp.outbox import Outbox
from triomq.protocols.amqp.settings import FRAME_MIN_SIZE, Settings
from triomq.protocols.amqp.states import CLIENT, SERVER, ConnectionState, Role
from triomq.protocols.amqp.timers import Timers


class Core:
    """Made by the engine for its parts alone, which read and change it.

    ``frame_max`` is the limit for what comes in, ``outbox.frame_max`` for what goes out; both are 4096 until tuned.
    """

    __slots__ = (
        "channel_max",
        "closes",
        "events",
        "frame_max",
        "last_event",
        "methods",
        "outbox",
        "reads_closes",
        "role",
        "settings",
        "state",
        "timers",
    )

    def __init__(self, role: Role, now: float, settings: Settings, methods: MethodTable) -> None:
        self.role = role
        self.settings = settings
        self.methods = methods
        self.state: ConnectionState = "waiting"
        self.events: list[Event] = []
        self.outbox = Outbox()
        self.timers = Timers(now, settings.header_timeout if role == "server" else settings.handshake_timeout)
        self.frame_max = FRAME_MIN_SIZE
        self.channel_max = settings.channel_max
        self.last_event = Closed(0, "", by_peer=False)
        self.closes = 0  # of the peer, that are still to be answered
        self.reads_closes = False  # whether it is read on after the peer's close, to answer further ones

    @property
    def over(self) -> bool:
        """Whether the connection is ending: what is sent now would not be read."""
        return self.state in ("closing", "closed")

    def move(self, event: str) -> bool:
        """Follow the role's table; return whether it has this event here."""
        state = (SERVER if self.role == "server" else CLIENT)[self.state].get(event)
        if state is None:
            return False
        self.state = state  # type: ignore[assignment]  # the table holds nothing else
        return True

    def send_control(self, name: str, method: Method) -> None:
        """Queue a method of the connection class that moves the state; too late, drop it. Close-ok is the last.

        Raises:
            LocalProtocolError: the state does not allow it.
        """
        if self.over:
            return
        if not self.move(f"sent {name}"):
            raise LocalProtocolError(f"{name} cannot be sent by a {self.role} in state {self.state}")
        if self.state == "closed":
            self._answer_closes()
            self.end()
        else:
            self.send(method)

    def send(self, method: Method, channel: int = 0) -> None:
        """Queue a method frame."""
        self.outbox.method(channel, self.methods.encode(method))

    def agree(self, channel_max: int, frame_max: int, heartbeat: int) -> None:
        """Apply the tuned limits from here on."""
        self.channel_max = channel_max
        self.frame_max = self.outbox.frame_max = frame_max
        self.timers.beat(heartbeat)

    # The end

    def send_close(self, code: int, text: str, class_id: int, method_id: int) -> None:
        """Queue connection.close, where there is a conversation to close, and wait for its answer."""
        text = close_text(code, text)
        self.last_event = Closed(code, text, by_peer=False)
        if self.move("sent connection.close"):
            self.send(ConnectionClose(code, text, class_id, method_id))
            self._answer_closes()  # that have crossed ours
            self.timers.expect_within(self.settings.close_timeout)
        else:
            self.end()

    def fail(self, error: PeerError) -> None:
        """End the connection because of what the peer did."""
        self.send_close(error.code, error.text, error.class_id, error.method_id)
        self.events.append(Failed(error.code, error.text, error.class_id, error.method_id))

    def closed_by_peer(self, method: ConnectionClose) -> None:
        """Handle the peer's connection.close: a server's endpoint answers it, behind all that came before."""
        self.events.append(Closed(method.reply_code, method.reply_text, by_peer=True))
        self.closes = 1
        self.timers.stop()
        self.frame_max = FRAME_MIN_SIZE  # as much as a close may have
        if self.role == "client":
            self._answer_closes()
            self.end()
        else:
            self.reads_closes = True

    def closed_again(self) -> None:
        """Handle a further connection.close: before the first one is answered it waits for that, later it does not."""
        self.closes += 1
        if self.state != "ending":
            self._answer_closes()

    def _answer_closes(self) -> None:
        for _ in range(self.closes):
            self.send(ConnectionCloseOk())
        self.closes = 0

    def end(self) -> None:
        """End: read nothing more from the peer, and stop all timers."""
        self.state = "closed"
        self.outbox.finished = True
        self.timers.stop()

    def end_closed(self) -> None:
        """End after our own close was answered, or was not answered in time."""
        self.events.append(self.last_event)
        self.end()
