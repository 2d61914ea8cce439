"""The listeners: each translates one protocol's events into calls of the core, and back."""

from triomq.endpoints.amqp import AMQP, AMQPEndpoint
from triomq.endpoints.amqp_definitions import declare_all
from triomq.endpoints.amqp_names import STANDARD_EXCHANGES
from triomq.endpoints.amqp_policies import read_policy
from triomq.endpoints.base import Endpoint, EndpointConfig, EndUsers, RenewCertificates, StopListening
from triomq.endpoints.content import AMQP_CODEC, amend_amqp, from_amqp, to_amqp
from triomq.endpoints.dmp import DMP
from triomq.endpoints.house import DomainAccess, House
from triomq.endpoints.synchronise import PeerActor, PeerStatistics, Synchronise, peer_spec
from triomq.endpoints.unfinished import Unfinished
from triomq.transports import TLS

__all__ = [
    "AMQP",
    "AMQP_CODEC",
    "DMP",
    "STANDARD_EXCHANGES",
    "TLS",
    "AMQPEndpoint",
    "DomainAccess",
    "EndUsers",
    "Endpoint",
    "EndpointConfig",
    "House",
    "PeerActor",
    "PeerStatistics",
    "RenewCertificates",
    "StopListening",
    "Synchronise",
    "Unfinished",
    "amend_amqp",
    "declare_all",
    "from_amqp",
    "peer_spec",
    "read_policy",
    "to_amqp",
]
