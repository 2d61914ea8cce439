"""Options of other sources and sinks, which people bring along, and what there is for each here.

One table for everything that asks: an option that is not known is answered from it, in place of the nearest name by its
letters (``minOffsetsPerTrigger`` is nearly ``maxOffsetsPerTrigger``, and the opposite), and the how-to draws it.
"""

from collections.abc import Sequence, Set
from functools import partial
from typing import Final, Literal

import msgspec

Group = Literal["source", "sink", "connection", "cache", "delta"]
"""Where an option comes from: Kafka's source, its sink, or the settings of both; Delta's and other sources."""


class ForeignOption(msgspec.Struct, frozen=True):
    """Options of another source or sink that have one answer.

    Args:
        group: Where they come from.
        names: Their names; one that ends with a dot stands for all that begin so.
        answer: What there is here, with names in double backquotes, as the documentation has them; empty if it is the
            same option.
        use: Options that do it here.
        wants: Where it is the same option, but not alone: a value to try it with.
    """

    group: Group
    names: Sequence[str]
    answer: str = ""
    use: Sequence[str] = ()
    wants: str = ""

    @property
    def is_same(self) -> bool:
        """Whether there is the same option here."""
        return not self.answer


_OFFSETS: Final = '{"orders": {"0": 23, "1": -1}}'

