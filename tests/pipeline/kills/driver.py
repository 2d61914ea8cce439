"""A Spark driver that goes on until it is told to drain: ``python -m pipeline.kills.driver URL DIRECTORY``.

Two queries read the stream ``orders``: one writes Parquet files, the other one the stream ``results``. A query that
fails is started again from its checkpoint, as a supervisor would do. On standard output stands ``batch NAME NUMBER``
for each batch that is done and ``failed NAME`` for each failure. When its standard input says ``drain``, or ends, what
is there is read to the end, and the values of the Parquet files are written to ``values.txt``, as Spark reads them.
"""

import sys
import threading
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from triomq.pipeline import session

PARQUET, STREAM = "parquet", "stream"
BATCH, LAST_BATCHES = 3000, 50_000
"""Records of one micro-batch at most: what is published in about a second, so that kills fall into all of its parts;
and in the end, when what was published while nothing ran is to be read."""

TRIES = 5
"""How often a query may fail at the end, when nothing is killed any more; once would do."""


class Driver:
    """The two queries.

    Args:
        url: The broker's.
        directory: Where checkpoints and files are.
    """

    def __init__(self, url: str, directory: Path) -> None:
        self._url = url
        self._directory = directory
        conf = {
            "spark.ui.enabled": "false",
            "spark.log.level": "ERROR",
            "spark.driver.memory": "800m",
            "spark.sql.warehouse.dir": directory / "warehouse",
            "spark.local.dir": directory / "local",
        }
        self._spark = session("kills", master="local[2]", conf=conf)
        self._running: dict[str, StreamingQuery] = {}
        self._shown: dict[str, int] = {}

    def work(self, draining: threading.Event) -> None:
        """Have both queries run until it is time to drain."""
        while not draining.is_set():
            for name in (PARQUET, STREAM):
                self._look_after(name)
            draining.wait(0.05)
        for query in self._running.values():
            query.stop()

    def drain(self) -> None:
        """Read what is left, and write down what is in the files."""
        if not any(self._read_all() for _ in range(TRIES)):
            sys.exit("a query fails again and again")
        values = self._spark.read.parquet(str(self._directory / PARQUET)).select("value").toArrow()["value"]
        (self._directory / "values.txt").write_bytes(b"\n".join(values.to_pylist()))
        self._spark.stop()

    def _look_after(self, name: str) -> None:
        query = self._running.get(name)
        if query is None or not query.isActive:
            if query is not None:
                self._report(name, query.exception())
            self._running[name] = self._start(name)
        elif (progress := query.lastProgress) and progress["batchId"] > self._shown.get(name, -1):
            self._shown[name] = progress["batchId"]
            print(f"batch {name} {progress['batchId']}", flush=True)

    def _read_all(self) -> bool:
        """Return whether both have read all, and no failure has come between."""
        queries = {name: self._start(name, drain=True) for name in (PARQUET, STREAM)}
        for name, query in queries.items():
            try:
                query.awaitTermination()
            except PySparkException as error:
                self._report(name, error)
        return not any(query.exception() for query in queries.values())

    def _report(self, name: str, error: object) -> None:
        print(f"failed {name}", flush=True)
        print(f"{name} has failed: {error}", file=sys.stderr, flush=True)

    def _start(self, name: str, *, drain: bool = False) -> StreamingQuery:
        rows = (
            self._spark.readStream.format("triomq")
            .option("url", self._url)
            .option("subscribe", "orders")
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", str(LAST_BATCHES if drain else BATCH))
            .load()
        )
        writer = self._write_files(rows) if name == PARQUET else self._write_stream(rows)
        writer = writer.queryName(name).option("checkpointLocation", str(self._directory / f"{name}-checkpoint"))
        return (writer.trigger(availableNow=True) if drain else writer).start()

    def _write_files(self, rows: DataFrame):  # type: ignore[no-untyped-def]
        chosen = rows.select("partition", "offset", "value")
        return chosen.writeStream.format("parquet").option("path", str(self._directory / PARQUET))

    def _write_stream(self, rows: DataFrame):  # type: ignore[no-untyped-def]
        chosen = rows.select("key", "value")
        return chosen.writeStream.format("triomq").option("url", self._url).option("topic", "results")


def main() -> None:
    """Work until it is time to drain, drain, and end."""
    url, directory = sys.argv[1], Path(sys.argv[2])
    draining = threading.Event()

    def listen() -> None:
        sys.stdin.readline()
        draining.set()

    threading.Thread(target=listen, daemon=True).start()
    driver = Driver(url, directory)
    driver.work(draining)
    driver.drain()


if __name__ == "__main__":
    main()
