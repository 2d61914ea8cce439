"""A server that does what a test says, and its URL."""

from collections.abc import AsyncIterator

import pytest

from clients.mtl.stub import StubServer, open_stub


@pytest.fixture
async def stub() -> AsyncIterator[StubServer]:
    async with open_stub() as stub:
        yield stub


@pytest.fixture
def url(stub: StubServer) -> str:
    return f"mtl://ada:secret@127.0.0.1:{stub.port}"
