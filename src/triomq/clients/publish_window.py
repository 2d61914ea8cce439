"""Publishing without waiting for each confirm: some messages are on their way at once, and each is accounted for."""

import trio

from triomq.clients.amqp.pending_reply import fresh
from triomq.errors import TriomqError

BYTES_MOST = 8 * 1024 * 1024
"""Bytes of bodies on their way at once, or one body of any size: they stay in memory until they are confirmed."""


class PublishWindow:
    """What is on its way; a subclass publishes, and calls ``_sent`` for each.

    Args:
        limit: How many messages may be on their way at once.
    """

    abandoned = False

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._outstanding = 0
        self._bytes = 0
        self._confirmed = 0
        self._failure: TriomqError | None = None
        self._room = trio.lowlevel.ParkingLot()

    @property
    def count_confirmed(self) -> int:
        """How many messages the broker has."""
        return self._confirmed

    @property
    def outstanding(self) -> int:
        """How many are on their way."""
        return self._outstanding

    @property
    def _is_full(self) -> bool:
        """Whether publishing has to ``_wait_room`` first, for room or to raise what went wrong."""
        return self._failure is not None or self._outstanding >= self._limit or self._bytes >= BYTES_MOST

    def _sent(self, size: int) -> None:
        self._outstanding += 1
        self._bytes += size

    async def wait_confirmed(self) -> None:
        """Wait until nothing is on its way; raises as ``publish`` does."""
        while self._outstanding:
            await self._room.park()
        self._raise_failure()

    async def _wait_room(self) -> None:
        """Wait until about half of it is confirmed, so that publishing goes on for a while then."""
        self._raise_failure()
        while self._outstanding > self._limit // 2 or self._bytes > BYTES_MOST // 2:
            await self._room.park()
            self._raise_failure()

    def _raise_failure(self) -> None:
        """Raise the first thing that went wrong since this was asked last."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    # What becomes of them

    def confirmed(self, size: int) -> None:
        """Count a message that the broker has."""
        self._confirmed += 1
        self._forget(size)

    def failed(self, size: int, error: TriomqError) -> None:
        """Store the error, which the next call raises."""
        if self._failure is None:
            self._failure = fresh(error)
        self._forget(size)
        self._room.unpark_all()

    def _forget(self, size: int) -> None:
        self._outstanding -= 1
        self._bytes -= size
        if self._room and (not self._outstanding or self._outstanding <= self._limit // 2):
            self._room.unpark_all()
