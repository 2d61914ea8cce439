"""What all eMQP endpoints of one domain have in common, and what outlives them: one place in memory, one list of peers.

A domain may have several: one with a socket and passwords, one with keys, one without any socket. A client of the one
gets its answers from a worker of the other, so each has to find the peers of all.
"""

from typing import TYPE_CHECKING

from triomq.endpoints.base.context import BrokerContext
from triomq.transports import MemoryAddress

if TYPE_CHECKING:
    from triomq.endpoints.emqp.peer import EMQPPeer


class SharedPeers:
    """The peers of a domain; made when the first one asks for it, lasts as long as the broker."""

    def __init__(self) -> None:
        self.address = MemoryAddress()
        """Where code of this program finds one of the endpoints."""
        self.peers: dict[bytes, EMQPPeer] = {}
        """Those that work in the domain, by identity."""


def shared_peers(context: BrokerContext, domain: str) -> SharedPeers:
    """Return what the eMQP endpoints of a domain share."""
    name = f"eMQP peers of {domain}"
    found = context.lasting.get(name)
    if found is None:
        found = context.lasting[name] = SharedPeers()
    assert isinstance(found, SharedPeers)
    return found
