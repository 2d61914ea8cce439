"""Definitions: what a broker consists of, in the form of RabbitMQ's ``export_definitions`` (JSON).

Fields that are not known here are passed over: the file may come from other versions, or from the HTTP interface, which
says more.
"""

from collections.abc import Iterable

import msgspec

from triomq.errors import RemoteProtocolError

Arguments = dict[str, object]


class DefinedVirtualHost(msgspec.Struct, frozen=True, kw_only=True):
    """A virtual host."""

    name: str


class DefinedUser(msgspec.Struct, frozen=True, kw_only=True):
    """A user.

    Args:
        name: Its name.
        password_hash: Base64 of a salt of four octets and a hash; empty where no password is right.
        hashing_algorithm: Which hash that is.
        tags: A list, or in older versions a text with commas.
        limits: ``max-connections`` and ``max-channels``.
    """

    name: str
    password_hash: str = ""
    hashing_algorithm: str = "rabbit_password_hashing_sha256"
    tags: list[str] | str = ""
    limits: dict[str, int] = {}

    def __repr__(self) -> str:
        """Show no hash: representations end up in logs."""
        return f"DefinedUser(name={self.name!r}, …)"


class DefinedPermission(msgspec.Struct, frozen=True, kw_only=True):
    """What a user may do in a virtual host: regular expressions of names."""

    user: str
    vhost: str = "/"
    configure: str = ""
    write: str = ""
    read: str = ""


class DefinedPolicy(msgspec.Struct, frozen=True, kw_only=True, rename={"apply_to": "apply-to"}):
    """A policy."""

    name: str
    pattern: str
    vhost: str = "/"
    definition: Arguments = {}
    apply_to: str = "all"
    priority: int = 0


class DefinedExchange(msgspec.Struct, frozen=True, kw_only=True):
    """An exchange."""

    name: str
    vhost: str = "/"
    type: str = "direct"
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Arguments = {}


class DefinedQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue."""

    name: str
    vhost: str = "/"
    durable: bool = True
    auto_delete: bool = False
    arguments: Arguments = {}


class DefinedBinding(msgspec.Struct, frozen=True, kw_only=True):
    """A binding; ``destination_type`` is queue or exchange."""

    source: str
    destination: str
    vhost: str = "/"
    destination_type: str = "queue"
    routing_key: str = ""
    arguments: Arguments = {}


class Definitions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Definitions, all or some of them.

    Args:
        rabbit_version: The version that they come from, or whose form they have.
        users: Who may log in.
        vhosts: Virtual hosts.
        permissions: Who may do what where.
        topic_permissions: Who may use which routing keys; triomq has none.
        parameters: Of plug-ins and limits; triomq has none.
        global_parameters: The same, for the whole cluster.
        policies: Policies.
        queues: Queues.
        exchanges: Exchanges, except those that are there from the start.
        bindings: Bindings, except those of the default exchange.
    """

    rabbit_version: str | None = None
    users: list[DefinedUser] = []
    vhosts: list[DefinedVirtualHost] = []
    permissions: list[DefinedPermission] = []
    topic_permissions: list[Arguments] = []
    parameters: list[Arguments] = []
    global_parameters: list[Arguments] = []
    policies: list[DefinedPolicy] = []
    queues: list[DefinedQueue] = []
    exchanges: list[DefinedExchange] = []
    bindings: list[DefinedBinding] = []


_LISTS = tuple(name for name in Definitions.__struct_fields__ if name != "rabbit_version")


def read_definitions(octets: bytes) -> Definitions:
    """Read definitions.

    Raises:
        RemoteProtocolError: They are none; the text says where, and shows no value.
    """
    try:
        return msgspec.json.decode(octets, type=Definitions)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"these are no definitions as RabbitMQ exports them: {error}") from None


def join_definitions(parts: Iterable[Definitions]) -> Definitions:
    """Put definitions together that came in parts."""
    found: dict[str, list[object]] = {name: [] for name in _LISTS}
    version = None
    for part in parts:
        version = version or part.rabbit_version
        for name in _LISTS:
            found[name] += getattr(part, name)
    return Definitions(rabbit_version=version, **found)  # type: ignore[arg-type]  # each list is of its own field
