"""Logging in: who a client of an AMQP connection is, and what it can bear."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from triomq.protocols import FieldValue, decode_table
from triomq.protocols.amqp import ChallengeAnswered, LoginRequested
from triomq.security import AMQPlain, Denied, MakeMechanism, Mechanism, Plain, Step, Users

__all__ = ["MECHANISMS", "LogIn"]


def _decode_bare(table: bytes) -> Mapping[str, FieldValue]:
    """Decode a field table that comes without its length."""
    return decode_table(len(table).to_bytes(4, "big") + table)


MECHANISMS: Final[Mapping[str, MakeMechanism]] = MappingProxyType(
    {"PLAIN": Plain, "AMQPLAIN": lambda users: AMQPlain(users, _decode_bare)}
)
"""The SASL mechanisms that are offered, best first."""


class LogIn:
    """The log-in of one connection, and what the client has said of itself; made by the connection, ends with it.

    Args:
        users: Who may log in.
        mechanisms: How.
    """

    __slots__ = ("_capabilities", "_mechanism", "_mechanisms", "_users", "mechanism_name")

    def __init__(self, users: Users, mechanisms: Mapping[str, MakeMechanism]) -> None:
        """Start with nobody."""
        self.mechanism_name = ""
        self._users = users
        self._mechanisms = mechanisms
        self._mechanism: Mechanism | None = None
        self._capabilities: dict[str, object] = {}

    def first(self, event: LoginRequested) -> Step:
        """Begin with the mechanism that the client has chosen, and judge what it says first."""
        capabilities = event.client_properties.get("capabilities")
        self._capabilities = dict(capabilities) if isinstance(capabilities, dict) else {}
        self.mechanism_name = event.mechanism
        make = self._mechanisms.get(event.mechanism)
        if make is None:
            return Denied("")
        self._mechanism = make(self._users)
        return self._mechanism.first(event.response)

    def next(self, event: ChallengeAnswered) -> Step:
        """Judge the answer to a challenge."""
        assert self._mechanism is not None  # it made the challenge
        return self._mechanism.next(event.response)

    def client_can(self, capability: str) -> bool:
        """Tell whether the client says that it knows an extension of RabbitMQ's."""
        return bool(self._capabilities.get(capability))
