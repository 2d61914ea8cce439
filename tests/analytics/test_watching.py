"""Figures and alerts of a trace log as it is written; most of it with tables, which take the same functions."""

import json
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from pipeline.broker import TapBroker
from triomq.analytics import Rules, Watch, stream_trace
from triomq.analytics.watching import alerts_of_figures, alerts_of_overdue, figures, overdue, recent_waits

from .frames import frame, table
from .made_log import BEGAN, dead_letter, job_of_three_tries, lost_peer, normal_message, write_log

pytestmark = pytest.mark.spark


def test_figures_count_by_minute_and_queue(spark: SparkSession) -> None:
    rows = frame(spark, normal_message(), dead_letter(1, 2), job_of_three_tries(60), lost_peer(120))
    assert table(figures(rows).drop("node", "domain")) == [
        (0, "failed", 1, 1, 1, 0, 1, 0, 0),
        (0, "orders", 2, 2, 1, 0, 0, 0, 0),
        (0, "retry", 1, 0, 0, 0, 1, 0, 0),
        (60, "mail", 0, 0, 0, 0, 0, 2, 0),
        (120, None, 0, 0, 0, 0, 0, 0, 1),
        (120, "orders", 3, 4, 2, 1, 0, 0, 0),
    ]
    found = alerts_of_figures(figures(rows), Rules(failures=1, dead_letters=1, lost_peers=0)).collect()
    told = [json.loads(row.value) for row in found]
    assert sorted((alert["rule"], alert.get("queue"), alert["value"], alert["limit"]) for alert in told) == [
        ("failures", "mail", 2, 1),
        ("lost_peers", None, 1, 0),
    ]


def test_deliveries_that_were_not_settled_in_time_are_overdue(spark: SparkSession) -> None:
    rows = frame(spark, normal_message(), lost_peer(10))
    found = overdue(rows, 2.5)
    assert table(found.drop("node", "domain")) == [("orders", 2, 11, "c8"), ("orders", 3, 11, "c8")]
    assert {row.key for row in alerts_of_overdue(found, 2.5).collect()} == {"unsettled"}
    assert table(recent_waits(rows, 60.0), "minute", "queue", "wait_p95") == [(0, "orders", 2)]


def test_watch_sends_each_alert_once_over_restarts(spark: SparkSession, tmp_path: Path) -> None:
    broker = TapBroker(tmp_path / "data")
    broker.start()
    shown: list[Row] = []
    told: list[str] = []
    try:
        broker.declare_stream("alerts")
        sink = {"address": broker.address, "user": "guest", "password": "guest", "topic": "alerts"}
        rules = Rules(dead_letters=0, wait_p95=1.5, unsettled=2)
        show_figures, show_alerts = lambda rows, older: shown.extend(rows), lambda texts, older: told.extend(texts)
        watch = Watch(tmp_path / "checkpoint", rules, sink, show_figures, show_alerts, all_there=True)
        log = write_log(tmp_path / "log", [*dead_letter(), *normal_message(30, 7), *lost_peer(40)])
        for at in (600, 1200):
            # Minutes are over when later events have come.
            write_log(tmp_path / "log", normal_message(at, 50), began=BEGAN + at)
            for query in watch.start(stream_trace(spark, log)):
                query.awaitTermination()
        found = [json.loads(value) for value in broker.values("alerts")]
    finally:
        broker.stop()
    assert sorted(json.dumps(alert) for alert in found) == sorted(json.dumps(json.loads(alert)) for alert in told)
    assert sorted((alert["rule"], alert["queue"]) for alert in found) == [
        ("dead_letters", "failed"),
        ("dead_letters", "retry"),
        ("unsettled", "orders"),
        ("unsettled", "orders"),
        ("wait_p95", "failed"),
        ("wait_p95", "orders"),
        ("wait_p95", "orders"),
    ]
    assert {row.queue for row in shown} == {"orders", "retry", "failed", None}
