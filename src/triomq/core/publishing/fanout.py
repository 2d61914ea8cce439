"""A publish to very many queues, cut into turns: the first queues have it at once, the others bit by bit.

Telling 100,000 queues takes a quarter of a second, for which one message would hold the loop. What its publisher
publishes after it goes behind it, so that messages stay in order in each queue; and the publisher has to wait until all
queues have it, so that no more than one such publish of each client is under way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triomq.actors import Ref
    from triomq.core.publishing.publish import Publish
    from triomq.core.topology.directory import Directory
    from triomq.core.topology.domain import Domain

AT_ONCE = 4_000
"""Queues that are told in the turn of the publish, which takes some 10 ms."""

_PER_STEP = 4
"""Queues in a step of the chore."""


class FanOut:
    """The chore; created by a publisher, done by the domain.

    Args:
        directory: The domain's.
        done: Called when all queues have been told.
    """

    def __init__(self, directory: Directory, done: Callable[[], None]) -> None:
        self._directory = directory
        self._done = done
        self._runs: deque[tuple[Publish, Iterator[Ref]]] = deque()
        self._waiting: dict[Callable[[], None], None] = {}

    def add(self, message: Publish, queues: Sequence[Ref]) -> None:
        """Tell some queues of one more run, behind all others."""
        self._runs.append((message, iter(queues)))

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, when all queues have been told."""
        self._waiting[callback] = None

    def forget(self, callback: Callable[[], None]) -> None:
        """Withdraw a callback that was not called yet."""
        self._waiting.pop(callback, None)

    def step(self, domain: Domain) -> bool:
        """Tell a few queues."""
        message, queues = self._runs[0]
        batch = list(islice(queues, _PER_STEP))
        for queue in batch:
            if self._directory.has(queue):
                queue.tell_nowait(message)
            elif message.receipt is not None:
                message.receipt.placed(len(message.contents))  # and removed with the queue, which was deleted meanwhile
        if batch:
            return True
        self._runs.popleft()
        if self._runs:
            return True
        self._done()
        waiting, self._waiting = self._waiting, {}
        for callback in waiting:
            callback()
        return False
