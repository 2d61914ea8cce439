"""What publishers send again is stored once: each numbers its messages, and the stream knows its highest number.

    x-publisher: shop-3, x-publisher-number: 41 ─▶ highest of shop-3 is 40 ─▶ appended, 41 is the highest
    x-publisher: shop-3, x-publisher-number: 41 ─▶ highest of shop-3 is 41 ─▶ confirmed when 41 is on disk; not appended

Rules:

- Only streams that are declared so look (``StreamOptions.deduplicate``): the properties of each record are decoded.
- Name and number are headers, so that every door has them and readers see them. What has not both, a string of at most
  255 bytes and an integer of 64 bits, is appended.
- The highest number is a record of its own in the batch with the message: after a crash there are both or neither.
- Numbers of a publisher grow. What comes with a lower one is taken for sent again, whether it was ever here or not; so
  a publisher that sends again sends all that was not confirmed, in its order.
- It holds within a stream, and so within a partition: the same key leads to the same one.
- There are ``MOST_PUBLISHERS``; one more takes the place of the one that has published nothing for longest, whose
  messages would then be appended if they were sent again. What the order was does not outlive a restart.
"""

from collections.abc import Callable, Mapping, Sequence

from triomq.core.message import Head, QueueMessage
from triomq.core.persistence.keyed_records import KeyedRecords
from triomq.core.persistence.records import encode_number
from triomq.properties import HeaderValue, Properties

NAME, NUMBER = "x-publisher", "x-publisher-number"
"""The headers."""

MOST_PUBLISHERS = 1_000
"""Publishers that a stream knows: each is a record on disk, and some 200 bytes in memory."""

_LONGEST_NAME = 255
"""Bytes, as of any other name."""


class Publishers:
    """The publishers of one stream, and the highest number of each; part of its log, so that it outlives incarnations.

    Args:
        stream: The stream's name.
        records: Where they are written; None for a stream that is in memory alone.
        read: Decodes the properties of a message.
    """

    __slots__ = ("_highest", "_read", "_records", "_stream")

    def __init__(
        self, stream: str, records: KeyedRecords | None, read: Callable[[QueueMessage], Properties | None]
    ) -> None:
        self._stream = stream
        self._records = records
        self._read = read
        self._highest: dict[str, int] = {}  # the one that has published nothing for longest is the first

    def recover(self, publisher: str, number: int) -> None:
        """Begin with what the store has."""
        self._highest[publisher] = number

    def sift(
        self, head: Head, contents: Sequence[bytes], heads: Sequence[Head] | None
    ) -> tuple[list[int], dict[str, int]]:
        """Return the places of the messages that are new, and what ``record`` gets once these are appended."""
        places: list[int] = []
        highest: dict[str, int] = {}
        for place, content in enumerate(contents):
            properties = self._read(QueueMessage(head if heads is None else heads[place], content))
            found = _numbered(properties.headers) if properties is not None and properties.headers else None
            if found is not None:
                publisher, number = found
                before = highest.get(publisher, self._highest.get(publisher))
                if before is not None and number <= before:
                    continue
                highest[publisher] = number
            places.append(place)
        return places, highest

    def record(self, highest: Mapping[str, int]) -> None:
        """Remember the highest numbers of some publishers, in the open batch of the store."""
        for publisher, number in highest.items():
            if self._highest.pop(publisher, None) is None and len(self._highest) >= MOST_PUBLISHERS:
                self._forget(next(iter(self._highest)))
            self._highest[publisher] = number
            if self._records is not None:
                self._records.put((self._stream, publisher), encode_number(number))

    def _forget(self, publisher: str) -> None:
        del self._highest[publisher]
        if self._records is not None:
            self._records.remove((self._stream, publisher))

    def release(self) -> None:
        """Forget all: the stream is deleted."""
        for publisher in list(self._highest):
            self._forget(publisher)


def _numbered(headers: Mapping[str, HeaderValue]) -> tuple[str, int] | None:
    publisher, number = headers.get(NAME), headers.get(NUMBER)
    if not isinstance(publisher, str) or type(number) is not int or not -(1 << 63) <= number < 1 << 63:
        return None
    return (publisher, number) if len(publisher.encode("utf-8", "surrogateescape")) <= _LONGEST_NAME else None
