"""Definitions from RabbitMQ in a configuration: what they add to it, and what they declare when the broker opens.

Users, permissions, virtual hosts and policies become part of the configuration, whose own settings go before them;
exchanges, queues and bindings are declared. So a reload reads all of it again.

One word of another version keeps no broker from starting: it is passed over with a line. Nobody may do more by that
than before: a user or a permission that cannot be read is left out, and a file whose topic permissions narrow something
is refused.
"""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from triomq.app.broker import Broker
from triomq.app.policies import PolicyConfig
from triomq.app.users import User
from triomq.core import DomainLimits
from triomq.endpoints import LIMITS, OPERATOR_POLICY, declare_all, split_definition
from triomq.errors import ConfigError, RemoteProtocolError
from triomq.protocols.control import DefinedPermission, DefinedPolicy, DefinedUser, Definitions, read_definitions
from triomq.security import ANY_DOMAIN, Permission, UserLimits, read_verifier

_log = logging.getLogger("triomq.app")

_HASHES = {
    "rabbit_password_hashing_sha256": "RABBITMQ-SHA-256",
    "rabbit_password_hashing_sha512": "RABBITMQ-SHA-512",
}

DefaultQueueType: TypeAlias = Literal["classic", "quorum", "stream"]

_TYPES: Mapping[str, DefaultQueueType] = {"classic": "classic", "quorum": "quorum", "stream": "stream"}

_SLASH = "/"
"""The virtual host that every RabbitMQ has; here it is the first domain."""


class Additions(msgspec.Struct, frozen=True):
    """What definitions add to a configuration.

    Args:
        domains: The domain that each virtual host is.
        users: Who may log in, by name.
        policies: Policies, those of the operator among them.
        default_queue_types: By domain, the type of queues whose declare names none.
        domain_limits: By domain, what there may be at once.
        troubles: What is passed over, line by line.
    """

    domains: Mapping[str, str]
    users: Mapping[str, User]
    policies: tuple[PolicyConfig, ...]
    default_queue_types: Mapping[str, DefaultQueueType]
    domain_limits: Mapping[str, DomainLimits]
    troubles: tuple[str, ...]


