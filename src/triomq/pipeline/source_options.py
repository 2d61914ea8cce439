"""Options of the source, named as those of Kafka's source are wherever they mean the same."""

import re
from collections.abc import Mapping
from typing import Final, Literal, TypeVar

import msgspec

from triomq.errors import ConfigError
from triomq.pipeline.options import ConnectionOptions, Count, Milliseconds, option_name, read_options

T = TypeVar("T")

EARLIEST: Final = -2
LATEST: Final = -1
"""What stands for the first and the next offset where a number is expected; Kafka's numbers."""

Offsets = Mapping[str, Mapping[int, int]]
"""Offsets by stream and partition."""


class SparkSourceOptions(ConnectionOptions, frozen=True, kw_only=True, rename=option_name):
    """What to read, from where to where, and how much at once.

    Args:
        subscribe: Names of streams, with commas between. One of this and the next two has to be there.
        subscribe_pattern: A regular expression, as Python has them: all streams that may be read and whose whole names
            match. A stream that appears while a query runs is read from its first record on.
        assign: Single partitions, as JSON: ``{"orders": [0, 1]}``.
        starting_offsets: Where a batch begins, and where a query begins that has no checkpoint: ``earliest``,
            ``latest``, or JSON with the offsets of partitions, ``{"orders": {"0": 23, "1": -2}}``, where -2 is earliest
            and -1 latest; partitions that it does not name begin at their first record. Without it a stream begins at
            ``latest``, a batch at ``earliest``.
        ending_offsets: Where a batch ends, before that offset: ``latest`` or JSON; partitions that it does not name
            end at their last record. Not for streams.
        starting_timestamp: Where to begin instead: at the first record that the broker appended then or later, in
            milliseconds since 1970.
        ending_timestamp: Where a batch ends instead: before the first record that was appended then or later.
        fail_on_data_loss: Whether it is an error that records were dropped before they could be read, by retention or
            with their stream; if not the rest is read, with a warning.
        max_offsets_per_trigger: Records of one micro-batch, shared out among partitions by how many each has, but
            one from each at least. With ``mode`` ``queue`` it is 100,000 if no limit is set, beside that of bytes.
        max_bytes_per_trigger: Bytes of one micro-batch, estimated from chunks at both ends of what is due; likewise.
            Where neither limit is set a micro-batch has 32 MiB, half of what a broker takes of a sink as one.
        min_partitions: Parts that a batch, or a micro-batch, is cut into at least, for more tasks than partitions.
        max_records_per_partition: Records that such a part has at most.
        include_headers: Whether there is a column ``headers``.
        include_properties: Whether there is a column ``properties``.
        group: The name under which the broker shows how far a query is; without it one is made up for each checkpoint.
            With ``mode`` ``queue`` it has to be there.
        mode: ``stream``, or ``queue`` to read ordinary queues through a ledger of the broker.
    """

    subscribe: str = ""
    subscribe_pattern: str = ""
    assign: str = ""
    starting_offsets: str = ""
    ending_offsets: str = ""
    starting_timestamp: Milliseconds | None = None
    ending_timestamp: Milliseconds | None = None
    fail_on_data_loss: bool = True
    max_offsets_per_trigger: Count | None = None
    max_bytes_per_trigger: Count | None = None
    min_partitions: Count | None = None
    max_records_per_partition: Count | None = None
    include_headers: bool = False
    include_properties: bool = False
    group: str = ""
    mode: Literal["stream", "queue"] = "stream"

    def __post_init__(self) -> None:
        """Refuse what cannot be, before anything is asked of a broker."""
        super().__post_init__()
        chosen = [name for name in ("subscribe", "subscribe_pattern", "assign") if getattr(self, name)]
        if len(chosen) != 1:
            found = " and ".join(map(option_name, chosen)) or "none of them"
            raise ConfigError(
                f"one of the options subscribe, subscribePattern and assign says what to read; found {found}"
            )
        for offsets, time in (("starting_offsets", "starting_timestamp"), ("ending_offsets", "ending_timestamp")):
            if getattr(self, offsets) and getattr(self, time) is not None:
                raise ConfigError(f"the options {option_name(offsets)} and {option_name(time)}; one of them")
        if not self.names() and not self.subscribe_pattern:
            raise ConfigError(f"option {chosen[0]} is {getattr(self, chosen[0])!r}, which names no stream")
        if self.mode == "queue" and not self.group:
            raise ConfigError(
                "option mode is 'queue', and that needs the option group: it names who reads the queues, one name for "
                "all runs of a query, and of no other one"
            )
        self.starting()
        self.ending()
        try:
            re.compile(self.subscribe_pattern)
        except re.error as error:
            raise ConfigError(
                f"option subscribePattern is {self.subscribe_pattern!r}, no regular expression: {error}"
            ) from None

    def names(self) -> Mapping[str, frozenset[int] | None]:
        """Return the streams that are named, and which of their partitions; None is all. Empty with a pattern."""
        if not self.assign:
            return {name.strip(): None for name in self.subscribe.split(",") if name.strip()}
        found = _json("assign", self.assign, dict[str, list[int]], '{"orders": [0, 1]}')
        return {name: frozenset(partitions) for name, partitions in found.items()}

    def starting(self) -> Literal["", "earliest", "latest"] | Offsets:
        """Return where to begin; empty if that is not said."""
        if self.starting_offsets in ("", "earliest", "latest"):
            return self.starting_offsets  # type: ignore[return-value]  # it is one of them
        return _offsets("startingOffsets", self.starting_offsets, "earliest, latest")

    def ending(self) -> Literal["latest"] | Offsets:
        """Return where a batch ends."""
        if self.ending_offsets in ("", "latest"):
            return "latest"
        return _offsets("endingOffsets", self.ending_offsets, "latest")


def read_source_options(given: Mapping[str, str]) -> SparkSourceOptions:
    """Read the options that Spark hands over.

    Raises:
        ConfigError: A name is not known, a value is not allowed, or some do not fit together.
    """
    return read_options(SparkSourceOptions, given)


def _offsets(option: str, text: str, words: str) -> Offsets:
    example = '{"orders": {"0": 23, "1": -1}}'
    found = _json(option, text, dict[str, dict[int, int]], f"{words}, or {example}")
    for name, partitions in found.items():
        for partition, offset in partitions.items():
            if offset < EARLIEST or (offset == EARLIEST and option == "endingOffsets"):
                raise ConfigError(f"option {option} has {offset} for {name}/{partition}; that is no place in a stream")
    return found


def _json(option: str, text: str, kind: type[T], example: str) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        raise ConfigError(f"option {option} is {text!r}; it is {example}: {error}") from None
