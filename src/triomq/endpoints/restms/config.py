"""The configuration of a RestMS endpoint."""

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import msgspec

from triomq.checked import Checked
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.endpoint_config import Codec, Hosts, SocketConfig
from triomq.endpoints.content import AMQP_CODEC, amend_amqp, from_amqp
from triomq.errors import ConfigError
from triomq.shown import shown
from triomq.transports import TLS

if TYPE_CHECKING:
    from triomq.endpoints.restms.endpoint import RestMSEndpoint

_PORT, _TLS_PORT = 8080, 8443
"""Where programs expect HTTP that is not for everybody."""

_BASE = re.compile(r"https?://[^/?#@\s]+/?", re.ASCII)

_Seconds = Annotated[float, msgspec.Meta(gt=0)]
_Bytes = Annotated[int, msgspec.Meta(ge=0)]


class RestMS(Checked, SocketConfig, frozen=True, forbid_unknown_fields=True, tag="restms"):
    """Where and how to listen for RestMS.

    Args:
        host: Name or address, or a list of them; ``localhost`` is both loopback addresses.
        port: Port; 0 takes one that is free. Without it 8080, or 8443 with ``tls``.
        path: Path of a Unix socket to listen on instead; host and port are not used then.
        domains: The domains that it shows; none is ``default`` alone.
        defaults_only: Those of them that have the profile 3/Defaults and not 4/AMQP9.
        url: What URIs in answers begin with, such as ``https://example.org``; empty takes what each request names. To
            be set behind a proxy that speaks TLS in the broker's place, or calls it by another name.
        realm: What clients are asked for a password for; the client of 2009 knows this one alone.
        allow_origins: Pages of which origins may use it from a browser (CORS); ``*`` is any.
        window: Messages of a pipe that have URIs at once.
        window_bytes: Bytes of these messages; one of any size always has its URI.
        pipe_messages: Messages that a pipe holds beside its window; 0 is no limit.
        pipe_bytes: Bytes of these; 0 is no limit.
        overflow: What a full pipe does: the oldest without a URI give way, or new ones are refused.
        pipe_expires: Seconds after which a pipe is deleted that nobody has asked for anything; 0 is never.
        max_document: Bytes of the largest document that a client may send.
        max_content: Bytes of the largest content that it may stage.
        staged_bytes: Bytes that a user may have staged at once.
        staged_seconds: How long a staged content waits for its message.
        patience: Seconds that a POST waits while memory is short or the disk cannot be written.
        most_requests: Requests of a user in a second, of which it may save up as many; 0 is no limit.
        tls: How to speak TLS; none is not at all.
        allow_plain_insecure: Let clients on other machines send their passwords in plain text, without TLS.
    """

    protocol: ClassVar[str] = "RestMS"
    codecs: ClassVar[tuple[Codec, ...]] = (Codec(AMQP_CODEC, from_amqp, amend_amqp),)

    host: Hosts = "localhost"
    port: Annotated[int, msgspec.Meta(ge=0, le=0xFFFF)] | None = None
    path: str = ""
    domains: tuple[str, ...] = ("default",)
    defaults_only: tuple[str, ...] = ()
    url: str = ""
    realm: str = "RestMS::"
    allow_origins: tuple[str, ...] = ()
    window: Annotated[int, msgspec.Meta(ge=1)] = 256
    window_bytes: Annotated[int, msgspec.Meta(ge=1)] = 16 * 1024 * 1024
    pipe_messages: _Bytes = 100_000
    pipe_bytes: _Bytes = 64 * 1024 * 1024
    overflow: Literal["drop-head", "reject-publish"] = "drop-head"
    pipe_expires: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    max_document: Annotated[int, msgspec.Meta(ge=1024)] = 1024 * 1024
    max_content: _Bytes = 16 * 1024 * 1024
    staged_bytes: _Bytes = 64 * 1024 * 1024
    staged_seconds: _Seconds = 300.0
    patience: Annotated[float, msgspec.Meta(ge=0)] = 30.0
    most_requests: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    tls: TLS | None = None
    allow_plain_insecure: bool = True

    def __post_init__(self) -> None:
        """Check the fields, and choose the port that clients expect."""
        super().__post_init__()
        if self.port is None:
            msgspec.structs.force_setattr(self, "port", _PORT if self.tls is None else _TLS_PORT)
        if not self.domains:
            raise ConfigError("domains: found none; name one at least, such as 'default'")
        if self.url and not _BASE.fullmatch(self.url):
            raise ConfigError(
                f"url: found {shown(self.url)}; write scheme and host alone, such as 'https://example.org'"
            )
        for domain in self.domains:
            if domain in (".", ".."):
                raise ConfigError(f"domains: {domain!r} is a step in a path, so that no URI leads there; rename it")
        for domain in self.defaults_only:
            if domain not in self.domains:
                raise ConfigError(f"defaults_only: {domain!r} is none of domains, {', '.join(map(repr, self.domains))}")

    def check(self, domains: Collection[str]) -> None:
        """Check that there are the domains; see ``EndpointConfig``."""
        super().check(domains)
        for domain in self.domains:
            if domain not in domains:
                raise ConfigError(f"domains: found {domain!r}, but the broker has {', '.join(map(repr, domains))}")

    def make(self, broker: BrokerContext) -> "RestMSEndpoint":
        """Create the actor that listens."""
        from triomq.endpoints.restms.endpoint import RestMSEndpoint

        return RestMSEndpoint(self, broker)

    def client_url(self, address: str, credentials: str) -> str:
        """Return the URL that a client connects with."""
        return f"{'http' if self.tls is None else 'https'}://{credentials}@{address}/restms/domain/{self.domains[0]}"
