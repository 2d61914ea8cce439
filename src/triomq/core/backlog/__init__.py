"""The messages of a queue: which are ready, in which order, where they are, and which are unsettled."""

from triomq.core.backlog.backlog import Backlog, Entry, ReadDone, Remains
from triomq.core.backlog.memory import MemoryBacklog
from triomq.core.backlog.paged import PagedBacklog, PagedPlainBacklog, PagedPriorityBacklog
from triomq.core.backlog.priority import PriorityBacklog

__all__ = [
    "Backlog",
    "Entry",
    "MemoryBacklog",
    "PagedBacklog",
    "PagedPlainBacklog",
    "PagedPriorityBacklog",
    "PriorityBacklog",
    "ReadDone",
    "Remains",
]
