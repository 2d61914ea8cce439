"""When schedules are due: intervals, cron texts in time zones, summer time, and ticks that were missed."""

from datetime import datetime
from time import time
from zoneinfo import ZoneInfo

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from triomq.errors import Refused
from triomq.timetable import VIRTUAL_START, Progress, Timetable, advance, begin, resume, unix_time

OSLO = "Europe/Oslo"


def at(text: str, timezone: str = OSLO, fold: int = 0) -> float:
    """Return the Unix time of a local time."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(timezone), fold=fold).timestamp()


def runs(timetable: Timetable, now: float, count: int) -> list[float]:
    """Return when a schedule that is made now runs, if it is always served at once."""
    progress, found = begin(timetable, now), []
    while progress.due is not None and len(found) < count:
        found.append(progress.due)
        progress = advance(timetable, progress, progress.due)
    return found


def test_schedule_runs_at_once_and_then_at_intervals_from_its_making() -> None:
    assert runs(Timetable(interval=60), 1000.0, 3) == [1000.0, 1060.0, 1120.0]


def test_nohaste_waits_for_the_first_interval() -> None:
    assert runs(Timetable(interval=60, haste=False), 1000.0, 3) == [1060.0, 1120.0, 1180.0]


@pytest.mark.parametrize(("haste", "expected"), [(True, [1000.0, 1060.0]), (False, [1060.0, 1120.0])])
def test_run_count_counts_the_first_run_as_well(haste: bool, expected: list[float]) -> None:
    assert runs(Timetable(interval=60, haste=haste, run_count=2), 1000.0, 9) == expected


def test_late_run_does_not_move_the_next_one() -> None:
    timetable = Timetable(interval=60, haste=False)
    progress = advance(timetable, begin(timetable, 1000.0), 1075.0)
    assert progress == Progress(1000.0, 1120.0, 1)


def test_ticks_that_have_passed_come_to_one_run() -> None:
    timetable = Timetable(interval=60, haste=False)
    progress = resume(timetable, begin(timetable, 1000.0), 5000.0)
    assert progress.due == 1060.0  # at once
    assert advance(timetable, progress, 5000.0) == Progress(1000.0, 5020.0, 1)


def test_ticks_while_the_broker_was_down_may_be_skipped() -> None:
    timetable = Timetable(interval=60, haste=False, missed="skip", run_count=3)
    progress = resume(timetable, begin(timetable, 1000.0), 5000.0)
    assert progress == Progress(1000.0, 5020.0, 0)
    assert resume(timetable, progress, 5010.0) == progress
    assert resume(timetable, Progress(1000.0, None, 3), 9000.0).due is None


def test_cron_text_is_meant_in_its_time_zone() -> None:
    now = at("2026-01-10 12:00")
    daily = Timetable(cron="0 6 * * *", timezone=OSLO, haste=False)
    assert runs(daily, now, 2) == [at("2026-01-11 06:00"), at("2026-01-12 06:00")]
    assert runs(Timetable(cron="0 6 * * *", haste=False), now, 1) == [at("2026-01-11 06:00", "UTC")]
    weekly = Timetable(cron="30 18 * * FRI", timezone="America/New_York", haste=False)
    assert runs(weekly, now, 1) == [at("2026-01-16 18:30", "America/New_York")]


def test_daily_job_keeps_its_local_time_through_both_changes_of_the_clock() -> None:
    daily = Timetable(cron="0 6 * * *", timezone=OSLO, haste=False)
    assert runs(daily, at("2026-03-28 00:00"), 3) == [at(f"2026-03-{day} 06:00") for day in (28, 29, 30)]
    assert runs(daily, at("2026-10-24 00:00"), 3) == [at(f"2026-10-{day} 06:00") for day in (24, 25, 26)]


def test_job_in_the_hour_that_is_left_out_runs_right_after_it_once() -> None:
    daily = Timetable(cron="30 2 * * *", timezone=OSLO, haste=False)
    expected = [at("2026-03-28 02:30"), at("2026-03-29 03:00"), at("2026-03-30 02:30")]
    assert runs(daily, at("2026-03-28 00:00"), 3) == expected


def test_job_in_the_hour_that_comes_twice_runs_the_first_time_only() -> None:
    daily = Timetable(cron="30 2 * * *", timezone=OSLO, haste=False)
    expected = [at("2026-10-24 02:30"), at("2026-10-25 02:30"), at("2026-10-26 02:30")]
    assert runs(daily, at("2026-10-24 00:00"), 3) == expected
    # Looked at within the second of the two hours, the first one's tick is over.
    assert runs(daily, at("2026-10-25 02:10", fold=1), 1) == [at("2026-10-26 02:30")]


def test_job_of_every_half_hour_goes_on_through_the_changes_of_the_clock() -> None:
    often = Timetable(cron="*/30 * * * *", timezone=OSLO, haste=False)
    for day in ("2026-03-29", "2026-10-25"):
        start = at(f"{day} 01:00")
        assert runs(often, start, 6) == [start + 1800.0 * number for number in range(1, 7)]


@pytest.mark.parametrize(
    ("timetable", "reason"),
    [
        (Timetable(), "it has five fields"),
        (Timetable(interval=-1), "above 0"),
        (Timetable(interval=float("inf")), "above 0"),
        (Timetable(cron="* * * *"), "it has five fields"),
        (Timetable(cron="0 * * * * *"), "it has five fields"),
        (Timetable(cron="60 * * * *"), "Bad minute"),
        (Timetable(cron="x" * 9000 + " * * * *"), "Bad minute"),
        (Timetable(cron="0 0 30 2 *"), "Bad day-of-month"),
        (Timetable(cron="0 0 */31 2 MON#5"), "not once in 50 years"),
        (Timetable(cron="* * * * *", timezone="Mars/Olympus"), "not known here"),
        (Timetable(cron="* * * * *", timezone=""), "not known here"),
        (Timetable(cron="* * * * *", timezone="../../etc/passwd"), "not known here"),
        (Timetable(cron="* * * * *", timezone="Europe"), "not known here"),
    ],
)
def test_schedule_that_would_never_run_is_refused(timetable: Timetable, reason: str) -> None:
    with pytest.raises(Refused, match=reason) as refused:
        begin(timetable, 1.7e9)
    assert len(str(refused.value)) < 300


@given(
    st.sampled_from(
        [f"{minute} {hour} * * {day}" for minute in ("0", "*/7", "30") for hour in ("2", "*", "*/5") for day in "*1"]
    ),
    st.sampled_from([OSLO, "UTC", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"]),
    st.floats(1.5e9, 1.9e9),
)
def test_next_tick_is_always_later_and_none_is_between(cron: str, timezone: str, moment: float) -> None:
    timetable = Timetable(cron=cron, timezone=timezone, haste=False)
    tick = timetable.tick_after(moment, moment)
    assert tick is not None
    assert moment < tick
    assert timetable.tick_after((moment + tick) / 2, moment) == tick
    following = timetable.tick_after(tick, moment)
    assert following is not None
    assert following > tick


@given(st.floats(0.001, 1e6), st.floats(1e9, 2e9), st.floats(0, 1e8))
def test_next_interval_is_always_later_and_at_most_one_away(interval: float, anchor: float, passed: float) -> None:
    tick = Timetable(interval=interval).tick_after(anchor + passed, anchor)
    assert tick is not None
    assert anchor + passed < tick <= anchor + passed + interval + 1e-6


# The clock


async def test_unix_time_goes_with_virtual_time(autojump_clock: object) -> None:
    assert unix_time() == pytest.approx(VIRTUAL_START)
    await trio.sleep(86_400)
    assert unix_time() == pytest.approx(VIRTUAL_START + 86_400)


async def test_unix_time_is_that_of_the_machine_in_real_time() -> None:
    assert unix_time() == pytest.approx(time(), abs=5)


def test_unix_time_is_known_outside_of_trio() -> None:
    assert unix_time() == pytest.approx(time(), abs=5)
