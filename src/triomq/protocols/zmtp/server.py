"""The side that listens."""

from triomq.protocols.zmtp.commands import REFUSED, encode_error, read_hello
from triomq.protocols.zmtp.engine import ZMTPEngine
from triomq.protocols.zmtp.events import LoginRequested
from triomq.protocols.zmtp.frames import encode_command
from triomq.protocols.zmtp.settings import Settings
from triomq.protocols.zmtp.states import State


class ZMTPServerEngine(ZMTPEngine):
    """A connection, as the side that listens sees it.

    ``LoginRequested`` is to be answered by ``accept``, ``refuse`` or ``close``; ``TopicSubscribed`` by ``keep``, if the
    peer may read that.

    Args:
        now: The present moment in seconds, on the clock that ``handle_timer`` will be given.
        settings: Limits and times, and what our side is.
    """

    __slots__ = ()

    def __init__(self, *, now: float, settings: Settings | None = None) -> None:
        super().__init__("server", now, settings)

    def _greeted(self) -> None:
        if self._settings.mechanism == "NULL":
            self.outbox.put(encode_command(b"READY", self._own_properties()))

    def _received(self, name: bytes, data: bytes, following: State) -> None:
        self.state = following
        if name == b"HELLO":
            self._events.append(LoginRequested(*read_hello(data)))
            return
        self._open(data)
        if name == b"INITIATE":
            self.outbox.put(encode_command(b"READY", self._own_properties()))

    def accept(self) -> None:
        """Let the client in that ``LoginRequested`` was about; it will say what it is (``Opened``)."""
        if self._may_send("WELCOME"):
            self.outbox.put(encode_command(b"WELCOME"))
            self._read()

    def refuse(self) -> None:
        """Tell a client that its password is wrong, and end: libzmq's clients do not come again after that."""
        if self._may_send("ERROR"):
            self.outbox.put(encode_command(b"ERROR", encode_error(REFUSED)))
            self._finish()
