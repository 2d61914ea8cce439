"""The path of one message or job through queues, out of the trace log: ``find_paths``.

    ID ─▶ rows that have it ─▶ messages ─▶ what they moved to and from, copies, replies, jobs ─▶ groups ─▶ paths
                                  ▲                        │
                                  └──── until none is new ─┘

It reads the files by PyArrow and starts no Spark: who asks for one message wants to know in a second, and a session
alone takes five or more. In 5,000,000 events an id is found in a second: first the columns of ids are read, then
whole rows of the one file or two that have it. Places (queue and number) are found in a tenth of that, since files have
statistics of them. Reports of all messages are Spark's. A log that is with a cluster's executors alone cannot be
searched in this way; it would be mounted, or copied for the hour in question.

A *stay* is that of a message in one queue, from its arrival to its end, or of a job. The same queue and number may be
several stays: a queue that is not durable counts from one again after a restart, so that ``queued`` begins a new one.
Stays are linked if one moved to the other, if one publish made both, if one answers the other by its correlation id, or
if they are of one job; what is linked is a path. An id that two paths have is not one message: the caller chooses. An
id that many messages have by mistake links nothing, and the path says so.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import reduce
from itertools import accumulate, groupby
from operator import and_, or_
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from triomq.analytics.files import PHYSICAL_TYPES, find_files
from triomq.analytics.path_links import link
from triomq.analytics.path_parts import FoundPaths, MessagePath, PathEvent, Stay, begins_anew

MOST_STAYS: Final = 200
"""Stays of a search; an id that more messages have tells nobody which one is meant, and no terminal shows more."""

MOST_SHARED: Final = 50
"""Messages that a correlation id or a message id links; more have it by mistake, or because it is a constant."""

MOST_EVENTS: Final = 10_000
"""Events that are read at once: what came back ten thousand times has told its story by then."""

_IDS: Final = ("message_id", "correlation_id", "job_id")

_TRACE_ID: Final = re.compile(r"(?:[0-9a-f]{2}-)?([0-9a-f]{32})(?:-[0-9a-f]{16}-[0-9a-f]{2})?")

_ARROW: Final = {"INT64": pa.int64(), "INT32": pa.int32(), "BYTE_ARRAY": pa.string()}

_SCHEMA: Final = pa.schema(
    [(name, pa.timestamp("us", "UTC") if name == "ts" else _ARROW[kind]) for name, kind in PHYSICAL_TYPES.items()]
)


def find_paths(
    directory: Path, wanted: str, since: datetime | None = None, until: datetime | None = None
) -> FoundPaths:
    """Search a trace log for a message or a job, and for all that is linked with it.

    Args:
        directory: The trace log.
        wanted: A message id, a correlation id, a job's id, a ``traceparent`` or its trace id; or ``queue/number``.
        since: The first moment, with a time zone; None for the log's beginning.
        until: The moment after the last one, with a time zone; None for the log's end.

    Raises:
        TraceLogError: There is no such folder.
    """
    found = find_files(directory, since, until)
    log = _Log(found.files, since, until)
    search = _Search(log, wanted)
    search.run()
    first, last = log.times()
    return FoundPaths(search.paths(), search.is_cut, len(found.files), log.count(), first, last, found.skipped)


class _Log:
    """The files of a trace log, which rows are read from; made for a search."""

    def __init__(self, files: Sequence[Path], since: datetime | None, until: datetime | None) -> None:
        self._files = files
        self._dataset = ds.dataset([str(path) for path in files], schema=_SCHEMA, format="parquet") if files else None
        when = [pc.field("ts") >= since] if since else []
        self._when = [*when, pc.field("ts") < until] if until else when

    def rows(self, conditions: Iterable[pc.Expression]) -> list[PathEvent]:
        """Return rows that meet a condition, of each writer in its order; not many more than ``MOST_EVENTS``."""
        if self._dataset is None:
            return []
        condition = reduce(or_, conditions)
        condition = reduce(and_, self._when, condition)
        fragments = list(self._dataset.get_fragments(filter=condition))
        # The columns of the condition first: all others are most of a file, and few files have anything.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            counts = list(pool.map(lambda fragment: fragment.count_rows(filter=condition), fragments))
        before = accumulate(counts, initial=0)
        having = [
            fragment
            for fragment, count, earlier in zip(fragments, counts, before, strict=False)
            if count and earlier < MOST_EVENTS
        ]
        events = [
            PathEvent(process=_process_of(fragment.path), **row)
            for fragment in having
            for row in fragment.scanner(schema=_SCHEMA, filter=condition).head(MOST_EVENTS).to_pylist()
        ]
        return sorted(events, key=lambda event: event.order)

    def count(self) -> int:
        """Return how many events the files have, also those of another time."""
        return sum(pq.read_metadata(path).num_rows for path in self._files)

    def times(self) -> tuple[datetime | None, datetime | None]:
        """Return the times of the first and the last event, as the files of the first and the last hour say."""
        hours = [list(files) for _, files in groupby(self._files, lambda path: path.parent)]
        ends = [end for hour in (*hours[:1], *hours[1:][-1:]) for path in hour for end in _times_of(path)]
        return (min(ends), max(ends)) if ends else (None, None)


def _times_of(path: Path) -> Iterator[datetime]:
    metadata = pq.read_metadata(path)
    place = metadata.schema.names.index("ts")
    for number in range(metadata.num_row_groups):
        statistics = metadata.row_group(number).column(place).statistics
        if statistics is not None and statistics.has_min_max:
            yield from (statistics.min, statistics.max)


def _process_of(path: str) -> int:
    found = re.search(r"-(\d+)-\d+\.parquet$", path)
    return int(found[1]) if found else 0


class _Search:
    """One search: what is known by now, and what of it has not been followed yet.

    Args:
        log: What is searched.
        wanted: The id.
    """

    def __init__(self, log: _Log, wanted: str) -> None:
        self._log = log
        self._wanted = wanted
        self._events: dict[tuple[str, int, int], PathEvent] = {}
        self._matching: set[tuple[str, int, int]] = set()
        self._followed: set[object] = {wanted}
        self._not_followed: set[str] = set()
        self.is_cut = False

    def run(self) -> None:
        """Find what has the id, then follow what was found until nothing is new."""
        events = self._log.rows(_conditions_of(self._wanted))
        if len({event.place for event in events if self._wanted in _ids_of(event)}) > MOST_SHARED:
            self._not_followed.add(self._wanted)
        self._add(events)
        self._matching = set(self._events)
        while not self.is_cut:
            ids = self._new_ids()
            conditions = [*self._new_places(), *_conditions_of_ids(ids)]
            if not conditions:
                break
            self._add(self._without_shared(self._log.rows(conditions), ids))

    def _add(self, events: Sequence[PathEvent]) -> None:
        """Take events, but of no more places than a search has room for."""
        places = dict.fromkeys([event.place for event in (*self._events.values(), *events)])
        self.is_cut = len(places) > MOST_STAYS or len(events) >= MOST_EVENTS
        kept = set(list(places)[:MOST_STAYS])
        self._events.update({event.key: event for event in events if event.place in kept})

    def _new_places(self) -> Iterator[pc.Expression]:
        for event in list(self._events.values()):
            if event.queue is not None and event.msg_id is not None:
                yield from self._place(event, event.queue, event.msg_id)
            if event.from_queue is not None and event.from_id is not None:
                yield from self._place(event, event.from_queue, event.from_id)

    def _place(self, event: PathEvent, queue: str, number: int) -> Iterator[pc.Expression]:
        """Yield conditions for what was at a place of an event's domain, and for what moved away from there."""
        if self._is_new((event.node, event.domain, queue, number)):
            domain = pc.field("domain")
            here = (pc.field("node") == event.node) & (
                domain.is_null() if event.domain is None else domain == event.domain
            )
            yield here & (pc.field("queue") == queue) & (pc.field("msg_id") == number)
            yield here & (pc.field("from_queue") == queue) & (pc.field("from_id") == number)

    def _new_ids(self) -> list[str]:
        texts = [
            text for event in self._events.values() for text in (event.message_id, event.correlation_id, event.job_id)
        ]
        return [text for text in texts if text and self._is_new(text)]

    def _is_new(self, key: object) -> bool:
        is_new = key not in self._followed
        self._followed.add(key)
        return is_new

    def _without_shared(self, events: Sequence[PathEvent], ids: Sequence[str]) -> list[PathEvent]:
        """Drop events that were found by nothing but an id that too many share."""
        new = [event for event in events if event.key not in self._events]
        places: dict[str, set[object]] = {text: set() for text in ids}
        for event in new:
            for text in _ids_of(event) & places.keys():
                places[text].add(event.place)
        shared = {text for text, having in places.items() if len(having) > MOST_SHARED}
        self._not_followed |= shared
        return [event for event in new if not _ids_of(event) & shared or event.place in self._followed]

    def paths(self) -> list[MessagePath]:
        """Return the paths that have the id."""
        stays = _stays_of(sorted(self._events.values(), key=lambda event: event.order))
        groups = link(stays, shared=frozenset(self._not_followed), trace_id=_trace_id_of(self._wanted))
        return [
            MessagePath(group, sorted(self._not_followed))
            for group in groups
            if any(event.key in self._matching for stay in group for event in stay.events)
        ]


