"""Logging in: tap's own words, and the domain that a client wants to work in.

The steps, slow passwords and the counting of guesses are the base's (``endpoints.base.login``).
"""

import logging
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.login import SASLLogin
from triomq.errors import Refused
from triomq.protocols.tap import ChallengeAnswered, LoginRequested
from triomq.security import SCRAM_HASHES, MakeMechanism, Plain, Scram

if TYPE_CHECKING:
    from triomq.endpoints.tap.connection import TapServerConnection

SECRET_MECHANISMS: Final[Mapping[str, MakeMechanism]] = MappingProxyType(
    {name: partial(Scram, name=name) for name in SCRAM_HASHES}
)
"""The SASL mechanisms by which a password never goes over the wire, best first."""

MECHANISMS: Final[Mapping[str, MakeMechanism]] = MappingProxyType({**SECRET_MECHANISMS, "PLAIN": Plain})
"""All that are offered over any transport."""


class TapLogin(SASLLogin["TapServerConnection"]):
    """The log-in of one connection; made by the connection, ends with it.

    Args:
        context: What the broker lends.
        peer: Where the client comes from.
        mechanisms: How one may log in.
        domain: Where clients work that name no domain.
    """

    __slots__ = ("domain",)

    def __init__(self, context: BrokerContext, peer: str, mechanisms: Mapping[str, MakeMechanism], domain: str) -> None:
        super().__init__(context, peer, mechanisms)
        self.domain = domain

    def challenged(self, client: "TapServerConnection", challenge: bytes) -> None:
        """Send CHALLENGE."""
        client.engine.challenge(challenge)

    def accepted(self, client: "TapServerConnection", user: str) -> None:
        """Enter the domain, and send WELCOME; or CLOSE, if the user may not be there."""
        try:
            client.enter(user, self.domain)
        except Refused as refused:
            client.note(logging.WARNING, "connection refused", reason=str(refused))
            client.close("DENIED", str(refused))
        else:
            client.engine.welcome()
            client.note(client.log_level, "connection opened")
            client.ref.touch()

    def denied(self, client: "TapServerConnection") -> None:
        """Send CLOSE; which of name and password was wrong is nobody's business."""
        client.close("DENIED", f"log-in by {self.mechanism_name!r} is refused; the log of the broker says more")


def login_requested(connection: "TapServerConnection", event: LoginRequested) -> None:
    """Begin a log-in."""
    connection.login.domain = event.domain or connection.login.domain
    connection.login.first(connection, event.mechanism, event.response)


def challenge_answered(connection: "TapServerConnection", event: ChallengeAnswered) -> None:
    """Continue a log-in."""
    connection.login.next(connection, event.response)
