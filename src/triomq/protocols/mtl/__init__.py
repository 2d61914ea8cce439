"""11/MTL without input or output: control sessions and data flows over ZeroMQ, for servers and their clients."""

from triomq.protocols.mtl.arguments import is_short_text
from triomq.protocols.mtl.codes import FAULT_REASONS, STATUSES, FaultReason
from triomq.protocols.mtl.control_client import MTLControlClient
from triomq.protocols.mtl.control_server import MTLControlServer
from triomq.protocols.mtl.data_client import MTLDataClient
from triomq.protocols.mtl.data_engine import MTLDataEngine, content_suffix
from triomq.protocols.mtl.data_server import MTLDataServer
from triomq.protocols.mtl.events import (
    AuthorizeReceived,
    CloseReceived,
    CommandReceived,
    ConfirmModel,
    ContentsRejected,
    ControlClientEvent,
    ControlServerEvent,
    DataClientEvent,
    DataLeaseAsked,
    DataLeased,
    DataServerEvent,
    Dismissed,
    FlowDirection,
    FlowSilent,
    IllFormed,
    LeaseClaimed,
    LeaseReleased,
    LoginRequired,
    OpenReceived,
    ProfileChosen,
    ReplyReceived,
    ResponseReceived,
    SASLChallenged,
    SessionReady,
    Summoned,
)
from triomq.protocols.mtl.kinds import FIXED_NAMES, ContentKind
from triomq.protocols.mtl.log import WriterLog
from triomq.protocols.mtl.properties import (
    EMPTY_TABLE,
    ContentProperties,
    InvalidContent,
    content_entries,
    content_of,
    decode_content,
    encode_content,
    is_content_table,
)
from triomq.protocols.mtl.requests import Frames, is_data
from triomq.protocols.mtl.runs import ConfirmRun, ContentRun
from triomq.protocols.mtl.settings import MTLSettings
from triomq.protocols.mtl.states import ControlState, FlowState

__all__ = [
    # Constants
    "EMPTY_TABLE",
    "FAULT_REASONS",
    "FIXED_NAMES",
    "STATUSES",
    # Engines, settings, and what events carry
    "AuthorizeReceived",
    "CloseReceived",
    "CommandReceived",
    "ConfirmModel",
    "ConfirmRun",
    "ContentKind",
    "ContentProperties",
    "ContentRun",
    "ContentsRejected",
    "ControlClientEvent",
    "ControlServerEvent",
    "ControlState",
    "DataClientEvent",
    "DataLeaseAsked",
    "DataLeased",
    "DataServerEvent",
    "Dismissed",
    "FaultReason",
    "FlowDirection",
    "FlowSilent",
    "FlowState",
    "Frames",
    "IllFormed",
    "InvalidContent",
    "LeaseClaimed",
    "LeaseReleased",
    "LoginRequired",
    "MTLControlClient",
    "MTLControlServer",
    "MTLDataClient",
    "MTLDataEngine",
    "MTLDataServer",
    "MTLSettings",
    "OpenReceived",
    "ProfileChosen",
    "ReplyReceived",
    "ResponseReceived",
    "SASLChallenged",
    "SessionReady",
    "Summoned",
    "WriterLog",
    # Tables and messages without an engine
    "content_entries",
    "content_of",
    "content_suffix",
    "decode_content",
    "encode_content",
    "is_content_table",
    "is_data",
    "is_short_text",
]
