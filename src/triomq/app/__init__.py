"""The broker as programs use it: opening one, its handles, the configuration of its endpoints."""

from triomq.app.broker import Broker
from triomq.app.config import Config, Log, load_config
from triomq.app.consumers import Consumers
from triomq.app.delivery import Browsed, Delivery
from triomq.app.domain_handle import DomainHandle
from triomq.app.feed import LocalFeed
from triomq.app.handles import QueueHandle, SinkHandle
from triomq.app.listening import Listening
from triomq.app.logs import JSONLines, TextLines, set_up_logging
from triomq.app.peers import Peer
from triomq.app.policies import PolicyConfig
from triomq.app.serve import run, serve
from triomq.app.start import open_broker
from triomq.app.streams import Record, StreamHandle, StreamReader
from triomq.app.users import User
from triomq.core import AppliesTo, Comparison, Condition, Policy, PolicyOptions, Properties, make_predicate
from triomq.endpoints import (
    AMQP,
    EMQP,
    MTL,
    TLS,
    MicroMsg,
    PeerStatistics,
    RestMS,
    Synchronise,
    Tap,
    WebSocket,
)
from triomq.security import Permission, UserLimits
from triomq.tracelog import Trace

__all__ = [
    "AMQP",
    "EMQP",
    "MTL",
    "TLS",
    "AppliesTo",
    "Broker",
    "Browsed",
    "Comparison",
    "Condition",
    "Config",
    "Consumers",
    "Delivery",
    "DomainHandle",
    "JSONLines",
    "Listening",
    "LocalFeed",
    "Log",
    "MicroMsg",
    "Peer",
    "PeerStatistics",
    "Permission",
    "Policy",
    "PolicyConfig",
    "PolicyOptions",
    "Properties",
    "QueueHandle",
    "Record",
    "RestMS",
    "SinkHandle",
    "StreamHandle",
    "StreamReader",
    "Synchronise",
    "Tap",
    "TextLines",
    "Trace",
    "User",
    "UserLimits",
    "WebSocket",
    "load_config",
    "make_predicate",
    "open_broker",
    "run",
    "serve",
    "set_up_logging",
]
