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

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

KEYS: Final = ("node", "domain", "queue", "msg_id")
"""Columns that name a message."""

QUEUED, DELIVERED, REQUEUED, RETURNED = "queued", "delivered", "requeued", "returned"

ENDS: Final = ("accepted", "rejected", "expired", "dropped", "given-up", "discarded")
"""Kinds of events after which a queue no longer has the message."""

KINDS: Final = (QUEUED, DELIVERED, REQUEUED, RETURNED, *ENDS)
"""Kinds of events of a message."""


def of_messages(events: DataFrame) -> DataFrame:
    """Return the rows about single messages."""
    return events.where(sf.col("msg_id").isNotNull() & sf.col("kind").isin(*KINDS))


def summarize(events: DataFrame) -> DataFrame:
    """Return a row for each message id; ``has_one`` says whether it has one stay, and then the row is this stay."""
    rows = of_messages(events).withColumn("place", sf.col("seq"))
    of_one_process = sf.col("first_process").eqNullSafe(sf.col("last_process"))
    begins_first = (sf.col("begins") == 0) | ((sf.col("begins") == 1) & (sf.col("begin") == sf.col("first_place")))
    ends_last = (sf.col("ends") == 0) | ((sf.col("ends") == 1) & (sf.col("end_place") == sf.col("last_place")))
    return _group(rows, *KEYS, is_delivery=sf.col("kind") == DELIVERED).withColumn(
        "has_one", of_one_process & begins_first & ends_last & (sf.col("returns") == 0)
    )


def sort_out(events: DataFrame, several: DataFrame) -> DataFrame:
    """Return the stays of ids that have several.

    Args:
        events: Rows of a trace log.
        several: The ids, by ``KEYS``.
    """
    in_order = Window.partitionBy(*KEYS).orderBy("process", "seq")
    before = sf.lag("kind").over(in_order)
    begins = (sf.col("kind") == QUEUED) | before.isNull() | before.isin(*ENDS)
    rows = (
        of_messages(events)
        .select(*KEYS, "process", "seq", "ts", "kind")
        .join(several, [*KEYS], "left_semi")
        .withColumns({"is_first": begins, "after": sf.lead("kind").over(in_order)})
        .withColumn("place", sf.row_number().over(in_order).cast("bigint"))
        .withColumn("stay", sf.count_if("is_first").over(in_order))
    )
    is_delivery = (sf.col("kind") == DELIVERED) & ~sf.col("after").eqNullSafe(RETURNED)
    return _group(rows, *KEYS, "stay", is_delivery=is_delivery).drop("stay")


def stays(events: DataFrame, persist: Callable[[DataFrame], DataFrame] = lambda frame: frame) -> DataFrame:
    """Return a row for each stay of a message in a queue.

    Args:
        events: Rows of a trace log.
        persist: Is called with what is used more than once, and returns it; ``DataFrame.persist`` saves much time where
            several tables are made of stays.

    Returns:
        ``node``, ``domain``, ``queue``, ``msg_id``; ``process`` and ``begin``, the place of its row ``queued`` in the
        log; the times ``queued``, ``delivered`` (at first), ``taken`` (at last) and ``ended``; ``outcome``, one of
        ``ENDS``, empty if it has not ended; how often there were ``deliveries``; ``is_out``, whether a consumer has it;
        ``wait`` and ``run`` in seconds, empty if they are not known; ``is_odd`` if one of them is not because it would
        be negative: a clock was set back.
    """
    summaries = persist(summarize(events))
    several = persist(summaries.where(~sf.col("has_one")).select(*KEYS))
    rows = summaries.where("has_one").drop("has_one").unionByName(persist(sort_out(events, several)))
    wait, run = _seconds("queued", "delivered"), _seconds("taken", "ended")
    settled = sf.col("outcome").isin("accepted", "rejected")
    # Not by their numbers: a broker that is killed says of no delivery that it comes back.
    back = sf.coalesce("back_place", sf.lit(-1))
    out = sf.coalesce((sf.col("taken_place") > back) & sf.col("ended").isNull(), sf.lit(False))
    return rows.withColumn("outcome", sf.get(sf.lit(list(ENDS)), sf.col("code"))).select(
        *KEYS,
        *("process", "begin", "queued", "delivered", "taken", "ended", "outcome", "deliveries"),
        out.alias("is_out"),
        sf.when(wait >= 0, wait).alias("wait"),
        sf.when(settled & (run >= 0), run).alias("run"),
        sf.coalesce((wait < 0) | (settled & (run < 0)), sf.lit(False)).alias("is_odd"),
    )


def _group(rows: DataFrame, *keys: str, is_delivery: Column) -> DataFrame:
    """Return what there is to know of groups of rows, whose order is that of ``place`` and not of times."""
    kind, ts, place = sf.col("kind"), sf.col("ts"), sf.col("place")
    ended, delivery = kind.isin(*ENDS), sf.when(is_delivery, place)
    return rows.groupBy(*keys).agg(
        sf.min("process").alias("first_process"),
        sf.max("process").alias("last_process"),
        sf.min("place").alias("first_place"),
        sf.max("place").alias("last_place"),
        sf.max(sf.when(kind == QUEUED, sf.col("process"))).alias("process"),
        sf.max(sf.when(kind == QUEUED, sf.col("seq"))).alias("begin"),
        sf.max(sf.when(kind == QUEUED, ts)).alias("queued"),
        sf.min_by("ts", delivery).alias("delivered"),
        sf.max_by("ts", delivery).alias("taken"),
        sf.max(delivery).alias("taken_place"),
        sf.max(sf.when(kind == REQUEUED, place)).alias("back_place"),
        sf.max(sf.when(ended, ts)).alias("ended"),
        sf.max(sf.when(ended, place)).alias("end_place"),
        sf.max(sf.when(ended, sf.array_position(sf.lit(list(ENDS)), kind) - 1)).cast("int").alias("code"),
        sf.count_if(is_delivery).alias("deliveries"),
        sf.count_if(kind == QUEUED).alias("begins"),
        sf.count_if(ended).alias("ends"),
        sf.count_if(kind == RETURNED).alias("returns"),
    )


def _seconds(begin: str, end: str) -> Column:
    """Return the time between two columns in seconds, to the microsecond."""
    return (sf.unix_micros(end) - sf.unix_micros(begin)) / 1e6
