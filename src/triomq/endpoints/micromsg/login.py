"""Who a client is: by its certificate, by ``x-sasl``, or the one user that is configured for all others.

The steps of SASL, slow passwords and the counting of guesses are the base's (``endpoints.base.login``).
"""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from triomq.endpoints.base.login import SASLLogin
from triomq.protocols.micromsg import HandshakeCompleted, SASLResponded, SASLStarted
from triomq.security import SCRAM_HASHES, MakeMechanism, Plain, Scram

if TYPE_CHECKING:
    from triomq.endpoints.micromsg.connection import MicroMsgServerConnection

SECRET_MECHANISMS: Final[Mapping[str, MakeMechanism]] = MappingProxyType(
    {name: partial(Scram, name=name) for name in SCRAM_HASHES}
)
"""The SASL mechanisms by which a password never goes over the wire, best first."""

MECHANISMS: Final[Mapping[str, MakeMechanism]] = MappingProxyType({**SECRET_MECHANISMS, "PLAIN": Plain})
"""All that are offered over any transport."""

EXTERNAL: Final = "EXTERNAL"

SASL: Final = "x-sasl"
"""The extension."""


class MicroMsgLogin(SASLLogin["MicroMsgServerConnection"]):
    """The log-in of one connection; made by the connection, ends with it."""

    __slots__ = ()

    def challenged(self, client: "MicroMsgServerConnection", challenge: bytes) -> None:
        """Send the challenge."""
        client.engine.challenge(challenge)
        client.ref.touch()

    def accepted(self, client: "MicroMsgServerConnection", user: str) -> None:
        """Let the client in."""
        if client.engine.speaks(SASL):
            client.engine.welcome()
        client.let_in(user, is_known=True)

    def denied(self, client: "MicroMsgServerConnection") -> None:
        """End; which of name and password was wrong is nobody's business."""
        client.fail(401, f"log-in by {self.mechanism_name!r} is refused; the log of the broker says more")


def handshake_completed(connection: "MicroMsgServerConnection", event: HandshakeCompleted) -> None:
    """Let the client in, if it need not log in or has shown a certificate."""
    if connection.engine.speaks(SASL):
        return  # it goes on with that
    if connection.has_certificate:
        connection.login.first(connection, EXTERNAL, b"")
    elif connection.config.user:
        connection.let_in(connection.config.user, is_known=False)
    else:
        connection.fail(401, "nobody is let in here without a log-in; show a certificate, or agree to x-sasl")


def sasl_started(connection: "MicroMsgServerConnection", event: SASLStarted) -> None:
    """Begin a log-in."""
    connection.login.first(connection, event.mechanism, event.response)


def sasl_responded(connection: "MicroMsgServerConnection", event: SASLResponded) -> None:
    """Continue a log-in."""
    connection.login.next(connection, event.response)
