"""What went wrong with messages: dead letters, peers that were lost, deliveries that were never settled."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from triomq.analytics.stay_table import DELIVERED, KEYS, QUEUED

MOST_UNSETTLED: Final = 1000
"""Rows of ``unsettled``: more than anyone reads, and few enough to look each of them up."""


def dead_letters(events: DataFrame) -> DataFrame:
    """Count messages that a queue gave up and that went to another one.

    Args:
        events: Rows of a trace log, or a stream of them.

    Returns:
        ``node``, ``domain``, ``from_queue``, ``queue``, where it has arrived; ``reason``; ``messages``, how many;
        ``first`` and ``last``, when.
    """
    letters = events.where("kind = 'queued' AND from_queue IS NOT NULL AND error IS NOT NULL")
    return letters.groupBy("node", "domain", "from_queue", "queue", sf.col("error").alias("reason")).agg(
        sf.count("*").alias("messages"), sf.min("ts").alias("first"), sf.max("ts").alias("last")
    )


def lost_peers(events: DataFrame) -> DataFrame:
    """List peers that went without a word; of a table as of a stream.

    Args:
        events: Rows of a trace log, or a stream of them.

    Returns:
        ``ts``, ``node``, ``peer``, ``protocol``, ``error``; ``unsettled``, how many deliveries it had.
    """
    peer, size = sf.col("consumer").alias("peer"), sf.coalesce("size", sf.lit(0)).cast("bigint")
    return events.where("kind = 'peer-lost'").select("ts", "node", peer, "protocol", "error", size.alias("unsettled"))


def unsettled_by_queue(stays: DataFrame) -> DataFrame:
    """Count messages that consumers have at the end of the log.

    Args:
        stays: What ``stays`` returns.

    Returns:
        ``node``, ``domain``, ``queue``; ``messages``, how many; ``oldest``, when the first of them was delivered.
    """
    grouped = stays.where("is_out").groupBy("node", "domain", "queue")
    return grouped.agg(sf.count("*").alias("messages"), sf.min("taken").alias("oldest"))


def unsettled(events: DataFrame, stays: DataFrame) -> DataFrame:
    """List the messages that consumers have at the end of the log, those that were delivered first.

    Args:
        events: Rows of a trace log.
        stays: What ``stays`` returns.

    Returns:
        ``node``, ``domain``, ``queue``, ``msg_id``, ``message_id``, ``delivered``, ``consumer``, ``attempt``.
    """
    oldest = stays.where("is_out").orderBy("taken", *KEYS).limit(MOST_UNSETTLED)
    places = oldest.select(*KEYS, "process", "begin", "taken")
    kind = sf.col("kind")
    is_begin = (kind == QUEUED) & (sf.col("e.process") == sf.col("process_")) & (sf.col("seq") == sf.col("begin"))
    is_end = (kind == DELIVERED) & (sf.col("ts") == sf.col("taken"))
    rows = events.where(kind.isin(QUEUED, DELIVERED)).alias("e")
    return (
        rows.join(sf.broadcast(places.withColumnRenamed("process", "process_")), [*KEYS])
        .where(is_begin | is_end)
        .groupBy(*KEYS, sf.col("taken").alias("delivered"))
        .agg(
            sf.max(sf.when(is_begin, sf.col("message_id"))).alias("message_id"),
            sf.max(sf.when(is_end, sf.col("consumer"))).alias("consumer"),
            sf.max(sf.when(is_end, sf.col("attempt"))).alias("attempt"),
        )
        .select(*KEYS, "message_id", "delivered", "consumer", "attempt")
        .orderBy("delivered", *KEYS)
    )
