"""The side that listens."""

from triomq.protocols.zmtp.codes import PeerError
from triomq.protocols.zmtp.commands import REFUSED, encode_error, read_hello
from triomq.protocols.zmtp.curve import CurveServer, require_curve
from triomq.protocols.zmtp.engine import ZMTPEngine
from triomq.protocols.zmtp.events import KeyShown, LoginRequested
from triomq.protocols.zmtp.frames import encode_command
from triomq.protocols.zmtp.settings import Settings
from triomq.protocols.zmtp.states import State


class ZMTPServerEngine(ZMTPEngine):
    """A connection, as the side that listens sees it.

    ``LoginRequested`` and ``KeyShown`` are to be answered by ``accept``, ``refuse`` or ``close``, ``TopicSubscribed``
    by ``keep``, if the peer may read that.

    Args:
        now: The present moment in seconds, on the clock that ``handle_timer`` will be given.
        settings: Limits and times, and what our side is.

    Raises:
        ConfigError: CURVE is wanted, and PyNaCl is not there.
    """

    __slots__ = ("_curve", "_properties")

    def __init__(self, *, now: float, settings: Settings | None = None) -> None:
        super().__init__("server", now, settings)
        self._curve: CurveServer | None = None
        if self._settings.mechanism == "CURVE":
            require_curve()
            self._curve = CurveServer(self._settings.secret_key)
        self._properties = b""  # with CURVE, what the client has said of itself until it is let in

    def _greeted(self) -> None:
        if self._settings.mechanism == "NULL":
            self.outbox.put(encode_command(b"READY", self._own_properties()))

    def _received(self, name: bytes, data: bytes, following: State) -> None:
        self.state = following
        if self._curve is not None:
            self._receive_curve(self._curve, name, data)
        elif name == b"HELLO":
            self._events.append(LoginRequested(*read_hello(data)))
        else:
            self._open(data)
            if name == b"INITIATE":
                self.outbox.put(encode_command(b"READY", self._own_properties()))

    def _receive_curve(self, curve: CurveServer, name: bytes, data: bytes) -> None:
        if name == b"HELLO":
            self.outbox.put(encode_command(b"WELCOME", curve.welcome(data)))
        else:
            key, self._properties = curve.initiate(data)
            self._events.append(KeyShown(key))

    def accept(self) -> None:
        """Let the client in that ``LoginRequested`` or ``KeyShown`` was about; ``Opened`` says what it is."""
        if self._curve is not None:
            if self._may_send("READY"):
                self._begin_sealing(self._curve)
                self._read()
        elif self._may_send("WELCOME"):
            self.outbox.put(encode_command(b"WELCOME"))
            self._read()

    def _begin_sealing(self, curve: CurveServer) -> None:
        self.outbox.put(encode_command(b"READY", curve.ready(self._own_properties())))
        self._traffic = curve.traffic()
        try:
            self._open(self._properties)
        except PeerError as error:
            self._fail(error)

    def refuse(self) -> None:
        """Tell a client that its password or its key is wrong, and end: libzmq's clients do not come again after it."""
        if self._may_send("ERROR"):
            self.outbox.put(encode_command(b"ERROR", encode_error(REFUSED)))
            self._finish()
