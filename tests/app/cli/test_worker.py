"""``triomq worker`` as a process of its own, beside a broker in this one."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE
from typing import NamedTuple

import msgspec
import pytest
import trio
from typer.testing import CliRunner

from triomq.app import EMQP, open_broker
from triomq.app.cli.commands import make_app
from triomq.app.cli.worker import parse_queues
from triomq.clients import EMQPConnection, EMQPRequest, open_emqp
from triomq.errors import ConfigError
from triomq.protocols.emqp import Extension, make_headers

PROGRAM = """
from triomq.jobs import Jobs

jobs = Jobs()

@jobs.job
def answer() -> int:
    return 1

@jobs.job
def fail() -> None:
    raise ValueError("no such thing")

@jobs.job
def wait_for(begun: str, go: str) -> str:
    with open(begun, "w") as file:
        file.write("begun")
    with open(go) as file:
        return file.read()
"""
HEADERS = make_headers(guarantee=True, reply_requested=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(PROGRAM)
    for name in ("begun", "go"):
        os.mkfifo(tmp_path / name)
    return tmp_path


class Worker(NamedTuple):
    process: trio.Process
    connection: EMQPConnection
    pieces: list[str]
    """Of its log."""

    def log(self) -> str:
        return "".join(self.pieces)

    async def wait_said(self, text: str) -> None:
        """Wait until its log has a text."""
        assert self.process.stderr is not None
        while text not in self.log():
            piece = await self.process.stderr.receive_some()
            assert piece, f"it has ended, and said {self.log()}"
            self.pieces.append(bytes(piece).decode())

    async def call(self, name: str, *args: str) -> bytes:
        return (await self.begin(name, *args).reply()).message

    def begin(self, name: str, *args: str, retries: int = 0) -> EMQPRequest:
        call = {"path": "shop", "callable": name, "args": args, "kwargs": {}, "class_args": [], "class_kwargs": {}}
        return self.connection.begin(
            "default", msgspec.json.encode(["run", call]), HEADERS, Extension(retries=retries, backoff=(1, 1))
        )


@asynccontextmanager
async def working(folder: Path, *options: str) -> AsyncIterator[Worker]:
    """Start a broker here, a worker of it, and a connection beside that."""
    async with open_broker() as broker:
        listening = await broker.listen(EMQP(host="127.0.0.1", port=0))
        url = f"emqp://127.0.0.1:{listening.port}"
        command = [sys.executable, "-m", "triomq", "worker", "shop:jobs", "--broker", url, "--processes", "1", *options]
        process = await trio.lowlevel.open_process(command, cwd=folder, stdout=PIPE, stderr=PIPE)
        try:
            with trio.fail_after(60):
                async with open_emqp(url) as connection:
                    yield Worker(process, connection, [])
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def wait_begun(folder: Path) -> None:
    assert await trio.Path(folder / "begun").read_text() == "begun"


async def test_first_signal_lets_what_has_begun_end(folder: Path) -> None:
    async with working(folder) as worker:
        job = worker.begin("wait_for", "begun", "go")
        await wait_begun(folder)
        worker.process.send_signal(signal.SIGTERM)
        await worker.wait_said("draining signal=SIGTERM")
        await trio.Path(folder / "go").write_text("gone on")
        assert (await job.reply()).message == b'{"value":"gone on"}'
        assert await worker.process.wait() == 0


async def test_second_signal_ends_all_at_once(folder: Path) -> None:
    async with working(folder) as worker:
        worker.begin("wait_for", "begun", "go")
        await wait_begun(folder)
        worker.process.send_signal(signal.SIGTERM)
        await worker.wait_said("draining")
        worker.process.send_signal(signal.SIGTERM)
        assert await worker.process.wait() == 143


async def test_worker_with_reload_runs_the_new_source(folder: Path) -> None:
    async with working(folder, "--reload") as worker:
        assert await worker.call("answer") == b'{"value":1}'
        (folder / "shop.py").write_text("this is no Python")
        await worker.wait_said("waiting for a change")
        (folder / "shop.py").write_text(PROGRAM.replace("return 1", "return 2"))
        assert await worker.call("answer") == b'{"value":2}'
        worker.process.send_signal(signal.SIGTERM)
        assert await worker.process.wait() == 0


async def test_worker_logs_each_job_that_has_no_result(folder: Path) -> None:
    async with working(folder) as worker:
        request = worker.begin("fail", retries=1)
        job = request.id.decode()
        await worker.wait_said("\n    ValueError: no such thing\n")
        again, last = (line.partition("Z ")[2] for line in worker.log().splitlines() if " job failed" in line)
        about = f'job=shop.fail id={job} queue=default attempt=%d/2 error="ValueError: no such thing"'
        assert again == "WARNING job failed, and is tried again " + about % 1
        assert last == "ERROR job failed " + about % 2
        await worker.call("there_is_none")
        await worker.wait_said("ERROR job cannot be run here id=")


def child_of(process: int) -> int:
    tasks = Path(f"/proc/{process}/task").iterdir()
    (child,) = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    return child


async def test_child_processes_end_with_a_worker_that_is_killed(folder: Path) -> None:
    async with working(folder) as worker:
        worker.begin("wait_for", "begun", "go")
        await wait_begun(folder)
        child = child_of(worker.process.pid)
        handle = os.pidfd_open(child)
        worker.process.kill()
        await trio.lowlevel.wait_readable(handle)
        os.close(handle)


@pytest.mark.usefixtures("logging_as_before")
def test_target_that_is_not_there_is_said() -> None:
    done = CliRunner().invoke(make_app(["worker"]), ["worker", "there_is_no_such_module"])
    assert done.exit_code == 1
    assert "start the worker in the folder that has it" in done.output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--master", "local[2]"], "--master and --workers are about Spark; add --pool spark"),
        (["--pool", "spark", "--reload"], "--reload is for a worker on this machine"),
        (["--pool", "spark"], "start the worker in the folder that has it"),
    ],
)
@pytest.mark.usefixtures("logging_as_before")
def test_pool_that_cannot_be_is_refused_before_spark_starts(options: list[str], said: str) -> None:
    done = CliRunner().invoke(make_app(["worker"]), ["worker", "there_is_no_such_module", *options])
    assert done.exit_code == 1
    assert said in done.output


async def test_supervised_worker_says_when_it_is_ready_and_ends_with_its_standard_input(folder: Path) -> None:
    command = [sys.executable, "-m", "triomq", "worker", "--supervised", "--log-level", "error"]
    with trio.fail_after(60):
        process = await trio.lowlevel.open_process([*command, "shop:jobs"], cwd=folder, stdin=PIPE, stdout=PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        assert msgspec.json.decode(await process.stdout.receive_some()) == {"state": "ready", "pid": process.pid}
        await process.stdin.aclose()
        assert await process.wait() == -signal.SIGIO
        broken = await trio.lowlevel.open_process([*command, "nothing"], cwd=folder, stdin=PIPE, stdout=PIPE)
        assert broken.stdout is not None
        said = msgspec.json.decode(await broken.stdout.receive_some())
        assert said["state"] == "broken"
        assert said["text"].startswith("ConfigError: there is no module 'nothing' here")
        assert await broken.wait() == 1


def test_queues_have_weights() -> None:
    assert parse_queues("mail, reports:40,") == {"mail": 10, "reports": 40}


@pytest.mark.parametrize("text", ["a:0", "a:x", "a,a", ":5", "a:10001"])
def test_queues_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--queues"):
        parse_queues(text)
