"""Clients that wait for records at the end of a stream: one entry for each stream, however many wait and go.

A stream's own list of callbacks cannot be taken back from, so a client that asks again and again at the end of a silent
stream would fill it.
"""

from collections.abc import Callable
from functools import partial

from triomq.core import QueueState


class Arrivals:
    """Who waits for records of which stream; made by the endpoint, for all its clients."""

    def __init__(self) -> None:
        self._waiting: dict[QueueState, dict[Callable[[], None], None]] = {}

    def wait(self, stream: QueueState, callback: Callable[[], None]) -> None:
        """Call something once, maybe in the middle of a turn, when more of the stream can be read, or it is deleted."""
        waiting = self._waiting.get(stream)
        if waiting is None:
            waiting = self._waiting[stream] = {}
            stream.when_arrived(partial(self._arrived, stream))
        waiting[callback] = None

    def forget(self, stream: QueueState, callback: Callable[[], None]) -> None:
        """Do not call that any more."""
        self._waiting.get(stream, {}).pop(callback, None)

    def _arrived(self, stream: QueueState) -> None:
        for callback in self._waiting.pop(stream):
            callback()
