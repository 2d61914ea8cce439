"""A run as it waits in a backlog: messages that arrived in a row, and share what the backlog must know of them."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, islice
from typing import Protocol

import msgspec

from triomq.core.message import Head, overhead_of

RUN_LENGTH = 512
"""Messages up to which runs are merged: a slice off the front moves at most 4 KiB of pointers."""


class Run(msgspec.Struct, eq=False, gc=False):
    """Ready messages that share traits and deadline; made by a backlog, ends with its last message.

    Holds no cycle, so needs no collection.

    Args:
        head: The first one's, and that of all if ``heads`` is None.
        contents: Their bytes.
        first: The first one's id; the others have the following ones.
        size: Total of the bytes.
        overhead: How many of these bytes are not bodies.
        deadline: When they expire, in seconds of the domain's clock; infinity if never.
        heads: The head of each; None as long as they have the same one.
    """

    head: Head
    contents: list[bytes]
    first: int
    size: int
    overhead: int
    deadline: float
    heads: list[Head] | None = None

    def cut(self, count: int) -> tuple[int, int]:
        """Remove the first messages, but not all; return their bytes, and how many of these are not bodies."""
        contents, heads, head = self.contents, self.heads, self.head
        if count == 1:  # of each batch of a consumer that acknowledges each message before it gets the next
            size, overhead = len(contents[0]), head.body_start + head.body_trailer
        else:
            size = sum(map(len, contents[:count]))
            overhead = overhead_of(head, None if heads is None else heads[:count], count)
        del contents[:count]
        if heads is not None:
            del heads[:count]
            self.head = heads[0]
        self.first += count
        self.size -= size
        self.overhead -= overhead
        return size, overhead

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


class Headed(Protocol):
    """A run of any kind."""

    head: Head
    contents: list[bytes]
    heads: list[Head] | None


def add_heads(run: Headed, head: Head, heads: Sequence[Head] | None, count: int) -> None:
    """Add the heads of messages with the same traits, whose contents are added next.

    Args:
        run: Where they are added.
        head: The first one's.
        heads: Of each of them; None if they have the same one.
        count: How many they are.
    """
    if run.heads is None:
        if heads is None and head is run.head:
            return
        run.heads = [run.head] * len(run.contents)
    run.heads += [head] * count if heads is None else heads
