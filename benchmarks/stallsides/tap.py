"""Attacks by tap: many streams, groups, and batches; and by the operations of management."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from stallsides.amqp import bind, declare, exchange, fill, publish, text
from stallsides.attacked import Attacked, pour, rest
from triomq.clients import open_blocking, open_tap
from triomq.errors import TriomqError
from triomq.protocols.control import (
    BrowseQueue,
    ExportDefinitions,
    GetTotals,
    ListBindings,
    ListConnections,
    ListQueues,
    ListSinks,
    Operation,
)


def ranges(broker: Attacked, size: float) -> Iterator[str]:
    """Make 2,000 streams and list them; lease and fetch all of large ones; acknowledge for 20,000 groups."""
    connection = broker.connect()
    stream = text("x-queue-type", "stream")
    yield "make streams"
    pour(connection, (declare(f"s{n}", stream, durable=True) for n in range(int(2_000 * size))))
    pour(connection, (publish("", "s0", b"x" * 10) for _ in range(int(300_000 * size))))
    fill(broker, 300_000 * size)
    with open_tap(f"tap://eve:eve@127.0.0.1:{broker.ports['Tap']}/default") as tap:
        yield "list them"
        for _ in range(3):
            tap.streams()
        bounds = tap.offsets("s0")[0]
        yield "fetch"
        with suppress(TriomqError):
            for _ in tap.fetch("s0", 0, bounds.first, bounds.next, identity=bounds.identity):
                pass
        yield "offsets of a time"
        for _ in range(100):
            tap.offsets("s0", since=1.0)
        yield "delete the stream"
    rest()


OPERATIONS: tuple[Operation[Any], ...] = (
    ListQueues(),
    ListSinks(),
    ListBindings(),
    ListConnections(),
    GetTotals(),
    ExportDefinitions(),
    BrowseQueue("q"),
)


def management(broker: Attacked, size: float) -> Iterator[str]:
    """Look at a domain with 20,000 queues and as many bindings and exchanges."""
    connection = broker.connect()
    count = int(20_000 * size)
    yield "declare"
    pour(connection, (declare(f"q{n}") for n in range(count)))
    pour(connection, (exchange(f"x{n}", "direct") for n in range(count)))
    pour(connection, (bind(f"x{n}", "k", f"q{n}") for n in range(count)))
    fill(broker, 10_000 * size)
    url = f"amqp://eve:eve@127.0.0.1:{broker.port}/"
    for operation in OPERATIONS:

        def look(operation: Operation[Any] = operation) -> str:
            try:
                with open_blocking(url) as client:
                    client.control(operation)
            except TriomqError as error:
                return str(error)[-80:]
            return "answered"

        yield f"{type(operation).__name__}"
        for _ in range(2):
            said = look()
        yield said


ATTACKS = (ranges, management)
