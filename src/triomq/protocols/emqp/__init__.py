"""EventMQ's protocol (eMQP) without input or output: the engine of one conversation, for brokers and their peers."""

from triomq.protocols.emqp.broker import BrokerEngine
from triomq.protocols.emqp.calls import call_name, call_problem, complete_call, schedule_key
from triomq.protocols.emqp.codes import CODES, Code
from triomq.protocols.emqp.engine import EMQPEngine
from triomq.protocols.emqp.events import (
    Acknowledged,
    AdminAsked,
    AdminCommand,
    CancelAsked,
    DisconnectAsked,
    Dispatched,
    Event,
    Informed,
    JobsReturned,
    MessageDropped,
    Opened,
    PeerLeaving,
    Progressed,
    RefusalReceived,
    Replied,
    Requested,
    ScheduleRemoved,
    ScheduleSet,
    Silent,
    SlotsOffered,
    StateReported,
    StatesAsked,
    Subscribed,
    TopicPublished,
    Unknown,
    Unsubscribed,
)
from triomq.protocols.emqp.extension import MOST_RUNNING, NO_EXTENSION, Extension, decode_extension, encode_extension
from triomq.protocols.emqp.frames import (
    Frames,
    command,
    is_text,
    message_ids,
    publish_frames,
    reply_frames,
    request_frames,
)
from triomq.protocols.emqp.headers import NO_HEADERS, Headers, make_headers, parse_headers
from triomq.protocols.emqp.jobs import MOST_IDS, JobState
from triomq.protocols.emqp.peer import PeerEngine
from triomq.protocols.emqp.queues import DEFAULT_QUEUE, WeightedQueue
from triomq.protocols.emqp.settings import EXTENSIONS, Dialect, Settings
from triomq.protocols.emqp.states import Role, State

__all__ = [
    # Constants
    "CODES",
    "DEFAULT_QUEUE",
    "EXTENSIONS",
    "MOST_IDS",
    "MOST_RUNNING",
    "NO_EXTENSION",
    "NO_HEADERS",
    # Engines, settings, and what events carry
    "Acknowledged",
    "AdminAsked",
    "AdminCommand",
    "BrokerEngine",
    "CancelAsked",
    "Code",
    "Dialect",
    "DisconnectAsked",
    "Dispatched",
    "EMQPEngine",
    "Event",
    "Extension",
    "Frames",
    "Headers",
    "Informed",
    "JobState",
    "JobsReturned",
    "MessageDropped",
    "Opened",
    "PeerEngine",
    "PeerLeaving",
    "Progressed",
    "RefusalReceived",
    "Replied",
    "Requested",
    "Role",
    "ScheduleRemoved",
    "ScheduleSet",
    "Settings",
    "Silent",
    "SlotsOffered",
    "State",
    "StateReported",
    "StatesAsked",
    "Subscribed",
    "TopicPublished",
    "Unknown",
    "Unsubscribed",
    "WeightedQueue",
    # Messages and their frames without an engine
    "call_name",
    "call_problem",
    "command",
    "complete_call",
    "decode_extension",
    "encode_extension",
    "is_text",
    "make_headers",
    "message_ids",
    "parse_headers",
    "publish_frames",
    "reply_frames",
    "request_frames",
    "schedule_key",
]
