"""The configuration of a peer: a broker to which our resources are announced, so that its clients can publish to ours.

The actor that does so is a client of the peer, and its modules are loaded with the first one: most brokers have none.
"""

import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from triomq.actors import ChildSpec, InPlaceActor
from triomq.checked import Checked
from triomq.endpoints.base.context import BrokerContext
from triomq.errors import ConfigError

if TYPE_CHECKING:
    from triomq.clients import AMQPUrl

_Count = Annotated[int, msgspec.Meta(ge=1, le=0xFFFF)]


class Synchronise(Checked, frozen=True, forbid_unknown_fields=True):
    """A peer that is to know what there is here.

    Args:
        url: Where it is, and as whom to log in: ``amqp://user:password@host:port/virtual-host``, or ``amqps://``.
        password_file: A file that holds the password, in place of one in the URL.
        domain: Of which domain to tell.
        origin: The name that our resources have there, beside the user's; without it this machine's name. Two brokers
            that log in to one peer as the same user need different ones.
        pipe_type: What it calls a pipe; OpenAMQ says fifo, and all others pipe.
        force: Announce also to a peer that does not offer the class; one that does not know it disconnects. It
            needs ``pipe_type``, which such a peer does not announce either.
        prefetch: Messages that may be on their way from its pipes to our queues.
        changes: How many changes may wait to be announced; when there are more, everything is announced once more.
        retry: Most seconds between two tries to reach it.
        ca: File of the authorities that its certificate may come from, in PEM; without it those of the system.
        certificate: File of our own certificate, in PEM.
        key: File of its private key.
    """

    url: str
    password_file: str = ""
    domain: str = "default"
    origin: str = ""
    pipe_type: Literal["pipe", "fifo"] | None = None
    force: bool = False
    prefetch: _Count = 1000
    changes: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    retry: Annotated[float, msgspec.Meta(gt=0)] = 30.0
    ca: str = ""
    certificate: str = ""
    key: str = ""

    def __repr__(self) -> str:
        """Show no password: representations end up in logs."""
        return f"Synchronise({self.name!r})"

    @property
    def name(self) -> str:
        """Where it is, as texts and the tree of actors name it."""
        from triomq.clients import parse_amqp_url

        return parse_amqp_url(self.url).place.strip("/").replace("/", "-")

    def beside(self, folder: Path) -> "Synchronise":
        """Return the same configuration with relative files found in a folder."""
        files = {file: getattr(self, file) for file in ("password_file", "ca", "certificate", "key")}
        return msgspec.structs.replace(self, **{file: str(folder / path) for file, path in files.items() if path})

    def place(self) -> "AMQPUrl":
        """Read the URL, and the password where that is in a file.

        Raises:
            ConfigError: One of them cannot be read, or ``force`` is set without ``pipe_type``.
        """
        from triomq.clients import parse_amqp_url

        if self.force and self.pipe_type is None:
            raise ConfigError(
                "pipe_type: not set, and with force = true nothing else says what the peer calls a pipe, so it may "
                'pass over all of them; set it to "fifo" for OpenAMQ, else to "pipe"'
            )
        try:
            url = parse_amqp_url(self.url)
        except ConfigError as error:
            raise ConfigError(f"url: {error}") from None
        if (self.ca or self.certificate) and not url.tls:
            raise ConfigError("url: ca and certificate are of use with amqps:// alone")
        if self.password_file:
            url = msgspec.structs.replace(url, password=_read(self.password_file))
        return msgspec.structs.replace(url, name=url.name or "synchronise")

    def make_context(self) -> ssl.SSLContext | None:
        """Read the certificates; None without TLS.

        Raises:
            ConfigError: They cannot be read.
        """
        if not self.place().tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca or None)
            if self.certificate:
                context.load_cert_chain(self.certificate, self.key or None)
        except OSError as error:  # as ssl's errors are
            files = " ".join(filter(None, (self.ca, self.certificate, self.key)))
            raise ConfigError(f"cannot read the certificates in {files}: {error}; they are to be in PEM") from None
        return context


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"password_file: cannot read {path}: {error}; name a text that the broker may read") from None


class PeerStatistics(msgspec.Struct, frozen=True, gc=False):
    """A snapshot of what goes on with a peer.

    Args:
        is_connected: Whether it is connected, and knows the class.
        is_up_to_date: Whether it knows everything.
        announced: Resources that it knows of.
        sent: Methods that it was sent, all in all.
        waiting: Changes that wait.
        replays: How often everything was announced.
        received: Messages that have come from its pipes on this connection.
    """

    is_connected: bool
    is_up_to_date: bool
    announced: int
    sent: int
    waiting: int
    replays: int
    received: int


class PeerActor(InPlaceActor):
    """Base of the actor for one peer; a child of the broker's peers."""

    def statistics(self) -> PeerStatistics:
        """Return a snapshot."""
        raise NotImplementedError

    async def wait_announced(self) -> bool:
        """Wait until the peer knows everything; return whether it does, since this incarnation may end first."""
        raise NotImplementedError


def peer_spec(config: Synchronise, broker: BrokerContext, name: str) -> ChildSpec:
    """Return the specification of the actor for a peer; what the peer knows of us outlives a crash.

    Raises:
        ConfigError: There is no such domain, or something cannot be read.
    """
    domain = broker.domains.get(config.domain)
    if domain is None:
        raise ConfigError(f"domain: there is no {config.domain!r}, but {', '.join(map(repr, broker.domains))}")
    from triomq.endpoints.federation.outbox import ResourceOutbox
    from triomq.endpoints.federation.synchroniser import Synchroniser

    outbox, url, context = (
        ResourceOutbox(config.pipe_type or "pipe", config.changes),
        config.place(),
        config.make_context(),
    )
    instance = f"{broker.instance}/{config.domain}"
    return ChildSpec(lambda: Synchroniser(config, domain.directory, outbox, url, context, instance), name=name)
