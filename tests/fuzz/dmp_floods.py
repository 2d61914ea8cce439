"""Long inputs for direct connections: whatever a peer sends, an engine retains no more of it than its limits allow."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Literal

from triomq.protocols.dmp import NULL, Target

from .dmp_words import message

CHUNK = 16 * 1024


def _noise(random: Random) -> Iterator[bytes]:
    while True:
        yield random.randbytes(CHUNK)


def _answered_late(random: Random) -> Iterator[bytes]:
    while True:
        yield message(b"", b"k", b"\0\0", 0, b"x" * 1000) * 60


def _drops(random: Random) -> Iterator[bytes]:
    """One message that never ends, as far as the limit lets it."""
    yield (4500).to_bytes(4, "big")
    while True:
        yield b"x"


def _new_envelopes(random: Random) -> Iterator[bytes]:
    """Messages that are all different, for what remembers them."""
    while True:
        yield b"".join(
            message(random.randbytes(127).hex().encode(), random.randbytes(127).hex().encode(), b"\0\0", 0, b"")
            for _ in range(100)
        )


def _new_tables(random: Random) -> Iterator[bytes]:
    """Tables near the limit, each another one."""
    while True:
        table = b"\x01aS" + (4000).to_bytes(4, "big") + random.randbytes(4000)
        yield message(b"", b"k", b"\x20\0" + len(table).to_bytes(4, "big") + table, 0, b"")


def _nulls(random: Random) -> Iterator[bytes]:
    while True:
        yield NULL * 4000


FLOODS: dict[str, tuple[int, Target, Literal["accept", "late", "refuse"], Callable[[Random], Iterator[bytes]]]] = {
    "noise instead of a header": (0, "sink", "accept", _noise),
    "noise instead of a lease": (1, "sink", "accept", _noise),
    "messages before the lease is judged": (2, "sink", "late", _answered_late),
    "noise": (2, "sink", "accept", _noise),
    "noise after a refusal": (2, "sink", "refuse", _noise),
    "noise on a feed": (2, "feed", "accept", _noise),
    "a message in drops": (2, "sink", "accept", _drops),
    "ever new envelopes": (2, "sink", "accept", _new_envelopes),
    "ever new tables": (2, "sink", "accept", _new_tables),
    "null messages": (2, "sink", "accept", _nulls),
}
