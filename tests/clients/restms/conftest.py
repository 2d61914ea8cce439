"""A broker that speaks RestMS on a port, and its URL."""

from collections.abc import AsyncIterator

import pytest

from endpoints.restms.caller import open_restms as open_restms_broker
from endpoints.restms.caller import restms_of
from triomq.app import Broker


def url_of(broker: Broker, credentials: str = "guest:guest", domain: str = "default") -> str:
    ((host, port),) = restms_of(broker).addresses
    return f"http://{credentials}@{host}:{port}/restms/domain/{domain}"


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with open_restms_broker() as broker:
        yield broker


@pytest.fixture
def url(broker: Broker) -> str:
    return url_of(broker)
