"""Options of the sink; those that it shares with the source are in ``options``."""

from typing import Annotated, Final

import msgspec

from triomq.errors import ConfigError
from triomq.pipeline.options import ConnectionOptions, Times

SPARKS_OWN: Final = frozenset({"checkpointLocation", "queryName"})
"""Options of writers that mean something to Spark, which hands all of them over."""


class SparkSinkOptions(ConnectionOptions, frozen=True, kw_only=True):
    """What a sink is asked to do.

    Args:
        topic: The stream or the queue that all rows go to, by its name; the columns topic and exchange count for
            nothing then.
        exchange: In place of ``topic`` the exchange that all rows are published to; their routing keys say where each
            goes.
        routing_key: The routing key of all rows, with ``exchange``; without it each row has its own.
        batch_key: For ``df.write``: the name of this job in all of its runs. With it a batch is there once, as a
            whole, however often it is written; without it rows may be there twice after a failure.
        batch_number: With ``batch_key``: which batch of the job it is; numbers grow. A batch with a number that is not
            above the highest one written is there already, and is not written again.
    """

    topic: str | None = None
    exchange: str | None = None
    routing_key: str | None = None
    batch_key: Annotated[str, msgspec.Meta(max_length=255, description="a name of 255 characters at most")] = ""
    batch_number: Times = 0

    def __post_init__(self) -> None:
        """Refuse what does not fit together."""
        super().__post_init__()
        if self.topic is not None and self.exchange is not None:
            raise ConfigError(
                "both of the options topic and exchange; topic is a stream or a queue by its name, exchange leaves to "
                "routing keys where rows go: take one of them"
            )
        if self.topic == "":
            raise ConfigError("option topic is empty; it is the name of a stream or of a queue")
        if self.routing_key is not None and self.exchange is None:
            raise ConfigError(
                "option routingKey without exchange; a stream or a queue is found by topic, and keys of records are "
                "the column key"
            )
        if self.batch_number and not self.batch_key:
            raise ConfigError("option batchNumber without batchKey; batchKey is the name of the job that it counts for")
