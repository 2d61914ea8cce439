"""What a report is to be about, and what is found wrong before anything is computed."""

from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from triomq.analytics.files import TraceFiles, find_files
from triomq.errors import ReportError, TraceLogError

TABLES: Final = "tables"
LOG: Final = "log"


class ReportPlan(msgspec.Struct, frozen=True):
    """What a report is to be about.

    Args:
        trace: The trace log.
        out: The folder to make; it may be there if it is a report.
        since: The first moment, with a time zone; None for the log's beginning.
        until: The moment after the last one, with a time zone; None for the log's end.
        exact: Percentiles are not approximated.
        strict: A file that cannot be read is an error.
    """

    trace: Path
    out: Path
    since: datetime | None = None
    until: datetime | None = None
    exact: bool = False
    strict: bool = False

    def find(self) -> TraceFiles:
        """Return the files that it is made of; to be called before anything is started, since it finds what is wrong.

        Raises:
            TraceLogError: There is no log, it has nothing of that time, or nothing that can be read.
            ReportError: What stands in the way is no report.
        """
        require_replaceable(self.out)
        found = find_files(self.trace, self.since, self.until, strict=self.strict)
        if not found.files:
            raise TraceLogError(nothing_text(self, found))
        return found


def require_replaceable(out: Path) -> None:
    """Raise what is wrong with the folder that a report is to be written to.

    Raises:
        ReportError: It is there and is no report, or the folder that it is to be made in is not there.
    """
    if not out.absolute().parent.is_dir():
        raise ReportError(f"{out.absolute().parent} does not exist; create it, or give another --out")
    if out.exists() and not (out / TABLES / LOG).is_dir() and (not out.is_dir() or any(out.iterdir())):
        raise ReportError(f"{out} exists and is no report; remove it, or give another --out")


def nothing_text(plan: ReportPlan, found: TraceFiles) -> str:
    """Return the text for a log that has nothing of the time, or nothing that can be read."""
    since = f" since {plan.since:%Y-%m-%d %H:%M:%S %Z}" if plan.since else ""
    until = f" until {plan.until:%Y-%m-%d %H:%M:%S %Z}" if plan.until else ""
    if found.skipped:
        path, why = next(iter(found.skipped.items()))
        return f"none of the {len(found.skipped)} files of {plan.trace}{since}{until} can be read; {path}: {why}"
    return f"{plan.trace} has no events{since}{until}"
