"""The same broker from plain threads, from asyncio, and from both inside a Trio program."""

from triomq.app.portal.asyncio_broker import AsyncioBroker, AsyncioDomain, AsyncioListening, open_asyncio_broker
from triomq.app.portal.asyncio_feed import AsyncioFeed
from triomq.app.portal.asyncio_handles import AsyncioQueue, AsyncioSink
from triomq.app.portal.blocking_broker import BlockingBroker, BlockingDomain, BlockingListening, open_blocking_broker
from triomq.app.portal.blocking_feed import BlockingFeed
from triomq.app.portal.blocking_handles import BlockingQueue, BlockingSink
from triomq.app.portal.portal import Portal, open_portal

__all__ = [
    "AsyncioBroker",
    "AsyncioDomain",
    "AsyncioFeed",
    "AsyncioListening",
    "AsyncioQueue",
    "AsyncioSink",
    "BlockingBroker",
    "BlockingDomain",
    "BlockingFeed",
    "BlockingListening",
    "BlockingQueue",
    "BlockingSink",
    "Portal",
    "open_asyncio_broker",
    "open_blocking_broker",
    "open_portal",
]
