"""Clients of brokers: ``open_amqp`` for programs on Trio, and one that blocks, for scripts and the shell."""

from triomq.clients.amqp.channel import AMQPChannel, ChannelStatistics
from triomq.clients.amqp.connecting import Reconnect
from triomq.clients.amqp.connection import AMQPConnection, ConnectionStatistics
from triomq.clients.amqp.deliveries import Deliveries
from triomq.clients.amqp.delivery import AMQPDelivery, Fetched, ReturnedMessage
from triomq.clients.amqp.opening import open_amqp
from triomq.clients.amqp.peering import Peering, PeeringHandler, open_peering
from triomq.clients.amqp.pipeline import Pipeline
from triomq.clients.amqp.topology_methods import DeclaredQueue
from triomq.clients.blocking import BlockingConnection, BlockingPublisher, open_blocking
from triomq.clients.dmp.feed import DMPFeed, DMPMessage, open_dmp_feed
from triomq.clients.dmp.sink import DMPSink, open_dmp_sink
from triomq.clients.emqp.connection import EMQPConnection
from triomq.clients.emqp.connector import EMQPConnector, EMQPSocket, MemoryConnector
from triomq.clients.emqp.following import EMQPReports
from triomq.clients.emqp.job import EMQPJob
from triomq.clients.emqp.opening import open_emqp, open_emqp_worker
from triomq.clients.emqp.request import EMQPReply, EMQPRequest, NotAnswered
from triomq.clients.emqp.topics import EMQPSubscription
from triomq.clients.emqp.url import EMQPUrl, parse_emqp_url
from triomq.clients.emqp.worker import EMQPWorker
from triomq.clients.url import AMQPUrl, parse_amqp_url
from triomq.protocols import BasicProperties

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
    "MemoryConnector",
    "NotAnswered",
    # For brokers among themselves
    "Peering",
    "PeeringHandler",
    "Pipeline",
    "Reconnect",
    "ReturnedMessage",
    "open_amqp",
    "open_blocking",
    "open_dmp_feed",
    "open_dmp_sink",
    "open_emqp",
    "open_emqp_worker",
    "open_peering",
    "parse_amqp_url",
    "parse_emqp_url",
]
