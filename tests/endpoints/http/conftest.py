"""A desk in virtual time."""

from collections.abc import AsyncIterator

import pytest

from .desk import Desk, open_desk


@pytest.fixture
async def desk(virtual_time: None) -> AsyncIterator[Desk]:
    async with open_desk() as (_, desk):
        yield desk