def _ids_of(event: PathEvent) -> set[str]:
    return {text for text in (event.message_id, event.correlation_id, event.job_id) if text}


def _conditions_of_ids(ids: Sequence[str]) -> list[pc.Expression]:
    return [pc.field(column).isin(ids) for column in _IDS] if ids else []


def _conditions_of(wanted: str) -> Iterator[pc.Expression]:
    for column in _IDS:
        yield pc.field(column) == wanted
    if trace_id := _trace_id_of(wanted):
        yield pc.match_substring(pc.field("traceparent"), f"-{trace_id}-")
    place, _, number = wanted.rpartition("/")
    if place and number.isascii() and number.isdecimal() and len(number) < 19:  # which fits 64 bits
        is_number = pc.field("msg_id") == int(number)
        yield (pc.field("queue") == place) & is_number
        domain, _, queue = place.rpartition(": ")
        if domain:  # as the report names queues, where there are several domains
            is_domain = pc.field("domain") == domain.rpartition(": ")[2]
            yield is_domain & (pc.field("queue") == queue) & is_number


def _trace_id_of(text: str) -> str:
    found = _TRACE_ID.fullmatch(text)
    return found[1] if found else ""


def _stays_of(events: Sequence[PathEvent]) -> list[Stay]:
    """Split events into stays: by queue and number, at each arrival, and after each end; those of a job by its id."""
    by_place: dict[object, list[list[PathEvent]]] = {}
    for event in events:
        stays = by_place.setdefault(event.place, [])
        if not stays or begins_anew(stays[-1][-1], event):
            stays.append([])
        stays[-1].append(event)
    return [Stay(found) for stays in by_place.values() for found in stays]
