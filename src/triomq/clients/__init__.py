"""Clients of brokers: ``open_amqp`` for programs on Trio, and some that block, for scripts, the shell and batch jobs.

Names are resolved on first use: an executor that reads a stream loads neither Trio nor TLS.
"""

from typing import TYPE_CHECKING

from triomq.lazy import lazy_names

if TYPE_CHECKING:
    from triomq.clients.amqp.channel import AMQPChannel as AMQPChannel
    from triomq.clients.amqp.channel import ChannelStatistics as ChannelStatistics
    from triomq.clients.amqp.connecting import Reconnect as Reconnect
    from triomq.clients.amqp.connection import AMQPConnection as AMQPConnection
    from triomq.clients.amqp.connection import ConnectionStatistics as ConnectionStatistics
    from triomq.clients.amqp.deliveries import Deliveries as Deliveries
    from triomq.clients.amqp.delivery import AMQPDelivery as AMQPDelivery
    from triomq.clients.amqp.delivery import Fetched as Fetched
    from triomq.clients.amqp.delivery import ReturnedMessage as ReturnedMessage
    from triomq.clients.amqp.opening import open_amqp as open_amqp
    from triomq.clients.amqp.peering import Peering as Peering
    from triomq.clients.amqp.peering import PeeringHandler as PeeringHandler
    from triomq.clients.amqp.peering import open_peering as open_peering
    from triomq.clients.amqp.pipeline import Pipeline as Pipeline
    from triomq.clients.amqp.topology_methods import DeclaredQueue as DeclaredQueue
    from triomq.clients.blocking import BlockingConnection as BlockingConnection
    from triomq.clients.blocking import BlockingPublisher as BlockingPublisher
    from triomq.clients.blocking import open_blocking as open_blocking
    from triomq.clients.dmp.feed import DMPFeed as DMPFeed
    from triomq.clients.dmp.feed import DMPMessage as DMPMessage
    from triomq.clients.dmp.feed import open_dmp_feed as open_dmp_feed
    from triomq.clients.dmp.sink import DMPSink as DMPSink
    from triomq.clients.dmp.sink import open_dmp_sink as open_dmp_sink
    from triomq.clients.emqp.connection import EMQPConnection as EMQPConnection
    from triomq.clients.emqp.connector import EMQPConnector as EMQPConnector
    from triomq.clients.emqp.connector import EMQPSocket as EMQPSocket
    from triomq.clients.emqp.connector import MemoryConnector as MemoryConnector
    from triomq.clients.emqp.following import EMQPReports as EMQPReports
    from triomq.clients.emqp.job import EMQPJob as EMQPJob
    from triomq.clients.emqp.opening import open_emqp as open_emqp
    from triomq.clients.emqp.opening import open_emqp_worker as open_emqp_worker
    from triomq.clients.emqp.request import EMQPReply as EMQPReply
    from triomq.clients.emqp.request import EMQPRequest as EMQPRequest
    from triomq.clients.emqp.request import NotAnswered as NotAnswered
    from triomq.clients.emqp.topics import EMQPSubscription as EMQPSubscription
    from triomq.clients.emqp.url import EMQPUrl as EMQPUrl
    from triomq.clients.emqp.url import parse_emqp_url as parse_emqp_url
    from triomq.clients.emqp.worker import EMQPWorker as EMQPWorker
    from triomq.clients.micromsg.connection import MicroMsgConnection as MicroMsgConnection
    from triomq.clients.micromsg.connection import MicroMsgConnectionStatistics as MicroMsgConnectionStatistics
    from triomq.clients.micromsg.delivery import MicroMsgDelivery as MicroMsgDelivery
    from triomq.clients.micromsg.opening import open_micromsg as open_micromsg
    from triomq.clients.micromsg.pipeline import MicroMsgPipeline as MicroMsgPipeline
    from triomq.clients.micromsg.subscription import MicroMsgSubscription as MicroMsgSubscription
    from triomq.clients.micromsg.url import MicroMsgUrl as MicroMsgUrl
    from triomq.clients.micromsg.url import parse_micromsg_url as parse_micromsg_url
    from triomq.clients.mtl.connection import MTLConnection as MTLConnection
    from triomq.clients.mtl.connection import MTLStatistics as MTLStatistics
    from triomq.clients.mtl.delivery import MTLDelivery as MTLDelivery
    from triomq.clients.mtl.opening import open_mtl as open_mtl
    from triomq.clients.mtl.reader import MTLReader as MTLReader
    from triomq.clients.mtl.url import MTLUrl as MTLUrl
    from triomq.clients.mtl.url import parse_mtl_url as parse_mtl_url
    from triomq.clients.mtl.writer import MTLPipeline as MTLPipeline
    from triomq.clients.mtl.writer import MTLWriter as MTLWriter
    from triomq.clients.restms.connection import RestMSConnection as RestMSConnection
    from triomq.clients.restms.delivery import RestMSDelivery as RestMSDelivery
    from triomq.clients.restms.feed import RestMSFeed as RestMSFeed
    from triomq.clients.restms.feed import RestMSMessage as RestMSMessage
    from triomq.clients.restms.opening import open_restms as open_restms
    from triomq.clients.restms.pipe import RestMSPipe as RestMSPipe
    from triomq.clients.restms.requests import RestMSStatistics as RestMSStatistics
    from triomq.clients.restms.url import RestMSUrl as RestMSUrl
    from triomq.clients.restms.url import parse_restms_url as parse_restms_url
    from triomq.clients.tap.connection import TapConnection as TapConnection
    from triomq.clients.tap.connection import open_tap as open_tap
    from triomq.clients.tap.url import TapUrl as TapUrl
    from triomq.clients.tap.url import parse_tap_url as parse_tap_url
    from triomq.clients.url import AMQPUrl as AMQPUrl
    from triomq.clients.url import parse_amqp_url as parse_amqp_url
    from triomq.protocols import BasicProperties as BasicProperties
    from triomq.protocols.micromsg import FilterCondition as FilterCondition
    from triomq.protocols.micromsg import HandshakeExtension as HandshakeExtension
    from triomq.protocols.tap import GroupPosition as GroupPosition
    from triomq.protocols.tap import PartitionBounds as PartitionBounds

