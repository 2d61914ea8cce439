"""The messages of a queue: which are ready, in which order, where they are, and which are unsettled."""

from triomq.core.backlog.backlog import Backlog, Entry, ReadDone, Remains, page_of
from triomq.core.backlog.memory import MemoryBacklog
from triomq.core.backlog.paged import PagedBacklog, PagedPlainBacklog, PagedPriorityBacklog
from triomq.core.backlog.priority import PriorityBacklog
from triomq.core.backlog.run import RUN_LENGTH, Run, add_heads

__all__ = [
    "RUN_LENGTH",
    "Backlog",
    "Entry",
    "MemoryBacklog",
    "PagedBacklog",
    "PagedPlainBacklog",
    "PagedPriorityBacklog",
    "PriorityBacklog",
    "ReadDone",
    "Remains",
    "Run",
    "add_heads",
    "page_of",
]
