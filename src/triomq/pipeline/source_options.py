"""Options of the source, named as those of Kafka's source are wherever they mean the same."""

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from triomq.errors import ConfigError
from triomq.pipeline.options import Bytes, ConnectionOptions, Count, Moment, option_name, read_options
from triomq.shown import names_secret, shown

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
    starting_timestamp: Moment | None = None
    ending_timestamp: Moment | None = None
    fail_on_data_loss: bool = True
    max_offsets_per_trigger: Count | None = None
    max_bytes_per_trigger: Bytes | None = None
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
            raise ConfigError(
                f"option {option_name(chosen[0])} is {shown(getattr(self, chosen[0]))}, which names no stream"
            )
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
                f"option subscribePattern is {shown(self.subscribe_pattern)}, no regular expression: {error}"
            ) from None

    def names(self) -> Mapping[str, frozenset[int] | None]:
        """Return the streams that are named, and which of their partitions; None is all. Empty with a pattern."""
        if not self.assign:
            return {name.strip(): None for name in self.subscribe.split(",") if name.strip()}
        found = _json_object("assign", self.assign, _ASSIGNED)
        named: dict[str, frozenset[int]] = {}
        for name, partitions in found.items():
            if not isinstance(partitions, list):
                raise ConfigError(f"option assign has {_told(partitions, name)} for {shown(name)}; it is {_ASSIGNED}")
            named[name] = frozenset(_partition("assign", name, number) for number in partitions)
        return named

    def starting(self) -> Literal["", "earliest", "latest"] | Offsets:
        """Return where to begin; empty if that is not said."""
        if self.starting_offsets.lower() in ("", "earliest", "latest"):
            return self.starting_offsets.lower()  # type: ignore[return-value]  # it is one of them
        return _offsets("startingOffsets", self.starting_offsets, f"earliest, latest, or {_PLACES}")

    def ending(self) -> Literal["latest"] | Offsets:
        """Return where a batch ends."""
        if self.ending_offsets.lower() in ("", "latest"):
            return "latest"
        return _offsets("endingOffsets", self.ending_offsets, f"latest, or {_PLACES}")


def read_source_options(given: Mapping[str, str]) -> SparkSourceOptions:
    """Read the options that Spark hands over.

    Raises:
        ConfigError: A name is not known, a value is not allowed, or some do not fit together.
    """
    return read_options(SparkSourceOptions, given)


_ASSIGNED: Final = 'partitions by stream, as JSON: {"orders": [0, 1]}'
_PLACES: Final = 'offsets by stream and partition, as JSON: {"orders": {"0": 23, "1": -1}}'


def _offsets(option: str, text: str, wanted: str) -> Offsets:
    found: dict[str, dict[int, int]] = {}
    for name, partitions in _json_object(option, text, wanted).items():
        if not isinstance(partitions, dict):
            raise ConfigError(f"option {option} has {_told(partitions, name)} for {shown(name)}; it is {wanted}")
        found[name] = {
            _partition(option, name, number): _offset(option, name, number, offset)
            for number, offset in partitions.items()
        }
    return found


def _json_object(option: str, text: str, wanted: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        raise ConfigError(f"option {option} is {shown(text)}; it is {wanted}") from None


def _partition(option: str, name: str, given: object) -> int:
    number = _whole(given)
    if number is None or number < 0:
        raise ConfigError(f"option {option} has partition {_told(given, name)} of {shown(name)}; they count from 0")
    return number


def _offset(option: str, name: str, number: object, given: object) -> int:
    offset, least = _whole(given), LATEST if option == "endingOffsets" else EARLIEST
    if offset is None or offset < least:
        special = "-1 for the end" + ("" if least == LATEST else ", or -2 for the beginning")
        where = shown(f"{name}/{number}").strip("\"'")
        raise ConfigError(
            f"option {option} has {_told(given, name)} for {where}; that is no place in a stream: it is a whole number "
            f"from 0 on, {special}"
        )
    return offset


def _told(given: object, name: str) -> str:
    return "something" if names_secret(name) else shown(given)


def _whole(given: object) -> int | None:
    """Return a whole number, which may stand in quotes as with Kafka's source; None if it is something else."""
    if isinstance(given, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,19}\s*", given):
        given = int(given)
    if isinstance(given, bool) or not isinstance(given, int) or abs(given) >= 2**63:
        return None
    return given
