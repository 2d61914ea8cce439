"""How many messages come and go, by minutes; of a table as of a stream."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf


def throughput(events: DataFrame) -> DataFrame:
    """Count what happens in each minute.

    Args:
        events: Rows of a trace log, or a stream of them; that needs a watermark of ``ts`` for a sink that appends.

    Returns:
        ``minute``, its beginning; ``node``, ``domain``, ``queue``; ``protocol``: that of publishers for ``queued`` and
        ``bytes``, and that of consumers for the rest; ``queued``, ``delivered``, ``accepted``, ``requeued``, how many
        messages; ``gone``, how many left the queue otherwise: they expired, had no room or were removed by request;
        ``purges``, how often all were removed that no consumer had; ``bytes``, how large those that were queued.
    """
    kinds = ("queued", "delivered", "accepted", "requeued")
    gone = ("expired", "dropped", "discarded")
    kind = sf.col("kind")
    return (
        events.where(kind.isin(*kinds, *gone, "purged") & sf.col("queue").isNotNull())
        .groupBy(sf.window("ts", "1 minute").alias("minute"), "node", "domain", "queue", "protocol")
        .agg(
            *(sf.count_if(kind == name).alias(name) for name in kinds),
            sf.count_if(kind.isin(*gone)).alias("gone"),
            sf.count_if(kind == "purged").alias("purges"),
            sf.coalesce(sf.sum("size"), sf.lit(0)).cast("bigint").alias("bytes"),
        )
        .withColumn("minute", sf.col("minute.start"))
    )
