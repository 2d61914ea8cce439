"""Durable storage: records, queues and messages, in batches that are on disk whole or not at all.

This package needs no event loop; the actor that runs a store in a process of its own is in ``triomq.store.hosting``.
"""

from triomq.store.backup import back_up
from triomq.store.batch_builder import OpenOperation
from triomq.store.body import BodyRun, decode_body, encode_body, gather_body
from triomq.store.checking import Gap, QueueReport, Report, check
from triomq.store.connecting import DATABASE
from triomq.store.debts import Debt
from triomq.store.directory import DirectoryLock
from triomq.store.interface import Reader, Store, StoreStatistics
from triomq.store.journal import Fetch, Journal
from triomq.store.operations import (
    AttemptsCounted,
    ChunkAppended,
    ChunksDropped,
    ChunksMerged,
    DelayedDropped,
    MessagesAppended,
    MessagesDelayed,
    MessagesDelivered,
    MessagesSettled,
    MessagesSpilled,
    Operation,
    OperationBatch,
    QueueDeclared,
    QueueDeleted,
    Range,
    RecordKind,
    RecordPut,
    RecordRangeRemoved,
    RecordRemoved,
    SpilledDropped,
)
from triomq.store.presence import KnownStore
from triomq.store.reading import ChunksRead, ChunksSent, Damaged, Reading, SegmentRead
from triomq.store.recovered import (
    AttemptsFound,
    ChunkFound,
    DelayedFound,
    DeliveredFound,
    Piece,
    QueueFound,
    RecordFound,
    RecordKeyFound,
    Recovered,
    RecoveredQueue,
    SegmentFound,
    TotalsFound,
    assemble,
)
from triomq.store.reserve import DISK_RESERVE
from triomq.store.salvaging import REPORT, Salvage, SalvagedQueue, salvage
from triomq.store.sqlite import SqliteReader, SqliteStore, compact
from triomq.store.unwritten import words_of

__all__ = [  # noqa: RUF022  # grouped for the reader
    # operations
    "MessagesAppended",
    "AttemptsCounted",
    "OperationBatch",
    "QueueDeclared",
    "MessagesDelayed",
    "QueueDeleted",
    "MessagesDelivered",
    "DelayedDropped",
    "RecordKind",
    "Operation",
    "RecordPut",
    "Range",
    "RecordRemoved",
    "RecordRangeRemoved",
    "MessagesSettled",
    "MessagesSpilled",
    "SpilledDropped",
    "ChunkAppended",
    "ChunksMerged",
    "ChunksDropped",
    "OpenOperation",
    "Fetch",
    "Debt",
    "Journal",
    "words_of",
    # bodies of segments
    "BodyRun",
    "decode_body",
    "encode_body",
    "gather_body",
    # what is read
    "ChunksRead",
    "ChunksSent",
    "Damaged",
    "Reading",
    "SegmentRead",
    # what is recovered
    "AttemptsFound",
    "ChunkFound",
    "DelayedFound",
    "DeliveredFound",
    "TotalsFound",
    "Piece",
    "QueueFound",
    "RecordFound",
    "RecordKeyFound",
    "Recovered",
    "RecoveredQueue",
    "SegmentFound",
    "assemble",
    # stores
    "DATABASE",
    "DISK_RESERVE",
    "DirectoryLock",
    "KnownStore",
    "Reader",
    "SqliteReader",
    "SqliteStore",
    "Store",
    "StoreStatistics",
    # maintenance
    "Gap",
    "REPORT",
    "QueueReport",
    "Report",
    "back_up",
    "Salvage",
    "SalvagedQueue",
    "check",
    "compact",
    "salvage",
]
