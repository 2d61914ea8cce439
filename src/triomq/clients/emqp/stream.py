"""The worker's end of a stream of items."""

from collections import deque
from collections.abc import Iterator
from typing import Final

import trio

from triomq.protocols.emqp import ITEM_WINDOW

_MOST_BYTES: Final = 1024 * 1024
"""Bytes of items that are kept for their reader, or one item: a thousand streams then take a gigabyte at most."""


class ItemStream:
    """Items that a job has sent and its reader has not taken; they are sent again when a broker was away.

    Made with the first item, ends with the job.
    """

    __slots__ = ("_bytes", "_items", "_lot", "_number")

    def __init__(self) -> None:
        self._items: deque[bytes] = deque()
        self._bytes = 0
        self._number = 0  # of the last one
        self._lot = trio.lowlevel.ParkingLot()

    @property
    def sent(self) -> int:
        """How many there were."""
        return self._number

    @property
    def taken(self) -> int:
        """How many the reader has taken, as far as is known."""
        return self._number - len(self._items)

    @property
    def _is_full(self) -> bool:
        return len(self._items) >= ITEM_WINDOW or self._bytes >= _MOST_BYTES

    async def wait_room(self) -> None:
        """Wait until the reader is near enough."""
        await trio.lowlevel.checkpoint()
        while self._is_full:
            await self._lot.park()

    def add(self, item: bytes) -> int:
        """Keep an item; return its number."""
        self._items.append(item)
        self._bytes += len(item)
        self._number += 1
        return self._number

    def take(self, number: int) -> None:
        """Forget what the reader has taken."""
        while self._items and self.taken < number:
            self._bytes -= len(self._items.popleft())
        if not self._is_full:
            self._lot.unpark_all()

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield what is kept, with its numbers."""
        return enumerate(tuple(self._items), self.taken + 1)