def load_definitions(path: Path) -> tuple[Definitions, list[str]]:
    """Read a file of definitions; return them, and which entries cannot be read.

    Raises:
        ConfigError: It cannot be read, is no such file, or has permissions that triomq cannot enforce.
    """
    try:
        found, troubles = read_definitions(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot read the definitions in {path}: {error.strerror}") from None
    except RemoteProtocolError as error:
        raise ConfigError(f"{path}: {error}; `rabbitmqctl export_definitions FILE` writes them") from None
    narrow = [each for each in found.topic_permissions if {each.get("write"), each.get("read")} - _EVERYTHING]
    if narrow:
        users = ", ".join(sorted({str(permission.get("user")) for permission in narrow}))
        raise ConfigError(
            f"{path}: topic_permissions narrow what {users} may publish to topic exchanges, which triomq cannot do; "
            "remove them if these users may use all routing keys"
        )
    return found, troubles


_EVERYTHING = {".*", "^.*$", ""}
"""Patterns of a topic permission that narrow nothing."""


def additions_of(found: Definitions, path: Path, domains: Iterable[str], virtual_hosts: Mapping[str, str]) -> Additions:
    """Return what definitions add to a configuration; what cannot be had is passed over, with a line each.

    Args:
        found: The definitions.
        path: The file, for errors.
        domains: The configured domains; the first is that of the virtual host ``/``.
        virtual_hosts: The domain of each virtual host that is configured.

    Raises:
        ConfigError: A virtual host has a name that would mean another thing here.
    """
    places = {_SLASH: next(iter(domains)), **virtual_hosts}
    for host in found.vhosts:
        places.setdefault(host.name, host.name)
    if ANY_DOMAIN in places.values():
        raise ConfigError(f"{path}: a virtual host {ANY_DOMAIN!r} would be taken for all of them; rename it")
    troubles: list[str] = []
    users = _users_of(found, places, troubles)
    policies = _policies_of(found, places, troubles)
    limits = _limits_of(found, places, troubles)
    needed = {host.name for host in found.vhosts} | {_SLASH} | set(virtual_hosts)
    used = {host: domain for host, domain in places.items() if host in needed}
    types = _types_of(found, places, troubles)
    return Additions(used, users, policies, types, limits, tuple(troubles))


# Policies


def _policies_of(found: Definitions, places: Mapping[str, str], troubles: list[str]) -> tuple[PolicyConfig, ...]:
    made: dict[tuple[str, str, bool], PolicyConfig] = {}
    operators = [_operator_policy(entry) for entry in found.parameters if entry.get("component") == OPERATOR_POLICY]
    for policy, operator in (*((policy, False) for policy in found.policies), *((each, True) for each in operators)):
        where = f"{'operator ' * operator}policy {policy.name!r}" if policy is not None else "an operator policy"
        try:
            if policy is None:
                raise ConfigError("it cannot be read")
            config, passed_over = _policy(policy, places, operator=operator)
        except ConfigError as error:
            troubles.append(f"{where} is passed over: {error}")
            continue
        troubles += [f"{where}: {trouble}" for trouble in passed_over]
        made[config.domain, config.name, operator] = config
    return tuple(made.values())


def _operator_policy(entry: Mapping[str, object]) -> DefinedPolicy | None:
    """Read a policy of the operator, which stands among the parameters; None if it cannot be read."""
    value = entry.get("value")
    if not isinstance(value, dict):
        return None
    named = {"name": entry.get("name"), "vhost": entry.get("vhost", _SLASH)}
    try:
        definition = dict(value.get("definition", {}))  # exports write it as pairs
        return msgspec.convert({**value, **named, "definition": definition}, DefinedPolicy)
    except (TypeError, ValueError):
        return None


def _policy(policy: DefinedPolicy, places: Mapping[str, str], *, operator: bool) -> tuple[PolicyConfig, list[str]]:
    """Return a policy with what of it can be had, and lines about the rest.

    Raises:
        ConfigError: Nothing of it can be had.
    """
    if policy.vhost not in places:
        raise ConfigError(f"vhost: found {policy.vhost!r}, but vhosts has {_listed(places)}")
    definition, troubles = split_definition(policy.definition)
    made = PolicyConfig(
        policy.name,
        policy.pattern,
        definition,
        policy.apply_to,  # type: ignore[arg-type]  # checked here
        policy.priority,
        places[policy.vhost],
        operator,
    )
    made.policy()
    return made, troubles


# Virtual hosts


def _types_of(found: Definitions, places: Mapping[str, str], troubles: list[str]) -> dict[str, DefaultQueueType]:
    types: dict[str, DefaultQueueType] = {}
    for host in found.vhosts:
        wanted = host.default_queue_type
        if wanted in (None, "", "undefined"):
            continue
        kind = _TYPES.get(str(wanted).removeprefix("rabbit_").removesuffix("_queue"))
        if kind is None:
            troubles.append(f"vhost {host.name!r}: default_queue_type {wanted!r} is not known here")
        else:
            types[places[host.name]] = kind
    return types


def _limits_of(found: Definitions, places: Mapping[str, str], troubles: list[str]) -> dict[str, DomainLimits]:
    """Read the limits of virtual hosts, and say which other parameters there are."""
    limits: dict[str, DomainLimits] = {}
    for entry in found.parameters:
        component, host, value = entry.get("component"), entry.get("vhost", _SLASH), entry.get("value")
        if component == OPERATOR_POLICY:
            continue
        if component != "vhost-limits" or not isinstance(value, dict) or host not in places:
            troubles.append(f"parameter {entry.get('name')!r} of {component!r} has no effect here")
            continue
        known = {}
        for name, number in value.items():
            option = LIMITS.get(name)
            if option is None or isinstance(number, bool) or not isinstance(number, int):
                troubles.append(f"vhost {host!r}: limit {name} = {number!r} is not known here")
            elif number >= 0:
                known[option] = number
        limits[places[str(host)]] = DomainLimits(**known)
    return limits


# Users


def _users_of(found: Definitions, places: Mapping[str, str], troubles: list[str]) -> dict[str, User]:
    users: dict[str, User] = {}
    for user in found.users:
        mine = [permission for permission in found.permissions if permission.user == user.name]
        try:
            users[user.name] = _user(user, mine, places, troubles)
        except ValueError as error:
            troubles.append(f"user {user.name!r} is passed over, and cannot log in: {error}")
    return users


def _user(
    user: DefinedUser, permissions: Iterable[DefinedPermission], places: Mapping[str, str], troubles: list[str]
) -> User:
    """Return one user.

    Raises:
        ValueError: Its hash is of an unknown kind, or its tags or limits mean nothing.
    """
    allowed = {}
    for permission in permissions:
        try:
            if permission.vhost not in places:
                raise ValueError(f"vhosts has {_listed(places)}")
            made = Permission(permission.configure, permission.write, permission.read)
        except ValueError as error:
            troubles.append(f"user {user.name!r}: the permission in vhost {permission.vhost!r} is passed over: {error}")
        else:
            allowed[places[permission.vhost]] = made
    tags = user.tags.split(",") if isinstance(user.tags, str) else user.tags
    limits = UserLimits(
        connections=_limit(user.limits.get("max-connections")), channels=_limit(user.limits.get("max-channels"))
    )
    return User(
        verifiers=_verifiers(user),
        certificate=not user.password_hash,
        permissions=allowed,
        tags=tuple(tag.strip() for tag in tags if tag.strip()),
        limits=limits,
    )


def _limit(number: int | None) -> int | Literal["unlimited"] | None:
    """Read a limit of RabbitMQ's, where any number below 0 is none; without it the default holds."""
    return "unlimited" if number is not None and number < 0 else number


def _verifiers(user: DefinedUser) -> tuple[str, ...]:
    if not user.password_hash:
        return ()
    kind = _HASHES.get(user.hashing_algorithm)
    if kind is None:
        raise ValueError(
            f"hashing_algorithm: found {user.hashing_algorithm!r}, allowed are {_listed(_HASHES)}; "
            "set the password anew with one of them"
        )
    text = f"{kind}${user.password_hash}"
    read_verifier(text)
    return (text,)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def knows_guest(users: Mapping[str, User]) -> bool:
    """Return whether there is an imported user guest with the default password."""
    guest = users.get("guest")
    return guest is not None and any(read_verifier(text).matches(b"guest") for text in guest.verifiers[:1])


async def declare_definitions(broker: Broker, found: Definitions, added: Additions) -> None:
    """Declare exchanges, queues and bindings; log those that cannot be declared, and what else is passed over.

    Args:
        broker: The broker.
        found: The definitions.
        added: What they add to the configuration.
    """
    places = {
        host: broker.context.domains[domain]
        for host, domain in added.domains.items()
        if domain in broker.context.domains
    }
    for trouble in added.troubles:
        _log.warning("definition passed over", extra={"fields": {"trouble": trouble}})
    troubles = await declare_all(found, places)
    for trouble in troubles:
        _log.warning("definition not imported", extra={"fields": {"trouble": trouble}})
    _log.info(
        "definitions declared",
        extra={
            "fields": {
                "exchanges": len(found.exchanges),
                "queues": len(found.queues),
                "bindings": len(found.bindings),
                "passed_over": len(added.troubles) + len(troubles),
            }
        },
    )
