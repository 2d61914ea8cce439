"""Spark and DuckDB over the same logs: random ones, in which nearly everything happens that the rows of a log allow."""

from datetime import datetime
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from triomq.analytics import find_files, read_files
from triomq.analytics.local_table import read_local
from triomq.analytics.log_table import log
from triomq.analytics.report_tables import make_tables
from triomq.analytics.stay_table import KINDS, stays

from .frames import Table, dicts
from .made_log import BEGAN, Event, event, write_log

pytestmark = pytest.mark.spark

_JOB_KINDS = ("submitted", "started", "finished", "failed", "retried", "timed-out", "cancelled")
_ERRORS = (None, "rejected", "expired", "KeyError", "TimeoutError: no answer: again", "a: ", ": b", "é\x00\U0001f600")


def random_events(random: Random, count: int) -> list[Event]:
    """Return rows whose clock goes on by any microseconds, and back at times."""
    at, found = 0.0, []
    for _ in range(count):
        at += random.choice((0.000001, 0.5, 7.25, 61.0)) if random.random() < 0.97 else -300.0
        queue = random.choice(("a", "b", "ü"))
        number = random.randrange(6)
        error = random.choice(_ERRORS)
        kind = random.choice((*KINDS, "queued", "delivered", "peer-lost", "purged", "lost-events", "job"))
        if kind == "job":
            job = {"job_id": f"j{random.randrange(5)}", "job": random.choice(("mail", "pay")), "error": error}
            kinds = random.choice(_JOB_KINDS)
            found.append(event(at, f"job-{kinds}", queue, None, attempt=random.choice((None, 0, 1)), **job))
        elif kind == "queued":
            moved = {"from_queue": random.choice(("a", "b", None)), "from_id": random.randrange(6), "error": error}
            sizes = {"size": random.choice((0, 100, 2**31 - 1)), "protocol": random.choice(("amqp", None))}
            text = {"message_id": random.choice((None, "m", "n"))}
            found.append(event(at, kind, queue, number, **(moved if random.random() < 0.5 else {}), **sizes, **text))
        elif kind in KINDS:
            taken = {"consumer": random.choice((None, "c")), "attempt": random.choice((None, 0, 3))}
            found.append(event(at, kind, queue, number, **taken))
        else:
            found.append(event(at, kind, random.choice((queue, None)), None, size=random.choice((None, 3))))
    return found


def plain(table: Table) -> list[list[object]]:
    """Return the rows of a table sorted, times as seconds since 1970."""
    return sorted(([_plain(value) for value in row.values()] for row in dicts(table)), key=repr)


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return [_plain(each) for each in value.values()]
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return round(value, 6)  # what is interpolated differs in the last bit
    return value.timestamp() if isinstance(value, datetime) else value


@pytest.mark.parametrize("seed", range(4))
def test_numbers_of_spark_and_duckdb_are_equal(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    pytest.importorskip("duckdb", reason="duckdb missing: pip install 'triomq[report]'")
    random = Random(seed)
    for node in ("one", "two")[: 1 + seed % 2]:
        write_log(tmp_path, random_events(random, 250), node=node)
        write_log(tmp_path, random_events(random, 50), node=node, began=BEGAN + 7, seq=random.randrange(3))
    found = find_files(tmp_path)
    by_spark, by_duckdb = read_files(spark, found).persist(), read_local(found)
    stays_of_spark, stays_of_duckdb = stays(by_spark).persist(), stays(by_duckdb)
    assert plain(stays_of_spark) == plain(stays_of_duckdb)
    assert plain(log(by_spark)) == plain(log(by_duckdb))
    exact = bool(seed % 2)
    tables = make_tables(by_duckdb, stays_of_duckdb, exact=exact)
    for name, make in make_tables(by_spark, stays_of_spark, exact=exact).items():
        one, other = make(), tables[name]()
        assert dicts(one)[0].keys() == dicts(other)[0].keys(), name
        assert plain(one) == plain(other), name
