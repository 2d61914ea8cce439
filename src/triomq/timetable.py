"""When something that repeats is due: every so many seconds, or at the times of a cron text in a time zone.

    begin ──> Progress(due) ── due has come: the job is sent ──> advance ──> Progress(due) … ──> Progress(None), the end
                  │
                  └── the broker was down meanwhile ──> resume

Rules:

- Times are Unix's, since they outlive the process. An interval counts from the moment at which the schedule was made,
  so that it does not drift; a run that is late does not move the next one.
- Ticks that have passed unused, since the broker was down or busy, come to one run together, as soon as possible.
  ``missed="skip"`` has none for those of a time when the broker was down.
- A day's local times follow the clock on the wall, as Debian's cron has it: what would fall into the hour that is left
  out in spring runs right after it, and what falls into the hour that comes twice runs the first time. Texts that begin
  with a star in minute or hour go on through both as if nothing were.
- A moment decides all: the same progress and the same moment give the same result, so that one who was killed before he
  could note a run can tell which it was (``due`` is its name).
"""

import math
import sys
from collections.abc import Iterator
from datetime import datetime
from time import time
from typing import Final, Literal, TypeAlias
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from triomq.errors import Refused

Missed: TypeAlias = Literal["once", "skip"]


class Timetable(msgspec.Struct, frozen=True, kw_only=True):
    """When a schedule runs; ``check`` refuses what never would.

    Args:
        interval: seconds between runs; 0 where ``cron`` says when.
        cron: five fields: minute, hour, day of the month, month, day of the week.
        timezone: in which the cron text is meant, by its name in the IANA's data base.
        haste: whether the first run is at once, and not when the first tick has come.
        run_count: after how many runs it ends; 0 is never.
        missed: what becomes of ticks at which the broker was down.
    """

    interval: float = 0.0
    cron: str = ""
    timezone: str = "UTC"
    haste: bool = True
    run_count: int = 0
    missed: Missed = "once"

    def check(self, now: float) -> None:
        """Look whether there will be a tick.

        Raises:
            Refused: there is neither interval nor cron text, or one that is wrong, or never comes.
        """
        if self.interval and not (math.isfinite(self.interval) and self.interval > 0):
            raise Refused(f"an interval of {self.interval} s; it takes a number above 0")
        if not self.interval and next(self._cron_ticks(now), None) is None:
            raise Refused(f"cron text {self.cron[:100]!r} comes not once in 50 years")

    def tick_after(self, moment: float, anchor: float) -> float | None:
        """Return the first tick after a moment, if there is one within 50 years.

        Args:
            moment: Unix time.
            anchor: when the schedule was made, from which intervals count.
        """
        if self.interval:
            ticks = math.floor((moment - anchor) / self.interval) + 1
            return max(anchor + ticks * self.interval, math.nextafter(moment, math.inf))
        return next((tick for tick in self._cron_ticks(moment) if tick > moment), None)

    def _cron_ticks(self, moment: float) -> Iterator[float]:
        """Yield the ticks after the second of a moment; the first may lie before it, in an hour that comes twice."""
        if len(self.cron.split()) != 5:
            raise Refused(f"cron text {self.cron[:100]!r}; it has five fields, such as '0 6 * * MON'")
        try:
            zone = ZoneInfo(self.timezone)
        except (ValueError, OSError, KeyError):
            raise Refused(
                f"time zone {self.timezone[:100]!r} is not known here; it takes one like Europe/Oslo"
            ) from None
        try:
            ticks = CronSim(self.cron, datetime.fromtimestamp(moment, zone))
        except CronSimError as error:
            raise Refused(f"cron text {self.cron[:100]!r}: {error}") from None
        for tick in ticks:
            yield tick.timestamp()


class Progress(msgspec.Struct, frozen=True):
    """How far a schedule has come: all that has to be noted of it, beside its timetable.

    Args:
        anchor: when it was made.
        due: when it runs next; ``None`` when it has ended.
        runs: how often it has run.
    """

    anchor: float
    due: float | None
    runs: int = 0


def begin(timetable: Timetable, now: float) -> Progress:
    """Return the progress of a schedule that is made now.

    Raises:
        Refused: see ``Timetable.check``.
    """
    timetable.check(now)
    return Progress(now, now if timetable.haste else timetable.tick_after(now, now))


def advance(timetable: Timetable, progress: Progress, now: float) -> Progress:
    """Return the progress after the run that was due, which stands for all ticks up to now."""
    runs = progress.runs + 1
    if progress.due is None or runs == timetable.run_count:
        return Progress(progress.anchor, None, runs)
    return Progress(progress.anchor, timetable.tick_after(max(now, progress.due), progress.anchor), runs)


def resume(timetable: Timetable, progress: Progress, now: float) -> Progress:
    """Return the progress of a schedule after the broker was down."""
    if timetable.missed == "once" or progress.due is None or progress.due >= now:
        return progress
    return Progress(progress.anchor, timetable.tick_after(now, progress.anchor), progress.runs)


VIRTUAL_START: Final = 946_684_800.0
"""Unix time when virtual time begins, the first second of the year 2000 in UTC; so that tests do the same each day."""


def unix_time() -> float:
    """Return the Unix time, as timetables and deadlines go by it; in a Trio run and outside of any.

    That is the machine's clock, which may be set, and goes on while the machine sleeps. In virtual time
    (``trio.testing.MockClock``) it goes with Trio's clock, so that what is due in a day is due when a test has slept
    for a day.
    """
    if "trio.testing" in sys.modules and _is_virtual():
        import trio  # here, since a process that runs jobs of a worker does not need it

        return VIRTUAL_START + trio.current_time()
    return time()


def _is_virtual() -> bool:
    """Return whether Trio's clock is one that tests turn."""
    import trio

    try:
        return isinstance(trio.lowlevel.current_clock(), trio.testing.MockClock)
    except RuntimeError:
        return False  # there is no Trio run here
