"""The listeners: each translates one protocol's events into calls of the core, and back."""

from triomq.endpoints.amqp import AMQP, AMQPEndpoint
from triomq.endpoints.amqp_properties import AMQP_CODEC, amend_amqp, from_amqp, to_amqp
from triomq.endpoints.base import Endpoint, EndpointConfig, EndUsers, StopListening
from triomq.endpoints.house import DomainAccess, House

__all__ = [
    "AMQP",
    "AMQP_CODEC",
    "AMQPEndpoint",
    "DomainAccess",
    "EndUsers",
    "Endpoint",
    "EndpointConfig",
    "House",
    "StopListening",
    "amend_amqp",
    "from_amqp",
    "to_amqp",
]
