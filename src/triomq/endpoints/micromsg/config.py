"""The configuration of a MicroMsg2 endpoint."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import msgspec

from triomq.checked import Checked
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.endpoint_config import Codec, Hosts, SocketConfig
from triomq.endpoints.micromsg.content import MICROMSG_CODEC, amend_micromsg, from_micromsg
from triomq.endpoints.micromsg.destinations import parse_destination
from triomq.errors import ConfigError, Refused
from triomq.transports import TLS, WebSocket, is_loopback
from triomq.version import __version__

if TYPE_CHECKING:
    from triomq.endpoints.micromsg.endpoint import MicroMsgEndpoint

_PORT: Final = 8334
"""Where the programs that came with the protocol listen."""

_GUEST: Final = "guest"

_LARGEST_WINDOW: Final = 32_767
"""Numbers of messages have 16 bits and wrap, so with more of them open an ack could mean two messages."""

_Count = Annotated[int, msgspec.Meta(ge=1)]


class MicroMsg(Checked, SocketConfig, frozen=True, forbid_unknown_fields=True, tag="micromsg"):
    """Where and how to listen for MicroMsg2.

    Args:
        host: Name or address, or a list of them; ``localhost`` is both loopback addresses.
        port: Port; 0 takes one that is free.
        path: Path of a Unix socket to listen on instead; host and port are not used then.
        domain: Where the queues and topics are.
        user: As whom clients work that neither show a certificate nor log in; only where no other machine can connect.
            Without it ``guest`` there, and nobody elsewhere, nor over WebSocket, which may come through a proxy from
            anywhere; empty is nobody in any case.
        window: How many messages either side may have sent that are not acked, at most; clients may choose fewer.
        max_frame: Bytes of the payload of one frame; larger messages come in several.
        max_message_size: Bytes of the largest message.
        default_destination: Where messages go that name no destination; without it they are refused.
        dynamic_queues: Whether a queue that is not there is declared, durable, when a client publishes or subscribes to
            it; the user needs the right to configure it.
        dynamic_topics: The same for topics, as durable fanout exchanges.
        kept_seconds: How long the subscriptions to topics of a client with a log-in and an identity are kept when its
            connection ends; 0 is not at all.
        most_kept: Subscriptions that are kept for one user; what is more ends with its connection.
        most_waiting: Messages that wait for one subscriber of a topic before it loses the oldest.
        heartbeat: Seconds of silence after which a heartbeat is sent, if the client wants no fewer; after three times
            that the client is gone.
        pushed: For clients that cannot subscribe, SharpMessaging's: from which destination they get messages, by their
            identity; ``*`` is any other one.
        tls: How to speak TLS; none is not at all.
        websocket: How to speak WebSocket, which then is all that is spoken on this port; none is not at all.
        allow_plain_insecure: Let clients on other machines send their passwords in plain text, without TLS.
    """

    protocol: ClassVar[str] = "MicroMsg2"
    codecs: ClassVar[tuple[Codec, ...]] = (Codec(MICROMSG_CODEC, from_micromsg, amend_micromsg),)

    host: Hosts = "localhost"
    port: Annotated[int, msgspec.Meta(ge=0, le=0xFFFF)] = _PORT
    path: str = ""
    domain: str = "default"
    user: str | None = None
    window: Annotated[int, msgspec.Meta(ge=1, le=_LARGEST_WINDOW)] = 1_000
    max_frame: Annotated[int, msgspec.Meta(ge=256, le=1024 * 1024)] = 1024 * 1024
    max_message_size: Annotated[int, msgspec.Meta(ge=256, le=16 * 1024 * 1024)] = 16 * 1024 * 1024
    default_destination: str = ""
    dynamic_queues: bool = False
    dynamic_topics: bool = False
    kept_seconds: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 60.0
    most_kept: _Count = 1_000
    most_waiting: _Count = 100_000
    heartbeat: Annotated[float, msgspec.Meta(ge=0.1, le=86_400)] = 10.0
    pushed: Mapping[str, str] = msgspec.field(default_factory=dict)
    tls: TLS | None = None
    websocket: WebSocket | None = None
    allow_plain_insecure: bool = True

    def __post_init__(self) -> None:
        """Check the fields, and what two of them say together; choose the user of clients that do not log in."""
        super().__post_init__()
        exposed = next((host for host in self.hosts if not is_loopback(host)), None)
        if self.user is None:
            msgspec.structs.force_setattr(
                self, "user", "" if exposed is not None or self.websocket is not None else _GUEST
            )
        elif self.user and exposed is not None:
            raise ConfigError(
                f"user: {exposed!r} is open to other machines, and whoever says nothing of itself would work as "
                f"{self.user!r}; leave it out, so that clients show a certificate or log in by x-sasl, or listen on "
                "localhost"
            )
        for field, text in (
            ("default_destination", self.default_destination),
            *((f"pushed.{name}", text) for name, text in self.pushed.items()),
        ):
            if text:
                try:
                    parse_destination(text)
                except Refused as refused:
                    raise ConfigError(f"{field}: {refused}") from None

    def check(self, domains: Collection[str]) -> None:
        """Check that there is the domain; see ``EndpointConfig``."""
        super().check(domains)
        if self.domain not in domains:
            raise ConfigError(f"domain: found {self.domain!r}, but domains has {', '.join(map(repr, domains))}")

    def make(self, broker: BrokerContext) -> "MicroMsgEndpoint":
        """Create the actor that listens."""
        from triomq.endpoints.micromsg.endpoint import MicroMsgEndpoint

        return MicroMsgEndpoint(self, broker)

    def client_url(self, address: str, credentials: str) -> str:
        """Return the URL that a client connects with."""
        place = address if self.user else f"{credentials}@{address}"
        if self.websocket is not None:
            return f"{'ws' if self.tls is None else 'wss'}://{place}{self.websocket.path}"
        return f"{'micromsg' if self.tls is None else 'micromsgs'}://{place}"

    @property
    def product(self) -> str:
        """What the broker says of itself."""
        return f"triomq {__version__}"

    def pushed_to(self, identity: str) -> str:
        """Return the destination whose messages a client gets that cannot subscribe; empty if there is none."""
        return self.pushed.get(identity) or self.pushed.get("*", "")
