"""tap without input or output: the engine of one connection that moves records of streams by ranges, for both roles."""

from triomq.protocols.tap.client import TapClientEngine
from triomq.protocols.tap.codes import CloseCode, RefusalCode
from triomq.protocols.tap.engine import TapEngine
from triomq.protocols.tap.events import ClientEvent, EndOfStream, Failed, ServerEvent
from triomq.protocols.tap.messages import (
    CLIENT_MESSAGES,
    MOST_PARTITIONS,
    SERVER_MESSAGES,
    VERSION,
    AbortAsked,
    AckAsked,
    Answer,
    BoundsAnswered,
    ChallengeAnswered,
    ClientGreeting,
    CommitAsked,
    DoneAnswered,
    FetchAsked,
    GroupPosition,
    LoginChallenged,
    LoginRequested,
    OffsetsAsked,
    PartitionBounds,
    PingAsked,
    RecordsAnswered,
    Request,
    RequestRefused,
    ServerClosing,
    ServerGreeting,
    StageAsked,
    TapMessage,
    TapRequest,
    Welcomed,
)
from triomq.protocols.tap.server import TapServerEngine
from triomq.protocols.tap.settings import LARGEST_FRAME, LEAST_FRAME, Settings

__all__ = [
    # Numbers
    "CLIENT_MESSAGES",
    "LARGEST_FRAME",
    "LEAST_FRAME",
    "MOST_PARTITIONS",
    "SERVER_MESSAGES",
    "VERSION",
    # Messages, which are events
    "AbortAsked",
    "AckAsked",
    "Answer",
    "BoundsAnswered",
    "ChallengeAnswered",
    "ClientEvent",
    "ClientGreeting",
    "CloseCode",
    "CommitAsked",
    "DoneAnswered",
    "EndOfStream",
    "Failed",
    "FetchAsked",
    "GroupPosition",
    "LoginChallenged",
    "LoginRequested",
    "OffsetsAsked",
    "PartitionBounds",
    "PingAsked",
    "RecordsAnswered",
    "RefusalCode",
    "Request",
    "RequestRefused",
    "ServerClosing",
    "ServerEvent",
    "ServerGreeting",
    "Settings",
    "StageAsked",
    # The engines
    "TapClientEngine",
    "TapEngine",
    "TapMessage",
    "TapRequest",
    "TapServerEngine",
    "Welcomed",
]
