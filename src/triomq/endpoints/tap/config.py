"""The configuration of a tap endpoint."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec

from triomq.checked import Checked
from triomq.core import MOST_BATCH
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.endpoint_config import Hosts, SocketConfig
from triomq.errors import ConfigError
from triomq.protocols.tap import LARGEST_FRAME, LEAST_FRAME, Settings
from triomq.transports import TLS
from triomq.version import __version__

if TYPE_CHECKING:
    from triomq.endpoints.tap.endpoint import TapEndpoint

_PORT, _TLS_PORT = 47280, 47281
"""Not registered with anybody; beside the ports of eMQP."""


class Tap(Checked, SocketConfig, frozen=True, forbid_unknown_fields=True, tag="tap"):
    """Where and how to listen for tap.

    Args:
        host: Name or address, or a list of them; ``localhost`` is both loopback addresses.
        port: Port; 0 takes one that is free. Without it 47280, or 47281 with ``tls``.
        path: Path of a Unix socket to listen on instead; host and port are not used then.
        domain: Where clients work that name no domain.
        max_frame: Bytes of the largest frame that a client may send, and so of the largest chunk that it may stage.
        max_batch: Bytes that a client may stage for one batch; all batches together may have four times as much, in
            memory. A large one that goes to queues holds others up while it is committed, 64 MiB for a tenth of a
            second; one for streams does not.
        tls: How to speak TLS; none is not at all.
        allow_plain_insecure: Let clients on other machines send their passwords in plain text, without TLS.
    """

    protocol: ClassVar[str] = "tap"

    host: Hosts = "localhost"
    port: Annotated[int, msgspec.Meta(ge=0, le=0xFFFF)] | None = None
    path: str = ""
    domain: str = "default"
    max_frame: Annotated[int, msgspec.Meta(ge=LEAST_FRAME, le=LARGEST_FRAME)] = 16 * 1024 * 1024
    max_batch: Annotated[int, msgspec.Meta(ge=LEAST_FRAME)] = MOST_BATCH
    tls: TLS | None = None
    allow_plain_insecure: bool = True

    def __post_init__(self) -> None:
        """Check the fields, and choose the port that clients expect."""
        super().__post_init__()
        if self.port is None:
            msgspec.structs.force_setattr(self, "port", _PORT if self.tls is None else _TLS_PORT)

    def check(self, domains: Collection[str]) -> None:
        """Check that there is the domain; see ``EndpointConfig``."""
        super().check(domains)
        if self.domain not in domains:
            raise ConfigError(f"domain: found {self.domain!r}, but domains has {', '.join(map(repr, domains))}")

    def make(self, broker: BrokerContext) -> "TapEndpoint":
        """Create the actor that listens."""
        from triomq.endpoints.tap.endpoint import TapEndpoint

        return TapEndpoint(self, broker)

    def client_url(self, address: str, credentials: str) -> str:
        """Return the URL that a client connects with."""
        return f"{'tap' if self.tls is None else 'taps'}://{credentials}@{address}"

    def settings(self, mechanisms: tuple[str, ...], max_frame: int) -> Settings:
        """Return what the engine needs to know.

        Args:
            mechanisms: Those that are offered, best first.
            max_frame: What the broker's memory has room for at present.
        """
        return Settings(
            max_frame=max(LEAST_FRAME, min(self.max_frame, max_frame)),
            mechanisms=mechanisms,
            product=f"triomq {__version__}",
        )
