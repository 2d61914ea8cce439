"""The opening of a connection (AMQP 0-9-1 section 2.2.4): start, secure, tune, open; each role's half of it."""

from triomq.errors import LocalProtocolError
from triomq.protocols.amqp.codes import PeerError
from triomq.protocols.amqp.core import Core
from triomq.protocols.amqp.events import (
    ChallengeAnswered,
    ChallengeReceived,
    Connected,
    LoginRequested,
    OpenRequested,
    ServerStarted,
)
from triomq.protocols.amqp.frames import PROTOCOL_HEADER
from triomq.protocols.amqp.methods import (
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from triomq.protocols.amqp.settings import FRAME_MIN_SIZE, Login
from triomq.protocols.fields import FieldValue

HANDSHAKE = frozenset(
    {
        ConnectionStart,
        ConnectionStartOk,
        ConnectionSecure,
        ConnectionSecureOk,
        ConnectionTune,
        ConnectionTuneOk,
        ConnectionOpen,
        ConnectionOpenOk,
    }
)


class ServerHandshake:
    """The server's side of the handshake, until the connection is open."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    def header_seen(self) -> None:
        """Introduce ourselves."""
        core, settings = self._core, self._core.settings
        core.move("received protocol header")
        # What is left of the time for the whole handshake.
        core.timers.expect_since_start(settings.handshake_timeout)
        mechanisms, locales = " ".join(settings.mechanisms).encode(), " ".join(settings.locales).encode()
        core.send(ConnectionStart(0, 9, settings.server_properties, mechanisms, locales))

    def receive(self, method: Method) -> None:
        """Handle a method of the client's that the state table has allowed."""
        core = self._core
        match method:
            case ConnectionStartOk():
                core.events.append(
                    LoginRequested(method.mechanism, method.response, method.locale, method.client_properties)
                )
            case ConnectionSecureOk():
                core.events.append(ChallengeAnswered(method.response))
            case ConnectionTuneOk():
                self._tuned(method)
            case ConnectionOpen():
                core.events.append(OpenRequested(method.virtual_host))

    def _tuned(self, method: ConnectionTuneOk) -> None:
        """Accept what the client chose, within what was offered."""
        settings = self._core.settings
        # Section 1.4.2.6: a client may lower a limit, not raise it. No frame-max at all is higher than any offer; no
        # channel-max at all leaves it to us, and what we offered holds.
        channel_max = method.channel_max or settings.channel_max
        self._refuse_above("channel_max", channel_max, settings.channel_max, channel_max)
        if 0 < method.frame_max < FRAME_MIN_SIZE:
            raise PeerError(
                530,
                f"negotiated frame_max = {method.frame_max} is lower than the minimum allowed value ({FRAME_MIN_SIZE})",
                10,
                31,
            )
        self._refuse_above("frame_max", method.frame_max, settings.frame_max, method.frame_max or 2**32)
        self._core.agree(channel_max, method.frame_max, method.heartbeat)

    @staticmethod
    def _refuse_above(name: str, shown: int, limit: int, value: int) -> None:
        if value > limit:
            text = f"negotiated {name} = {shown} is higher than the maximum allowed value ({limit})"
            raise PeerError(530, text, 10, 31)

    # Commands

    def challenge(self, challenge: bytes) -> None:
        """Ask for one more step of the mechanism."""
        self._core.send_control("connection.secure", ConnectionSecure(challenge))

    def accept_login(self) -> None:
        """Offer our limits."""
        settings = self._core.settings
        tune = ConnectionTune(settings.channel_max, settings.frame_max, settings.heartbeat)
        self._core.send_control("connection.tune", tune)

    def refuse_login(self, text: str) -> None:
        """Close with 403."""
        if self._core.over:
            return
        if self._core.state != "authenticating":
            raise LocalProtocolError(f"there is no login to refuse in state {self._core.state}")
        self._core.send_close(403, text, 0, 0)

    def open_connection(self) -> None:
        """Send connection.open-ok."""
        self._core.send_control("connection.open-ok", ConnectionOpenOk())
        if self._core.state == "running":
            self._core.timers.expect_nothing()


class ClientHandshake:
    """The client's side of the handshake, until the connection is open."""

    __slots__ = ("_core", "_heartbeat", "_server_properties")

    def __init__(self, core: Core) -> None:
        self._core = core
        core.outbox.put(PROTOCOL_HEADER)
        self._server_properties: dict[str, FieldValue] = {}
        self._heartbeat = 0

    def receive(self, method: Method) -> None:
        """Handle a method of the server's that the state table has allowed."""
        core = self._core
        match method:
            case ConnectionStart():
                self._started(method)
            case ConnectionSecure():
                core.events.append(ChallengeReceived(method.challenge))
            case ConnectionTune():
                self._tune(method)
            case ConnectionOpenOk():
                core.timers.expect_nothing()
                core.events.append(
                    Connected(self._server_properties, core.channel_max, core.frame_max, self._heartbeat)
                )

    def _started(self, method: ConnectionStart) -> None:
        core = self._core
        self._server_properties = method.server_properties
        mechanisms = tuple(method.mechanisms.decode("ascii", "replace").split())
        locales = tuple(method.locales.decode("ascii", "replace").split())
        core.events.append(ServerStarted(method.server_properties, mechanisms, locales))
        if core.settings.login is not None:
            self.log_in(core.settings.login)

    def _tune(self, method: ConnectionTune) -> None:
        """Agree on the lower of the server's offer and our wish, where 0 is no limit; then ask for the virtual host."""
        core, settings = self._core, self._core.settings
        channel_max = min(method.channel_max or 65535, settings.channel_max)
        frame_max = min(method.frame_max or settings.frame_max, settings.frame_max)
        if frame_max < FRAME_MIN_SIZE:
            raise PeerError(
                501, f"the server offers frames of {frame_max} octets, at least {FRAME_MIN_SIZE} are needed"
            )
        self._heartbeat = min(method.heartbeat or settings.heartbeat, settings.heartbeat)
        core.send_control("connection.tune-ok", ConnectionTuneOk(channel_max, frame_max, self._heartbeat))
        core.agree(channel_max, frame_max, self._heartbeat)
        core.send_control("connection.open", ConnectionOpen(settings.virtual_host))

    # Commands

    def log_in(self, login: Login) -> None:
        """Answer connection.start."""
        settings = self._core.settings
        answer = ConnectionStartOk(settings.client_properties, login.mechanism, login.response, settings.locale)
        self._core.send_control("connection.start-ok", answer)

    def answer_challenge(self, response: bytes) -> None:
        """Answer connection.secure."""
        self._core.send_control("connection.secure-ok", ConnectionSecureOk(response))
