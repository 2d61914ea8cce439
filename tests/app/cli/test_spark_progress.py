"""The progress bar of Spark's tasks, and Ctrl-C while Spark works."""

import os
import pty
import signal
import sys
import threading
import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from triomq.app.cli import spark_progress as module
from triomq.app.cli.spark_progress import SparkProgress, spark_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE = 120.0  # seconds; a laden machine may need more than the fifteen that it takes


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[StringIO]:
    """What a terminal would have got."""
    screen = StringIO()
    monkeypatch.setattr(module, "Console", lambda stderr: Console(file=screen, force_terminal=True, width=100))
    before = signal.getsignal(signal.SIGINT)
    yield screen
    assert signal.getsignal(signal.SIGINT) == before


def wait_until_shown(screen: StringIO, text: str) -> None:
    end = time.monotonic() + PATIENCE
    while text not in screen.getvalue():
        assert time.monotonic() < end, screen.getvalue()
        time.sleep(0.05)


def test_step_is_shown_and_nothing_remains(screen: StringIO) -> None:
    with spark_progress() as progress:
        progress.step("starting [Spark]")
        wait_until_shown(screen, "starting [Spark]")
    assert screen.getvalue().endswith("\x1b[1A\x1b[2K") or screen.getvalue().endswith("\x1b[2K")
    assert screen.getvalue().count("\x1b[?25l") == screen.getvalue().count("\x1b[?25h")  # the cursor


def test_nothing_is_shown_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with spark_progress() as progress:
        progress.step("waits")
    assert capfd.readouterr() == ("", "")


def test_errors_pass(screen: StringIO) -> None:
    with pytest.raises(ValueError, match="as it is"), spark_progress():
        raise ValueError("as it is")


def test_ctrl_c_while_spark_starts_waits_until_it_has(screen: StringIO) -> None:
    with pytest.raises(KeyboardInterrupt), spark_progress() as progress:  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            progress.step("waits")


def test_bar_shows_the_tasks_of_all_running_stages() -> None:
    screen = StringIO()
    progress = SparkProgress(Console(file=screen, force_terminal=True, width=100))
    with progress.bar:
        progress._show([(3, 10), (1, 2)])
        progress.bar.refresh()
        assert "4/12 tasks" in screen.getvalue()


@pytest.mark.spark
def test_ctrl_c_cancels_the_job_and_leaves_the_session_in_order(spark: "SparkSession", screen: StringIO) -> None:
    def press() -> None:
        wait_until_shown(screen, "/8 tasks")
        os.kill(os.getpid(), signal.SIGINT)

    def count() -> None:
        with spark_progress() as progress:
            progress.follow(spark)
            progress.step("counting for hours")
            spark.range(0, 10**15, 1, 8).selectExpr("max(xxhash64(id))").collect()

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        count()
    thread.join()
    assert spark.range(5).count() == 5
    with spark_progress() as progress:
        progress.follow(spark)
        assert spark.range(6).count() == 6


@pytest.mark.spark
def test_second_ctrl_c_waits_for_nothing(spark: "SparkSession", screen: StringIO) -> None:
    with pytest.raises(KeyboardInterrupt), spark_progress() as progress:  # noqa: PT012
        progress.follow(spark)
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            progress.step("more")
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("it went on")


@pytest.mark.spark
def test_report_that_is_interrupted_leaves_nothing_and_ends_its_java(tmp_path: Path) -> None:
    from analytics.made_log import dead_letter, write_log

    log = write_log(tmp_path / "log", [row for number in range(50) for row in dead_letter(number, number + 1)])
    (tmp_path / "out").mkdir()
    out = tmp_path / "out" / "report"
    command = [
        sys.executable,
        "-m",
        "triomq",
        "pipeline",
        "report",
        str(log),
        "--out",
        str(out),
        "--master",
        "local[2]",
    ]
    process, terminal = pty.fork()
    if process == 0:
        os.execv(sys.executable, command)
    try:
        shown = read_until(terminal, b"messages")  # the second step
        os.write(terminal, b"\x03")
        shown += read_until(terminal, b"")
        assert b"interrupted; no report was made" in shown, shown.decode()
        assert b"Traceback" not in shown, shown.decode()
        assert shown.count(b"\x1b[?25l") == shown.count(b"\x1b[?25h")
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 130
        assert list(out.parent.iterdir()) == []
        wait_for_the_group(process)
    finally:
        os.close(terminal)
        try:
            os.killpg(process, signal.SIGKILL)
        except ProcessLookupError:
            pass


def read_until(terminal: int, text: bytes) -> bytes:
    """Read what a terminal shows until a text has come; without one until its program has ended."""
    found = b""
    timer = threading.Timer(PATIENCE, lambda: os.write(terminal, b"\x1c"))
    timer.start()
    try:
        while not text or text not in found:
            found += (more := os.read(terminal, 65536))
            assert more or not text, found.decode()
            if not more:
                break
    except OSError:  # Linux says so when the last program has closed the other side
        assert not text, found.decode()
    finally:
        timer.cancel()
    return found


def wait_for_the_group(group: int) -> None:
    """Wait until no process of a terminal's program is there, Java among them."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    raise AssertionError("something of it still runs")
