"""Stays: what happened to a message in one queue, from ``queued`` until it is gone, as one row.

    (node, domain, queue, msg_id)    queued  delivered  requeued  delivered  accepted │ queued  delivered …
    in the order (process, seq)      └──────────────── one stay ────────────────────┘ └── the next one

The four columns name a message, but not for ever: a queue in memory begins with id 1 again at each start, and a queue
that is deleted and declared again does so at once. A join by the four would pair deliveries of today with messages of
yesterday. So there are two ways:

- Nearly all ids have one stay. What there is to know of it are minima, maxima and counts, in any order; Spark makes
  them where the rows are read, and what goes through a shuffle is a fifth of all rows (``summarize``).
- Ids with more, or with rows of several processes, are read again, in the order of the log, which no clock changes; a
  stay begins with ``queued``, or with whatever comes after the end of the one before, where a log was cut
  (``sort_out``).

All rows the second way were five times slower. A row that says ``delivered`` and is followed by ``returned`` was no
delivery, since the message was not sent after all; ids with such rows go the second way, too.

No value is a text, but for keys: with others Spark groups by sorting. Texts are looked up for the few rows of a table
that show them.
"""

from collections.abc import Callable
from typing import Final

from triomq.analytics.relations import T, query

KEYS: Final = ("node", "domain", "queue", "msg_id")
"""Columns that name a message."""

KEY_COLUMNS: Final = ", ".join(KEYS)

QUEUED, DELIVERED, REQUEUED, RETURNED = "queued", "delivered", "requeued", "returned"

ENDS: Final = ("accepted", "rejected", "expired", "dropped", "given-up", "discarded")
"""Kinds of events after which a queue no longer has the message."""

KINDS: Final = (QUEUED, DELIVERED, REQUEUED, RETURNED, *ENDS)
"""Kinds of events of a message."""

_OF_MESSAGES: Final = f"msg_id IS NOT NULL AND kind IN {KINDS}"
_CODE: Final = "CASE kind " + " ".join(f"WHEN '{kind}' THEN {code}" for code, kind in enumerate(ENDS)) + " END"
_OUTCOME: Final = "CASE code " + " ".join(f"WHEN {code} THEN '{kind}'" for code, kind in enumerate(ENDS)) + " END"


def same_message(left: str, right: str) -> str:
    """Return in SQL whether rows of two tables are about one message, by its key."""
    return " AND ".join(f"{left}.{name} = {right}.{name}" for name in KEYS)


_SUMMARY: Final = f"""
    min(process) AS first_process, max(process) AS last_process, min(place) AS first_place, max(place) AS last_place,
    max(CASE WHEN kind = '{QUEUED}' THEN process END) AS of_process,
    max(CASE WHEN kind = '{QUEUED}' THEN seq END) AS begin,
    max(CASE WHEN kind = '{QUEUED}' THEN ts END) AS queued,
    min_by(ts, CASE WHEN is_delivery THEN place END) AS delivered,
    max_by(ts, CASE WHEN is_delivery THEN place END) AS taken,
    max(CASE WHEN is_delivery THEN place END) AS taken_place,
    max(CASE WHEN kind = '{REQUEUED}' THEN place END) AS back_place,
    max(CASE WHEN kind IN {ENDS} THEN ts END) AS ended,
    max(CASE WHEN kind IN {ENDS} THEN place END) AS end_place,
    max({_CODE}) AS code,
    count_if(is_delivery) AS deliveries,
    count_if(kind = '{QUEUED}') AS begins,
    count_if(kind IN {ENDS}) AS ends,
    count_if(kind = '{RETURNED}') AS returns
"""
"""What there is to know of groups of rows, whose order is that of ``place`` and not of times."""


def summarize(events: T) -> T:
    """Return a row for each message id; ``has_one`` says whether it has one stay, and then the row is this stay."""
    return query(
        f"""
        SELECT *, first_process IS NOT DISTINCT FROM last_process AND returns = 0
            AND (begins = 0 OR (begins = 1 AND begin = first_place))
            AND (ends = 0 OR (ends = 1 AND end_place = last_place)) AS has_one
        FROM (
            SELECT {KEY_COLUMNS}, {_SUMMARY}
            FROM (
                SELECT {KEY_COLUMNS}, process, seq, ts, kind, seq AS place, kind = '{DELIVERED}' AS is_delivery
                FROM {{events}} WHERE {_OF_MESSAGES}
            ) placed
            GROUP BY {KEY_COLUMNS}
        ) summaries
        """,
        events=events,
    )


