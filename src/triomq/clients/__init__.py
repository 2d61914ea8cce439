"""Clients of brokers: ``open_amqp`` for programs on Trio, and one that blocks, for scripts and the shell."""

from triomq.clients.amqp.channel import AMQPChannel, ChannelStatistics
from triomq.clients.amqp.connection import AMQPConnection, ConnectionStatistics
from triomq.clients.amqp.deliveries import Deliveries
from triomq.clients.amqp.delivery import Delivery, Fetched, ReturnedMessage
from triomq.clients.amqp.opening import open_amqp
from triomq.clients.amqp.peering import Peering, Taker, open_peering
from triomq.clients.amqp.pipeline import Pipeline
from triomq.clients.amqp.queue import DeclaredQueue
from triomq.clients.amqp.reconnect import Reconnect
from triomq.clients.blocking import BlockingConnection, Publisher, open_blocking
from triomq.clients.dmp.feed import DMPFeed, DMPMessage, open_dmp_feed
from triomq.clients.dmp.sink import DMPSink, open_dmp_sink
from triomq.clients.url import AMQPUrl, parse_amqp_url
from triomq.protocols import BasicProperties

__all__ = [
    # The client for Trio
    "AMQPChannel",
    "AMQPConnection",
    # Where
    "AMQPUrl",
    "BasicProperties",
    # The blocking client
    "BlockingConnection",
    "ChannelStatistics",
    "ConnectionStatistics",
    # Direct connections
    "DMPFeed",
    "DMPMessage",
    "DMPSink",
    "DeclaredQueue",
    "Deliveries",
    "Delivery",
    "Fetched",
    # For brokers among themselves
    "Peering",
    "Pipeline",
    "Publisher",
    "Reconnect",
    "ReturnedMessage",
    "Taker",
    "open_amqp",
    "open_blocking",
    "open_dmp_feed",
    "open_dmp_sink",
    "open_peering",
    "parse_amqp_url",
]
