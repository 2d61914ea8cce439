"""What is missing here for tests in Spark, and the one session that they share."""

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from triomq.errors import JavaNotFound, SparkTooOld

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@cache
def missing_packages() -> str:
    """Return which packages are missing, in words; empty if all are there."""
    missing = [name for name in ("pyspark", "pyarrow") if find_spec(name) is None]
    return f"{' and '.join(missing)} missing: pip install 'triomq[spark]'" if missing else ""


@cache
def missing_spark() -> str:
    """Return what is missing for a Spark session, in words; empty if one can be started."""
    if missing := missing_packages():
        return missing
    from triomq.pipeline import check_pyspark, find_java

    try:
        check_pyspark()
        find_java()
    except (JavaNotFound, SparkTooOld) as error:
        return str(error)
    return ""


class WithoutSpark(pytest.Module):
    """A module of tests that cannot be imported here."""

    def collect(self) -> Iterator[pytest.Item]:
        reason = missing_packages()
        if self.config.getoption("--require-peers"):
            raise self.CollectError(reason)
        pytest.skip(reason, allow_module_level=True)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A session on two cores; mark what uses it with ``pytest.mark.spark``, and leave its settings as they are."""
    from triomq.pipeline import session

    place = tmp_path_factory.mktemp("spark")
    conf = {
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": place / "warehouse",
        "spark.local.dir": place / "local",
        "spark.sql.streaming.checkpointLocation": place / "checkpoints",
        "spark.sql.shuffle.partitions": 2,
        "spark.log.level": "OFF",  # what goes wrong on purpose would be told at length
    }
    started = session("tests", master="local[2]", conf=conf)
    yield started
    started.stop()
    stop_jvm()


def stop_jvm() -> None:
    """End the JVM of a session that was stopped: it would live as long as this process, and its memory is missed."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    process = gateway.proc
    process.stdin.close()
    process.wait(60)
    SparkContext._gateway = SparkContext._jvm = None
