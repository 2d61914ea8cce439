"""Orders come in over AMQP, Spark adds them up by minute and product, and the totals come back into a queue.

    pika ─ AMQP ─▶ stream "orders" ─ tap ─▶ Spark ─ tap ─▶ queue "totals" ─▶ async for

It needs Java, and `pip install "triomq[spark]" pika`. All of it shares one process here, so that the example runs by
itself; for real the broker is a process of its own, and Spark has a machine or many.
"""

import functools
import json
import tempfile
from pathlib import Path

import pika
import trio
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming import StreamingQuery

from triomq import AMQP, QueueHandle, Tap, open_broker
from triomq.pipeline import session

ORDERS = [
    ("12:00:05", "tea", 2),
    ("12:00:40", "rice", 1),
    ("12:01:10", "tea", 4),
    ("12:00:50", "tea", 3),  # late, but not by more than a minute
    ("12:05:00", "salt", 1),  # so late in the day that nothing more is waited for of the minutes before
]


def publish_orders(url: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for time, product, amount in ORDERS:
            order = {"time": f"2026-11-23 {time}", "product": product, "amount": amount}
            channel.basic_publish(exchange="", routing_key="orders", body=json.dumps(order).encode())


def add_up(records: DataFrame) -> DataFrame:
    """Sum by minute and product; a minute's totals come when no order can be late for it any more."""
    order = sql.from_json(sql.col("value").cast("string"), "time TIMESTAMP, product STRING, amount INT")
    orders = records.select(order.alias("order")).select("order.*")
    minutes = orders.withWatermark("time", "1 minute").groupBy(sql.window("time", "1 minute"), "product")
    totals = minutes.agg(sql.sum("amount").alias("total"))
    minute = sql.date_format("window.start", "HH:mm").alias("minute")
    return totals.select(sql.to_json(sql.struct(minute, "product", "total")).alias("value"))


def start_query(spark: SparkSession, url: str, folder: Path) -> StreamingQuery:
    source = spark.readStream.format("triomq").option("url", url).option("subscribe", "orders")
    records = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 100_000).load()
    sink = add_up(records).writeStream.format("triomq").option("url", url).option("topic", "totals")
    return sink.option("checkpointLocation", str(folder)).start()


async def print_totals(totals: QueueHandle, count: int) -> None:
    async with totals.open_feed(prefetch=10) as feed:
        async for delivery in feed:
            with delivery:
                print(delivery.body.decode())
            count -= 1
            if not count:
                return


async def main(folder: Path) -> None:
    in_thread = functools.partial(trio.to_thread.run_sync, abandon_on_cancel=True)
    async with open_broker() as broker, trio.open_nursery() as nursery:
        await broker.declare_stream("orders")
        totals = await broker.declare_queue("totals")
        amqp, tap = await broker.listen(AMQP(port=0)), await broker.listen(Tap(port=0))

        spark = await in_thread(functools.partial(session, "orders", master="local[2]"))
        query = await in_thread(start_query, spark, f"tap://guest:guest@127.0.0.1:{tap.port}", folder)
        nursery.start_soon(in_thread, query.awaitTermination)  # raises here when the query fails

        await in_thread(publish_orders, f"amqp://guest:guest@127.0.0.1:{amqp.port}")
        await print_totals(totals, count=3)

        await in_thread(query.processAllAvailable)  # to its own end of the batch that we have seen
        await trio.to_thread.run_sync(query.stop)
        await trio.to_thread.run_sync(spark.stop)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as checkpoint:
        trio.run(main, Path(checkpoint))