FOREIGN_OPTIONS: Final = (
    ForeignOption("source", ["kafka.bootstrap.servers"], "``address``, which is host:port too", ["address"]),
    ForeignOption("source", ["subscribe"], wants="orders"),
    ForeignOption("source", ["subscribePattern"], wants="orders.*"),
    ForeignOption("source", ["assign"], wants='{"orders": [0, 1]}'),
    ForeignOption("source", ["startingOffsets"], wants=_OFFSETS),
    ForeignOption("source", ["endingOffsets"], wants=_OFFSETS),
    ForeignOption("source", ["startingTimestamp", "endingTimestamp"], wants="1767225600000"),
    ForeignOption(
        "source",
        ["startingOffsetsByTimestamp"],
        "``startingTimestamp``, one for all partitions, or ``startingOffsets`` with the offsets of each",
        ["startingTimestamp", "startingOffsets"],
    ),
    ForeignOption(
        "source",
        ["endingOffsetsByTimestamp"],
        "``endingTimestamp``, one for all partitions, or ``endingOffsets`` with the offsets of each",
        ["endingTimestamp", "endingOffsets"],
    ),
    ForeignOption(
        "source",
        ["startingOffsetsByTimestampStrategy"],
        "does not exist: a partition without a record of that time or later begins at its end, which is Kafka's "
        "strategy ``latest``",
    ),
    ForeignOption("source", ["failOnDataLoss", "includeHeaders"], wants="true"),
    ForeignOption("source", ["minPartitions", "maxRecordsPerPartition", "maxOffsetsPerTrigger"], wants="1000"),
    ForeignOption(
        "source",
        ["minOffsetsPerTrigger", "maxTriggerDelay"],
        "does not exist; ``trigger(processingTime=…)`` makes larger batches",
    ),
    ForeignOption(
        "source",
        ["kafka.group.id", "groupIdPrefix"],
        "``group``, which shows how far a query is, and has no part in where it begins",
        ["group"],
    ),
    ForeignOption(
        "source",
        ["fetchOffset.numRetries"],
        "``retries``, which counts for all that is asked of the broker",
        ["retries"],
    ),
    ForeignOption("source", ["fetchOffset.retryIntervalMs"], "``retryBackoffMs``, which doubles", ["retryBackoffMs"]),
    ForeignOption(
        "source",
        ["kafkaConsumer.pollTimeoutMs"],
        "``connectTimeout``, in seconds, for any one answer of the broker",
        ["connectTimeout"],
    ),
    ForeignOption(
        "source",
        ["kafka.auto.offset.reset"],
        "``startingOffsets``, as with Kafka's source, which refuses it too",
        ["startingOffsets"],
    ),
    ForeignOption("sink", ["topic"], wants="orders"),
    ForeignOption("sink", ["includeHeaders"], "does not exist: a column ``headers`` is written whenever it is there"),
    ForeignOption(
        "sink",
        ["kafka.acks", "kafka.enable.idempotence", "kafka.transactional.id"],
        "does not exist: what is written is confirmed, and is there exactly once",
    ),
    ForeignOption("sink", ["kafka.partitioner.class"], "does not exist: the key decides"),
    ForeignOption(
        "connection",
        ["kafka.security.protocol", "kafka.ssl."],
        "``tls``, with ``tls.ca`` for the certificates to trust",
        ["tls", "tls.ca"],
    ),
    ForeignOption(
        "connection",
        ["kafka.sasl."],
        "``user``, with ``password`` or ``passwordFile``",
        ["user", "password", "passwordFile"],
    ),
    ForeignOption(
        "connection",
        ["kafka.request.timeout.ms", "kafka.session.timeout.ms", "kafka.default.api.timeout.ms"],
        "``connectTimeout``, in seconds, for any one answer of the broker",
        ["connectTimeout"],
    ),
    ForeignOption(
        "connection",
        ["kafka."],
        "does not exist: it is a setting of Kafka's own clients, and there are none here",
    ),
    ForeignOption(
        "cache",
        ["spark.kafka.consumer.cache.", "spark.kafka.consumer.fetchedData.cache.", "spark.kafka.producer.cache."],
        "does not exist: a task has one connection, and closes it",
    ),
    ForeignOption(
        "cache",
        ["spark.kafka.clusters.", "spark.security.credentials.kafka.enabled"],
        "does not exist: there are no delegation tokens; ``passwordFile`` keeps the password out of tasks",
        ["passwordFile"],
    ),
    ForeignOption(
        "delta",
        ["maxFilesPerTrigger", "maxRecordsPerTrigger", "maxMessagesPerTrigger", "maxFetchRecordsPerShard"],
        "``maxOffsetsPerTrigger``, in records",
        ["maxOffsetsPerTrigger"],
    ),
    ForeignOption("delta", ["maxFetchBytes"], "``maxBytesPerTrigger``, in bytes", ["maxBytesPerTrigger"]),
    ForeignOption(
        "delta", ["maxFileAge", "ignoreDeletes", "ignoreChanges"], "does not exist: a stream is never changed"
    ),
    ForeignOption("delta", ["startingVersion"], "``startingOffsets``", ["startingOffsets"]),
    ForeignOption(
        "delta",
        ["initialPosition", "startingPosition", "initial_position"],
        "``startingOffsets``, which is ``earliest``, ``latest`` or JSON",
        ["startingOffsets"],
    ),
    ForeignOption("delta", ["streamName", "topics", "topic", "queue", "queueName"], "``subscribe``", ["subscribe"]),
    ForeignOption("delta", ["topicsPattern"], "``subscribePattern``", ["subscribePattern"]),
    ForeignOption(
        "delta", ["host", "port", "bootstrap.servers", "service.url"], "``address``, which is host:port", ["address"]
    ),
    ForeignOption("delta", ["username"], "``user``", ["user"]),
    ForeignOption("delta", ["vhost", "virtualHost"], "``domain``", ["domain"]),
    ForeignOption("delta", ["streamName", "topics", "queue", "queueName", "subscribe"], "``topic``", ["topic"]),
    ForeignOption("delta", ["txnAppId"], "``batchKey``", ["batchKey"]),
    ForeignOption("delta", ["txnVersion"], "``batchNumber``", ["batchNumber"]),
)
"""All of them; of several that begin alike the first one counts."""


def find_foreign(name: str, known: Set[str]) -> str | None:
    """Return what there is for an option of another source or sink, as a text; None if nobody knows it.

    Args:
        name: Its name, in whatever case.
        known: Names of the options that there are where it was given: a source has others than a sink.
    """
    side = "sink" if "topic" in known else "source"
    found = [option for option in FOREIGN_OPTIONS if any(map(partial(_is_meant, name.lower()), option.names))]
    for option in sorted(found, key=lambda option: option.group != side):
        if option.answer and (not option.use or not known.isdisjoint(option.use)):
            begins = "" if option.answer.startswith("does not exist") else "here it is "
            return f"{begins}{option.answer.replace('``', '')}"
    return next((f"it is an option of the {option.group}" for option in found if option.is_same), None)


def _is_meant(name: str, each: str) -> bool:
    each = each.lower()
    return name == each or (each.endswith(".") and name.startswith(each))
