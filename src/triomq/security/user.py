"""A user: how it is known, and what it may."""

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal

import msgspec

from triomq.checked import Checked
from triomq.security.permissions import ALL, ANY_DOMAIN, Permission
from triomq.security.verifiers import Verifier, read_verifier

ADMINISTRATOR = "administrator"
"""The tag of who may look into the whole broker, and whatever there will be that others may not."""

MONITORING = "monitoring"
"""The tag of who may look into the whole broker."""

UNLIMITED = "unlimited"
"""What stands for no limit."""

_Count = Annotated[int, msgspec.Meta(ge=0)] | Literal["unlimited"] | None


class UserLimits(Checked, frozen=True, forbid_unknown_fields=True, gc=False):
    """How much a user may have at once, in all domains together; ``"unlimited"`` is no limit, None is the default.

    The defaults are far above what well-behaved programs have, and low enough that a program in an endless loop, or
    somebody who means harm, takes some hundred megabytes and not all memory.

    Args:
        connections: Connections to all endpoints: 10,000.
        channels: Channels on all its connections: 50,000.
        queues: Queues that it has declared and that still exist, exclusive ones too: 100,000.
        sinks: Sinks (exchanges) that it has declared and that still exist: 10,000.
        bindings: Bindings that it has made and that still exist: 200,000.
    """

    connections: _Count = None
    channels: _Count = None
    queues: _Count = None
    sinks: _Count = None
    bindings: _Count = None

    def of(self, resource: str) -> int | None:
        """Return the limit of one of the fields; None if there is no limit."""
        found: int | str | None = getattr(self, resource)
        if found is None:
            return DEFAULT_LIMITS[resource]
        return found if isinstance(found, int) else None


DEFAULT_LIMITS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "connections": 10_000,  # some 90 MB
        "channels": 50_000,  # some 100 MB
        "queues": 100_000,  # some 150 MB; RabbitMQ is in trouble long before
        "sinks": 10_000,  # some 20 MB
        "bindings": 200_000,  # some 150 MB
    }
)
"""Limits of users for whom nothing else is said."""


class User(msgspec.Struct, frozen=True, kw_only=True):
    """Who may log in; made by whoever opens a broker, kept in ``Users``.

    Args:
        name: The name.
        password: The password, of a user whose password the program itself knows. It is kept by the process alone.
        verifiers: What is kept instead of a password, as texts: SCRAM's in PostgreSQL's form, or RabbitMQ's hash as
            ``RABBITMQ-SHA-256$`` and what its definitions call ``password_hash``. A user with neither logs in by
            certificate alone.
        permissions: What it may do, by domain; ``*`` stands for those that are not named. It cannot enter others.
        limits: How much it may have at once.
        expires: When it is a user no longer, in seconds since 1970.
        tags: RabbitMQ's words for what else it may; all are kept, ``administrator`` and ``monitoring`` mean something.

    Raises:
        ValueError: The name is empty, or a verifier is none.
    """

    name: str
    password: str | None = None
    verifiers: tuple[str, ...] = ()
    permissions: Mapping[str, Permission] = MappingProxyType({})
    limits: UserLimits = UserLimits()
    expires: float | None = None
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check what can be checked here."""
        for text in self.verifiers:
            read_verifier(text)

    def __repr__(self) -> str:
        """Keep secrets out of logs."""
        return f"User(name={self.name!r}, tags={self.tags!r}, permissions={dict(self.permissions)!r}, …)"

    @property
    def known_by(self) -> tuple[Verifier, ...]:
        """The verifiers, read."""
        return tuple(read_verifier(text) for text in self.verifiers)

    @property
    def may_monitor(self) -> bool:
        """Whether it may look into the whole broker."""
        return ADMINISTRATOR in self.tags or MONITORING in self.tags

    def has_expired(self) -> bool:
        """Tell whether its time is over, by the wall clock."""
        return self.expires is not None and self.expires <= time.time()

    def proves_alike(self, other: "User") -> bool:
        """Tell whether whoever could log in as one could as the other."""
        return (self.password, self.verifiers) == (other.password, other.verifiers)


def make_administrator(name: str, password: str | None = None, *, verifiers: tuple[str, ...] = ()) -> User:
    """Make a user with all rights in all domains."""
    return User(name=name, password=password, verifiers=verifiers, permissions={ANY_DOMAIN: ALL}, tags=(ADMINISTRATOR,))