# The module of each public name; __all__ below lists the same names for tools that read and do not run.
_MODULES = {
    "AMQPChannel": "triomq.clients.amqp.channel",
    "AMQPConnection": "triomq.clients.amqp.connection",
    "AMQPDelivery": "triomq.clients.amqp.delivery",
    "AMQPUrl": "triomq.clients.url",
    "BasicProperties": "triomq.protocols",
    "BlockingConnection": "triomq.clients.blocking",
    "BlockingPublisher": "triomq.clients.blocking",
    "ChannelStatistics": "triomq.clients.amqp.channel",
    "ConnectionStatistics": "triomq.clients.amqp.connection",
    "DMPFeed": "triomq.clients.dmp.feed",
    "DMPMessage": "triomq.clients.dmp.feed",
    "DMPSink": "triomq.clients.dmp.sink",
    "DeclaredQueue": "triomq.clients.amqp.topology_methods",
    "Deliveries": "triomq.clients.amqp.deliveries",
    "EMQPConnection": "triomq.clients.emqp.connection",
    "EMQPConnector": "triomq.clients.emqp.connector",
    "EMQPJob": "triomq.clients.emqp.job",
    "EMQPReply": "triomq.clients.emqp.request",
    "EMQPReports": "triomq.clients.emqp.following",
    "EMQPRequest": "triomq.clients.emqp.request",
    "EMQPSocket": "triomq.clients.emqp.connector",
    "EMQPSubscription": "triomq.clients.emqp.topics",
    "EMQPUrl": "triomq.clients.emqp.url",
    "EMQPWorker": "triomq.clients.emqp.worker",
    "Fetched": "triomq.clients.amqp.delivery",
    "FilterCondition": "triomq.protocols.micromsg",
    "GroupPosition": "triomq.protocols.tap",
    "HandshakeExtension": "triomq.protocols.micromsg",
    "MTLConnection": "triomq.clients.mtl.connection",
    "MTLDelivery": "triomq.clients.mtl.delivery",
    "MTLPipeline": "triomq.clients.mtl.writer",
    "MTLReader": "triomq.clients.mtl.reader",
    "MTLStatistics": "triomq.clients.mtl.connection",
    "MTLUrl": "triomq.clients.mtl.url",
    "MTLWriter": "triomq.clients.mtl.writer",
    "MemoryConnector": "triomq.clients.emqp.connector",
    "MicroMsgConnection": "triomq.clients.micromsg.connection",
    "MicroMsgConnectionStatistics": "triomq.clients.micromsg.connection",
    "MicroMsgDelivery": "triomq.clients.micromsg.delivery",
    "MicroMsgPipeline": "triomq.clients.micromsg.pipeline",
    "MicroMsgSubscription": "triomq.clients.micromsg.subscription",
    "MicroMsgUrl": "triomq.clients.micromsg.url",
    "NotAnswered": "triomq.clients.emqp.request",
    "PartitionBounds": "triomq.protocols.tap",
    "Peering": "triomq.clients.amqp.peering",
    "PeeringHandler": "triomq.clients.amqp.peering",
    "Pipeline": "triomq.clients.amqp.pipeline",
    "Reconnect": "triomq.clients.amqp.connecting",
    "RestMSConnection": "triomq.clients.restms.connection",
    "RestMSDelivery": "triomq.clients.restms.delivery",
    "RestMSFeed": "triomq.clients.restms.feed",
    "RestMSMessage": "triomq.clients.restms.feed",
    "RestMSPipe": "triomq.clients.restms.pipe",
    "RestMSStatistics": "triomq.clients.restms.requests",
    "RestMSUrl": "triomq.clients.restms.url",
    "ReturnedMessage": "triomq.clients.amqp.delivery",
    "TapConnection": "triomq.clients.tap.connection",
    "TapUrl": "triomq.clients.tap.url",
    "open_amqp": "triomq.clients.amqp.opening",
    "open_blocking": "triomq.clients.blocking",
    "open_dmp_feed": "triomq.clients.dmp.feed",
    "open_dmp_sink": "triomq.clients.dmp.sink",
    "open_emqp": "triomq.clients.emqp.opening",
    "open_emqp_worker": "triomq.clients.emqp.opening",
    "open_micromsg": "triomq.clients.micromsg.opening",
    "open_mtl": "triomq.clients.mtl.opening",
    "open_peering": "triomq.clients.amqp.peering",
    "open_restms": "triomq.clients.restms.opening",
    "open_tap": "triomq.clients.tap.connection",
    "parse_amqp_url": "triomq.clients.url",
    "parse_emqp_url": "triomq.clients.emqp.url",
    "parse_micromsg_url": "triomq.clients.micromsg.url",
    "parse_mtl_url": "triomq.clients.mtl.url",
    "parse_restms_url": "triomq.clients.restms.url",
    "parse_tap_url": "triomq.clients.tap.url",
}

