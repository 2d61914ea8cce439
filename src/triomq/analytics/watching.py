"""Figures and alerts of a trace log as it is written: what ``triomq pipeline watch`` runs as streaming queries.

A minute is over for Spark when it has seen an event that is later by ``LATE``: the broker writes a file at least once a
minute, and those of several brokers come in any order. So figures of a minute come two minutes later, and those of the
last minutes of a log with the next file. A log that has no next file is looked at as a table: no row can be later than
its last one.

State is that of SQL operators: an aggregate has a row for each minute and queue, a join has the messages of ``LATE``
and of the time that a rule asks for. The same functions take a table.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Final

import msgspec
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StreamingQuery

from triomq.analytics.stay_table import DELIVERED, ENDS, KEYS, QUEUED, REQUEUED, RETURNED

LATE: Final = "2 minutes"
"""How much later than others rows may come: brokers write their files once a minute."""

_INTERVAL: Final = "5 seconds"
"""How often each query looks for new files, of which brokers write one in a minute: else it lists them all the time."""

_MOST_SHOWN: Final = 1000
"""Rows that are shown at once, the newest ones: a first micro-batch has all of the log."""

FIGURES: Final = ("queued", "delivered", "accepted", "requeued", "dead_letters", "failures", "lost_peers")
"""What is counted by minute."""


class Rules(msgspec.Struct, frozen=True):
    """What is worth an alert; None for what is not.

    Args:
        wait_p95: Seconds that the 95th of a queue's messages in a minute may have waited.
        failures: How many runs of jobs may fail in a minute.
        dead_letters: How many dead letters a queue may get in a minute.
        lost_peers: How many peers a broker may lose in a minute.
        unsettled: Seconds after which a delivery should be settled.
    """

    wait_p95: float | None = None
    failures: int | None = None
    dead_letters: int | None = None
    lost_peers: int | None = None
    unsettled: float | None = None

    @property
    def counts_something(self) -> bool:
        """Whether a rule is about ``figures``."""
        return (self.failures, self.dead_letters, self.lost_peers) != (None, None, None)


def figures(events: DataFrame) -> DataFrame:
    """Count what happens in each minute, by queue.

    Args:
        events: Rows of a trace log, or a stream of them with a watermark of ``ts``.

    Returns:
        ``minute``, its beginning; ``node``, ``domain``, ``queue``, empty for lost peers; ``FIGURES``.
    """
    kind = sf.col("kind")
    counts = [sf.count_if(kind == name).alias(name) for name in FIGURES[:4]]
    is_letter = (kind == QUEUED) & sf.col("from_queue").isNotNull() & sf.col("error").isNotNull()
    grouped = events.groupBy(sf.window("ts", "1 minute").alias("minute"), "node", "domain", "queue").agg(
        *counts,
        sf.count_if(is_letter).alias("dead_letters"),
        sf.count_if(kind.isin("job-failed", "job-retried", "job-timed-out")).alias("failures"),
        sf.count_if(kind == "peer-lost").alias("lost_peers"),
    )
    return grouped.withColumn("minute", sf.col("minute.start"))


def recent_waits(events: DataFrame, longest: float) -> DataFrame:
    """Return how long the messages had waited that were delivered in each minute.

    Args:
        events: Rows of a trace log, or a stream of them with a watermark of ``ts``.
        longest: Seconds for which messages stay in memory, and by which a stream's answer comes later. A message that
            waited longer, or was queued before the log began, counts as if it was this long.

    Returns:
        ``minute``, its beginning; ``node``, ``domain``, ``queue``; ``wait_p95``, in seconds.
    """
    queued = events.where(sf.col("kind") == QUEUED).select(*KEYS, sf.col("ts").alias("queued"))
    delivered = events.where((sf.col("kind") == DELIVERED) & (sf.coalesce("attempt", sf.lit(0)) == 0))
    near = sf.expr(f"d.ts >= q.queued AND d.ts <= q.queued + interval {longest} seconds")
    pairs = (
        delivered.select(*KEYS, "ts").alias("d").join(queued.alias("q"), _same_message("d", "q") & near, "left_outer")
    )
    # An id may have been used before: of several rows the last one is that of this message.
    keys = [sf.col(f"d.{name}").alias(name) for name in KEYS]
    nearest = pairs.groupBy(sf.col("d.ts").alias("ts"), *keys).agg(sf.max("queued").alias("queued"))
    wait = sf.coalesce((sf.unix_micros("ts") - sf.unix_micros("queued")) / 1e6, sf.lit(longest))
    return (
        nearest.groupBy(sf.window("ts", "1 minute").alias("minute"), *KEYS[:3])
        .agg(sf.approx_percentile(wait, 0.95).alias("wait_p95"))
        .withColumn("minute", sf.col("minute.start"))
    )


def overdue(events: DataFrame, seconds: float) -> DataFrame:
    """List deliveries that were not settled in time.

    Args:
        events: Rows of a trace log, or a stream of them with a watermark of ``ts``.
        seconds: The time.

    Returns:
        ``node``, ``domain``, ``queue``, ``msg_id``; ``delivered``, when; ``consumer``.
    """
    delivered = events.where(sf.col("kind") == DELIVERED)
    settled = events.where(sf.col("kind").isin(*ENDS, REQUEUED, RETURNED))
    in_time = sf.expr(f"s.settled >= d.delivered AND s.settled <= d.delivered + interval {seconds} seconds")
    left = delivered.select(*KEYS, sf.col("ts").alias("delivered"), "consumer").alias("d")
    right = settled.select(*KEYS, sf.col("ts").alias("settled")).alias("s")
    pairs = left.join(right, _same_message("d", "s") & in_time, "left_outer").where("s.settled IS NULL")
    return pairs.select(*(sf.col(f"d.{name}") for name in KEYS), "delivered", "consumer")


def alerts_of_figures(found: DataFrame, rules: Rules) -> DataFrame:
    """Return a row for each figure that is over its limit; see ``_alerts``."""
    limits = {"failures": rules.failures, "dead_letters": rules.dead_letters, "lost_peers": rules.lost_peers}
    over = [
        sf.when(sf.col(name) > limit, _alert(name, sf.col(name).cast("double"), float(limit)))
        for name, limit in limits.items()
        if limit is not None
    ]
    return _alerts(found.withColumn("alert", sf.explode(sf.array_compact(sf.array(*over)))), "minute")


def alerts_of_waits(found: DataFrame, limit: float) -> DataFrame:
    """Return a row for each minute of a queue whose messages waited longer than they may; see ``_alerts``."""
    late = found.where(sf.col("wait_p95") > limit)
    return _alerts(late.withColumn("alert", _alert("wait_p95", sf.col("wait_p95"), limit)), "minute")


def alerts_of_overdue(found: DataFrame, limit: float) -> DataFrame:
    """Return a row for each delivery that was not settled in time; see ``_alerts``."""
    return _alerts(
        found.withColumn("alert", _alert("unsettled", sf.lit(None).cast("double"), limit)),
        "delivered",
        "msg_id",
        "consumer",
    )


def _alert(rule: str, value: Column, limit: float) -> Column:
    return sf.struct(sf.lit(rule).alias("rule"), value.alias("value"), sf.lit(limit).alias("limit"))


def _alerts(found: DataFrame, time: str, *more: str) -> DataFrame:
    """Return ``key``, the rule, and ``value``, a JSON object with all there is to know of the alert."""
    names = ("rule", "value", "limit")
    told = [sf.col("alert")[name].alias(name) for name in names]
    where = [sf.col(name) for name in (*KEYS[:3], *more)]
    return found.select(
        sf.col("alert")["rule"].alias("key"),
        sf.to_json(sf.struct(*told, sf.col(time).alias("ts"), *where)).alias("value"),
    )


def _same_message(left: str, right: str) -> Column:
    return sf.expr(" AND ".join(f"{left}.{name} = {right}.{name}" for name in KEYS))


class Watch(msgspec.Struct, frozen=True):
    """What is watched, and who hears of it.

    Args:
        checkpoint: The folder where Spark remembers how far it is; without one it begins with the log's beginning.
        rules: What is worth an alert.
        sink: Options of the format ``triomq`` that say where alerts go; none go anywhere if it is empty.
        show_figures: Is called with rows of ``figures`` in the order of their minutes, and with how many older ones are
            left out.
        show_alerts: The same for alerts, which are texts of JSON.
        all_there: Queries end when they have read all that is there, and go on at the next start.
    """

    checkpoint: Path | None
    rules: Rules
    sink: Mapping[str, str]
    show_figures: Callable[[list[Row], int], None]
    show_alerts: Callable[[list[str], int], None]
    all_there: bool = False

    def start(self, events: DataFrame) -> list[StreamingQuery]:
        """Start a query for what is counted, and one for each rule that joins rows.

        Args:
            events: What ``stream_trace`` returns.
        """
        found = self._tables(events.withWatermark("ts", LATE))
        return [self._start(name, rows, tell) for name, (rows, tell) in found.items()]

    def look(self, events: DataFrame) -> None:
        """Show and send what is to be said of a log as it is, its last minutes included; nothing is remembered.

        Args:
            events: What ``read_trace`` returns.
        """
        last = events.agg(sf.max(sf.unix_micros("ts"))).collect()[0][0]
        for rows, tell in self._tables(events, last).values():
            tell(rows, {})

    def _tables(self, events: DataFrame, last: int | None = None) -> "dict[str, tuple[DataFrame, _Tell]]":
        """Return what Spark computes, and who is told of it, by name; of a table also when its last row was written."""
        rules = self.rules
        found: dict[str, tuple[DataFrame, _Tell]] = {"figures": (figures(events), self._tell_figures)}
        if rules.wait_p95 is not None:
            waits = recent_waits(events, max(60.0, 2 * rules.wait_p95))
            found["waits"] = (alerts_of_waits(waits, rules.wait_p95), self._tell_alerts)
        if rules.unsettled is not None:
            late = overdue(events, rules.unsettled)
            if last is not None:  # what is newer has had less time
                late = late.where(sf.unix_micros("delivered") <= last - round(rules.unsettled * 1e6))
            found["overdue"] = (alerts_of_overdue(late, rules.unsettled), self._tell_alerts)
        return found

    def _start(self, name: str, rows: DataFrame, tell: "_Tell") -> StreamingQuery:
        started: Future[StreamingQuery] = Future()

        def tell_batch(batch: DataFrame, number: int) -> None:
            # The query's id is in its checkpoint, so that what is sent again after a crash is there once.
            tell(batch, {"batchKey": f"watch-{started.result().id}", "batchNumber": str(number)})

        writer = rows.writeStream.queryName(name).outputMode("append").foreachBatch(tell_batch)
        if self.checkpoint is not None:
            writer = writer.option("checkpointLocation", str(self.checkpoint.absolute() / name))
        writer = writer.trigger(availableNow=True) if self.all_there else writer.trigger(processingTime=_INTERVAL)
        started.set_result(writer.start())
        return started.result()

    def _tell_figures(self, rows: DataFrame, once: Mapping[str, str]) -> None:
        rows.persist()
        try:
            found = rows.orderBy(sf.desc("minute"), *KEYS[:3]).limit(_MOST_SHOWN).collect()
            if found:
                shown = sorted(found, key=lambda row: row.minute)
                self.show_figures(shown, rows.count() - len(shown))
                if self.rules.counts_something:
                    self._tell_alerts(alerts_of_figures(rows, self.rules), once)
        finally:
            rows.unpersist()

    def _tell_alerts(self, rows: DataFrame, once: Mapping[str, str]) -> None:
        rows.persist()
        try:
            newest = rows.select("value").orderBy(sf.desc(sf.get_json_object("value", "$.ts")), "value")
            found = [row.value for row in newest.limit(_MOST_SHOWN).collect()]
            if found:
                self.show_alerts(found[::-1], rows.count() - len(found))
                if self.sink:
                    rows.write.format("triomq").options(**self.sink, **once).mode("append").save()
        finally:
            rows.unpersist()


_Tell = Callable[[DataFrame, Mapping[str, str]], None]
"""Is called with rows, and with the options of the format ``triomq`` by which they are sent once."""
