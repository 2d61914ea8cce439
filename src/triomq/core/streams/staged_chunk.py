"""A chunk that is staged: checked, so that whoever reads its records later need not."""

from collections.abc import Sequence
from typing import NamedTuple, cast

import msgspec

from triomq.chunks import Columns, check_chunk
from triomq.core.message import Traits, traits_of
from triomq.errors import ChunkDamaged, PreconditionFailed
from triomq.properties import CORE_CODEC, decode_core

MOST_RECORDS = 131_072
"""Records in a chunk that is staged: checking them takes 10 to 30 ms, in which others wait; some tenths of a second
where each has other properties."""


MOST_SHARED = 64 * 1024 * 1024
"""Bytes that keys and properties of a chunk may have when each record has its own copy of what its run shares: queues
and consumers make these copies, and a small chunk could ask for any number of them."""

_DEEPEST = 64
"""Lists and tables in one another, in a header; as deep as what comes over AMQP is looked into."""


_CONTAINERS = frozenset((dict, list))

_LONGEST_KEY = 255
"""Bytes of a key: what a consumer over AMQP can be sent (AMQP 0-9-1 section 4.2.5.3, short strings)."""


class StagedChunk(NamedTuple):
    """Records that were checked.

    Args:
        data: The chunk.
        traits: Of the records of each run; None where they differ.
    """

    data: bytes
    traits: tuple[Traits | None, ...]


def read_staged(data: bytes, user: str | None = None) -> StagedChunk:
    """Check a chunk that a client sends.

    Args:
        data: The chunk.
        user: Who sends it: no record may claim to be another user's. None looks at no claim.

    Raises:
        PreconditionFailed: It is damaged, has too many records, a key that is too long, or properties that are not in
            the core's form, or are not the user's.
    """
    try:
        head = check_chunk(data)
    except ChunkDamaged as error:
        raise PreconditionFailed(str(error)) from None
    if head.count > MOST_RECORDS:
        raise PreconditionFailed(
            f"a chunk of {head.count} records; one that is staged has {MOST_RECORDS} at most: cut it"
        )
    columns = Columns(data)
    _require_fair_share(columns)
    if (size := columns.longest_key()) > _LONGEST_KEY:
        raise PreconditionFailed(f"a key of {size} bytes; keys have at most {_LONGEST_KEY}")
    known: dict[bytes, Traits] = {}
    own, position = columns.own_properties(), 0
    traits: list[Traits | None] = []
    for run_head, count in zip(columns.run_heads, columns.run_counts, strict=True):
        if run_head.codec != CORE_CODEC:
            raise PreconditionFailed(
                f"properties of codec {run_head.codec}; those that are staged are of codec {CORE_CODEC}"
            )
        if run_head.properties is not None:
            different = {run_head.properties}
        else:
            different = set(own[position : position + count])
            position += count
        for properties in different - known.keys():
            known[properties] = staged_traits(properties, user)
        found = {known[properties] for properties in different}
        traits.append(found.pop() if len(found) == 1 else None)
    return StagedChunk(data, tuple(traits))


def _require_fair_share(columns: Columns) -> None:
    """Require that a chunk is not much larger when each of its records has its own copy of what runs share."""
    heads = zip(columns.run_heads, columns.run_counts, strict=True)
    size = sum((len(head.key or b"") + len(head.properties or b"")) * count for head, count in heads)
    if size > MOST_SHARED:
        raise PreconditionFailed(
            f"the keys and properties that records share have {size} bytes if each record has its own; a chunk that is "
            f"staged may have {MOST_SHARED}: cut it"
        )


def staged_traits(properties: bytes, user: str | None = None) -> Traits:
    """Return the traits of a record with some encoded properties.

    Raises:
        PreconditionFailed: They cannot be decoded, or claim another user than one that is given.
    """
    try:
        read = decode_core(properties)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise PreconditionFailed(f"the properties of a record cannot be decoded: {error}") from None
    if user is not None and read.user_id not in (None, user):
        raise PreconditionFailed(
            f"the property user_id of a record is {read.user_id!r}, and {user!r} sends it; leave it out, or put it "
            "into a header"
        )
    nested = [each for each in read.headers.values() if type(each) in _CONTAINERS] if read.headers else None
    if nested and _is_deep(nested):
        raise PreconditionFailed(
            f"a header of a record has lists and tables in {_DEEPEST} others; no reader is to run out of its stack"
        )
    return traits_of(
        persistent=True, has_expiration=read.expiration is not None, has_priority=read.priority is not None
    )


def _is_deep(nested: Sequence[object]) -> bool:
    """Whether lists and tables stand in too many others."""
    for _ in range(_DEEPEST):
        inner = (each.values() if isinstance(each, dict) else cast("list[object]", each) for each in nested)
        nested = [item for items in inner for item in items if type(item) in _CONTAINERS]
        if not nested:
            return False
    return True
