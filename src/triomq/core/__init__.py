"""The broker without any wire: messages, sinks, queues, feeds, windows, sessions, domains."""

from triomq.core.batch import Batch
from triomq.core.bindings import Binding, Target, make_binding
from triomq.core.confirms import Confirmed, Confirms, Receipt
from triomq.core.delivery import CloseFeed, Deliver, FeedClosed, Get, OpenFeed, Outcome, Settle, settle
from triomq.core.directory import Directory, Route
from triomq.core.domain import Domain
from triomq.core.feed import Feed
from triomq.core.message import CORE_CODEC, Head, Message, body_of, properties_of
from triomq.core.options import Overflow, QueueOptions, SinkKind, SinkOptions
from triomq.core.predicate import Comparison, Condition, Predicate, make_predicate
from triomq.core.properties import Codecs, HeaderValue, Properties, decode_core, encode_core
from triomq.core.queue import Enlist, Publish, Purge
from triomq.core.queue_store import QueueStatistics, QueueStore
from triomq.core.refusals import (
    Inequivalent,
    InExclusiveUse,
    NoSuchQueue,
    NoSuchSink,
    QueueInUse,
    QueueLocked,
    QueueNotEmpty,
    QueueStopped,
    Restarting,
    SinkBroken,
    SinkInternal,
    SinkInUse,
)
from triomq.core.requests import Bind, DeclareQueue, DeclareSink, DeleteQueue, DeleteSink, Unbind
from triomq.core.session import Session
from triomq.core.sink import SinkStore
from triomq.core.window import Window

__all__ = [
    "CORE_CODEC",
    "Batch",
    "Bind",
    "Binding",
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
    "Domain",
    "Enlist",
    "Feed",
    "FeedClosed",
    "Get",
    "Head",
    "HeaderValue",
    "InExclusiveUse",
    "Inequivalent",
    "Message",
    "NoSuchQueue",
    "NoSuchSink",
    "OpenFeed",
    "Outcome",
    "Overflow",
    "Predicate",
    "Properties",
    "Publish",
    "Purge",
    "QueueInUse",
    "QueueLocked",
    "QueueNotEmpty",
    "QueueOptions",
    "QueueStatistics",
    "QueueStopped",
    "QueueStore",
    "Receipt",
    "Restarting",
    "Route",
    "Session",
    "Settle",
    "SinkBroken",
    "SinkInUse",
    "SinkInternal",
    "SinkKind",
    "SinkOptions",
    "SinkStore",
    "Target",
    "Unbind",
    "Window",
    "body_of",
    "decode_core",
    "encode_core",
    "make_binding",
    "make_predicate",
    "properties_of",
    "settle",
]
