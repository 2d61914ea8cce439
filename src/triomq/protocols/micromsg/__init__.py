"""MicroMsg2 without input or output: the engine of one connection, for both roles.

Messages with sequence numbers and cumulative acks, topics with filters, and extensions that the two sides agree on.
"""

from triomq.protocols.micromsg.client import MicroMsgClient
from triomq.protocols.micromsg.engine import MicroMsgEngine, MicroMsgStatistics
from triomq.protocols.micromsg.events import (
    CommandAnswered,
    EndOfStream,
    ErrorReceived,
    Event,
    ExtensionReceived,
    Failed,
    HandshakeCompleted,
    MessagesAcked,
    MicroMessageRun,
    MicroMessageShape,
    SASLAccepted,
    SASLChallenged,
    SASLResponded,
    SASLStarted,
    Silent,
    SubscribeAsked,
    UnsubscribeAsked,
)
from triomq.protocols.micromsg.extensions import LARGEST_WINDOW, HandshakeExtension
from triomq.protocols.micromsg.filters import (
    MAX_CONDITIONS,
    FilterComparison,
    FilterCondition,
    format_filter,
    parse_filter,
)
from triomq.protocols.micromsg.properties import (
    LONGEST_PROPERTIES,
    PropertyValue,
    decode_properties,
    encode_properties,
    is_property_name,
)
from triomq.protocols.micromsg.server import MicroMsgServer
from triomq.protocols.micromsg.settings import DEFAULT_OPTIONAL, SERVER_OPTIONAL, SHARPMESSAGING_BODY, Settings

__all__ = [
    # Numbers, and extensions that sides know
    "DEFAULT_OPTIONAL",
    "LARGEST_WINDOW",
    "LONGEST_PROPERTIES",
    "MAX_CONDITIONS",
    "SERVER_OPTIONAL",
    "SHARPMESSAGING_BODY",
    # Events, engines, and what is in both
    "CommandAnswered",
    "EndOfStream",
    "ErrorReceived",
    "Event",
    "ExtensionReceived",
    "Failed",
    "FilterComparison",
    "FilterCondition",
    "HandshakeCompleted",
    "HandshakeExtension",
    "MessagesAcked",
    "MicroMessageRun",
    "MicroMessageShape",
    "MicroMsgClient",
    "MicroMsgEngine",
    "MicroMsgServer",
    "MicroMsgStatistics",
    "PropertyValue",
    "SASLAccepted",
    "SASLChallenged",
    "SASLResponded",
    "SASLStarted",
    "Settings",
    "Silent",
    "SubscribeAsked",
    "UnsubscribeAsked",
    # Properties and filters
    "decode_properties",
    "encode_properties",
    "format_filter",
    "is_property_name",
    "parse_filter",
]
