"""The settings of an engine: limits, deadlines, and how it describes itself to the peer."""

import msgspec

from triomq.errors import LocalProtocolError
from triomq.protocols.fields import FieldValue, encode_short_string, encode_table

# No side may refuse frames of up to so many octets (section 1.2, frame-min-size); until tune is done none is larger.
FRAME_MIN_SIZE = 4096

# Octets of our own description; what is left of the smallest frame is for mechanisms and locales.
INTRODUCTION_MAX = 3072

# Clients use only what is announced here; an endpoint that fulfils the engine's contract supports each of these.
SERVER_CAPABILITIES: dict[str, FieldValue] = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "consumer_priorities": True,
    "authentication_failure_close": True,
    "per_consumer_qos": True,
    "direct_reply_to": True,
}
CLIENT_CAPABILITIES: dict[str, FieldValue] = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}


class Login(msgspec.Struct, frozen=True, gc=False):
    """What a client answers connection.start with: a SASL mechanism and its first response."""

    mechanism: str
    response: bytes

    def __repr__(self) -> str:
        """Show no secret: representations end up in logs."""
        return f"Login({self.mechanism!r}, …)"


def plain(username: str, password: str) -> Login:
    """Return the login of SASL PLAIN (RFC 4616): no authorisation identity, the user, the password."""
    return Login("PLAIN", b"\0%s\0%s" % (username.encode(), password.encode()))


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of an engine; the same for both roles, each reads what concerns it.

    Args:
        channel_max: offered (server) or wished for (client) number of open channels.
        frame_max: offered or wished for octets of a frame, its eight of framing included.
        heartbeat: offered or wished for seconds between heartbeats; 0 is none.
        max_message_size: octets of a body; a larger one closes its channel with 311 before it is stored.
        server_properties: sent in connection.start.
        client_properties: sent in connection.start-ok.
        mechanisms: offered SASL mechanisms, best first.
        locales: offered locales.
        header_timeout: seconds until the protocol header must be there.
        handshake_timeout: seconds until the connection must be open.
        close_timeout: seconds to wait for close-ok.
        login: client: how to log in; None leaves it to ``log_in`` after ``ServerStarted``.
        virtual_host: client: asked for in connection.open.
        locale: client: chosen in connection.start-ok.
    """

    # What RabbitMQ offers, and so what clients are used to: 2047 channels, 128 KiB frames, a minute.
    channel_max: int = 2047
    frame_max: int = 131072
    heartbeat: int = 60
    # As RabbitMQ's default since 3.8: larger ones belong into files.
    max_message_size: int = 128 * 1024 * 1024
    server_properties: dict[str, FieldValue] = msgspec.field(
        default_factory=lambda: {"product": "triomq", "platform": "Python", "capabilities": dict(SERVER_CAPABILITIES)}
    )
    client_properties: dict[str, FieldValue] = msgspec.field(
        default_factory=lambda: {"product": "triomq", "platform": "Python", "capabilities": dict(CLIENT_CAPABILITIES)}
    )
    mechanisms: tuple[str, ...] = ("PLAIN", "AMQPLAIN")
    locales: tuple[str, ...] = ("en_US",)
    # Long enough for a slow link, short enough that silent sockets do not pile up; RabbitMQ gives ten in all.
    header_timeout: float = 5.0
    handshake_timeout: float = 10.0
    close_timeout: float = 5.0
    login: Login | None = None
    virtual_host: str = "/"
    locale: str = "en_US"

    def __post_init__(self) -> None:
        """Refuse limits that cannot be written on the wire."""
        if not FRAME_MIN_SIZE <= self.frame_max < 2**32:
            raise LocalProtocolError(f"frame_max is {self.frame_max}; allowed are {FRAME_MIN_SIZE} to 4294967295")
        if not 1 <= self.channel_max <= 65535:
            raise LocalProtocolError(f"channel_max is {self.channel_max}; allowed are 1 to 65535")
        if not 0 <= self.heartbeat <= 65535:
            raise LocalProtocolError(f"heartbeat is {self.heartbeat}; allowed are 0 to 65535 seconds")
        # What is sent before tune must fit into the smallest frame, with room for what stands beside the properties.
        response = b"" if self.login is None else self.login.response
        for name, properties in (("server", self.server_properties), ("client", self.client_properties)):
            size = len(encode_table(properties)) + len(response)
            if size > INTRODUCTION_MAX:
                raise LocalProtocolError(f"{name}_properties and login take {size} octets of {INTRODUCTION_MAX}")
        encode_short_string(self.virtual_host)
        encode_short_string(self.locale)
