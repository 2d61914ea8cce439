"""``open_emqp`` and ``open_emqp_worker``: conversations that live as long as a block."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from triomq.clients.block import run_in_block
from triomq.clients.emqp.connection import EMQPConnection
from triomq.clients.emqp.connector import EMQPConnector
from triomq.clients.emqp.url import parse_emqp_url
from triomq.clients.emqp.worker import EMQPWorker

_ASYNCIO: Final = "run it in a thread of its own, by trio.run"


@asynccontextmanager
async def open_emqp(url: str | EMQPConnector) -> AsyncIterator[EMQPConnection]:
    """Open a client's conversation with a broker that speaks eMQP: ours, or EventMQ's own router.

    Args:
        url: ``emqp://host:port``, ``emqp://user:password@host:port``; see ``EMQPUrl`` for what else it may hold;
            or what ``Broker.emqp_connector`` returns, for the broker of this process, without sockets.

    Raises:
        ConfigError: The URL is wrong, or a file of keys cannot be read.
        RuntimeError: This does not run in Trio.
        Disconnected: No broker lets us in.
    """
    async with run_in_block(EMQPConnection(_parsed(url)), "open_emqp", asyncio_way=_ASYNCIO) as connection:
        yield connection


@asynccontextmanager
async def open_emqp_worker(
    url: str | EMQPConnector, queues: Sequence[str] | Mapping[str, int], *, slots: int = 1
) -> AsyncIterator[EMQPWorker]:
    """Open a worker's conversation with a broker that speaks eMQP: ours, or EventMQ's own router.

    Args:
        url: As for ``open_emqp``; for a router of EventMQ the port of its backend, 47290.
        queues: The queues that it takes jobs from. With weights: of several workers those with the highest for a queue
            get its jobs first, and a worker takes from its own queue with the highest first.
        slots: How many jobs it may have at a time.

    Raises:
        ConfigError: The URL is wrong, or a file of keys cannot be read.
        RuntimeError: This does not run in Trio.
        Disconnected: No broker lets us in.
    """
    worker = EMQPWorker(_parsed(url), queues, slots)
    async with run_in_block(worker, "open_emqp_worker", asyncio_way=_ASYNCIO):
        yield worker


def _parsed(url: str | EMQPConnector) -> EMQPConnector:
    return parse_emqp_url(url) if isinstance(url, str) else url
