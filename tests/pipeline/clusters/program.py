"""A program as users write it: ``python -m pipeline.clusters.program MASTER URL DIRECTORY``.

It reads the stream ``orders`` as a batch and counts, lets a query pass it on into the stream ``results``, runs jobs in
bulk and over a table, and prints a line of JSON, also in how many executors it was read. Only MASTER differs from one
kind of cluster to another.
"""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import functions as f

from pipeline.pooled_jobs import add, crash, fail, jobs
from triomq.pipeline import run_batch, session

CONF = {
    "spark.ui.enabled": "false",
    "spark.log.level": "WARN",
    "spark.driver.memory": "600m",
    "spark.executor.memory": "500m",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # or the first executor may do all
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
}


def main(master: str, url: str, directory: Path) -> None:
    """Read, write and print."""
    connect = master.startswith("sc://")  # whose server has its own settings
    conf = (
        {} if connect else {**CONF, "spark.local.dir": directory / "local", "spark.sql.warehouse.dir": directory / "w"}
    )
    spark = session("clusters", master=master, conf=conf)
    read = {"url": url, "subscribe": "orders", "startingOffsets": "earliest"}

    @f.udf("long")
    def reader(offset: int) -> int:
        return os.getppid()  # the daemon of the executor that runs this

    rows = spark.read.format("triomq").options(**read).load()
    found = rows.select(
        f.count("*"), f.count_distinct("partition", "offset"), f.count_distinct(reader("offset"))
    ).first()
    stream = spark.readStream.format("triomq").options(**read, maxOffsetsPerTrigger="3000").load()
    query = (
        stream.select("key", f.concat(f.lit("seen "), f.col("value").cast("string")).alias("value"))
        .writeStream.format("triomq")
        .options(url=url, topic="results", checkpointLocation=str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    done = run_batch(spark, jobs, [*(add.order(number) for number in range(20)), fail.order("no"), crash.order()])
    batch = [row.result or row.status for row in done.collect()]
    table = add.map_on(spark, spark.range(20).withColumnRenamed("id", "first"))
    mapped = sorted(row.result for row in table.collect())
    said = {"rows": found[0], "offsets": found[1], "executors": found[2], "batch": batch, "mapped": mapped}
    print(json.dumps(said), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
