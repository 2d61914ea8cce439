"""What is wrong, in the order in which an operator wants to hear of it.

Each finding is one sentence with its numbers, and leads to the table with the rest. A finding that is no fault (a queue
that delays on purpose also has long waits) says what it has measured, not what to think of it. Where nothing is found,
the page says what was looked for.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
import pyarrow as pa

from triomq.analytics.page.queues import totals
from triomq.analytics.page.tables import ReportTables
from triomq.analytics.page.words import duration, moment, number, shown, some

SLOW: Final = 1.0
"""Seconds that one in twenty messages of a slow queue has waited, or longer: what a person notices as a pause."""

GROWS: Final = 1.25
"""How many messages come into a queue that grows, for each that leaves it."""

FEW: Final = 100
"""Messages below which a queue does not count as one that grows: many wait for a moment."""

_NAMED: Final = 3
"""Queues, jobs and reasons that a sentence names."""

LOOKED_FOR: Final = (
    "lost peers, dead letters, failed jobs, messages that were delivered and never settled, queues that grow, "
    f"and queues where one in twenty messages waits for {duration(SLOW)} or longer"
)


class Finding(msgspec.Struct, frozen=True):
    """Something that is wrong, or may be.

    Args:
        is_bad: Whether something was lost or has failed; otherwise it is worth a look.
        count: How many, in large letters.
        title: Of what.
        text: A sentence.
        section: The part of the page that has more of it.
    """

    is_bad: bool
    count: str
    title: str
    text: str
    section: str


def find(tables: ReportTables) -> list[Finding]:
    """Return what is wrong, the worst first.

    Args:
        tables: Those of the report, with names for their queues.
    """
    found = [finding for find_some in _FINDERS for finding in find_some(tables)]
    return sorted(found, key=lambda finding: not finding.is_bad)


def _dead_letters(tables: ReportTables) -> Iterator[Finding]:
    rows = tables.dead_letters.to_pylist()
    if count := _sum(rows, "messages"):
        reasons = _most(rows, "reason", "messages")
        queues = _most(rows, "from_queue", "messages")
        text = f"By reason: {reasons}. From {queues}."
        yield Finding(True, number(count), _noun(count, "dead letter"), text, "dead-letters")


def _failed_jobs(tables: ReportTables) -> Iterator[Finding]:
    rows = tables.jobs.to_pylist()
    if count := _sum(rows, "failed"):
        errors = _most(tables.job_failures.to_pylist(), "error", "failed")
        text = f"Most of {_most(rows, 'job', 'failed')}." + (f" By error: {errors}." if errors else "")
        yield Finding(True, number(count), _noun(count, "job") + " failed for good", text, "jobs")
    if count := _sum(rows, "timed_out"):
        text = f"Most of {_most(rows, 'job', 'timed_out')}."
        yield Finding(True, number(count), _noun(count, "job") + " timed out", text, "jobs")
    retried, finished = _sum(rows, "retried"), _sum(rows, "finished")
    if retried > finished / 10:
        text = f"For {some(finished, 'job')} that finished. Most of {_most(rows, 'job', 'retried')}."
        yield Finding(False, number(retried), "retries" if retried != 1 else "retry", text, "jobs")


def _lost_peers(tables: ReportTables) -> Iterator[Finding]:
    rows = tables.lost_peers.to_pylist()
    if rows:
        last = max(rows, key=lambda row: (row["ts"] is not None, row["ts"]))
        had = _sum(rows, "unsettled")
        text = f"They had {number(had)} {'delivery' if had == 1 else 'deliveries'} that were not settled. "
        text += f"The last: {shown(last['peer'], 60)}, {moment(last['ts'])} UTC."
        yield Finding(True, number(len(rows)), "lost " + _noun(len(rows), "peer"), text, "lost-peers")


def _unsettled(tables: ReportTables) -> Iterator[Finding]:
    rows = tables.unsettled_by_queue.to_pylist()
    count = _sum(rows, "messages") or tables.unsettled.num_rows
    if count:
        oldest = min((row["delivered"] for row in tables.unsettled.to_pylist() if row["delivered"]), default=None)
        text = f"Most in {_most(rows, 'name', 'messages')}. " if rows else ""
        text += f"The oldest was delivered {moment(oldest)} UTC." if oldest else ""
        yield Finding(True, number(count), "delivered and never settled", text, "unsettled")


def _growing_queues(tables: ReportTables) -> Iterator[Finding]:
    rows = totals(tables.throughput, ["queued", "delivered", "gone", "purges"], rank="queued")
    # How many a purge has removed stands nowhere, so where there was one nothing is said.
    came_and_went = [
        (row, _int(row, "queued"), _int(row, "delivered") + _int(row, "gone"))
        for row in rows
        if not _int(row, "purges")
    ]
    grown = [
        {**row, "more": came - went} for row, came, went in came_and_went if came - went >= FEW and came > went * GROWS
    ]
    if grown:
        text = f"More came in than went out: {_most(grown, 'name', 'more')}. A stream does so by its nature."
        yield Finding(
            False, number(len(grown)), _noun(len(grown), "queue") + _verb(len(grown), "grow"), text, "throughput"
        )


def _slow_queues(tables: ReportTables) -> Iterator[Finding]:
    rows = [row for row in tables.waits.to_pylist() if (row["wait_p95"] or 0) >= SLOW]
    if rows:
        rows.sort(key=lambda row: (-row["wait_p95"], row["name"]))
        named = ", ".join(f"{shown(row['name'], 40)} {duration(row['wait_p95'])}" for row in rows[:_NAMED])
        text = f"One in twenty messages waits at least so long (p95): {named}{_and_more(len(rows))}."
        yield Finding(False, number(len(rows)), "slow " + _noun(len(rows), "queue"), text, "waits")


def _incomplete(tables: ReportTables) -> Iterator[Finding]:
    rows = tables.log.to_pylist()
    lost, missing, back = (_sum(rows, field) for field in ("lost", "missing", "clock_set_back"))
    if lost:
        text = "The broker had no room for them; what is counted here is too little by so much."
        yield Finding(False, number(lost), _noun(lost, "event") + " not in the log", text, "about")
    if missing:
        text = "They were in files that are gone, or were skipped."
        yield Finding(False, number(missing), _noun(missing, "event") + " missing in the log", text, "about")
    skipped = [text for row in rows for text in row["skipped"] or ()]
    if skipped:
        text = f"{', '.join(shown(text) for text in skipped[:_NAMED])}{_and_more(len(skipped))}."
        yield Finding(False, number(len(skipped)), _noun(len(skipped), "file") + " skipped", text, "about")
    if back:
        text = "The clock of the broker's machine was set back meanwhile; their times count nowhere."
        yield Finding(False, number(back), _noun(back, "message") + " with a wait below zero", text, "about")


_FINDERS: Final[Sequence[Callable[[ReportTables], Iterator[Finding]]]] = (
    _lost_peers,
    _dead_letters,
    _failed_jobs,
    _unsettled,
    _growing_queues,
    _slow_queues,
    _incomplete,
)


def with_names(tables: ReportTables, name: Callable[[pa.Table], pa.Table]) -> ReportTables:
    """Return the tables with a column ``name`` where they have a queue of their own."""
    named = ("throughput", "waits", "waits_by_minute", "unsettled", "unsettled_by_queue", "slowest", "dead_letters")
    return msgspec.structs.replace(tables, **{field: name(getattr(tables, field)) for field in named})


def _int(row: Mapping[str, object], field: str) -> int:
    value = row.get(field)
    return value if isinstance(value, int) else 0


def _sum(rows: Sequence[Mapping[str, object]], field: str) -> int:
    return sum(_int(row, field) for row in rows)


def _most(rows: Sequence[Mapping[str, object]], field: str, measure: str) -> str:
    """Return the names with the largest sums, in words: ``orders 12, mail 3 and 4 more``."""
    sums: dict[str, int] = {}
    for row in rows:
        name = row.get(field)
        text = shown(None if name is None else str(name), 40)
        sums[text] = sums.get(text, 0) + _int(row, measure)
    ordered = sorted(((name, count) for name, count in sums.items() if count), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {number(count)}" for name, count in ordered[:_NAMED]) + _and_more(len(ordered))


def _and_more(count: int) -> str:
    return f" and {number(count - _NAMED)} more" if count > _NAMED else ""


def _noun(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"


def _verb(count: int, verb: str) -> str:
    return f" {verb}s" if count == 1 else f" {verb}"
