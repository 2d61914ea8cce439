"""A broker on its own: runs until it is told to stop, in two steps."""

import gc
import signal
from collections.abc import AsyncIterator, Callable

import trio

from triomq.app.broker import Broker, open_broker
from triomq.endpoints import EndpointConfig

__all__ = ["serve"]

_COLLECT_AFTER = 50_000
"""Container objects made between two looks for garbage: the broker makes little, and much of what it makes stays."""


async def serve(*endpoints: EndpointConfig, started: Callable[[Broker], None]) -> int:
    """Serve until a signal comes: the first SIGTERM or SIGINT drains, the second cuts everything.

    Args:
        endpoints: What to listen for.
        started: Called once everything listens.

    Returns:
        What the process should end with, 0 after a drain, 128 plus the signal's number when cut.

    Raises:
        ConfigError: An address cannot be had.
    """
    cut_by: list[int] = []
    error: Exception | None = None
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals, trio.CancelScope() as everything:
        async with trio.open_nursery() as nursery:
            drain = trio.Event()
            nursery.start_soon(_watch, signals, drain, cut_by, everything)
            try:
                await _serve_until(drain, endpoints, started)
            except Exception as failure:
                error = failure  # raised below, without the nursery's group around it
            nursery.cancel_scope.cancel()
    if error is not None:
        raise error
    return 128 + cut_by[0] if cut_by else 0


async def _serve_until(
    drain: trio.Event, endpoints: tuple[EndpointConfig, ...], started: Callable[[Broker], None]
) -> None:
    async with open_broker(*endpoints) as broker:
        gc.collect()
        gc.freeze()  # what is here now stays: no need to look at it again
        gc.set_threshold(_COLLECT_AFTER, 20, 50)
        started(broker)
        await drain.wait()


async def _watch(
    signals: AsyncIterator[int], drain: trio.Event, cut_by: list[int], everything: trio.CancelScope
) -> None:
    """Turn the first signal into a drain and the second into a cancellation."""
    async for number in signals:
        if not drain.is_set():
            drain.set()
        else:
            cut_by.append(number)
            everything.cancel()
            return
