"""What stands in a checkpoint: where a query is in each partition.

    {"version": 1, "streams": {"orders": {"0": [identity, next], …}}, "from": {…}, "group": "spark-…"}

Spark writes the end of a batch down before it runs that, and after a crash it asks for the same batch again, from the
end of the one before. Of what it calls the initial offset it keeps nothing: a new process asks for it anew, and
``latest`` then is later. So:

- The initial one is marked ``init``, and means nothing but "as the options say".
- An end says in ``from`` where its batch begins wherever the end before does not say so, or says something that is not
  there any more: after the initial offset, for streams that have just appeared, and behind records that were dropped.
  A batch that is planned again has the same records.
- The initial one is never an end. Spark runs a first batch even if that has no records, and its end has in ``from``
  where the query began: from then on that stands in the checkpoint.
- ``identity`` tells streams of one name apart. A checkpoint is refused where the stream was deleted and declared anew.
- ``next`` is the first offset that has not been read, so that an empty stream needs no special number.
"""

from collections.abc import Mapping
from secrets import token_hex
from typing import Any, Literal

import msgspec

from triomq.clients import GroupPosition
from triomq.errors import WrongCheckpoint
from triomq.pipeline.ranges import OffsetRange
from triomq.pipeline.subscription import ByPlace, Place


class QueryOffset(msgspec.Struct, frozen=True, kw_only=True):
    """The offset of a query.

    Args:
        positions: Where it is.
        begins: Where the batch that ends here begins, as far as the offset before does not say so.
        group: Under which name the broker shows it.
        init: Whether this is an initial offset.
    """

    positions: ByPlace[GroupPosition]
    begins: ByPlace[GroupPosition] = {}
    group: str
    init: bool = False


_ByStream = dict[str, dict[int, GroupPosition]]


class _StoredOffset(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"begins": "from"}):
    """The same as it stands in a checkpoint."""

    version: Literal[1]
    streams: _ByStream
    begins: _ByStream = {}
    group: str
    init: bool = False


def initial_offset(positions: ByPlace[GroupPosition], group: str) -> dict[str, Any]:
    """Return what a query begins with.

    Args:
        positions: Where the options have it begin.
        group: The option of that name; without it one is made up, which stays with the checkpoint.
    """
    return to_json(QueryOffset(positions=positions, group=group or f"spark-{token_hex(6)}", init=True))


def to_json(offset: QueryOffset) -> dict[str, Any]:
    """Return an offset as Spark wants it."""
    stored = _StoredOffset(
        version=1,
        streams=_by_stream(offset.positions),
        begins=_by_stream(offset.begins),
        group=offset.group,
        init=offset.init,
    )
    found: dict[str, Any] = msgspec.to_builtins(stored, str_keys=True)
    return found


def from_json(offset: Mapping[str, Any]) -> QueryOffset:
    """Read an offset that Spark has had.

    Raises:
        WrongCheckpoint: It is none of ours.
    """
    try:
        stored = msgspec.convert(offset, _StoredOffset, str_keys=True)
    except msgspec.ValidationError as error:
        raise WrongCheckpoint(
            f"the checkpoint has {str(offset)[:200]}, which this version of triomq cannot read: {error}; it is that of "
            "another source, or of a later version; give the query another checkpointLocation"
        ) from None
    return QueryOffset(
        positions=_by_place(stored.streams), begins=_by_place(stored.begins), group=stored.group, init=stored.init
    )


def _by_stream(positions: ByPlace[GroupPosition]) -> _ByStream:
    streams: _ByStream = {}
    for place, position in positions.items():
        streams.setdefault(place.stream, {})[place.partition] = position
    return streams


def _by_place(streams: _ByStream) -> ByPlace[GroupPosition]:
    return {Place(name, number): each for name, partitions in streams.items() for number, each in partitions.items()}


def plan_batch(start: QueryOffset, end: QueryOffset) -> list[OffsetRange]:
    """Return the ranges between two offsets, always the same ones; none between an offset and itself.

    Raises:
        WrongCheckpoint: They do not fit together.
    """
    if start == end:
        return []  # what it has in ``from`` is where the batch before began
    begins = {**({} if start.init else start.positions), **end.begins}
    if missing := end.positions.keys() - begins.keys():
        raise WrongCheckpoint(f"the checkpoint does not say where the batch begins that ends in {min(missing)}")
    return [
        OffsetRange(place, stop.identity, begins[place].next, stop.next)
        for place, stop in end.positions.items()
        if begins[place].next < stop.next
    ]
