"""What endpoints share: the things of a broker that they need, and how they are made."""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from triomq.actors import DynamicSupervisor, Ref
from triomq.core import Codecs, Directory
from triomq.security import Users

__all__ = ["DomainAccess", "EndpointConfig", "House"]


class DomainAccess(msgspec.Struct, frozen=True):
    """One domain, as an endpoint sees it: the actor to ask, and the directory to read."""

    ref: Ref
    directory: Directory


class House(msgspec.Struct, frozen=True):
    """What a broker lends to its endpoints.

    Args:
        domains: The domains by name.
        users: Who may log in.
        codecs: How properties from each wire are decoded.
    """

    domains: Mapping[str, DomainAccess]
    users: Users
    codecs: Codecs


class EndpointConfig(Protocol):
    """The configuration of one listener; each protocol has a frozen Struct of its own."""

    @property
    def name(self) -> str:
        """The endpoint's name in the tree of actors."""

    def bound_to(self, port: int) -> "EndpointConfig":
        """Give the same configuration with the port that was found, for the next incarnation."""

    def make(self, house: House) -> DynamicSupervisor:
        """Make the actor that listens."""
