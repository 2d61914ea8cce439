"""What sessions and flows of MTL have in common: a connection with a name, and an endpoint."""

import logging
from math import inf
from typing import TYPE_CHECKING, ClassVar

from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.peer_listener import PeerListener
from triomq.endpoints.base.router_client import RouterClient
from triomq.endpoints.mtl.admission import ConnectionName
from triomq.protocols.mtl import FAULT_REASONS, IllFormed

if TYPE_CHECKING:
    from triomq.endpoints.mtl.endpoint import MTLEndpoint


class MTLPeer(RouterClient):
    """Base of both.

    Args:
        listener: What carries its messages.
        identity: Of its connection.
        login: What the connection is called (``ConnectionName``).
        context: What the broker lends.
        hub: The endpoint.
    """

    tag = "mtl"
    log_level: ClassVar[int] = logging.DEBUG  # of a REQ for each question there are many
    silence = inf  # sessions and flows look after that by rules of their own

    def __init__(
        self, listener: PeerListener, identity: bytes, login: str, context: BrokerContext, hub: "MTLEndpoint"
    ) -> None:
        super().__init__(listener, identity, login, context)
        self.hub = hub
        self.connection = ConnectionName.read(login)

    def drop(self, fault: IllFormed) -> None:
        """Count a message that is ill-formed, and answer nothing."""
        self.hub.count(fault.reason, FAULT_REASONS[fault.reason])
