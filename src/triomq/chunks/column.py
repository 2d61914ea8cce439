"""One column of a chunk: bytes of each record, without an object for each."""

from array import array
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple


class Column(NamedTuple):
    """Bytes of each record.

    Args:
        lengths: How many bytes each record has; of four bytes each.
        data: All of them, one behind the other.
    """

    lengths: "memoryview[int] | array[int]"
    data: bytes | memoryview

    def each(self) -> list[bytes]:
        """Return the bytes of each record."""
        return cut_pieces(self.lengths, self.data)


def cut_pieces(lengths: Sequence[int], data: bytes | memoryview) -> list[bytes]:
    """Return the pieces that stand one behind the other."""
    octets = data if isinstance(data, bytes) else data.tobytes()  # slices of a view are slower, and views again
    return [octets[start:stop] for start, stop in pairwise(accumulate(lengths, initial=0))]
