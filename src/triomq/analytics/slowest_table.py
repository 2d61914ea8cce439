"""The messages that took longest, over all queues that they went through.

    orders ──from_queue, from_id──▶ retry ──▶ orders ──▶ failed         stays, joined by links to one path

A link is a row ``queued`` that says where the message was before. To find the first stay of each path, every stay
points at the one before it, then at what that one points at, and so on: four rounds make paths of 16 moves whole, and a
longer one is shown as several. Only moves are joined so, and mostly they are few; a message that was never moved is its
one stay, and not grouped with anything.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from triomq.analytics.stay_table import KEYS

SLOWEST: Final = 100
_ROUNDS: Final = 4

_FEW: Final = 100_000
"""Moves that every task can have in some 10 MB, which saves a shuffle of all stays."""

_PLACE: Final = ("node", "process", "begin")
"""Columns that name a stay."""

_FIRST: Final = {"first_process": "process", "first_begin": "begin"}

_STOP: Final = ("queue", "msg_id", "queued", "delivered", "ended", "outcome", "deliveries")


def slowest(events: DataFrame, stays: DataFrame) -> DataFrame:
    """List the messages that took longest from their first queue until their end.

    Moves are joined at once, and not when the table is asked for: plans of joins of joins of joins would be larger than
    what they are about.

    Args:
        events: Rows of a trace log.
        stays: What ``stays`` returns.

    Returns:
        ``node``, and of the first queue ``domain``, ``queue``, ``msg_id``; ``message_id``; ``queued``, when; ``total``,
        ``wait`` and ``run`` in seconds, the last two of all queues together; ``outcome``, how it ended; ``path``, with
        ``queue``, ``msg_id``, ``queued``, ``delivered``, ``ended``, ``outcome`` and ``deliveries`` of each queue.
    """
    begun = stays.where("begin IS NOT NULL").withColumn("place", sf.struct("process", "begin"))
    moved = _near(_moved(_links(events, stays)).localCheckpoint())
    linked = begun.join(moved, [*_PLACE]).drop("process", "begin").withColumnsRenamed(_FIRST)
    longest = _longest(linked.groupBy(*_PLACE).agg(_total(sf.min("queued"), sf.max("ended"))))
    alone = begun.join(moved, [*_PLACE], "left_anti").withColumn("total", _total(sf.col("queued"), sf.col("ended")))
    rows = _longest(alone).unionByName(linked.join(sf.broadcast(longest), [*_PLACE]))
    paths = _longest(
        rows.groupBy(*_PLACE, "total").agg(
            sf.array_sort(sf.collect_list(sf.struct("place", "domain", *_STOP))).alias("stops"),
            sf.sum("wait").alias("wait"),
            sf.sum("run").alias("run"),
        )
    ).withColumns({"first": sf.element_at("stops", 1), "last": sf.element_at("stops", -1)})
    paths = paths.localCheckpoint()
    queued = events.where("kind = 'queued'").select("node", "process", sf.col("seq").alias("begin"), "message_id")
    texts = queued.join(sf.broadcast(paths.select(*_PLACE)), [*_PLACE])
    return (
        paths.join(texts, [*_PLACE], "left")
        .select(
            "node",
            *("first.domain", "first.queue", "first.msg_id"),
            "message_id",
            "first.queued",
            *("total", "wait", "run"),
            "last.outcome",
            sf.transform("stops", _stop).alias("path"),
        )
        .orderBy(sf.desc("total"), "node", "domain", "queue", "msg_id")
    )


def _total(begin: Column, end: Column) -> Column:
    return ((sf.unix_micros(end) - sf.unix_micros(begin)) / 1e6).alias("total")


def _longest(rows: DataFrame) -> DataFrame:
    return rows.where("total >= 0").orderBy(sf.desc("total"), *_PLACE).limit(SLOWEST)


def _stop(stop: Column) -> Column:
    return sf.struct(*(stop[name].alias(name) for name in _STOP))


def _links(events: DataFrame, stays: DataFrame) -> DataFrame:
    """Return each stay that has one before it, and that one: the last of this id that began before."""
    moves = events.where("kind = 'queued' AND from_queue IS NOT NULL AND from_id IS NOT NULL").select(
        "node",
        "process",
        sf.col("seq").alias("begin"),
        "domain",
        sf.col("from_queue").alias("queue"),
        sf.col("from_id").alias("msg_id"),
    )
    before = stays.where("begin IS NOT NULL").select(
        *KEYS, sf.col("process").alias("first_process"), sf.col("begin").alias("first_begin")
    )
    earlier = sf.struct("first_process", "first_begin")
    pairs = before.join(_near(moves.localCheckpoint()), [*KEYS]).where(earlier < sf.struct("process", "begin"))
    found = pairs.groupBy(*_PLACE).agg(sf.max(earlier).alias("found"))
    return found.select(*_PLACE, "found.first_process", "found.first_begin").localCheckpoint()


def _near(rows: DataFrame) -> DataFrame:
    """Return rows that were computed so that each task has all of them, if they are few."""
    return sf.broadcast(rows) if rows.count() <= _FEW else rows


def _moved(links: DataFrame) -> DataFrame:
    """Return each stay of a message that was moved, and the first one of its path, which is its own first."""
    if links.isEmpty():
        return links
    for _ in range(_ROUNDS):
        above = links.select(
            "node",
            sf.col("process").alias("first_process"),
            sf.col("begin").alias("first_begin"),
            sf.col("first_process").alias("process_above"),
            sf.col("first_begin").alias("begin_above"),
        )
        links = (
            links.join(above, ["node", "first_process", "first_begin"], "left")
            .select(
                *_PLACE,
                sf.coalesce("process_above", "first_process").alias("first_process"),
                sf.coalesce("begin_above", "first_begin").alias("first_begin"),
            )
            .localCheckpoint()
        )
    first = sf.col("first_process"), sf.col("first_begin")
    firsts = links.select("node", first[0].alias("process"), first[1].alias("begin"), *first).distinct()
    return links.unionByName(firsts)
