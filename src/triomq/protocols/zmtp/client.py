"""The side that connects."""

from triomq.errors import LocalProtocolError
from triomq.protocols.zmtp.codes import PeerError
from triomq.protocols.zmtp.commands import encode_hello
from triomq.protocols.zmtp.curve import CurveClient
from triomq.protocols.zmtp.engine import ZMTPEngine
from triomq.protocols.zmtp.frames import encode_command
from triomq.protocols.zmtp.settings import LONGEST_TOPIC, Settings
from triomq.protocols.zmtp.states import State

_COMMANDS_SINCE = (3, 1)
"""The version from which on subscriptions are commands."""


class ZMTPClientEngine(ZMTPEngine):
    """A connection, as the side that connects sees it; ``Opened`` says that messages may be sent.

    ``ErrorReceived`` during the handshake means that the password is wrong: to try again is of no use.

    Args:
        now: The present moment in seconds, on the clock that ``handle_timer`` will be given.
        settings: Limits and times, and what our side is.

    Raises:
        ConfigError: CURVE is wanted, and PyNaCl is not there.
    """

    __slots__ = ("_curve",)

    def __init__(self, *, now: float, settings: Settings | None = None) -> None:
        super().__init__("client", now, settings)
        self._curve: CurveClient | None = None
        if self._settings.mechanism == "CURVE":
            self._curve = CurveClient(self._settings.secret_key, self._settings.server_key)

    def _greeted(self) -> None:
        settings = self._settings
        if settings.mechanism == "NULL":
            self.outbox.put(encode_command(b"READY", self._own_properties()))
        elif self._curve is not None:
            self.outbox.put(encode_command(b"HELLO", self._curve.hello()))
        else:
            self.outbox.put(encode_command(b"HELLO", encode_hello(settings.user, settings.password)))

    def _received(self, name: bytes, data: bytes, following: State) -> None:
        self.state = following
        if self._curve is not None:
            self._receive_curve(self._curve, name, data)
        elif name == b"READY":
            self._open(data)
        elif data:
            raise PeerError("MALFORMED", "WELCOME has data")
        else:
            self.outbox.put(encode_command(b"INITIATE", self._own_properties()))

    def _receive_curve(self, curve: CurveClient, name: bytes, data: bytes) -> None:
        if name == b"READY":
            properties = curve.ready(data)
            self._traffic = curve.traffic()
            self._open(properties)
        else:
            self.outbox.put(encode_command(b"INITIATE", curve.initiate(data, self._own_properties())))

    def subscribe(self, topic: bytes) -> None:
        """Want what begins with a topic, from now on; an engine of the next connection has to be told anew.

        Raises:
            LocalProtocolError: The topic is too long, our side is no SUB, or it is too early.
        """
        self._want(topic, "SUBSCRIBE", b"\1")

    def cancel(self, topic: bytes) -> None:
        """Want a topic no more; raises as ``subscribe`` does."""
        self._want(topic, "CANCEL", b"\0")

    def _want(self, topic: bytes, command: str, message: bytes) -> None:
        if self._settings.socket_type not in ("SUB", "XSUB"):
            raise LocalProtocolError(f"a {self._settings.socket_type} subscribes to nothing")
        if len(topic) > LONGEST_TOPIC:
            raise LocalProtocolError(f"a topic has {len(topic)} octets; at most {LONGEST_TOPIC} are allowed")
        if self._may_send(command):
            if self.peer_version >= _COMMANDS_SINCE:
                self._put_command(command.encode(), topic)
            else:
                self._put_messages([[message + topic]])
