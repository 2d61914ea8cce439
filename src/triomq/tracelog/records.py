"""Records of the trace log: what a broker sends to the process that writes its files.

A piece is its length in 4 bytes (big-endian), then an array of MessagePack, the records; each of them is an array that
begins with its kind:

    [QUEUED, µs, queue, first id, step, count, head | [heads], sizes u32[], properties | nil]
    [ONE, µs, queue, id, head, size, properties | nil]                            of a run of one
    [MOVED, from queue, its ids | nil, reason, …]     and then as QUEUED
    [DELIVERED, µs, queue, ids, consumer, attempts]
    [HAPPENED, µs, queue, ids, word]                  an outcome, or a reason for which they are gone
    [PURGED, µs, queue]
    [JOBS, µs, kind, domain, queue, ids, attempts | nil, worker, names | nil, error]
    [EVENT, µs, kind, {column: value}]                what is rare
    [LOST, µs, count]                                 events that found no room, before this
    [QUEUE, number, domain, name]  [CONSUMER, number, name, protocol]  [FORGET]
    [HEAD, number, exchange, routing key, codec, session, bytes around the body, protocol]

- Ids are ``[first, step, count]`` where they have equal distances, which those of a batch mostly have, and otherwise
  bytes, an int64 for each (little-endian, as the sizes).
- Queues, heads and consumers are named once and have numbers from then on. ``FORGET`` ends all these numbers. It stands
  where a piece was dropped, which may have had names in it, and now and then, so that neither side grows.
- Sizes are those of contents, with what is framing in them; the head says how much that is. Properties are cut out
  only where the flags of the head say that there may be an id in them.

Not done: a record for each message (1.5 µs each; a run of 64 costs 7 µs so), and shared memory (a socket pair of 64 KiB
pieces costs 20 µs for some 10,000 messages).
"""

from array import array
from collections.abc import Sequence

QUEUED, MOVED, DELIVERED, HAPPENED, PURGED, LOST, QUEUE, HEAD, CONSUMER, FORGET, JOBS, EVENT, ONE = range(13)

PIECE = 64 * 1024
"""Bytes after which a piece is sent: more would wait longer in the broker, fewer cost more system calls."""

LENGTH = 4
"""Bytes before each piece that have its length."""

Ids = Sequence[int] | bytes
"""First, step and count; or the bytes of int64."""


def pack_ids(ids: Sequence[int]) -> Ids:
    """Return ids as a record has them."""
    count = len(ids)
    if isinstance(ids, range):
        return ids.start, ids.step, count
    if count == 1:
        return ids[0], 1, 1
    return array("q", ids).tobytes()


def unpack_ids(ids: Ids) -> Sequence[int]:
    """Return the ids that a record has."""
    if isinstance(ids, bytes):
        found = array("q")
        found.frombytes(ids)
        return found
    first, step, count = ids
    return range(first, first + step * count, step)
