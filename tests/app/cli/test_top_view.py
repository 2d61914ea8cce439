"""The screen of ``triomq top``."""

import msgspec
import pytest
from rich.console import Console

from app.cli.samples import make_actor, make_queue, make_sample, make_schedule, make_totals, make_worker
from triomq.app.cli.sampling import Flow, Rates, Sample
from triomq.app.cli.top_view import top_view
from triomq.protocols.control import ConnectionRecord, JobTotals, StreamSummary


def screen(sample: Sample, rates: Rates | None = None, note: str = "", *, lines: int | None = None) -> list[str]:
    console = Console(width=200, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(top_view(sample, rates, note, lines=lines))
    return [line.rstrip() for line in capture.get().splitlines()]


FULL = make_sample(
    totals=make_totals(queues=30, ready=5, connections=20),
    queues=tuple(make_queue(f"q{number}") for number in range(30)),
    connections=tuple(ConnectionRecord(f"peer{number}", "u", "/", 1, 0, 90.0) for number in range(20)),
    actors=(make_actor("/", children=40), *(make_actor(f"/a{number}") for number in range(40))),
    workers=tuple(make_worker(f"worker{number}") for number in range(20)),
    schedules=tuple(make_schedule(f"call{number}") for number in range(10)),
)


def test_heading_has_the_totals() -> None:
    heading = screen(make_sample(totals=make_totals(queues=2, ready=5)), Rates(Flow(1.4, 2.6, 3.0), {}), "away")[:3]
    assert heading == [
        "triomq 9.8.7, up 1 h 1 min, 10.0 MiB of memory, 0 connections, 0 consumers",
        "2 queues: 5 ready, 0 unsettled; each second 1 in, 3 out, 3 settled",
        "away",
    ]


def test_heading_has_a_line_about_jobs_if_there_are_any() -> None:
    jobs = JobTotals(4, 1, 2, {"retried": 3, "ok": 120, "late": 0, "\x1b": 1})
    heading = screen(msgspec.structs.replace(make_sample(), jobs=jobs))
    assert heading[2] == r"jobs: 4 running, 1 parked, 2 dead; so far 120 ok, 3 retried, 1 \x1b"
    quiet = screen(msgspec.structs.replace(make_sample(), jobs=JobTotals(1)))
    assert quiet[2] == "jobs: 1 running, 0 parked, 0 dead"


def test_streams_show_what_can_be_read_and_who_is_behind() -> None:
    lags = {"a": 1, "b": 30, "c": 2, "d": 0}
    kept = make_queue("kept", kind="stream", stream=StreamSummary(5, 90, None, 2, lags))
    lines = screen(make_sample(queues=(kept, make_queue("q"))))
    assert lines[3].split()[-2:] == ["offsets", "behind"]
    assert lines[4].endswith("running  5…90     b 30, c 2, a 1 and 1 more")
    assert lines[5].endswith("running")
    crowded = make_queue("kept", kind="stream", stream=StreamSummary(5, 90, None, 2, None))
    assert screen(make_sample(queues=(crowded,)))[4].endswith("too many groups")


def test_queues_have_rates_once_they_were_seen_twice() -> None:
    sample = make_sample(queues=(make_queue("a", ready=7, ready_bytes=2048), make_queue("b", state="stopped")))
    lines = screen(sample, Rates(Flow(0, 0, 0), {"a": Flow(1.0, 2.0, 3.0)}))
    assert lines[4].split() == ["a", "7", "0", "0", "2.0", "KiB", "1", "2", "3", "running"]
    assert lines[5].split() == ["b", "0", "0", "0", "0", "B", "–", "–", "–", "stopped"]
    assert screen(sample)[4].split()[6:9] == ["–", "–", "–"]


def test_tree_is_indented_and_counts_hidden_children() -> None:
    actors = (
        make_actor("/", children=1),
        make_actor("/broker", children=12),
        make_actor("/broker/queue.a%2Fb"),
        make_actor("/broker/queue.\x1b", state="backing_off"),
    )
    lines = [line for line in screen(make_sample(actors=actors)) if "Kind" in line]
    assert [line[: line.index(" 1 ")].rstrip() for line in lines] == [
        "/",
        "  broker (and 10 more)",
        "    queue.a%2Fb",
        r"    queue.\x1b",
    ]
    assert lines[3].endswith("backing_off")


HOSTILE = "\x1b]0;mine\x07[red]\u202e"
HARMLESS = r"\x1b]0;mine\x07[red]\u202e"


def test_names_from_clients_are_shown_and_not_obeyed() -> None:
    sample = make_sample(
        totals=msgspec.structs.replace(make_totals(), version=HOSTILE),
        queues=(make_queue(HOSTILE),),
        connections=(ConnectionRecord(HOSTILE, HOSTILE, "/", 1, 0, 1.0),),
        actors=(make_actor(f"/{HOSTILE}"),),
    )
    shown = "\n".join(screen(sample, note=HOSTILE))
    assert shown.count(HARMLESS) == 6
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)


def test_trouble_is_red() -> None:
    console = Console(width=200, highlight=False, color_system="standard", force_terminal=True)
    queues = (make_queue("well"), make_queue("ill", state="backing_off", restarts=2))
    with console.capture() as capture:
        console.print(top_view(make_sample(queues=queues), None, "away"))
    assert "\x1b[1;31maway" in capture.get()
    assert "\x1b[1;31mbacking_off, restarted 2×" in capture.get()
    assert "\x1b[1;31mrunning" not in capture.get()


def test_workers_and_schedules_take_no_line_where_there_are_none() -> None:
    titles = [line.split()[0] for line in screen(make_sample()) if line]
    assert titles[2:] == ["queue", "connection", "actor"]


@pytest.mark.parametrize("height", [13, 24, 50, 80])
def test_view_fits_the_lines_of_the_screen(height: int) -> None:
    lines = screen(FULL, lines=height)
    assert len(lines) <= height
    for part in ("q0", "worker0", "call0", "peer0", "/"):
        assert any(line.split()[:1] == [part] for line in lines)


def test_view_without_a_limit_of_lines_shows_all() -> None:
    assert len(screen(FULL)) == 3 + 1 + 30 + 1 + 20 + 1 + 10 + 1 + 20 + 1 + 41


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.9, "0 s"), (61, "1 min 1 s"), (3600 * 25, "1 d 1 h"), (3600 * 2 + 60, "2 h 1 min")],
)
def test_times_have_their_two_largest_units(seconds: float, text: str) -> None:
    sample = make_sample(connections=(ConnectionRecord("peer", "u", "/", 1, 0, seconds),))
    assert any(f" {text} " in line for line in screen(sample))
