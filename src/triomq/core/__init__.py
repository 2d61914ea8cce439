"""The broker without any wire: messages, sinks, queues, feeds, windows, sessions, domains."""

from triomq.core.access import EVERYTHING, Permissions
from triomq.core.backlog import Entry
from triomq.core.batch import Batch
from triomq.core.clock import Clock
from triomq.core.codecs import Amend, Codecs, amend_core, core_message
from triomq.core.delivery import (
    CloseFeed,
    Deliver,
    FeedClosed,
    Get,
    MoveFeed,
    OpenFeed,
    Outcome,
    Postpone,
    Settle,
)
from triomq.core.dispatch.feed import Feed, Window
from triomq.core.dispatch.slots import Slots
from triomq.core.dispatch.subscription import Subscription
from triomq.core.ledger import Ledger, Numbered, Settler, postpone, settle
from triomq.core.memory import MemoryAlarm, Process, anonymous_memory, knows_process_memory, process_memory
from triomq.core.message import Head, QueueMessage, Stretch, Traits, body_of, properties_of, traits_of
from triomq.core.packing import pack_arguments, unpack_arguments
from triomq.core.persistence.keyed_records import KeyedRecords
from triomq.core.persistence.persistence import QUEUE_MEMORY, Persistence
from triomq.core.persistence.recorded_topology import recover, recovered_domains, recovering, require_decodable
from triomq.core.persistence.records import decode_key, encode_key, encode_options
from triomq.core.publishing.confirms import Confirmed, Confirms, Receipt, SingleReceipt
from triomq.core.publishing.credit import LONGEST_PAUSE, Pause
from triomq.core.publishing.mix import Taken
from triomq.core.publishing.pressure import Pressure, PublishingPaused
from triomq.core.publishing.publish import Fits, Offer, Publish, take_now
from triomq.core.publishing.publishing import Expecting, Publisher, Unrouted
from triomq.core.publishing.route_cache import RouteCache
from triomq.core.publishing.routed import CachedRoute, RoutedHead, RoutedRun
from triomq.core.publishing.transaction import Transaction
from triomq.core.publishing.waiting_publisher import WaitingPublisher, makes_wait
from triomq.core.queue.browse import Browse, Discard, Purge
from triomq.core.queue.deadletter import Reason
from triomq.core.queue.limits import bytes_ready
from triomq.core.queue.moved import MovedFrom, publish_of, where_from
from triomq.core.queue.queue_state import Enlist, QueueState, QueueStatistics, StreamStatistics
from triomq.core.refusals import (
    Forbidden,
    ForeignName,
    LeaseInvalid,
    NotResident,
    Restarting,
    TooManyKeys,
    TooManyLeases,
    TooManySteps,
    UnknownDelivery,
)
from triomq.core.routing.bindings import Binding, Target, make_binding
from triomq.core.routing.predicate import Comparison, Condition, Predicate, make_predicate
from triomq.core.routing.sink import SinkState
from triomq.core.streams.ledgers import GroupLedger, Leased, LeaseMessages, Ledgers, ledgers_of
from triomq.core.streams.partitions import (
    MOST_PARTITIONS,
    DeclareStream,
    DeleteStream,
    partition_name,
    partitions_of,
    stream_names,
    stream_of,
)
from triomq.core.streams.requests import (
    AskBounds,
    ForgetGroup,
    ReadRange,
    RecordRange,
    Resolved,
    ResolvePlace,
    SetPosition,
    find_since,
    position_of,
    read_records,
    send_records,
)
from triomq.core.streams.stage_target import StageTarget
from triomq.core.streams.staging import MOST_BATCH, StageKey, Stages, stages_of
from triomq.core.streams.start import Bounds, FromOffset, Place, Since, Start
from triomq.core.topology.directory import Directory, Route
from triomq.core.topology.domain import Domain
from triomq.core.topology.lease import LEASE_SECONDS, Lease, Leases, LeaseTarget
from triomq.core.topology.observer import (
    Action,
    Changed,
    ChangeKind,
    Expired,
    HandedOut,
    Observers,
    Published,
    SentToDeadLetters,
    Settled,
)
from triomq.core.topology.options import HASHABLE, Overflow, QueueOptions, SinkKind, SinkOptions, StreamOptions
from triomq.core.topology.policy import AppliesTo, Policies, Policy, PolicyChange, PolicyOptions
from triomq.core.topology.quotas import DomainLimits, Quotas, UserLimitReached
from triomq.core.topology.requests import (
    Bind,
    DeclareQueue,
    DeclareSink,
    DeleteQueue,
    DeleteSink,
    ForgetOrigin,
    SetPolicies,
    Unbind,
)
from triomq.core.topology.session import Session
from triomq.core.topology.tracer import JobEvent, Tracer
from triomq.errors import (
    ForeignResource,
    Inequivalent,
    InExclusiveUse,
    NoSuchQueue,
    NoSuchSink,
    NotForStreams,
    OutOfRange,
    PartOfStream,
    QueueFull,
    QueueInUse,
    QueueLocked,
    QueueNotEmpty,
    QueueStopped,
    QueueUnreadable,
    SinkBroken,
    SinkInternal,
    SinkInUse,
)
from triomq.properties import CORE_CODEC, HeaderValue, Properties, decode_core, encode_core
from triomq.store import RecordKind

