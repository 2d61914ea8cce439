"""A broker with a port, and jobs that a small worker runs."""

from collections.abc import AsyncIterator

import pytest
import trio
from tests.jobs.party import Shop

from triomq.app import open_broker
from triomq.endpoints import EMQP


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    """Jobs that are connected, and a worker that runs them."""
    shop = Shop()
    with trio.fail_after(60):
        async with open_broker(EMQP(port=0), drain=0.2) as broker, trio.open_nursery() as nursery:
            shop.where = f"emqp://127.0.0.1:{broker.listening[0].port}"
            await nursery.start(shop.work)
            async with shop.jobs.connect(shop.where):
                yield shop
            nursery.cancel_scope.cancel()


@pytest.fixture
async def local_shop() -> AsyncIterator[Shop]:
    """The same without a socket; for tests in virtual time, with ``autojump_clock``."""
    shop = Shop()
    with trio.fail_after(100_000):
        async with open_broker() as broker, trio.open_nursery() as nursery:
            shop.broker, shop.where = broker, await broker.emqp_connector()
            await nursery.start(shop.work)
            async with shop.jobs.connect(broker):
                yield shop
            nursery.cancel_scope.cancel()
