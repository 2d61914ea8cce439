"""What users import: the broker, its handles, the endpoints' configuration, the command line."""

from triomq.app.broker import Broker, open_broker
from triomq.app.cli import main
from triomq.app.consumers import Consumers
from triomq.app.delivery import Delivery
from triomq.app.domain_handle import DomainHandle
from triomq.app.feed import LocalFeed
from triomq.app.handles import QueueHandle, SinkHandle
from triomq.app.listening import Listening
from triomq.app.serve import serve
from triomq.core import Properties
from triomq.endpoints import AMQP

__all__ = [
    "AMQP",
    "Broker",
    "Consumers",
    "Delivery",
    "DomainHandle",
    "Listening",
    "LocalFeed",
    "Properties",
    "QueueHandle",
    "SinkHandle",
    "main",
    "open_broker",
    "serve",
]
