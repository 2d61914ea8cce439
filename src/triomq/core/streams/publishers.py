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
- A publisher is its user's: what another user sends under its name counts for nothing here. One that an earlier version
  has recorded without a user is anybody's.
- There are as many as ``shares.PUBLISHERS`` says; one more takes the place of the one that has published nothing for
  longest, of the user who has most of them. Its messages would be appended if they were sent again. What the order was
  does not outlive a restart.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from triomq.core.message import Head, QueueMessage
from triomq.core.persistence.keyed_records import KeyedRecords
from triomq.core.persistence.records import encode_number
from triomq.core.topology.shares import PUBLISHERS
from triomq.properties import HeaderValue, Properties

NAME, NUMBER = "x-publisher", "x-publisher-number"
"""The headers."""

MOST_PUBLISHERS = PUBLISHERS.most
"""Publishers that a stream knows."""

Publisher = tuple[str, str]
"""A publisher: its name, and its user's, which is empty if it is the program's own."""

_LONGEST_NAME = 255
"""Bytes, as of any other name."""


class Publishers:
    """The publishers of one stream, and the highest number of each; part of its log, so that it outlives incarnations.

    Args:
        stream: The stream's name.
        records: Where they are written; None for a stream that is in memory alone.
        read: Decodes the properties of a message.
        user_of: Returns whose session has a number.
    """

    __slots__ = ("_counts", "_highest", "_read", "_records", "_stream", "_user_of")

    def __init__(
        self,
        stream: str,
        records: KeyedRecords | None,
        read: Callable[[QueueMessage], Properties | None],
        user_of: Callable[[int], str],
    ) -> None:
        self._user_of = user_of
        self._counts: Counter[str] = Counter()  # of publishers, by user
        self._stream = stream
        self._records = records
        self._read = read
        self._highest: dict[Publisher, int] = {}  # the one that has published nothing for longest is the first

    def recover(self, name: str, user: str, number: int) -> None:
        """Begin with what the store has."""
        self._highest[name, user] = number
        self._counts[user] += 1

    def sift(
        self, head: Head, contents: Sequence[bytes], heads: Sequence[Head] | None
    ) -> tuple[list[int], dict[Publisher, int]]:
        """Return the places of the messages that are new, and what ``record`` gets once these are appended."""
        places: list[int] = []
        highest: dict[Publisher, int] = {}
        for place, content in enumerate(contents):
            its_head = head if heads is None else heads[place]
            properties = self._read(QueueMessage(its_head, content))
            found = _numbered(properties.headers) if properties is not None and properties.headers else None
            if found is not None:
                name, number = found
                publisher = name, self._user_of(its_head.traits.publisher)
                before = highest.get(publisher, self._known(publisher))
                if before is not None and number <= before:
                    continue
                highest[publisher] = number
            places.append(place)
        return places, highest

    def _known(self, publisher: Publisher) -> int | None:
        """Return the highest number so far; None if there is none."""
        found = self._highest.get(publisher)
        return self._highest.get((publisher[0], "")) if found is None else found

    def record(self, highest: Mapping[Publisher, int]) -> None:
        """Remember the highest numbers of some publishers, in the open batch of the store."""
        for publisher, number in highest.items():
            if self._highest.pop(publisher, None) is None:
                if len(self._highest) >= MOST_PUBLISHERS:
                    self._make_room()
                self._counts[publisher[1]] += 1
            self._highest[publisher] = number
            if self._records is not None:
                self._records.put(self._names(publisher), encode_number(number))

    def _make_room(self) -> None:
        most = max(self._counts, key=lambda user: self._counts[user])
        self._forget(next(publisher for publisher in self._highest if publisher[1] == most))

    def _names(self, publisher: Publisher) -> tuple[str, ...]:
        name, user = publisher
        return (self._stream, name, user) if user else (self._stream, name)

    def _forget(self, publisher: Publisher) -> None:
        del self._highest[publisher]
        self._counts[publisher[1]] -= 1
        if self._records is not None:
            self._records.remove(self._names(publisher))

    def release(self) -> None:
        """Forget all: the stream is deleted."""
        for publisher in list(self._highest):
            self._forget(publisher)


def _numbered(headers: Mapping[str, HeaderValue]) -> tuple[str, int] | None:
    publisher, number = headers.get(NAME), headers.get(NUMBER)
    if not isinstance(publisher, str) or type(number) is not int or not -(1 << 63) <= number < 1 << 63:
        return None
    return (publisher, number) if len(publisher.encode("utf-8", "surrogateescape")) <= _LONGEST_NAME else None
