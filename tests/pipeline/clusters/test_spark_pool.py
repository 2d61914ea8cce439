"""``triomq worker --pool spark`` on executors of which one is killed, and what is left of it when it ends."""

import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from triomq import EMQP, open_broker

from ..pooled_jobs import jobs, wait_for, work
from ..processes import DEADLINE, Family, kill
from .test_clusters import local_cluster, standalone

pytestmark = pytest.mark.spark_slow

JOBS = 100


@asynccontextmanager
async def pooled(place: Path, master: str) -> AsyncIterator[Family]:
    """Open a broker here, connect the jobs, and start the command."""
    command = ["-m", "triomq", "worker", "pipeline.pooled_jobs:jobs", "--pool", "spark", "--master", master]
    async with open_broker(EMQP(port=0), drain=0.2) as broker:
        url = f"emqp://127.0.0.1:{broker.listening[0].port}"
        own = {
            "TRIOMQ_BROKER": url,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(place / "executors"),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": "--conf spark.executor.memory=500m --conf spark.ui.enabled=false pyspark-shell",
        }
        with Family(command, place / "pool.log", **own) as pool:
            async with jobs.connect(url):
                yield pool


def executors(pool: Family, place: Path) -> list[int]:
    """Return the executors of a cluster: the program has started them, or workers that have their folders here."""
    found = [each.number for each in pool.members() if "CoarseGrainedExecutorBackend" in each.command]
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                is_here = process.joinpath("cwd").readlink().is_relative_to(place)
                if is_here and b"CoarseGrainedExecutorBackend" in process.joinpath("cmdline").read_bytes():
                    found.append(int(process.name))
            except OSError:  # it has ended, or is another user's
                continue
    return found


async def wait_draining(pool: Family) -> None:
    """Wait until the first signal has been heard."""
    while b"draining" not in pool.log.read_bytes():  # noqa: ASYNC110  # it happens in another process
        await trio.sleep(0.05)


@pytest.mark.parametrize("cluster", [local_cluster, standalone])
async def test_job_that_was_answered_does_not_run_again_when_its_executor_is_killed(
    cluster: type, tmp_path: Path
) -> None:
    log = tmp_path / "begun"
    with trio.fail_after(DEADLINE), cluster(tmp_path) as master:
        async with pooled(tmp_path, master) as pool:
            sent = await work.map([str(log)] * JOBS, range(JOBS))
            answered = {await job.result() for job in sent[: JOBS // 4]}
            first, _ = executors(pool, tmp_path)
            kill(first)
            assert [await job.result() for job in sent] == [*range(JOBS)]
            begun = Counter(map(int, (await trio.Path(log).read_text()).split()))
            assert begun.keys() == {*range(JOBS)}
            assert not answered.intersection(number for number, times in begun.items() if times > 1)
            assert begun.total() - JOBS <= 2, f"more ran twice than one worker had begun: {begun}"
            os.kill(pool.process.pid, signal.SIGTERM)
            await trio.to_thread.run_sync(pool.wait_ended)
            assert pool.process.returncode == 0, pool.log.read_text()[-3000:]


@pytest.mark.parametrize("is_ctrl_c", [True, False])
async def test_first_signal_lets_a_job_end_and_leaves_no_process(is_ctrl_c: bool, tmp_path: Path) -> None:
    begun, go = make_fifos(tmp_path)
    with trio.fail_after(DEADLINE):
        async with pooled(tmp_path, "local[2]") as pool:
            job = await wait_for.send(str(begun), str(go))
            assert await begun.read_text() == "begun"
            if is_ctrl_c:  # a terminal tells all of its foreground
                os.killpg(pool.process.pid, signal.SIGINT)
            else:
                os.kill(pool.process.pid, signal.SIGTERM)
            await wait_draining(pool)
            await go.write_text("gone on")
            assert await job.result() == "gone on"
            await trio.to_thread.run_sync(pool.wait_ended)
            assert pool.process.returncode == 0, pool.log.read_text()[-3000:]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_job_of_a_pool_that_is_cut_off_is_handed_back_and_no_process_is_left(
    number: signal.Signals, tmp_path: Path
) -> None:
    begun, go = make_fifos(tmp_path)
    with trio.fail_after(DEADLINE):
        async with pooled(tmp_path, "local[2]") as pool:
            job = await wait_for.send(str(begun), str(go))
            assert await begun.read_text() == "begun"
            os.kill(pool.process.pid, number)
            if number is signal.SIGTERM:  # the second one ends all at once
                await wait_draining(pool)
                os.kill(pool.process.pid, number)
            await trio.to_thread.run_sync(pool.wait_ended)
            assert pool.process.returncode == (143 if number is signal.SIGTERM else -9)
            while (await job.state()).state not in ("waiting", "delayed"):  # noqa: ASYNC110  # nobody else would tell
                await trio.sleep(0.05)


def make_fifos(place: Path) -> tuple[trio.Path, trio.Path]:
    """Make what a job says that it has begun by, and what lets it end."""
    begun, go = place / "begun", place / "go"
    os.mkfifo(begun)
    os.mkfifo(go)
    return trio.Path(begun), trio.Path(go)
