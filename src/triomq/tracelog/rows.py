"""Rows of the trace log, in columns: what records of a broker become, before they are a file.

Everything is appended by run or batch: a value that all rows of a record share is repeated as bytes, and nothing is
done for each row but for what differs in each. So a row costs some 0.2 µs where records have ten rows or more.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from triomq.tracelog.ids import LONGEST, make_finders
from triomq.tracelog.records import (
    CONSUMER,
    DELIVERED,
    EVENT,
    FORGET,
    HAPPENED,
    HEAD,
    JOBS,
    LOST,
    MOVED,
    ONE,
    PURGED,
    QUEUE,
    QUEUED,
    unpack_ids,
)

KINDS = {
    "accept": "accepted",
    "reject": "rejected",
    "requeue": "requeued",
    "return": "returned",
    "expired": "expired",
    "maxlen": "dropped",
    "delivery_limit": "given-up",
    "": "discarded",
}
"""The kind of event that an outcome, or a reason for which a queue gives a message up, is."""

_ENDS_OF_JOBS = ("job-finished", "job-failed", "job-timed-out", "job-cancelled")

_MOST_JOBS = 500_000
"""Jobs whose names are known, some 100 MiB; of those that came first the rows of their ends have none."""

_PLACE = ("ts", "kind", "domain", "queue")

_OF_HEADS = ("session", "exchange", "routing_key", "protocol")
"""Columns of what was published that its head has."""

LOST_EVENTS = "lost-events"
"""The kind of row whose size is a number of events."""

_PURGED, _UNKNOWN = "purged", ""


class Texts:
    """Texts of one column, each once, by numbers; made for each file."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the number of a text."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return number


NUMBERS = (
    "ts",
    "kind",
    "domain",
    "queue",
    "msg_id",
    "session",
    "attempt",
    "size",
    "exchange",
    "routing_key",
    "consumer",
    "protocol",
)
"""Columns of numbers, or of numbers of texts; -1 stands for nothing, but in ``ts`` and ``kind``."""

TEXTS = ("kind", "domain", "queue", "exchange", "routing_key", "consumer", "protocol")
"""Those of them that are numbers of texts."""

IDS = ("message_id", "correlation_id", "traceparent")
"""Columns of texts out of a message's properties."""

RARE = (*IDS, "from_queue", "from_id", "job_id", "job", "error")
"""Columns that most rows have nothing in: of these there are only the places where there is something."""


class Rows:
    """The rows of a file to come.

    Args:
        now: When the first row came, in seconds of a clock that never goes back.
    """

    def __init__(self, now: float) -> None:
        self.began = now
        self.numbers: dict[str, array[int]] = {name: array("q") for name in NUMBERS}
        self._columns = tuple(self.numbers.values())
        self.rare: dict[str, dict[int, str | int]] = {name: {} for name in RARE}
        self.texts: dict[str, Texts] = {name: Texts() for name in TEXTS}

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.numbers["ts"])

    @property
    def events(self) -> int:
        """How many events they are, with those that are counted as lost."""
        lost = self.text("kind", LOST_EVENTS)
        sizes = zip(self.numbers["kind"], self.numbers["size"], strict=True)
        return sum(size if kind == lost else 1 for kind, size in sizes)

    def text(self, column: str, text: str) -> int:
        """Return the number of a text of a column."""
        return self.texts[column].number(text)

    def text_of(self, column: str, text: str) -> int:
        """Return the same, and -1 if there is no text."""
        return self.texts[column].number(text) if text else -1

    def add(self, count: int, **values: Sequence[int] | int) -> None:
        """Add rows of one record.

        Args:
            count: How many.
            values: By column, what each of the rows has, or what all of them have; -1 where nothing is given.
        """
        if count == 1:
            found = [values.get(name, -1) for name in NUMBERS]
            self.add_row([value if isinstance(value, int) else value[0] for value in found])
            return
        for name, column in self.numbers.items():
            value = values.get(name, -1)
            if isinstance(value, int):
                column.frombytes(value.to_bytes(8, "little", signed=True) * count)
            else:
                column.extend(value)

    def add_row(self, values: Sequence[int]) -> None:
        """Add a row, with a value for each of ``NUMBERS``."""
        for column, value in zip(self._columns, values, strict=True):
            column.append(value)

    def put(self, place: int, **values: str | int | None) -> None:
        """Set what one row has in rare columns."""
        for name, value in values.items():
            if value is not None and value != "":
                self.rare[name][place] = value


