"""What AMQP and its family declare: arguments, types of queues, names, and the rules for them; no wire."""

from triomq.endpoints.declaring.ages import read_age, write_age
from triomq.endpoints.declaring.arguments import (
    LARGEST_SEGMENT,
    Arguments,
    consumer_priority,
    plain_arguments,
    queue_options,
    sink_options,
)
from triomq.endpoints.declaring.declares import UnknownExchangeType, declared_exchange, declared_queue
from triomq.endpoints.declaring.names import (
    RESERVED,
    STANDARD_EXCHANGES,
    generated_name,
    name_for_queue,
    require_deletable,
    require_exchange,
)
from triomq.endpoints.declaring.queue_types import QueueType, is_quorum

__all__ = [
    "LARGEST_SEGMENT",
    "RESERVED",
    "STANDARD_EXCHANGES",
    "Arguments",
    "QueueType",
    "UnknownExchangeType",
    "consumer_priority",
    "declared_exchange",
    "declared_queue",
    "generated_name",
    "is_quorum",
    "name_for_queue",
    "plain_arguments",
    "queue_options",
    "read_age",
    "require_deletable",
    "require_exchange",
    "sink_options",
    "write_age",
]
