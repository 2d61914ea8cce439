"""The tables of a report of a small log, computed in this process by DuckDB."""

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

from triomq.analytics.files import TraceFiles
from triomq.analytics.local_table import read_local
from triomq.analytics.log_table import log
from triomq.analytics.relations import query
from triomq.analytics.report_plan import ReportPlan, nothing_text
from triomq.analytics.report_tables import make_tables
from triomq.analytics.stay_table import stays
from triomq.errors import TraceLogError


def write_by_duckdb(
    plan: ReportPlan, found: TraceFiles, directory: Path, step: Callable[[str], None]
) -> tuple[dict[str, object], int, TraceFiles]:
    """Write all tables but ``log``; return what that has, how many times are not known, and what could be read.

    Raises:
        TraceLogError: A file is damaged, and that is an error; or there are no rows.
    """
    step("log")
    damaged: list[Path] = []
    events = read_local(found, plan.since, plan.until, broken=damaged.append)
    if damaged and plan.strict:
        raise TraceLogError(f"{damaged[0]}: it is damaged; move it away, or leave out --strict to go on without it")
    rest = [path for path in found.files if path not in damaged]
    found = TraceFiles(rest, {**found.skipped, **dict.fromkeys(damaged, "it is damaged inside")}, found.rows)
    (about,) = log(events).read().to_pylist()
    if not about["events"]:
        raise TraceLogError(nothing_text(plan, found if not rest else TraceFiles([], {})))
    step("messages")
    kept = stays(events)
    for name, make in make_tables(events, kept, exact=plan.exact).items():
        step(name)
        table = make()
        (directory / name).mkdir(parents=True)
        pq.write_table(table.read(), directory / name / "part-0.parquet")
        table.drop()
    return about, query("SELECT * FROM {stays} WHERE is_odd", stays=kept).count(), found
