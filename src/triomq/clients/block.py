"""A client that lives as long as a block: how ``open_emqp`` and others run theirs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

import trio

from triomq.actors import require_trio


class Runnable(Protocol):
    """What runs in a nursery while a block lasts."""

    async def start(self, nursery: trio.Nursery) -> None:
        """Begin; what runs is started in the nursery."""
        ...

    async def close(self) -> None:
        """End in order."""
        ...


R = TypeVar("R", bound=Runnable)


@asynccontextmanager
async def run_in_block(client: R, name: str, *, asyncio_way: str) -> AsyncIterator[R]:
    """Start a client, and close it when the block is left; an error in the block comes out of it bare.

    Args:
        client: The client.
        name: Of the function that was called.
        asyncio_way: What to do in a program on asyncio.

    Raises:
        RuntimeError: This does not run in Trio.
        Exception: What starting it raises.
    """
    require_trio(name, asyncio_way=asyncio_way, otherwise="call it in trio.run(main)")
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        try:
            await client.start(nursery)
            yield client
        except trio.Cancelled:
            raise
        except BaseException as error:
            failure = error
        finally:
            await client.close()
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
