"""What is asked of a queue whose first messages are only on disk."""

import trio

from triomq.core.queue_store import QueueStore
from triomq.core.refusals import Restarting

__all__ = ["NotAtHand"]


class NotAtHand(Restarting):
    """The messages that must be looked at are being read; ask again when they are there.

    Args:
        store: The queue's.
    """

    def __init__(self, store: QueueStore) -> None:
        """Word the refusal."""
        super().__init__(store.ref)
        self._store = store

    async def wait_over(self) -> None:
        """Wait until they are there, or the queue is gone."""
        index = self._store.index
        if index.ready or not index.away or index.is_broken:
            await trio.lowlevel.checkpoint()  # they have come meanwhile
            return
        arrived = trio.Event()
        self._store.wait_arrived(arrived.set)
        await arrived.wait()
