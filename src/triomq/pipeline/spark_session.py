"""A Spark session with what streams need: ``session``, for scripts and notebooks; any other session does as well."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pyspark
from pyspark.sql import SparkSession

from triomq.errors import PipelineError, SparkTooOld
from triomq.pipeline.java import find_java
from triomq.pipeline.spark_failures import SPARK_ERRORS, reason_of
from triomq.process import interpreter_path

OLDEST: Final = (4, 2)
"""The first PySpark in which a source in Python can be told how much to read at once."""

_NOTHING: Final[Mapping[str, object]] = {}

_SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"

_PROGRESS: Final = "spark.ui.showConsoleProgress"
"""Bars that Spark draws over what a program prints, when it thinks that the program is a shell: all in Python are."""

_DEFAULTS: Final[Mapping[str, object]] = {
    # A timestamp is shown alike wherever the program runs.
    "spark.sql.session.timeZone": "UTC",
    # State on disk: that of a query over weeks outgrows a driver's heap; and only changes are written to checkpoints.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
_LOCAL_DEFAULTS: Final[Mapping[str, object]] = {
    # Nothing of a session on one machine is to be reached from another one, nor to depend on what its name resolves to.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # A micro-batch writes eight small files. The default has a process change the mode of each, and others read links:
    # 60 to 70 ms of some 270. This one is for file systems that rename at once, as those of one machine do.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


def session(app: str, *, master: str = "", conf: Mapping[str, object] = _NOTHING) -> SparkSession:
    """Start Spark, or return the session that runs already.

    What is set stays as it is: by ``conf``, ``spark-defaults.conf``, ``PYSPARK_SUBMIT_ARGS`` or the environment. Only
    the rest is filled in: a Java, this interpreter for the workers, no progress bars, the time zone UTC, state of
    streams in RocksDB; on one machine also the loopback, checkpoints without a process for each file, and as many
    partitions behind a shuffle as there are cores: Spark's own 200 make a stream with state several times slower, and
    are in its checkpoint from the first batch on.

    Args:
        app: The program's name, for Spark's user interface.
        master: Where: ``local[4]``, ``spark://host:7077``, or ``sc://host:15002`` for a Spark Connect server, whose
            settings are its own. Empty takes what is configured, and ``local[*]`` where nothing is.
        conf: Settings of Spark's, by their names.

    Raises:
        JavaNotFound: No Java of this machine can run it.
        SparkTooOld: This PySpark lacks what sources in Python need.
    """
    check_pyspark()
    if "spark.pyspark.python" not in conf and "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = interpreter_path()
    builder = SparkSession.builder.appName(app)
    for name, value in conf.items():
        builder = builder.config(name, str(value))
    if master.startswith("sc://"):
        return builder.remote(master).getOrCreate()
    if not master and ("SPARK_REMOTE" in os.environ or "spark.remote" in conf):
        return builder.getOrCreate()
    from pyspark import SparkContext  # which clients of Spark Connect may lack

    if SparkContext._active_spark_context is not None:
        return builder.getOrCreate()
    return _start(builder, app, master, conf)


@contextmanager
def open_session(app: str, *, master: str = "", conf: Mapping[str, object] = _NOTHING) -> Iterator[SparkSession]:
    """Have a session for a block, as commands do; one that runs already is taken, and left running.

    Args:
        app: As for ``session``.
        master: As for ``session``.
        conf: As for ``session``.

    Raises:
        PipelineError: It cannot be started.
    """
    is_ours = SparkSession.getActiveSession() is None
    try:
        spark = session(app, master=master, conf=conf)
    except SPARK_ERRORS as error:  # a master that cannot be reached, or memory that does not suffice
        raise PipelineError(reason_of(error, "Spark cannot be started")) from None
    try:
        yield spark
    finally:
        if is_ours:
            with suppress(*SPARK_ERRORS, OSError):  # the JVM may have gone before us
                spark.stop()


def _start(builder: "SparkSession.Builder", app: str, master: str, conf: Mapping[str, object]) -> SparkSession:
    """Start a session with a JVM of its own, which reads the configuration before the rest is filled in."""
    from pyspark import SparkConf, SparkContext

    given = SparkConf(loadDefaults=False).setAppName(app).setAll([(name, str(value)) for name, value in conf.items()])
    if not _is_configured(_PROGRESS):
        given = given.setIfMissing(_PROGRESS, "false")
    if master:
        given = given.setMaster(master)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit has started the JVM, and us
        os.environ["JAVA_HOME"] = str(find_java())
    # The JVM is started with what was given, a heap's size for example, and adds what stands in files.
    SparkContext._ensure_initialized(conf=given)
    known = SparkConf()
    place = known.get("spark.master", None) or os.environ.get("MASTER") or "local[*]"
    on_one_machine = re.match(r"local(\[|$)", place) is not None
    for name, value in {**_DEFAULTS, **(_LOCAL_DEFAULTS if on_one_machine else _NOTHING)}.items():
        if not known.contains(name):
            builder = builder.config(name, value)
    spark = builder.master(place).getOrCreate()
    if on_one_machine and not known.contains(_SHUFFLE_PARTITIONS):  # a cluster grows when it likes
        spark.conf.set(_SHUFFLE_PARTITIONS, str(spark.sparkContext.defaultParallelism))
    return spark


def _is_configured(name: str) -> bool:
    """Return whether a setting stands where spark-submit finds it, which fills it in by itself if it does not."""
    folder = os.environ.get("SPARK_CONF_DIR") or os.path.join(os.environ.get("SPARK_HOME", ""), "conf")
    try:
        text = Path(folder, "spark-defaults.conf").read_text(encoding="utf-8")
    except FileNotFoundError:
        text = ""
    return name in text + os.environ.get("PYSPARK_SUBMIT_ARGS", "")


def register(spark: SparkSession) -> None:
    """Make the format ``triomq`` known to one session, where Spark does not find it by itself.

    It does wherever triomq is installed; not where it has come as a file, by ``addPyFile`` or ``addArtifacts``.

    Raises:
        SparkTooOld: This PySpark lacks what sources in Python need.
    """
    check_pyspark()
    from pyspark_triomq import DefaultSource

    spark.dataSource.register(DefaultSource)


def check_pyspark(version: str = pyspark.__version__) -> None:
    """Raise what says so, and what to do, if PySpark is older than it may be.

    Raises:
        SparkTooOld: It is.
    """
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST:
        raise SparkTooOld(
            f"PySpark {version} is installed, and triomq needs {OLDEST[0]}.{OLDEST[1]} or later, below 5: "
            "`pip install 'triomq[spark]'`"
        )
