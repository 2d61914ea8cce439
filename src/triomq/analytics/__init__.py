"""What a trace log says: tables of waits, failures, dead letters and the like, computed by Spark or in this process.

    trace log ─▶ read_trace ──▶ DataFrame ─▶ throughput, waits, jobs, …  ─▶ DataFrame     pure functions
                 stream_trace ▶ streaming  ─▶ those that need no past     ─▶ streaming

Each function takes rows of the trace log, or what another function made of them, and returns a table; nothing is read,
written or counted on the way. All of it is SQL that Spark compiles: Python would run once for each row, ten times
slower. DuckDB reads the same SQL, for a report of a small log (``relations``). No module here knows a broker: the files
are all there is between the two.
"""

from typing import TYPE_CHECKING

from triomq.lazy import lazy_names

if TYPE_CHECKING:
    from triomq.analytics.files import TraceFiles as TraceFiles
    from triomq.analytics.files import find_files as find_files
    from triomq.analytics.job_tables import job_failures as job_failures
    from triomq.analytics.job_tables import jobs as jobs
    from triomq.analytics.log_table import log as log
    from triomq.analytics.losses import dead_letters as dead_letters
    from triomq.analytics.losses import lost_peers as lost_peers
    from triomq.analytics.losses import unsettled as unsettled
    from triomq.analytics.losses import unsettled_by_queue as unsettled_by_queue
    from triomq.analytics.path_parts import FoundPaths as FoundPaths
    from triomq.analytics.path_parts import MessagePath as MessagePath
    from triomq.analytics.path_parts import PathEvent as PathEvent
    from triomq.analytics.path_parts import PathSpan as PathSpan
    from triomq.analytics.path_parts import Stay as Stay
    from triomq.analytics.paths import find_paths as find_paths
    from triomq.analytics.reading import read_files as read_files
    from triomq.analytics.reading import read_trace as read_trace
    from triomq.analytics.reading import stream_trace as stream_trace
    from triomq.analytics.report import SMALL_LOG as SMALL_LOG
    from triomq.analytics.report import ReportSummary as ReportSummary
    from triomq.analytics.report import make_report as make_report
    from triomq.analytics.report_plan import ReportPlan as ReportPlan
    from triomq.analytics.slowest_table import slowest as slowest
    from triomq.analytics.stay_table import stays as stays
    from triomq.analytics.throughput_table import throughput as throughput
    from triomq.analytics.wait_tables import waits as waits
    from triomq.analytics.wait_tables import waits_by_minute as waits_by_minute
    from triomq.analytics.watching import Rules as Rules
    from triomq.analytics.watching import Watch as Watch

# The module of each public name; __all__ below lists the same names for tools that read and do not run.
_MODULES = {
    "SMALL_LOG": "triomq.analytics.report",
    "FoundPaths": "triomq.analytics.path_parts",
    "MessagePath": "triomq.analytics.path_parts",
    "PathEvent": "triomq.analytics.path_parts",
    "PathSpan": "triomq.analytics.path_parts",
    "ReportPlan": "triomq.analytics.report_plan",
    "ReportSummary": "triomq.analytics.report",
    "Rules": "triomq.analytics.watching",
    "Stay": "triomq.analytics.path_parts",
    "TraceFiles": "triomq.analytics.files",
    "Watch": "triomq.analytics.watching",
    "dead_letters": "triomq.analytics.losses",
    "find_files": "triomq.analytics.files",
    "find_paths": "triomq.analytics.paths",
    "job_failures": "triomq.analytics.job_tables",
    "jobs": "triomq.analytics.job_tables",
    "log": "triomq.analytics.log_table",
    "lost_peers": "triomq.analytics.losses",
    "make_report": "triomq.analytics.report",
    "read_files": "triomq.analytics.reading",
    "read_trace": "triomq.analytics.reading",
    "slowest": "triomq.analytics.slowest_table",
    "stays": "triomq.analytics.stay_table",
    "stream_trace": "triomq.analytics.reading",
    "throughput": "triomq.analytics.throughput_table",
    "unsettled": "triomq.analytics.losses",
    "unsettled_by_queue": "triomq.analytics.losses",
    "waits": "triomq.analytics.wait_tables",
    "waits_by_minute": "triomq.analytics.wait_tables",
}

__all__ = [
    "SMALL_LOG",
    "FoundPaths",
    "MessagePath",
    "PathEvent",
    "PathSpan",
    "ReportPlan",
    "ReportSummary",
    "Rules",
    "Stay",
    "TraceFiles",
    "Watch",
    "dead_letters",
    "find_files",
    "find_paths",
    "job_failures",
    "jobs",
    "log",
    "lost_peers",
    "make_report",
    "read_files",
    "read_trace",
    "slowest",
    "stays",
    "stream_trace",
    "throughput",
    "unsettled",
    "unsettled_by_queue",
    "waits",
    "waits_by_minute",
]

__getattr__ = lazy_names(__name__, _MODULES, __all__)
