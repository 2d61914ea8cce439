"""A run as it waits in a backlog: messages that arrived in a row, and share what the backlog must know of them."""

from bisect import bisect_right
from itertools import accumulate, islice

import msgspec

from triomq.core.message import Head

RUN_LENGTH = 512
"""Messages up to which runs are merged: a slice off the front moves at most 4 KiB of pointers."""


class Run(msgspec.Struct, eq=False, gc=False):
    """Ready messages that share head and deadline; made by a backlog, ends with its last message.

    Holds no cycle, so needs no collection.

    Args:
        head: What they share.
        contents: Their bytes.
        first: The first one's id; the others have the following ones.
        size: Total of the bytes.
        deadline: When they expire, in seconds of the domain's clock; infinity if never.
    """

    head: Head
    contents: list[bytes]
    first: int
    size: int
    deadline: float

    def fitting(self, most: int, most_bytes: int) -> int:
        """Count how many of the first messages fit into so many bytes, at most so many; the first always does."""
        # About as many are looked at as fit on average. To sum up a whole run of large messages, of which two go at
        # once, took 40 µs for each batch: a sixth of all work at 64 KiB, and more the longer the backlog was.
        look = most_bytes * len(self.contents) // max(1, self.size) + 2
        while True:
            sizes = tuple(accumulate(map(len, islice(self.contents, min(look, most)))))
            if look >= most or sizes[-1] > most_bytes:
                return max(1, bisect_right(sizes, most_bytes))
            look *= 2
