"""A user: how it logs in, its permissions, its limits."""

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal

import msgspec

from triomq.checked import Checked
from triomq.security.permissions import ALL, ANY_DOMAIN, Permission
from triomq.security.verifiers import Verifier, read_verifier

ADMINISTRATOR = "administrator"
"""The tag of users that may inspect the whole broker, and do all that is reserved for administrators."""

MONITORING = "monitoring"
"""The tag of users that may inspect the whole broker."""

UNLIMITED = "unlimited"
"""The value of a limit that means no limit."""

_Count = Annotated[int, msgspec.Meta(ge=0)] | Literal["unlimited"] | None


class UserLimits(Checked, frozen=True, forbid_unknown_fields=True, gc=False):
    """How much a user may have at once, in all domains together; ``"unlimited"`` is no limit, None is the default.

    The defaults are far above what well-behaved programs have, and low enough that a program in an endless loop, or an
    attacker, takes some hundred megabytes and not all memory.

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
"""Limits of users without limits of their own."""


class UserRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One user; created by the owner of a broker, stored in ``Users``.

    Args:
        name: The name.
        password: The password, if the program itself knows it. It is in the memory of the process alone.
        verifiers: Stored instead of a password, as texts: SCRAM's in PostgreSQL's form, or RabbitMQ's hash as
            ``RABBITMQ-SHA-256$`` and what its definitions call ``password_hash``. A user with neither logs in by
            certificate, or by its key, alone.
        curve_key: The public key that it owns, for log-ins over ZeroMQ (CURVE); 40 characters (Z85), empty for none.
        permissions: By domain; ``*`` stands for those that are not named. It cannot enter others.
        limits: How much it may have at once.
        expires: When it expires, in seconds since 1970.
        tags: RabbitMQ's tags; any are accepted, ``administrator`` and ``monitoring`` have a meaning.

    Raises:
        ValueError: The name is empty, or a verifier is none.
    """

    name: str
    password: str | None = None
    verifiers: tuple[str, ...] = ()
    curve_key: str = ""
    permissions: Mapping[str, Permission] = MappingProxyType({})
    limits: UserLimits = UserLimits()
    expires: float | None = None
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the verifiers."""
        for text in self.verifiers:
            read_verifier(text)

    def __repr__(self) -> str:
        """Hide secrets from logs."""
        return f"UserRecord(name={self.name!r}, tags={self.tags!r}, permissions={dict(self.permissions)!r}, …)"

    @property
    def known_by(self) -> tuple[Verifier, ...]:
        """The verifiers, parsed."""
        return tuple(read_verifier(text) for text in self.verifiers)

    @property
    def is_administrator(self) -> bool:
        """Whether it may stop parts of the broker."""
        return ADMINISTRATOR in self.tags

    @property
    def may_monitor(self) -> bool:
        """Whether it may inspect the whole broker."""
        return ADMINISTRATOR in self.tags or MONITORING in self.tags

    def has_expired(self) -> bool:
        """Return whether it has expired, by the wall clock."""
        return self.expires is not None and self.expires <= time.time()

    def proves_alike(self, other: "UserRecord") -> bool:
        """Return whether the same secrets log in as this user and as the other."""
        mine = (self.password, self.verifiers, self.curve_key)
        return mine == (other.password, other.verifiers, other.curve_key)


def make_administrator(name: str, password: str | None = None, *, verifiers: tuple[str, ...] = ()) -> UserRecord:
    """Return a user with all permissions in all domains."""
    return UserRecord(
        name=name, password=password, verifiers=verifiers, permissions={ANY_DOMAIN: ALL}, tags=(ADMINISTRATOR,)
    )