class _JobNames:
    """What jobs call that have not ended, so that each of their rows has it; made with the expander."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}

    def look(self, job: bytes, kind: str, name: str | None) -> str | None:
        """Return what a job calls, as far as that is known, and remember it until its end."""
        if kind in _ENDS_OF_JOBS:
            return self._names.pop(job, name)
        if name is None:
            return self._names.get(job)
        if len(self._names) >= _MOST_JOBS:
            del self._names[next(iter(self._names))]
        self._names[job] = name
        return name


class Expander:
    """Turns pieces of one broker into rows; made with the process, ends with it.

    Args:
        rows: Returns the rows to add to, for a time in microseconds since 1970: those of the same file, or new ones.
    """

    def __init__(self, rows: Callable[[int], Rows]) -> None:
        self._rows = rows
        self._queues: dict[int, tuple[str, str]] = {}
        self._heads: dict[int, tuple[str, str, int, int, int, str]] = {}
        self._consumers: dict[int, tuple[str, str]] = {}
        self._jobs = _JobNames()
        self._finders = make_finders()
        self._of: Rows | None = None  # whose numbers the next ones are
        self._places: dict[tuple[int, str], tuple[int, int, int]] = {}
        self._known_heads: dict[int, tuple[int, int, int, int, int, int]] = {}
        self._handlers: dict[int, Callable[..., None]] = {
            QUEUED: self._queued,
            ONE: self._queued_one,
            MOVED: self._moved,
            DELIVERED: self._delivered,
            HAPPENED: self._happened,
            PURGED: self._purged,
            LOST: self._lost,
            QUEUE: self._name_queue,
            HEAD: self._name_head,
            CONSUMER: self._name_consumer,
            FORGET: self._forget,
            JOBS: self._happened_to_jobs,
            EVENT: self._rare_event,
        }

    def expand(self, piece: bytes) -> None:
        """Add the rows of a piece."""
        for kind, *fields in msgspec.msgpack.decode(piece, type=list[list]):  # type: ignore[type-arg]  # their fields differ
            self._handlers[kind](*fields)

    def _name_queue(self, number: int, domain: str, name: str) -> None:
        self._begin(None)
        self._queues[number] = domain, name

    def _name_head(self, number: int, *fields: object) -> None:
        self._heads[number] = fields  # type: ignore[assignment]  # as the recorder writes them

    def _name_consumer(self, number: int, name: str, protocol: str) -> None:
        self._consumers[number] = name, protocol

    def _forget(self) -> None:
        self._begin(None)
        self._queues.clear()
        self._heads.clear()
        self._consumers.clear()

    def _lost(self, time: int, count: int) -> None:
        rows = self._rows(time)
        rows.add(1, msg_id=-1, size=count, ts=time, kind=rows.text("kind", LOST_EVENTS))

    def _where(self, rows: Rows, time: int, queue: int, kind: str) -> dict[str, int]:
        return dict(zip(_PLACE, (time, *self._place(rows, queue, kind)), strict=True))

    def _place(self, rows: Rows, queue: int, kind: str) -> tuple[int, int, int]:
        """Return kind, domain and queue by the numbers that they have in a file."""
        if rows is not self._of:
            self._begin(rows)
        found = self._places.get((queue, kind))
        if found is None:
            domain, name = self._queues.get(queue, (_UNKNOWN, _UNKNOWN))
            found = rows.text("kind", kind), rows.text("domain", domain), rows.text("queue", name)
            self._places[queue, kind] = found
        return found

    def _begin(self, rows: Rows | None) -> None:
        """Forget the numbers that texts had in the last file."""
        self._of = rows
        self._places.clear()
        self._known_heads.clear()

    def _delivered(self, time: int, queue: int, ids: bytes | list[int], consumer: int, attempts: int) -> None:
        rows, found = self._rows(time), unpack_ids(ids)
        name, protocol = self._consumers.get(consumer, ("", ""))
        same = self._where(rows, time, queue, "delivered")
        same |= {"consumer": rows.text_of("consumer", name), "protocol": rows.text_of("protocol", protocol)}
        rows.add(len(found), msg_id=found, attempt=attempts, **same)

    def _happened(self, time: int, queue: int, ids: bytes | list[int], word: str) -> None:
        rows, found = self._rows(time), unpack_ids(ids)
        rows.add(len(found), msg_id=found, **self._where(rows, time, queue, KINDS.get(word, word)))

    def _happened_to_jobs(
        self,
        time: int,
        kind: str,
        domain: str,
        queue: str,
        ids: list[bytes],
        attempts: list[int] | None,
        consumer: int,
        names: list[str] | None,
        error: str,
    ) -> None:
        rows = self._rows(time)
        place, (worker, _) = len(rows), self._consumers.get(consumer, ("", ""))
        same = {
            "ts": time,
            "kind": rows.text("kind", kind),
            "domain": rows.text("domain", domain),
            "queue": rows.text("queue", queue),
            "consumer": rows.text_of("consumer", worker),
        }
        rows.add(len(ids), attempt=-1 if attempts is None else attempts, **same)
        for position, job in enumerate(ids):
            name = self._jobs.look(job, kind, None if names is None else names[position])
            rows.put(place + position, job_id=job.decode("utf-8", "replace"), job=name, error=error)

    def _rare_event(self, time: int, kind: str, columns: dict[str, str | int]) -> None:
        rows = self._rows(time)
        values = {name: value for name, value in columns.items() if isinstance(value, int)}
        values |= {name: rows.text_of(name, str(columns[name])) for name in TEXTS if name in columns}
        rows.add(1, ts=time, kind=rows.text("kind", kind), **values)
        rows.put(len(rows) - 1, **{name: columns[name] for name in RARE if name in columns})

    def _purged(self, time: int, queue: int) -> None:
        rows = self._rows(time)
        rows.add(1, msg_id=-1, **self._where(rows, time, queue, _PURGED))

    def _queued_one(self, time: int, queue: int, number: int, head: int, length: int, properties: bytes | None) -> None:
        rows = self._rows(time)
        publisher, exchange, key, protocol, overhead, codec = self._head(rows, head)
        kind, domain, name = self._place(rows, queue, "queued")
        size = length - overhead
        rows.add_row((time, kind, domain, name, number, publisher, 0, size, exchange, key, -1, protocol))
        if properties is not None:
            self._put_ids(rows, len(rows) - 1, codec, properties)

    def _moved(self, origin: str, ids: bytes | list[int] | None, reason: str, time: int, *fields: Any) -> None:
        rows = self._rows(time)
        place = len(rows)
        self._queued(time, *fields)
        found: Sequence[int | None] = [None] * (len(rows) - place) if ids is None else unpack_ids(ids)
        for position, number in enumerate(found, place):
            rows.put(position, from_queue=origin, from_id=number, error=reason)

    def _queued(
        self,
        time: int,
        queue: int,
        first: int,
        step: int,
        count: int,
        head: int | list[int],
        sizes: bytes,
        properties: list[bytes] | None,
    ) -> None:
        rows, lengths = self._rows(time), array("I")
        lengths.frombytes(sizes)
        place, ids = len(rows), range(first, first + step * count, step)
        same = self._where(rows, time, queue, "queued")
        if isinstance(head, int):
            publisher, exchange, key, protocol, overhead, codec = self._head(rows, head)
            of_head = publisher, exchange, key, protocol
            of_heads: Iterable[tuple[str, Sequence[int] | int]] = zip(_OF_HEADS, of_head, strict=True)
            size = [length - overhead for length in lengths]
            codecs: Sequence[int] = (codec,) * count
        else:
            found_by_number = {number: self._head(rows, number) for number in set(head)}
            heads = [found_by_number[number] for number in head]
            *of_each, overheads, codecs = zip(*heads, strict=True)
            of_heads = zip(_OF_HEADS, of_each, strict=True)
            size = [length - overhead for length, overhead in zip(lengths, overheads, strict=True)]
        rows.add(count, msg_id=ids, size=size, attempt=0, **dict(of_heads), **same)
        if properties is not None:
            for position, (codec, encoded) in enumerate(zip(codecs, properties, strict=True), place):
                if encoded:
                    self._put_ids(rows, position, codec, encoded)

    def _put_ids(self, rows: Rows, place: int, codec: int, encoded: bytes) -> None:
        """Set the ids of a row to those in properties."""
        finder = self._finders.get(codec)
        if finder is None or (found := finder(encoded)) is None:
            return
        message_id, correlation_id, traceparent = found
        if message_id is not None:
            rows.rare["message_id"][place] = message_id[:LONGEST]
        if correlation_id is not None:
            rows.rare["correlation_id"][place] = correlation_id[:LONGEST]
        if traceparent is not None:
            rows.rare["traceparent"][place] = traceparent[:LONGEST]

    def _head(self, rows: Rows, number: int) -> tuple[int, int, int, int, int, int]:
        """Return what ``_OF_HEADS`` has, texts by the numbers that they have in a file, then overhead and codec."""
        if rows is not self._of:
            self._begin(rows)
        known = self._known_heads.get(number)
        if known is None:
            found = self._heads.get(number)
            if found is None:
                return -1, -1, -1, -1, 0, -1
            exchange, key, codec, publisher, overhead, protocol = found
            texts = rows.text("exchange", exchange), rows.text("routing_key", key), rows.text_of("protocol", protocol)
            known = self._known_heads[number] = (publisher, *texts, overhead, codec)
        return known
