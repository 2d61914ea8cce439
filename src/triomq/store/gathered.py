"""Bodies on their way to the store; see ``triomq.store.body``."""

from typing import TYPE_CHECKING

import msgspec


class GatheredBody(msgspec.Struct, frozen=True, gc=False):
    """A body that is in one piece only when it is stored.

    Args:
        pieces: To be joined.
        size: Bytes of all of them.
    """

    pieces: list[bytes]
    size: int

    def __len__(self) -> int:
        return self.size


if TYPE_CHECKING:
    Octets = bytes | memoryview | GatheredBody
    """A body, in one of its forms."""
else:
    Octets = memoryview  # what a decoder makes: a part of the bytes that were received, and no copy


def joined(body: Octets) -> bytes | memoryview:
    """Return a body as it is stored."""
    return b"".join(body.pieces) if isinstance(body, GatheredBody) else body