def sort_out(events: T, several: T) -> T:
    """Return the stays of ids that have several.

    Args:
        events: Rows of a trace log.
        several: The ids, by ``KEYS``.
    """
    return query(
        f"""
        SELECT {KEY_COLUMNS}, {_SUMMARY}
        FROM (
            SELECT *, sum(CASE WHEN kind = '{QUEUED}' OR before IS NULL OR before IN {ENDS} THEN 1 ELSE 0 END)
                    OVER (PARTITION BY {KEY_COLUMNS} ORDER BY place) AS stay,
                kind = '{DELIVERED}' AND (after IS NULL OR after <> '{RETURNED}') AS is_delivery
            FROM (
                SELECT {KEY_COLUMNS}, process, seq, ts, kind, lag(kind) OVER in_order AS before,
                    lead(kind) OVER in_order AS after, row_number() OVER in_order AS place
                FROM (SELECT * FROM {{events}} WHERE {_OF_MESSAGES}) e
                SEMI JOIN {{several}} s ON {same_message("e", "s")}
                WINDOW in_order AS (PARTITION BY {KEY_COLUMNS} ORDER BY process, seq)
            ) ordered
        ) cut
        GROUP BY {KEY_COLUMNS}, stay
        """,
        events=events,
        several=several,
    )


def stays(events: T, persist: Callable[[T], T] = lambda table: table) -> T:
    """Return a row for each stay of a message in a queue.

    Args:
        events: Rows of a trace log.
        persist: Is called with what is used more than once, and returns it; ``DataFrame.persist`` of Spark saves much
            time where several tables are made of stays.

    Returns:
        ``node``, ``domain``, ``queue``, ``msg_id``; ``process`` and ``begin``, the place of its row ``queued`` in the
        log; the times ``queued``, ``delivered`` (at first), ``taken`` (at last) and ``ended``; ``outcome``, one of
        ``ENDS``, empty if it has not ended; how often there were ``deliveries``; ``is_out``, whether a consumer has it;
        ``wait`` and ``run`` in seconds, empty if they are not known; ``is_odd`` if one of them is not because it would
        be negative: a clock was set back.
    """
    summaries = persist(summarize(events))
    several = persist(query(f"SELECT {KEY_COLUMNS} FROM {{summaries}} WHERE NOT has_one", summaries=summaries))
    # Not by their numbers: a broker that is killed says of no delivery that it comes back.
    columns = (
        f"{KEY_COLUMNS}, of_process, begin, queued, delivered, taken, taken_place, back_place, ended, code, deliveries"
    )
    return query(
        f"""
        SELECT {KEY_COLUMNS}, process, begin, queued, delivered, taken, ended, outcome, deliveries, is_out,
            CASE WHEN wait >= 0 THEN wait END AS wait,
            CASE WHEN is_settled AND run >= 0 THEN run END AS run,
            coalesce(wait < 0 OR (is_settled AND run < 0), false) AS is_odd
        FROM (
            SELECT {KEY_COLUMNS}, of_process AS process, begin, queued, delivered, taken, ended, deliveries,
                {_OUTCOME} AS outcome,
                coalesce(taken_place > coalesce(back_place, -1) AND ended IS NULL, false) AS is_out,
                coalesce({_OUTCOME} IN ('accepted', 'rejected'), false) AS is_settled,
                (unix_micros(delivered) - unix_micros(queued)) / 1e6 AS wait,
                (unix_micros(ended) - unix_micros(taken)) / 1e6 AS run
            FROM (
                SELECT {columns} FROM {{summaries}} WHERE has_one UNION ALL SELECT {columns} FROM {{sorted}}
            ) all_stays
        ) timed
        """,
        summaries=summaries,
        sorted=persist(sort_out(events, several)),
    )
