"""``triomq pipeline watch`` in the session that the tests share."""

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow", reason="the extra `trace` is not installed")

from typer.testing import CliRunner

from analytics.made_log import dead_letter, job_of_three_tries, lost_peer, normal_message, write_log
from triomq.app.cli.commands import make_app

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(make_app(["pipeline"]), ["pipeline", "watch", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_alerts_need_a_queue_and_a_broker(tmp_path: Path) -> None:
    code, _, told = run(str(tmp_path), "--alerts", "alerts")
    assert (code, "--alerts says which queue" in " ".join(told.split())) == (2, True)


@pytest.mark.spark
def test_once_shows_all_of_a_log_with_its_last_minutes(spark: "SparkSession", tmp_path: Path) -> None:
    stories = [*normal_message(), *dead_letter(30), *job_of_three_tries(40), *lost_peer(60)]
    log = write_log(tmp_path / "log", stories)
    (log / "date=2026-01-31" / "hour=12" / "trace-two-1-000001.parquet").write_bytes(b"no such thing")
    rules = ("--wait-p95", "1.5", "--failures", "1", "--dead-letters", "0", "--lost-peers", "0", "--unsettled", "5")
    code, shown, told = run(str(log), "--once", *rules)
    assert (code, shown.splitlines()) == (
        0,
        [
            "2026-01-31 12:00  one / failed  queued 1, delivered 1, accepted 1, dead_letters 1",
            "2026-01-31 12:00  one / mail  failures 2",
            "2026-01-31 12:00  one / orders  queued 2, delivered 2, accepted 1",
            "2026-01-31 12:00  one / retry  queued 1, dead_letters 1",
            "2026-01-31 12:01  one    lost_peers 1",
            "2026-01-31 12:01  one / orders  queued 3, delivered 4, accepted 2, requeued 1",
        ],
    )
    skipped, *alerts = told.splitlines()
    assert "trace-two-1-000001.parquet: it is damaged or not whole" in skipped
    found = [json.loads(line.removeprefix("alert  ")) for line in alerts]
    assert sorted((alert["rule"], alert["ts"][14:19], alert.get("queue"), alert.get("value")) for alert in found) == [
        ("dead_letters", "00:00", "failed", 1),
        ("dead_letters", "00:00", "retry", 1),
        ("failures", "00:00", "mail", 2),
        ("lost_peers", "01:00", None, 1),
        ("unsettled", "01:01", "orders", None),
        ("wait_p95", "00:00", "failed", 8),
        ("wait_p95", "00:00", "orders", 2),
    ]
    code, shown, told = run(str(log), "--once", "--unsettled", "7")
    assert (code, "alert" in told) == (0, False)  # the log ends six seconds after the delivery


@pytest.mark.spark
def test_once_with_a_checkpoint_leaves_the_last_minutes_to_the_next_start(
    spark: "SparkSession", tmp_path: Path
) -> None:
    log = write_log(tmp_path / "log", [*normal_message(), *normal_message(200, 2)])
    code, shown, told = run(str(log), "--once", "--checkpoint", str(tmp_path / "checkpoint"))
    assert (code, shown) == (0, "2026-01-31 12:00  one / orders  queued 1, delivered 1, accepted 1\n")
    assert told == "triomq: 2026-01-31 12:01 UTC and later comes at the next start, when it is complete\n"


@pytest.mark.spark
def test_ctrl_c_ends_it_and_leaves_the_session_in_order(spark: "SparkSession", tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", [*normal_message(), *normal_message(200, 2)])
    first_batch = tmp_path / "checkpoint" / "figures" / "commits" / "0"

    def press() -> None:
        for _ in range(1000):
            if first_batch.exists():
                break
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    code, _, told = run(str(log), "--checkpoint", str(tmp_path / "checkpoint"))
    thread.join()
    assert (code, told) == (0, "")
    assert spark.streams.active == []
    assert spark.range(5).count() == 5


@pytest.mark.spark
def test_once_says_that_there_is_nothing(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    assert run(str(tmp_path / "log"), "--once") == (0, "", f"triomq: {tmp_path / 'log'} has no events\n")
