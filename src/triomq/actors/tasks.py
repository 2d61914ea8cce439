"""The tasks that a supervisor runs beside its loop, such as one that accepts connections, or a restart that waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVarTuple

import trio

from triomq.actors.answers import is_cancellation

Ts = TypeVarTuple("Ts")


class Tasks:
    """Tasks that are cancelled one by one or all together; created by a supervisor's incarnation, ends with it.

    Args:
        nursery: The incarnation's.
        crash: Called with the error of a task that crashes.
    """

    def __init__(self, nursery: trio.Nursery, crash: Callable[[BaseException], None]) -> None:
        self._nursery = nursery
        self._crash = crash
        self._ended: dict[trio.CancelScope, trio.Event] = {}

    def start(
        self, scope: trio.CancelScope, async_function: Callable[[*Ts], Awaitable[object]], *args: *Ts
    ) -> trio.CancelScope:
        """Start a task within a scope, and return the scope."""
        self._ended[scope] = trio.Event()
        self._nursery.start_soon(self._run, scope, async_function, args)
        return scope

    async def stop(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        for scope in self._ended:
            scope.cancel()
        for ended in list(self._ended.values()):
            await ended.wait()

    async def _run(
        self, scope: trio.CancelScope, async_function: Callable[[*Ts], Awaitable[object]], args: tuple[*Ts]
    ) -> None:
        try:
            with scope:
                await async_function(*args)
        except BaseException as error:
            if is_cancellation(error):
                raise
            self._crash(error)
        finally:
            self._ended.pop(scope).set()
