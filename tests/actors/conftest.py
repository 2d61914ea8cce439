from collections.abc import AsyncIterator

import pytest

from triomq.actors import System, open_system


@pytest.fixture
async def system() -> AsyncIterator[System]:
    async with open_system() as system:
        yield system
