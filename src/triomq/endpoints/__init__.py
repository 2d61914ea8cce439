"""The listeners: each translates one protocol's events into calls of the core, and back."""

from triomq.endpoints.amqp.definitions import LIMITS, OPERATOR_POLICY, declare_all
from triomq.endpoints.amqp.endpoint import AMQP, AMQPEndpoint
from triomq.endpoints.amqp.policies import read_policy, split_definition
from triomq.endpoints.base.client import Client, CloseClient
from triomq.endpoints.base.context import BrokerContext, DomainAccess
from triomq.endpoints.base.domain_work import ClientEnded
from triomq.endpoints.base.endpoint import Endpoint, EndUsers, RenewCertificates, StopListening
from triomq.endpoints.base.endpoint_config import Codec, EndpointConfig, Hosts, SocketConfig
from triomq.endpoints.base.job_desk import DeadJob, FoundJob, JobDesk
from triomq.endpoints.base.listener import Listener
from triomq.endpoints.base.login import SASLLogin, check_password
from triomq.endpoints.base.statistics import ClientStatistics, Role, ScheduleStatistics, Work
from triomq.endpoints.base.stream_client import StreamClient
from triomq.endpoints.base.stream_listener import StreamListener
from triomq.endpoints.base.unfinished import Unfinished
from triomq.endpoints.base.unread import UnreadAccount
from triomq.endpoints.content import from_amqp, to_amqp
from triomq.endpoints.dmp.connection import DMP
from triomq.endpoints.emqp.config import EMQP
from triomq.endpoints.emqp.shared import shared_peers
from triomq.endpoints.federation.synchronise import PeerActor, PeerStatistics, Synchronise, peer_spec
from triomq.endpoints.micromsg.config import MicroMsg
from triomq.endpoints.mtl.config import MTL
from triomq.endpoints.registry import (
    DEFAULT_DIRECT,
    DEFAULT_ENDPOINTS,
    DEFAULT_TYPE,
    GROUP,
    EndpointTypes,
    decode_endpoint,
)
from triomq.endpoints.restms.config import RestMS
from triomq.endpoints.tap.config import Tap
from triomq.transports import TLS, WebSocket

__all__ = [
    "AMQP",
    "DEFAULT_DIRECT",
    "DEFAULT_ENDPOINTS",
    "DEFAULT_TYPE",
    "DMP",
    "EMQP",
    "GROUP",
    "LIMITS",
    "MTL",
    "OPERATOR_POLICY",
    "TLS",
    "AMQPEndpoint",
    "BrokerContext",
    "Client",
    "ClientEnded",
    "ClientStatistics",
    "CloseClient",
    "Codec",
    "DeadJob",
    "DomainAccess",
    "EndUsers",
    "Endpoint",
    "EndpointConfig",
    "EndpointTypes",
    "FoundJob",
    "Hosts",
    "JobDesk",
    "Listener",
    "MicroMsg",
    "PeerActor",
    "PeerStatistics",
    "RenewCertificates",
    "RestMS",
    "Role",
    "SASLLogin",
    "ScheduleStatistics",
    "SocketConfig",
    "StopListening",
    "StreamClient",
    "StreamListener",
    "Synchronise",
    "Tap",
    "Unfinished",
    "UnreadAccount",
    "WebSocket",
    "Work",
    "check_password",
    "declare_all",
    "decode_endpoint",
    "from_amqp",
    "peer_spec",
    "read_policy",
    "shared_peers",
    "split_definition",
    "to_amqp",
]
