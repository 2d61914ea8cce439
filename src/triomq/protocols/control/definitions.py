"""Definitions: what a broker consists of, in the form of RabbitMQ's ``export_definitions`` (JSON).

Fields that are not known here are passed over: the file may come from other versions, or from the HTTP interface, which
says more. So is an entry that cannot be read, with a word about it: one of a thousand keeps no broker from starting.
"""

from collections.abc import Iterable
from typing import get_args, get_type_hints

import msgspec

from triomq.errors import RemoteProtocolError

Arguments = dict[str, object]


class DefinedVirtualHost(msgspec.Struct, frozen=True, kw_only=True):
    """A virtual host; its metadata has ``default_queue_type`` where it has one."""

    name: str
    metadata: Arguments | msgspec.UnsetType = msgspec.UNSET

    @property
    def default_queue_type(self) -> object:
        """The type of queues whose declare names none, as it stands there; None if nothing does."""
        return None if isinstance(self.metadata, msgspec.UnsetType) else self.metadata.get("default_queue_type")


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
    """A queue; newer versions name its type beside the arguments too."""

    name: str
    vhost: str = "/"
    type: str | msgspec.UnsetType = msgspec.UNSET
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


def read_definitions(octets: bytes) -> tuple[Definitions, list[str]]:
    """Read definitions; return them, and which entries were passed over since they cannot be read.

    Raises:
        RemoteProtocolError: They are none; the text says where, and shows no value.
    """
    try:
        raw = msgspec.json.decode(octets, type=dict[str, msgspec.Raw])
        lists = {name: msgspec.json.decode(raw[name], type=list[msgspec.Raw]) for name in _LISTS if name in raw}
        version = msgspec.json.decode(raw["rabbit_version"], type=str | None) if "rabbit_version" in raw else None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"these are no definitions as RabbitMQ exports them: {error}") from None
    hints = get_type_hints(Definitions)
    found: dict[str, list[object]] = {}
    troubles: list[str] = []
    for name, entries in lists.items():
        (kind,) = get_args(hints[name])
        found[name] = []
        for number, entry in enumerate(entries):
            try:
                found[name].append(_read_entry(entry, kind))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                troubles.append(f"{name}[{number}] cannot be read: {error}")
    return Definitions(rabbit_version=version, **found), troubles  # type: ignore[arg-type]  # each list has its type


def _read_entry(octets: msgspec.Raw, kind: type) -> object:
    """Read an entry; for a table without anything in it, some versions write an empty list."""
    try:
        return msgspec.json.decode(octets, type=kind)
    except msgspec.ValidationError:
        fields = msgspec.json.decode(octets, type=dict[str, object])
        return msgspec.convert({name: {} if value == [] else value for name, value in fields.items()}, kind)


def join_definitions(parts: Iterable[Definitions]) -> Definitions:
    """Put definitions together that came in parts."""
    found: dict[str, list[object]] = {name: [] for name in _LISTS}
    version = None
    for part in parts:
        version = version or part.rabbit_version
        for name in _LISTS:
            found[name] += getattr(part, name)
    return Definitions(rabbit_version=version, **found)  # type: ignore[arg-type]  # each list is of its own field
