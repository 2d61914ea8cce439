"""Logging in to a control session: which mechanisms there are, and what their steps become in MTL.

The steps, slow passwords and the counting of guesses are the base's (``endpoints.base.login``).
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from triomq.endpoints.base.login import SASLLogin
from triomq.endpoints.mtl.admission import ConnectionName
from triomq.endpoints.mtl.config import MTL
from triomq.security import SCRAM_HASHES, Accepted, Denied, External, MakeMechanism, Plain, Scram, Step, Users
from triomq.transports import is_loopback

if TYPE_CHECKING:
    from triomq.endpoints.mtl.control_peer import MTLControlPeer

PLAIN: Final = "PLAIN"
EXTERNAL: Final = "EXTERNAL"
ANONYMOUS: Final = "ANONYMOUS"


class Anonymous:
    """ANONYMOUS (RFC 4505): everybody is the same user; what a client says of itself makes no difference.

    Args:
        users: The users of the broker.
        name: That user.
    """

    def __init__(self, users: Users, name: str) -> None:
        self._known = users.get(name) is not None
        self._name = name

    def first(self, response: bytes) -> Step:
        """Let the client in."""
        return Accepted(self._name) if self._known else Denied(self._name)

    def next(self, response: bytes) -> Step:
        """Deny: there was no challenge."""
        return Denied(self._name)


def mechanisms_for(config: MTL, name: ConnectionName) -> dict[str, MakeMechanism]:
    """Return how the client of a connection may log in, best first.

    A password goes over no network that can be read: PLAIN is for CURVE, and for clients on this machine. EXTERNAL is
    for those whom ZeroMQ knows already.
    """
    found: dict[str, MakeMechanism] = {}
    for mechanism in config.mechanisms:
        if mechanism in SCRAM_HASHES:
            found[mechanism] = partial(Scram, name=mechanism)
        elif mechanism == EXTERNAL and name.user:
            found[EXTERNAL] = partial(External, name=name.user)
        elif mechanism == PLAIN and (config.security == "curve" or is_loopback(name.address)):
            found[PLAIN] = Plain
    if config.anonymous:
        found[ANONYMOUS] = partial(Anonymous, name=config.anonymous)
    return found


class MTLLogin(SASLLogin["MTLControlPeer"]):
    """The log-in of one control session; made with its first Connection.Authorize, ends with the next answer."""

    __slots__ = ()

    def challenged(self, client: "MTLControlPeer", challenge: bytes) -> None:
        """Answer 402."""
        client.engine.challenge(challenge)

    def accepted(self, client: "MTLControlPeer", user: str) -> None:
        """Enter the virtual host, and answer 201; or refuse, if the user may not be there."""
        client.logged_in(user)

    def denied(self, client: "MTLControlPeer") -> None:
        """Answer 401, soon: who guesses waits longer with each time."""
        client.log_in_failed()


def make_login(client: "MTLControlPeer", mechanisms: Mapping[str, MakeMechanism]) -> MTLLogin:
    """Make the log-in of a client."""
    return MTLLogin(client.context, client.connection.address, mechanisms)