__all__ = [
    "CORE_CODEC",
    "EVERYTHING",
    "HASHABLE",
    "LEASE_SECONDS",
    "LONGEST_PAUSE",
    "MOST_BATCH",
    "MOST_PARTITIONS",
    "QUEUE_MEMORY",
    "Action",
    "Amend",
    "AppliesTo",
    "AskBounds",
    "Batch",
    "Bind",
    "Binding",
    "Bounds",
    "Browse",
    "CachedRoute",
    "ChangeKind",
    "Changed",
    "Clock",
    "CloseFeed",
    "Codecs",
    "Comparison",
    "Condition",
    "Confirmed",
    "Confirms",
    "DeclareQueue",
    "DeclareSink",
    "DeclareStream",
    "DeleteQueue",
    "DeleteSink",
    "DeleteStream",
    "Deliver",
    "Directory",
    "Discard",
    "Domain",
    "DomainLimits",
    "Enlist",
    "Entry",
    "Expecting",
    "Expired",
    "Feed",
    "FeedClosed",
    "Fits",
    "Forbidden",
    "ForeignName",
    "ForeignResource",
    "ForgetGroup",
    "ForgetOrigin",
    "FromOffset",
    "Get",
    "GroupLedger",
    "HandedOut",
    "Head",
    "HeaderValue",
    "InExclusiveUse",
    "Inequivalent",
    "JobEvent",
    "KeyedRecords",
    "Lease",
    "LeaseInvalid",
    "LeaseMessages",
    "LeaseTarget",
    "Leased",
    "Leases",
    "Ledger",
    "Ledgers",
    "MemoryAlarm",
    "MoveFeed",
    "MovedFrom",
    "NoSuchQueue",
    "NoSuchSink",
    "NotForStreams",
    "NotResident",
    "Numbered",
    "Observers",
    "Offer",
    "OpenFeed",
    "OutOfRange",
    "Outcome",
    "Overflow",
    "PartOfStream",
    "Pause",
    "Permissions",
    "Persistence",
    "Place",
    "Policies",
    "Policy",
    "PolicyChange",
    "PolicyOptions",
    "Postpone",
    "Predicate",
    "Pressure",
    "Process",
    "Properties",
    "Publish",
    "Published",
    "Publisher",
    "PublishingPaused",
    "Purge",
    "QueueFull",
    "QueueInUse",
    "QueueLocked",
    "QueueMessage",
    "QueueNotEmpty",
    "QueueOptions",
    "QueueState",
    "QueueStatistics",
    "QueueStopped",
    "QueueUnreadable",
    "Quotas",
    "ReadRange",
    "Reason",
    "Receipt",
    "RecordKind",
    "RecordRange",
    "ResolvePlace",
    "Resolved",
    "Restarting",
    "Route",
    "RouteCache",
    "RoutedHead",
    "RoutedRun",
    "SentToDeadLetters",
    "Session",
    "SetPolicies",
    "SetPosition",
    "Settle",
    "Settled",
    "Settler",
    "Since",
    "SingleReceipt",
    "SinkBroken",
    "SinkInUse",
    "SinkInternal",
    "SinkKind",
    "SinkOptions",
    "SinkState",
    "Slots",
    "StageKey",
    "StageTarget",
    "Stages",
    "Start",
    "StreamOptions",
    "StreamStatistics",
    "Stretch",
    "Subscription",
    "Taken",
    "Target",
    "TooManyKeys",
    "TooManyLeases",
    "TooManySteps",
    "Tracer",
    "Traits",
    "Transaction",
    "Unbind",
    "UnknownDelivery",
    "Unrouted",
    "UserLimitReached",
    "WaitingPublisher",
    "Window",
    "amend_core",
    "anonymous_memory",
    "body_of",
    "bytes_ready",
    "core_message",
    "decode_core",
    "decode_key",
    "encode_core",
    "encode_key",
    "encode_options",
    "find_since",
    "knows_process_memory",
    "ledgers_of",
    "make_binding",
    "make_predicate",
    "makes_wait",
    "pack_arguments",
    "partition_name",
    "partitions_of",
    "position_of",
    "postpone",
    "process_memory",
    "properties_of",
    "publish_of",
    "read_records",
    "recover",
    "recovered_domains",
    "recovering",
    "require_decodable",
    "send_records",
    "settle",
    "stages_of",
    "stream_names",
    "stream_of",
    "take_now",
    "traits_of",
    "unpack_arguments",
    "where_from",
]
