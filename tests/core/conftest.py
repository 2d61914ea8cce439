import logging
from collections.abc import AsyncIterator

import pytest

from .durable import DurableHarness, open_durable_harness
from .harness import Harness, open_harness


@pytest.fixture
def quiet_crashes(caplog: pytest.LogCaptureFixture) -> None:
    """Crashes on purpose are not logged, by the thousand."""
    caplog.set_level(logging.CRITICAL, "triomq.actors")


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    async with open_harness() as harness:
        yield harness


@pytest.fixture
async def durable() -> AsyncIterator[DurableHarness]:
    async with open_durable_harness() as durable:
        yield durable
