"""``triomq pipeline trace``."""

import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="the extra `trace` is not installed")

from rich.console import Console
from typer.testing import CliRunner, Result

from analytics.made_log import dead_letter, event, lost_peer, normal_message, write_log
from triomq.analytics import find_paths
from triomq.app.cli.commands import make_app
from triomq.app.cli.trace_view import EVENTS_SHOWN, bar, seconds_text, view_path


def trace(*arguments: object) -> Result:
    return CliRunner().invoke(make_app(["pipeline"]), ["pipeline", "trace", *map(str, arguments)])


def test_path_is_drawn_as_bars_in_proportion_and_events(tmp_path: Path) -> None:
    write_log(tmp_path, dead_letter())
    done = trace("bad", tmp_path)
    assert done.exit_code == 0
    assert "2026-01-31 12:00:00.000000 UTC, 21.0 s in all" in done.stdout
    assert "wait 10.0 s, expired" in done.stdout
    assert "from retry/41, 50 B, expired" in done.stdout
    lines = done.stdout.splitlines()
    (retry,) = [line for line in lines if line.startswith("retry/41") and "━" in line]
    (failed,) = [line for line in lines if line.startswith("failed/91") and "━" in line]
    assert retry.index("━") < failed.index("━")
    assert abs(retry.count("━") / 10 - failed.count("━") / 8) <= 0.5


def test_bar_is_as_long_as_its_part_of_the_time(tmp_path: Path) -> None:
    write_log(tmp_path, normal_message())
    (path,) = find_paths(tmp_path, "orders/1").paths
    assert bar(path.stays[0], path, 25, plain=True).plain == "-" * 20 + "#" * 5


def test_message_that_took_no_time_has_a_bar(tmp_path: Path) -> None:
    write_log(tmp_path, [event(0, "queued"), event(0, "delivered"), event(0, "accepted")])
    (path,) = find_paths(tmp_path, "orders/1").paths
    assert bar(path.stays[0], path, 5, plain=True).plain == "#    "


def test_many_events_are_cut_in_the_middle(tmp_path: Path) -> None:
    write_log(tmp_path, [event(number, "delivered") for number in range(2 * EVENTS_SHOWN)])
    (path,) = find_paths(tmp_path, "orders/1").paths
    console = Console(width=160, file=StringIO(), record=True)
    console.print(view_path(path, 160, plain=False))
    lines = [line.strip() for line in console.export_text().splitlines()]
    assert len(lines) < 1.7 * EVENTS_SHOWN
    assert "…" in lines


def test_several_messages_are_listed_with_how_to_choose(tmp_path: Path) -> None:
    write_log(tmp_path, [*dead_letter(), *lost_peer(60)])
    done = trace("orders/1", tmp_path)
    assert done.exit_code == 2
    assert done.stdout.count("orders/1") == 2
    assert "--since and --until" in done.stderr
    assert trace("orders/1", tmp_path, "--since", "2026-01-31T12:00:30").exit_code == 0


def test_nothing_found_says_what_was_searched(tmp_path: Path) -> None:
    write_log(tmp_path, dead_letter())
    done = trace("none\x1b[31m", tmp_path)
    assert done.exit_code == 1
    assert (
        r"'none\x1b[31m' in 1 files with 8 events, from 2026-01-31 12:00:00 to 2026-01-31 12:00:21 UTC" in done.stderr
    )
    assert "not sampled" in done.stderr


def test_log_without_events_or_without_a_folder_says_so(tmp_path: Path) -> None:
    done = trace("m", tmp_path)
    assert (done.exit_code, "is tracing on" in done.stderr) == (1, True)
    done = trace("m", tmp_path / "none")
    assert (done.exit_code, "does not exist" in done.stderr) == (1, True)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    write_log(tmp_path, dead_letter())
    folder = next(tmp_path.glob("*/*"))
    for number in range(5):
        (folder / f"trace-one-1-{number}.parquet").write_bytes(b"cut")
    done = trace("bad", tmp_path)
    assert done.exit_code == 0
    assert done.stderr.count("skipped") == 3
    assert "and 2 more files" in done.stderr


def test_names_that_a_terminal_would_obey_are_escaped(tmp_path: Path) -> None:
    name = "a\x1b]0;title\x07[bold]\u202e"
    write_log(tmp_path, [event(0, "queued", name, message_id="m", exchange=name, routing_key=name)])
    done = trace("m", tmp_path)
    assert done.exit_code == 0
    assert not set("\x1b\x07\u202e") & set(done.stdout)
    assert "[bold]" in done.stdout


def test_folder_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIOMQ_TRACE_DIRECTORY", str(write_log(tmp_path, dead_letter())))
    assert trace("bad").exit_code == 0


def test_page_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("plotly")
    write_log(tmp_path, dead_letter())
    done = trace("bad", tmp_path, "--html", tmp_path / "none" / "page.html")
    assert done.exit_code == 1
    assert "No such file" in done.stderr
    assert trace("bad", tmp_path, "--html", tmp_path / "page.html").exit_code == 0
    assert (tmp_path / "page.html").stat().st_size < 20_000


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 µs"), (0.00012, "120 µs"), (0.0123, "12.3 ms"), (1, "1.00 s"), (86400, "86,400 s")]
)
def test_time_is_in_the_unit_that_fits(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


def test_command_loads_neither_spark_nor_an_event_loop_of_ours(tmp_path: Path) -> None:
    write_log(tmp_path, dead_letter())
    program = (
        "import sys; from triomq.app.cli.commands import main\n"
        f"sys.argv = ['triomq', 'pipeline', 'trace', 'bad', {str(tmp_path)!r}]\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print('loaded', *{name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = done.stdout.partition("loaded ")[2].split()
    assert "pyarrow" in loaded
    assert not set(loaded) & {"pyspark", "jinja2", "plotly"}


def test_help_needs_no_extra() -> None:
    without = "import sys; sys.modules.update(dict.fromkeys(['pyarrow', 'pyspark', 'jinja2', 'plotly']))"
    program = f"{without}; from triomq.app.cli.commands import make_app; make_app([])"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triomq.app.cli.trace_path.find_spec", lambda name: None)
    done = trace("m", tmp_path)
    assert (done.exit_code, "triomq[trace]" in done.stderr) == (1, True)
