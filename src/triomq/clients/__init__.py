"""Clients of brokers: at present one that blocks, for scripts and the shell."""

from triomq.clients.blocking import BlockingConnection, Got, open_blocking
from triomq.clients.publisher import Publisher
from triomq.clients.url import AMQPUrl, parse_amqp_url

__all__ = [
    # Where
    "AMQPUrl",
    # The blocking client
    "BlockingConnection",
    "Got",
    "Publisher",
    "open_blocking",
    "parse_amqp_url",
]
