"""The same broker from plain threads, from asyncio, and from both inside a Trio program."""

from triomq.app.portal.arguments import (
    BrokerArguments,
    FeedArguments,
    QueueArguments,
    ReadArguments,
    SinkArguments,
    StreamArguments,
)
from triomq.app.portal.asyncio_broker import (
    AsyncioBroker,
    AsyncioDomain,
    AsyncioFeed,
    AsyncioListening,
    AsyncioQueue,
    AsyncioSink,
    open_asyncio_broker,
)
from triomq.app.portal.blocking_broker import (
    BlockingBroker,
    BlockingDomain,
    BlockingFeed,
    BlockingListening,
    BlockingQueue,
    BlockingSink,
    open_blocking_broker,
)
from triomq.app.portal.feed import PortalDelivery
from triomq.app.portal.portal import Portal, open_portal
from triomq.app.portal.streams import AsyncioStream, BlockingStream

__all__ = [  # noqa: RUF022  # grouped for the reader
    # for plain threads
    "BlockingBroker",
    "BlockingDomain",
    "BlockingFeed",
    "BlockingListening",
    "BlockingQueue",
    "BlockingSink",
    "BlockingStream",
    "open_blocking_broker",
    # for asyncio
    "AsyncioBroker",
    "AsyncioDomain",
    "AsyncioFeed",
    "AsyncioListening",
    "AsyncioQueue",
    "AsyncioSink",
    "AsyncioStream",
    "open_asyncio_broker",
    # into a Trio program
    "Portal",
    "open_portal",
    # what is handed on as it is
    "BrokerArguments",
    "FeedArguments",
    "PortalDelivery",
    "QueueArguments",
    "ReadArguments",
    "SinkArguments",
    "StreamArguments",
]
