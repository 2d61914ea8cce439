"""A real broker in a thread, which listens for tap, and can be left and opened again at its port."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ports import free_port
from triomq.app.portal import BlockingBroker, open_blocking_broker
from triomq.clients import TapConnection, open_tap
from triomq.endpoints import Tap
from triomq.pipeline.options import ConnectionOptions, read_options


class Served:
    """A broker that runs; ``options`` is how Spark would be told of it."""

    def __init__(self, broker: BlockingBroker) -> None:
        self.broker = broker
        self.port = broker.listening[0].port
        self.options = {"address": f"127.0.0.1:{self.port}", "retrybackoffms": "1"}

    def connection(self, **more: str) -> ConnectionOptions:
        return read_options(ConnectionOptions, {**self.options, **more})

    def tap(self) -> TapConnection:
        return open_tap(f"tap://127.0.0.1:{self.port}")

    def append(self, stream: str, *values: bytes, key: str | None = None) -> None:
        """Publish records; with a key to the sink of a stream with partitions."""
        for value in values:
            self.broker.publish(stream if key is not None else "", stream if key is None else key, value)


@contextmanager
def serve(data: Path | None = None, port: int = 0, **options: Any) -> Iterator[Served]:
    """Run a broker, at a port at which it can come back."""
    port = port or free_port()
    with open_blocking_broker(Tap(host="127.0.0.1", port=port, **options), data_dir=data) as broker:
        yield Served(broker)
