"""Definitions from RabbitMQ in a configuration: what they add to it, and what they declare when the broker opens.

Users, permissions, virtual hosts and policies become part of the configuration, whose own settings go before them;
exchanges, queues and bindings are declared. So a reload reads all of it again.
"""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from triomq.app.broker import Broker
from triomq.app.policies import PolicyConfig
from triomq.app.users import User
from triomq.endpoints import declare_all
from triomq.errors import ConfigError, RemoteProtocolError
from triomq.protocols.control import DefinedPermission, DefinedUser, Definitions, read_definitions
from triomq.security import ANY_DOMAIN, Permission, UserLimits, read_verifier

_log = logging.getLogger("triomq.app")

_HASHES = {
    "rabbit_password_hashing_sha256": "RABBITMQ-SHA-256",
    "rabbit_password_hashing_sha512": "RABBITMQ-SHA-512",
}

_SLASH = "/"
"""The virtual host that every RabbitMQ has; here it is the first domain."""


class Additions(msgspec.Struct, frozen=True):
    """What definitions add to a configuration.

    Args:
        domains: The domain that each virtual host is.
        users: Who may log in, by name.
        policies: Policies.
    """

    domains: Mapping[str, str]
    users: Mapping[str, User]
    policies: tuple[PolicyConfig, ...]


def load_definitions(path: Path) -> Definitions:
    """Read a file of definitions.

    Raises:
        ConfigError: It cannot be read, is no such file, or has permissions that triomq cannot enforce.
    """
    try:
        found = read_definitions(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot read the definitions in {path}: {error.strerror}") from None
    except RemoteProtocolError as error:
        raise ConfigError(f"{path}: {error}; `rabbitmqctl export_definitions FILE` writes them") from None
    if found.topic_permissions:
        users = ", ".join(sorted({str(permission.get("user")) for permission in found.topic_permissions}))
        raise ConfigError(
            f"{path}: topic_permissions narrow what {users} may publish to topic exchanges, which triomq cannot do; "
            "remove them if these users may use all routing keys"
        )
    return found


def additions_of(found: Definitions, path: Path, domains: Iterable[str], virtual_hosts: Mapping[str, str]) -> Additions:
    """Return what definitions add to a configuration.

    Args:
        found: The definitions.
        path: The file, for errors.
        domains: The configured domains; the first is that of the virtual host ``/``.
        virtual_hosts: The domain of each virtual host that is configured.

    Raises:
        ConfigError: A user, a permission or a policy is wrong.
    """
    places = {_SLASH: next(iter(domains)), **virtual_hosts}
    for host in found.vhosts:
        places.setdefault(host.name, host.name)
    if ANY_DOMAIN in places.values():
        raise ConfigError(f"{path}: a virtual host {ANY_DOMAIN!r} would be taken for all of them; rename it")
    policies = []
    for number, policy in enumerate(found.policies):
        where = f"{path}: policies[{number}]"
        if policy.vhost not in places:
            raise ConfigError(f"{where}.vhost: found {policy.vhost!r}, but vhosts has {_listed(places)}")
        try:
            made = PolicyConfig(
                policy.name,
                policy.pattern,
                policy.definition,
                policy.apply_to,  # type: ignore[arg-type]  # checked here
                policy.priority,
                places[policy.vhost],
            )
            made.policy()
        except ConfigError as error:
            raise ConfigError(f"{where}.{error}") from None
        policies.append(made)
    needed = {host.name for host in found.vhosts} | {_SLASH} | set(virtual_hosts)
    used = {host: domain for host, domain in places.items() if host in needed}
    return Additions(used, users_of(found, places, path), tuple(policies))


def users_of(found: Definitions, places: Mapping[str, str], path: Path) -> dict[str, User]:
    """Return the users of definitions.

    Args:
        found: The definitions.
        places: The domain of each virtual host.
        path: The file, for errors.

    Raises:
        ConfigError: A user or a permission is wrong.
    """
    users: dict[str, User] = {}
    for number, user in enumerate(found.users):
        mine = [permission for permission in found.permissions if permission.user == user.name]
        try:
            users[user.name] = _user(user, mine, places)
        except ValueError as error:
            raise ConfigError(f"{path}: users[{number}] ({user.name!r}): {error}") from None
    return users


def _user(user: DefinedUser, permissions: Iterable[DefinedPermission], places: Mapping[str, str]) -> User:
    """Return one user.

    Raises:
        ValueError: Its hash is of an unknown kind, a pattern is no regular expression, or a virtual host is unknown.
    """
    allowed = {}
    for permission in permissions:
        if permission.vhost not in places:
            raise ValueError(f"found a permission in vhost {permission.vhost!r}, but vhosts has {_listed(places)}")
        allowed[places[permission.vhost]] = Permission(permission.configure, permission.write, permission.read)
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


async def declare_definitions(broker: Broker, found: Definitions, domains: Mapping[str, str]) -> None:
    """Declare exchanges, queues and bindings, and log those that cannot be declared, and what is ignored.

    Args:
        broker: The broker.
        found: The definitions.
        domains: The domain of each virtual host.
    """
    places = {
        host: broker.context.domains[domain] for host, domain in domains.items() if domain in broker.context.domains
    }
    for trouble in await declare_all(found, places):
        _log.warning("definition not imported", extra={"fields": {"trouble": trouble}})
    ignored = sorted({str(entry.get("component")) for entry in found.parameters})
    if ignored:
        _log.warning(
            "definitions have parameters, which mean nothing here", extra={"fields": {"components": ", ".join(ignored)}}
        )
    _log.info(
        "definitions declared",
        extra={
            "fields": {
                "exchanges": len(found.exchanges),
                "queues": len(found.queues),
                "bindings": len(found.bindings),
            }
        },
    )
