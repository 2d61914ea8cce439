"""A source, a sink and jobs work on several executors as on one; nothing is left behind."""

import json
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from ports import free_port
from triomq.pipeline import find_java

from ..broker import TapBroker
from ..processes import DEADLINE, Family

pytestmark = pytest.mark.spark_slow

ROWS = 10_000


def spark_home() -> Path:
    """Return where the wheel has put Spark."""
    import pyspark

    return Path(pyspark.__file__).parent


def environment(place: Path) -> dict[str, str]:
    """Return what servers of Spark's need; they are scripts of the wheel."""
    return {
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOG_DIR": str(place / "logs"),
        "SPARK_PID_DIR": str(place / "pids"),
        "SPARK_LOCAL_DIRS": str(place / "local"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": str(find_java()),
    }


def wait_for(server: Family, text: str, count: int = 1) -> None:
    """Wait until a text stands so often in a server's log."""
    until = time.monotonic() + DEADLINE
    while server.log.read_text(errors="replace").count(text) < count:
        assert server.process.poll() is None, f"it has ended: {server.log.read_text(errors='replace')[-3000:]}"
        assert time.monotonic() < until, f"no {text!r}: {server.log.read_text(errors='replace')[-3000:]}"
        time.sleep(0.1)


@contextmanager
def standalone(place: Path) -> Iterator[str]:
    """Run a master and two workers, with a core each; yield where the master is."""
    start, own = str(spark_home() / "bin" / "spark-class"), environment(place)
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        options = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        command = [start, "org.apache.spark.deploy.master.Master", *options]
        master = stack.enter_context(Family(command, place / "master.log", **own))
        wait_for(master, "Starting Spark master at")
        for number in (1, 2):
            options = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "600m"]
            options += ["--work-dir", str(place / f"work-{number}"), url]
            command = [start, "org.apache.spark.deploy.worker.Worker", *options]
            stack.enter_context(Family(command, place / f"worker-{number}.log", **own))
        wait_for(master, "Registering worker", 2)
        yield url


@contextmanager
def connect_server(place: Path) -> Iterator[str]:
    """Run a Spark Connect server on two cores; yield where it is."""
    port = free_port()
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.ui.enabled": "false",
        "spark.driver.memory": "700m",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.warehouse.dir": place / "warehouse",
    }
    command = [str(spark_home() / "sbin" / "start-connect-server.sh"), "--wait", "--master", "local[2]"]
    for name, value in conf.items():
        command += ["--conf", f"{name}={value}"]
    with Family(command, place / "connect.log", **environment(place)) as server:
        until = time.monotonic() + DEADLINE
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                assert server.process.poll() is None, server.log.read_text(errors="replace")[-3000:]
                assert time.monotonic() < until
                time.sleep(0.1)
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def local_cluster(place: Path) -> Iterator[str]:
    """Let the program itself start two executors with a core each."""
    yield "local-cluster[2,1,600]"


CLUSTERS = {"local-cluster": local_cluster, "standalone": standalone, "connect": connect_server}


@pytest.mark.parametrize("kind", CLUSTERS)
def test_program_reads_writes_and_runs_jobs_on_a_cluster_as_on_one_machine(
    kind: str, tmp_path: Path, tap_broker: TapBroker
) -> None:
    if kind == "connect" and find_spec("grpc") is None:
        pytest.skip("grpcio is missing: pip install 'triomq[spark-connect]'")
    for name in ("orders", "results"):
        tap_broker.declare_stream(name, partitions=4)
    values = [b"%d" % number for number in range(ROWS)]
    tap_broker.append("orders", values, values)
    try:
        with CLUSTERS[kind](tmp_path) as master:
            command = ["-m", "pipeline.clusters.program", master, tap_broker.url, str(tmp_path)]
            own = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(tmp_path / "executors")}
            with Family(command, tmp_path / "program.log", **own) as program:
                said = program.read_line()
                program.wait_ended()
            assert program.process.returncode == 0, program.log.read_text()[-3000:]
        executors = 1 if kind == "connect" else 2
        assert json.loads(said) == {
            "rows": ROWS,
            "offsets": ROWS,
            "executors": executors,
            "batch": [*map(str, range(1, 21)), "failed", "crashed"],
            "mapped": [*range(1, 21)],
        }
        assert sorted(tap_broker.values("results")) == sorted(b"seen " + value for value in values)
    finally:
        for name in ("orders", "results"):
            tap_broker.call("stream.delete", name=name)