__all__ = [
    # The client for Trio
    "AMQPChannel",
    "AMQPConnection",
    "AMQPDelivery",
    # Where
    "AMQPUrl",
    "BasicProperties",
    # The blocking client
    "BlockingConnection",
    "BlockingPublisher",
    "ChannelStatistics",
    "ConnectionStatistics",
    # Direct connections
    "DMPFeed",
    "DMPMessage",
    "DMPSink",
    "DeclaredQueue",
    "Deliveries",
    # eMQP
    "EMQPConnection",
    "EMQPConnector",
    "EMQPJob",
    "EMQPReply",
    "EMQPReports",
    "EMQPRequest",
    "EMQPSocket",
    "EMQPSubscription",
    "EMQPUrl",
    "EMQPWorker",
    "Fetched",
    "FilterCondition",
    "GroupPosition",
    "HandshakeExtension",
    # MTL
    "MTLConnection",
    "MTLDelivery",
    "MTLPipeline",
    "MTLReader",
    "MTLStatistics",
    "MTLUrl",
    "MTLWriter",
    "MemoryConnector",
    # MicroMsg2
    "MicroMsgConnection",
    "MicroMsgConnectionStatistics",
    "MicroMsgDelivery",
    "MicroMsgPipeline",
    "MicroMsgSubscription",
    "MicroMsgUrl",
    "NotAnswered",
    "PartitionBounds",
    # For brokers among themselves
    "Peering",
    "PeeringHandler",
    "Pipeline",
    "Reconnect",
    # RestMS
    "RestMSConnection",
    "RestMSDelivery",
    "RestMSFeed",
    "RestMSMessage",
    "RestMSPipe",
    "RestMSStatistics",
    "RestMSUrl",
    "ReturnedMessage",
    # Streams by ranges
    "TapConnection",
    "TapUrl",
    "open_amqp",
    "open_blocking",
    "open_dmp_feed",
    "open_dmp_sink",
    "open_emqp",
    "open_emqp_worker",
    "open_micromsg",
    "open_mtl",
    "open_peering",
    "open_restms",
    "open_tap",
    "parse_amqp_url",
    "parse_emqp_url",
    "parse_micromsg_url",
    "parse_mtl_url",
    "parse_restms_url",
    "parse_tap_url",
]

__getattr__ = lazy_names(__name__, _MODULES, __all__)


def __dir__() -> list[str]:
    """List the public names, resolved or not."""
    return sorted(__all__)
