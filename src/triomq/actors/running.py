"""Under which event loop a program runs, and two helpers for tasks of Trio."""

import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple

import trio

R = TypeVar("R")
Ts = TypeVarTuple("Ts")


def is_under_asyncio() -> bool:
    """Return whether an event loop of asyncio runs in this thread; asyncio is not loaded for that."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return not trio.lowlevel.in_trio_task()


def require_trio(what: str, *, asyncio_way: str, otherwise: str) -> None:
    """Check that a task of Trio runs.

    Args:
        what: What needs it, as the user calls it.
        asyncio_way: What to do under asyncio.
        otherwise: What to do where no event loop runs at all.

    Raises:
        RuntimeError: None does.
    """
    if trio.lowlevel.in_trio_task():
        return
    if is_under_asyncio():
        raise RuntimeError(f"{what} needs Trio, and this runs under asyncio; {asyncio_way}")
    raise RuntimeError(f"{what} needs Trio, which does not run here; {otherwise}")


def unwrap_group(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the one error in the groups that nurseries have put around it; of several, the group."""
    _, errors = group.split(trio.Cancelled)
    error: BaseException = group if errors is None else errors
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


@trio.lowlevel.disable_ki_protection
async def call_unprotected(async_function: Callable[[*Ts], Awaitable[R]], *args: *Ts) -> R:
    """Await a user's function as any code under Trio is awaited: Ctrl-C may end it."""
    return await async_function(*args)
