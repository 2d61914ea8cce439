"""A broker that speaks RestMS in virtual time, and a client of it."""

from collections.abc import AsyncIterator

import pytest

from endpoints.restms.caller import Caller, open_restms
from triomq.app import Broker


@pytest.fixture
async def broker(virtual_time: None) -> AsyncIterator[Broker]:
    async with open_restms() as broker:
        yield broker


@pytest.fixture
def caller(broker: Broker) -> Caller:
    return Caller(broker)
