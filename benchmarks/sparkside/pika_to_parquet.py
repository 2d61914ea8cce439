"""What one writes without Spark: pika reads a stream over AMQP, pyarrow writes Parquet; a program of its own.

    python -m sparkside.pika_to_parquet URL STREAM COUNT FILE [properties]

It acks what is in the file, 20,000 records at a time, and prints its seconds and its processor time as JSON.
"""

import json
import sys
import time
from typing import Any

import pika
import pyarrow as pa
import pyarrow.parquet as pq

GROUP = 20_000
"""Records of a row group; the prefetch is twice as much, so that the broker sends while a group is written."""

PLAIN = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("offset", pa.int64())])
WHOLE = pa.schema(
    [*PLAIN, ("message_id", pa.string()), ("content_type", pa.string()), ("time", pa.int64()), ("trace", pa.binary())]
)


def row(method: Any, properties: Any, body: bytes) -> tuple[Any, ...]:
    """Return what is written of a record without properties."""
    return method.routing_key.encode(), body, properties.headers["x-stream-offset"]


def whole_row(method: Any, properties: Any, body: bytes) -> tuple[Any, ...]:
    """Return what is written of one with properties."""
    found = properties.message_id, properties.content_type, properties.timestamp, properties.headers["traceparent"]
    return *row(method, properties, body), *found


def main(url: str, stream: str, count: int, path: str, has_properties: bool) -> None:
    """Copy so many records."""
    schema, read = (WHOLE, whole_row) if has_properties else (PLAIN, row)
    with (
        pika.BlockingConnection(pika.URLParameters(url)) as connection,
        pq.ParquetWriter(path, schema, compression="zstd") as writer,
    ):
        channel = connection.channel()
        channel.basic_qos(prefetch_count=2 * GROUP)
        began, used = time.monotonic(), time.process_time()
        rows: list[tuple[Any, ...]] = []
        left = count
        for method, properties, body in channel.consume(stream, arguments={"x-stream-offset": "first"}):
            rows.append(read(method, properties, body))
            left -= 1
            if len(rows) == GROUP or not left:
                columns = [
                    pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)
                ]
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
                channel.basic_ack(method.delivery_tag, multiple=True)
                rows = []
            if not left:
                break
    print(json.dumps([time.monotonic() - began, time.process_time() - used]))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], "properties" in sys.argv[5:])
