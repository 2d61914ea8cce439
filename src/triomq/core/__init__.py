"""The broker without any wire: messages, sinks, queues, feeds, windows, sessions, domains."""

from triomq.core.backlog import Entry
from triomq.core.batch import Batch
from triomq.core.bindings import Binding, Target, make_binding
from triomq.core.browse import Browse, Discard, Purge
from triomq.core.clock import Clock
from triomq.core.confirms import Confirmed, Confirms, Receipt, SingleReceipt
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
    postpone,
    settle,
)
from triomq.core.directory import Directory, Route
from triomq.core.domain import Domain
from triomq.core.feed import Feed
from triomq.core.lease import LEASE_SECONDS, Lease, Leases, LeaseTarget
from triomq.core.ledger import Ledger, Numbered, Settler
from triomq.core.limits import octets_ready
from triomq.core.memory import MemoryAlarm, Process
from triomq.core.message import CORE_CODEC, Head, Message, body_of, properties_of
from triomq.core.observer import Action, Changed, Kind, Observers
from triomq.core.options import HASHABLE, Overflow, QueueOptions, SinkKind, SinkOptions
from triomq.core.persistence import QUEUE_MEMORY, Persistence
from triomq.core.policy import AppliesTo, Policies, Policy, PolicyChange, PolicyOptions
from triomq.core.predicate import Comparison, Condition, Predicate, make_predicate
from triomq.core.process import anonymous_memory, knows_process_memory, process_memory
from triomq.core.properties import Amend, Codecs, HeaderValue, Properties, amend_core, decode_core, encode_core
from triomq.core.publish import Fits, Offer, Publish, take_now
from triomq.core.publishing import (
    EVERYTHING,
    CachedRoute,
    Expecting,
    Permissions,
    Pressure,
    Publisher,
    PublishingPaused,
    RoutedRun,
    Unrouted,
)
from triomq.core.queue_state import Enlist, QueueState, QueueStatistics
from triomq.core.quotas import Quotas, UserLimitReached
from triomq.core.recorded_topology import recover, recovered_domains, recovering, require_decodable
from triomq.core.records import decode_key, encode_key, encode_options
from triomq.core.refusals import (
    Forbidden,
    ForeignName,
    ForeignResource,
    Inequivalent,
    InExclusiveUse,
    LeaseInvalid,
    NoSuchQueue,
    NoSuchSink,
    NotResident,
    QueueFull,
    QueueInUse,
    QueueLocked,
    QueueNotEmpty,
    QueueStopped,
    QueueUnreadable,
    Restarting,
    SinkBroken,
    SinkInternal,
    SinkInUse,
    TooManyLeases,
    UnknownDelivery,
)
from triomq.core.requests import (
    Bind,
    DeclareQueue,
    DeclareSink,
    DeleteQueue,
    DeleteSink,
    ForgetOrigin,
    SetPolicies,
    Unbind,
)
from triomq.core.session import Session
from triomq.core.sink import SinkState
from triomq.core.subscription import Subscription
from triomq.core.transaction import Transaction
from triomq.core.waiting_publisher import WaitingPublisher, makes_wait
from triomq.core.window import Window

__all__ = [
    "CORE_CODEC",
    "EVERYTHING",
    "HASHABLE",
    "LEASE_SECONDS",
    "QUEUE_MEMORY",
    "Action",
    "Amend",
    "AppliesTo",
    "Batch",
    "Bind",
    "Binding",
    "Browse",
    "CachedRoute",
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
    "DeleteQueue",
    "DeleteSink",
    "Deliver",
    "Directory",
    "Discard",
    "Domain",
    "Enlist",
    "Entry",
    "Expecting",
    "Feed",
    "FeedClosed",
    "Fits",
    "Forbidden",
    "ForeignName",
    "ForeignResource",
    "ForgetOrigin",
    "Get",
    "Head",
    "HeaderValue",
    "InExclusiveUse",
    "Inequivalent",
    "Kind",
    "Lease",
    "LeaseInvalid",
    "LeaseTarget",
    "Leases",
    "Ledger",
    "MemoryAlarm",
    "Message",
    "MoveFeed",
    "NoSuchQueue",
    "NoSuchSink",
    "NotResident",
    "Numbered",
    "Observers",
    "Offer",
    "OpenFeed",
    "Outcome",
    "Overflow",
    "Permissions",
    "Persistence",
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
    "Publisher",
    "PublishingPaused",
    "Purge",
    "QueueFull",
    "QueueInUse",
    "QueueLocked",
    "QueueNotEmpty",
    "QueueOptions",
    "QueueState",
    "QueueStatistics",
    "QueueStopped",
    "QueueUnreadable",
    "Quotas",
    "Receipt",
    "Restarting",
    "Route",
    "RoutedRun",
    "Session",
    "SetPolicies",
    "Settle",
    "Settler",
    "SingleReceipt",
    "SinkBroken",
    "SinkInUse",
    "SinkInternal",
    "SinkKind",
    "SinkOptions",
    "SinkState",
    "Subscription",
    "Target",
    "TooManyLeases",
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
    "decode_core",
    "decode_key",
    "encode_core",
    "encode_key",
    "encode_options",
    "knows_process_memory",
    "make_binding",
    "make_predicate",
    "makes_wait",
    "octets_ready",
    "postpone",
    "process_memory",
    "properties_of",
    "recover",
    "recovered_domains",
    "recovering",
    "require_decodable",
    "settle",
    "take_now",
]
