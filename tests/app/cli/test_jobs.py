"""``triomq jobs`` against a served broker."""

import re
from collections.abc import Callable

import msgspec
import pytest
import trio
from typer.testing import Result

from app.cli.conftest import Command, ServedJobs
from triomq.clients import open_blocking, open_emqp, open_emqp_worker
from triomq.protocols.amqp import QueueDeclare, QueueDeclareOk
from triomq.protocols.emqp import Extension, make_headers

CALL = b'["run", {"path": "mail", "callable": "send", "args": ["ann"], "kwargs": {"copies": 2}}]'

Jobs = Callable[..., Result]


@pytest.fixture
def jobs(command: Command, served_jobs: ServedJobs) -> Jobs:
    """Run a command of ``triomq jobs``."""
    return lambda *options: command("jobs", *options, "--url", served_jobs.url)


@pytest.fixture
def declared(served_jobs: ServedJobs) -> Callable[[str], str]:
    """Declare a queue: jobs for one that is not there go to the default one."""

    def declare(name: str) -> str:
        with open_blocking(served_jobs.url) as connection:
            return connection.call(QueueDeclare(name, durable=True), QueueDeclareOk).queue

    return declare


def send(served_jobs: ServedJobs, queue: str, **extension: object) -> str:
    """Send a job, and return its id."""

    async def main() -> str:
        async with open_emqp(served_jobs.emqp) as client:
            request = client.begin(queue, CALL, make_headers(guarantee=True), Extension(**extension))  # type: ignore[arg-type]
            client.flush()
            await request.accepted()
            return request.id.decode()

    return trio.run(main)


def fail_one(served_jobs: ServedJobs, queue: str) -> None:
    """Have a worker fail at a job, for good."""

    async def main() -> None:
        async with open_emqp_worker(served_jobs.emqp, [queue], slots=1) as worker:
            (job,) = await worker.receive()
            job.end("failed", type="ValueError", text="no such \x1b[31mnumber\nat all", traceback="line 1\nline 2")
            await worker.leave()

    trio.run(main)


def test_jobs_are_listed(jobs: Jobs, served_jobs: ServedJobs, declared: Callable[[str], str]) -> None:
    queue = declared("listed")
    job, later = send(served_jobs, queue), send(served_jobs, queue, delay=60_000)
    title, first, second = jobs("list", "--queue", queue).stdout.splitlines()
    assert title.split() == ["job", "attempt", "state", "calls", "queue", "user"]
    assert first.split() == [job, "0", "waiting", "mail.send", queue, "guest"]
    assert second.split()[:2] == [later, "0"]
    assert re.search(r" delayed, in \d+ s ", second)
    (found,) = map(msgspec.json.decode, jobs("list", "--json", "--state", "waiting", "--queue", queue).stdout.split())
    assert (found["id"], found["name"]) == (job, "mail.send")


def test_list_says_when_it_is_cut(jobs: Jobs, served_jobs: ServedJobs, declared: Callable[[str], str]) -> None:
    queue = declared("cut")
    send(served_jobs, queue)
    send(served_jobs, queue)
    done = jobs("list", "--queue", queue, "--count", "1")
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr == "the first 1; --count 0 lists all\n"
    assert len(jobs("list", "--queue", queue, "--count", "0").stdout.splitlines()) == 3
    assert jobs("list", "--queue", "nope").stderr == "no such jobs\n"


def test_job_is_shown_and_cancelled(jobs: Jobs, served_jobs: ServedJobs, declared: Callable[[str], str]) -> None:
    job = send(served_jobs, declared("shown"))
    shown = jobs("show", job).stdout
    assert shown.splitlines()[0] == "mail.send: waiting"
    assert '    arguments: "ann", copies=2' in shown.splitlines()
    assert msgspec.json.decode(jobs("show", job, "--json").stdout)["kwargs"] == {"copies": 2}
    assert jobs("cancel", job).stdout == "cancelled\n"
    assert jobs("show", job).stdout.splitlines()[0] == f"{job}: cancelled"
    assert jobs("cancel", job).stdout == "cancelled\n"


def test_dead_job_is_shown_with_its_error_and_sent_again(
    jobs: Jobs, served_jobs: ServedJobs, declared: Callable[[str], str]
) -> None:
    queue = declared("dead")
    others = [send(served_jobs, queue) for _ in range(2)]
    for _ in others:
        fail_one(served_jobs, queue)
    title, *rows = jobs("dead").stdout.splitlines()
    assert title.split() == ["job", "attempts", "state", "calls", "queue", "ended", "error"]
    assert [row.split()[:4] for row in rows] == [[job, "1", "failed", "mail.send"] for job in others]
    assert rows[0].endswith(r"ValueError: no such \x1b[31mnumber")
    shown = jobs("show", others[1]).stdout
    assert r"    error: ValueError: no such \x1b[31mnumber\nat all" in shown.splitlines()
    assert shown.endswith("line 1\nline 2\n")
    again = msgspec.json.decode(jobs("requeue", others[1], "--json").stdout)["id"]
    assert [msgspec.json.decode(line)["id"] for line in jobs("dead", "--json").stdout.splitlines()] == others[:1]
    assert jobs("list", "--queue", queue).stdout.splitlines()[1].split()[:3] == [again, "0", "waiting"]
    done = jobs("requeue", others[1])
    assert done.exit_code == 1
    assert "no dead letter" in done.stderr
    assert jobs("requeue", others[0]).stdout.startswith("sent again as ")
    assert jobs("dead").stderr == "no job has failed for good\n"


def test_broker_without_jobs_has_none(command: Command) -> None:
    assert command("jobs", "list").stderr == "no such jobs\n"
    assert command("jobs", "show", "nope").exit_code == 1
    done = command("jobs", "show", "-3Bfp0u-8")  # ids may begin so
    assert (done.exit_code, "there is no job '-3Bfp0u-8'" in done.stderr) == (1, True)
    assert command("jobs", "cancel", "nope").exit_code == 1
    assert command("jobs", "requeue", "nope").exit_code == 1
    assert command("jobs", "dead").stderr == "no job has failed for good\n"
