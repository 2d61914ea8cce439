"""Which partitions of which streams are read, what can be read of them, and where reading begins."""

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from triomq.clients import GroupPosition, PartitionBounds, TapConnection
from triomq.errors import ConfigError, NotFound, RecordsLost
from triomq.pipeline.connecting import BrokerLink
from triomq.pipeline.source_options import EARLIEST, LATEST, Offsets, SparkSourceOptions

T = TypeVar("T")

logger: Final = logging.getLogger("triomq.pipeline")


class Place(NamedTuple):
    """One partition of one stream."""

    stream: str
    partition: int

    def __str__(self) -> str:
        return f"{self.stream}/{self.partition}"


ByPlace = Mapping[Place, T]


class StreamSubscription:
    """What a source reads; created by its reader, over the reader's connection.

    Args:
        link: To the broker.
        options: The source's.
    """

    def __init__(self, link: BrokerLink, options: SparkSourceOptions) -> None:
        self._link = link
        self._options = options
        self._named = options.names()
        self._pattern = re.compile(options.subscribe_pattern)

    @property
    def has_pattern(self) -> bool:
        """Whether streams come and go while it is read."""
        return not self._named

    def streams(self) -> Sequence[str]:
        """Return all streams that may be read, subscribed or not."""
        return self._link.call(TapConnection.streams)

    def bounds(self, since: float | None = None) -> ByPlace[PartitionBounds]:
        """Return what can be read of each partition.

        Args:
            since: A time in seconds since 1970, whose first record is ``position``.

        Raises:
            NotFound: A stream that is named is not there, or a partition of it.
        """
        found: dict[Place, PartitionBounds] = {}
        for name in self._named or filter(self._pattern.fullmatch, self.streams()):
            try:
                partitions = self._partitions(name, since)
            except NotFound:
                if not self.has_pattern:
                    raise
                continue  # it has just been deleted
            found.update((Place(name, number), each) for number, each in partitions.items())
        return found

    def _partitions(self, name: str, since: float | None) -> Mapping[int, PartitionBounds]:
        every = dict(enumerate(self._link.call(lambda connection: connection.offsets(name, since=since))))
        wanted = self._named.get(name)
        if wanted is None:
            return every
        if strange := wanted - every.keys():
            raise NotFound(
                f"option assign names partition {min(strange)} of {name!r}, which has {len(every)}, from 0 on"
            )
        return {number: every[number] for number in sorted(wanted)}

    # Where to begin and to end

    def starts(self, default: str) -> ByPlace[GroupPosition]:
        """Return where to begin, as the options say.

        Args:
            default: ``earliest`` or ``latest``, where they do not.

        Raises:
            RecordsLost: The records there are gone.
            ConfigError: The options name what is not there.
        """
        options = self._options
        if options.starting_timestamp is not None:
            return self._since(options.starting_timestamp)
        bounds, given = self.bounds(), options.starting() or default
        offsets = _offsets("startingOffsets", given, bounds, LATEST if given == "latest" else EARLIEST)
        return {place: self._start(place, offsets[place], each) for place, each in bounds.items()}

    def stops(self) -> ByPlace[GroupPosition]:
        """Return where a batch ends, as the options say.

        Raises:
            ConfigError: The options name what is not there.
        """
        options = self._options
        if options.ending_timestamp is not None:
            return self._since(options.ending_timestamp)
        bounds = self.bounds()
        offsets = _offsets("endingOffsets", options.ending(), bounds, LATEST)
        return {place: _position("endingOffsets", place, offsets[place], each) for place, each in bounds.items()}

    def _since(self, milliseconds: int) -> ByPlace[GroupPosition]:
        return {
            place: GroupPosition(each.identity, each.next if each.position is None else each.position)
            for place, each in self.bounds(milliseconds / 1000).items()
        }

    def _start(self, place: Place, offset: int, bounds: PartitionBounds) -> GroupPosition:
        if 0 <= offset < bounds.first:
            self.lose(place, offset, bounds.first)
            offset = EARLIEST
        return _position("startingOffsets", place, offset, bounds)

    # What is gone

    def lose(self, place: Place, offset: int, first: int) -> None:
        """Warn of records that are gone before they were read, or raise, as the options say.

        Args:
            place: Where.
            offset: From which one on.
            first: The one that is read next in their place.

        Raises:
            RecordsLost: That is an error.
        """
        self._complain(f"records {offset} to {first - 1} of {place} were dropped before they could be read", "them")

    def lose_leased(self, place: Place, offset: int, first: int) -> None:
        """Warn, or raise, when what was leased has gone back to its queue before a batch had read it."""
        self._complain(
            f"{first - offset} messages of queue {place.stream!r} went back to it since they were leased an hour ago; "
            "they come again in a later batch, and some of them may have been done in this one",
            "them in this batch",
        )

    def lose_end(self, place: Place, stop: int, end: int) -> None:
        """Warn, or raise, when a partition ends before records that it has had, as after a restored backup.

        Args:
            place: Where.
            stop: The offset behind those records.
            end: The one behind those that there are.

        Raises:
            RecordsLost: That is an error.
        """
        self._complain(f"{place} had records up to {stop - 1}, and ends with {end - 1} now", "what is missing")

    def lose_rest(self, place: Place, offset: int, stop: int, reason: str) -> None:
        """Warn, or raise, when the stream of a planned batch is gone.

        Args:
            place: Where.
            offset: From which offset on the batch wanted records.
            stop: The offset to end before.
            reason: The broker's.

        Raises:
            RecordsLost: That is an error.
        """
        self._complain(
            f"records {offset} to {stop - 1} of {place} are in this batch, and cannot be read: {reason}", "them"
        )

    def lose_stream(self, name: str) -> None:
        """Warn, or raise, when a stream is gone which was read before."""
        self._complain(f"the stream {name!r} was deleted, perhaps with records that have not been read", "it")

    def _complain(self, text: str, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise RecordsLost(f"{text}; to go on without {what}, set the option failOnDataLoss to false")
        logger.warning("%s; going on without %s, since failOnDataLoss is false", text, what)


def _offsets(option: str, given: str | Offsets, places: Collection[Place], default: int) -> ByPlace[int]:
    """Return an offset for each place; what the option does not name has the default."""
    offsets = dict.fromkeys(places, default)
    for name, partitions in {} if isinstance(given, str) else given.items():
        for number, offset in partitions.items():
            if Place(name, number) not in offsets:
                there = ", ".join(map(str, places)) or "nothing"
                raise ConfigError(f"option {option} names partition {number} of {name!r}; what is read is {there}")
            offsets[Place(name, number)] = offset
    return offsets


def _position(option: str, place: Place, offset: int, bounds: PartitionBounds) -> GroupPosition:
    if offset > bounds.next:
        raise ConfigError(f"option {option} has {offset} for {place}, whose last record is {bounds.next - 1}")
    return GroupPosition(bounds.identity, {EARLIEST: bounds.first, LATEST: bounds.next}.get(offset, offset))
