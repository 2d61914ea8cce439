"""What a broker lends to its endpoints."""

from collections.abc import Mapping

import msgspec
import trio

from triomq.actors import Ref
from triomq.core import Codecs, Directory
from triomq.security import Users

__all__ = ["DomainAccess", "House"]


class DomainAccess(msgspec.Struct, frozen=True):
    """One domain, as an endpoint sees it: the actor to ask, and the directory to read."""

    ref: Ref
    directory: Directory


class House(msgspec.Struct, frozen=True):
    """What a broker lends to its endpoints.

    Args:
        domains: The domains by name; new ones may come.
        users: Who may log in.
        codecs: How properties from each wire are decoded.
        opened: When the broker was opened, on Trio's clock.
    """

    domains: Mapping[str, DomainAccess]
    users: Users
    codecs: Codecs
    opened: float = msgspec.field(default_factory=trio.current_time)
