"""``triomq workers`` and ``triomq schedules``."""

from collections.abc import Iterator

import msgspec
import pytest
import zmq
from rich.console import Console
from rich.table import Table

from app.cli.conftest import Command, ServedJobs
from app.cli.samples import make_schedule, make_worker
from triomq.app.cli.workers import schedule_table, worker_table


def lines(table: Table) -> list[list[str]]:
    console = Console(width=200, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(table)
    return [line.split() for line in capture.get().splitlines()]


def test_worker_shows_its_slots_and_its_queues_with_weights() -> None:
    title, row = lines(worker_table([make_worker("")]))
    assert title == ["worker", "free", "out", "done", "silent", "age", "queues", "user"]
    assert row == ["peer", "2", "1", "57", "0", "s", "1", "min", "1", "s", "mail:40,", "q:10", "guest"]


def test_worker_with_a_name_goes_by_it_and_names_are_not_obeyed() -> None:
    named = make_worker("\x1b[31m", queues=None)
    assert lines(worker_table([named]))[1][0] == r"\x1b[31m"
    assert "(more than fit)" in " ".join(lines(worker_table([named]))[1])


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"owner": "shop:jobs"}, "mail.send 12 s 3 every 60 s q guest shop:jobs"),
        ({"due": -1.0, "run_count": 5}, "mail.send now 3 of 5 every 60 s q guest"),
        ({"due": None, "call": "", "interval": 0.0, "cron": "0 6 * * *"}, "key never 3 0 6 * * * UTC q guest"),
    ],
)
def test_schedule_shows_when_it_runs_and_when_next(fields: dict[str, object], shown: str) -> None:
    assert " ".join(lines(schedule_table([make_schedule(**{"call": "mail.send", **fields})]))[1]) == shown


# On a broker that runs


@pytest.fixture(scope="module")
def busy_url(served_jobs: ServedJobs) -> Iterator[str]:
    """A broker with a worker, and a schedule."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    worker, client = context.socket(zmq.DEALER), context.socket(zmq.DEALER)
    about = b'{"v": 1, "capabilities": ["jobs"]}'
    call = b'["run", {"path": "mail", "callable": "send"}]'
    said = {
        worker: [[b"INFORM", b"i", b'[[40, "mail"], [10, "q"]]', b"worker", about], [b"READY", b"r", b"4"]],
        client: [[b"INFORM", b"i", b"", b"client", about], [b"SCHEDULE", b"c", b"q", b"nohaste", b"3600", call, b""]],
    }
    for peer, messages in said.items():
        peer.connect(served_jobs.emqp.replace("emqp", "tcp"))
        for frames in (*messages, [b"STATUS", b"s"]):  # which comes behind everything else
            peer.send_multipart([b"", b"eMQP/1.0", *frames])
        while peer.recv_multipart()[2] != b"REPLY":
            pass
    yield served_jobs.url
    context.destroy(linger=0)


def test_running_broker_shows_its_worker(command: Command, busy_url: str) -> None:
    (found,) = map(msgspec.json.decode, command("workers", "--json", "--url", busy_url).stdout.splitlines())
    assert (found["queues"], found["out"]) == ([{"name": "mail", "weight": 40}, {"name": "q", "weight": 10}], 0)
    assert command("workers", "--url", busy_url).stdout.splitlines()[1].split()[-3:] == ["mail:40,", "q:10", "guest"]


def test_running_broker_shows_its_schedule(command: Command, busy_url: str) -> None:
    (found,) = map(msgspec.json.decode, command("schedules", "--json", "--url", busy_url).stdout.splitlines())
    assert (found["call"], found["interval"]) == ("mail.send", 3600.0)
    assert command("schedules", "--url", busy_url).stdout.splitlines()[1].startswith("mail.send")


def test_queues_show_their_workers(command: Command, busy_url: str) -> None:
    title, *rows = command("queues", "--url", busy_url).stdout.splitlines()
    assert title.split()[-2:] == ["state", "workers"]
    assert any(row.startswith("mail ") and row.endswith("1, room for 4, weight 40") for row in rows)
    found = [
        msgspec.json.decode(line) for line in command("queues", "mail", "--json", "--url", busy_url).stdout.split()
    ]
    assert [(one["weight"], one["free"]) for one in found[0]["workers"]] == [(40, 4)]


def test_top_shows_workers_and_schedules(command: Command, busy_url: str) -> None:
    shown = command("top", "--once", "--interval", "0.05", "--url", busy_url).stdout
    assert "\nworker " in shown
    assert "\nmail.send " in shown
    assert "EMQPPeer" in shown


def test_broker_without_any_says_so(command: Command) -> None:
    assert command("workers").stderr == "there are no workers\n"
    assert command("schedules").stderr == "there are no schedules\n"
