"""The trace log: what happened to every message, or to some, as rows of Parquet files for reports.

    queues ─calls─▶ Recorder ─pieces─▶ socket pair ─▶ process: Rows ─▶ ParquetWriter ─▶ date=…/hour=…/trace-….parquet
                    (broker)           (bounded)      (columns)        (a thread)

The broker writes one compact record for each run or batch, and sends them without waiting; what finds no room is
dropped, with a count. A process of its own makes rows of them. It alone imports PyArrow, the extra ``triomq[trace]``.
"""

from typing import TYPE_CHECKING

from triomq.lazy import lazy_names

if TYPE_CHECKING:
    from triomq.tracelog.config import Trace as Trace
    from triomq.tracelog.config import require_pyarrow as require_pyarrow
    from triomq.tracelog.recorder import Recorder as Recorder
    from triomq.tracelog.supervisor import TraceSupervisor as TraceSupervisor

# The module of each public name: the process loads neither Trio nor the core.
_MODULES = {
    "Recorder": "triomq.tracelog.recorder",
    "Trace": "triomq.tracelog.config",
    "TraceSupervisor": "triomq.tracelog.supervisor",
    "require_pyarrow": "triomq.tracelog.config",
}

__all__ = [
    "Recorder",
    "Trace",
    "TraceSupervisor",
    "require_pyarrow",
]

__getattr__ = lazy_names(__name__, _MODULES, __all__)
