"""``triomq serve --data`` as a process of its own: what it says, what it leaves on disk, how it ends, how it begins."""

import os
import re
import select
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from app.cli.process import PATIENCE, run, serving
from triomq.clients import BlockingConnection, open_blocking
from triomq.protocols import BasicProperties
from triomq.protocols.amqp import QueueDeclare, QueueDeclareOk, QueueDelete, QueueDeleteOk

PERSISTENT = BasicProperties(delivery_mode=2)


@contextmanager
def broker(data: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Serve with a data directory; give the process and its URL."""
    with serving("--data", str(data), *options) as (process, announced):
        (url,) = re.findall(r"amqp://\S+", announced[1])
        yield process, url


def end(process: subprocess.Popen[str]) -> str:
    """End a broker, which ends well, and give its log."""
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    assert process.stderr is not None
    return process.stderr.read()


def publish(connection: BlockingConnection, *bodies: bytes) -> None:
    """Declare the queue, publish, and wait until all is confirmed."""
    connection.call(QueueDeclare("q", durable=True), QueueDeclareOk)
    for body in bodies:
        connection.publisher.send("", "q", body, PERSISTENT)
    connection.publisher.wait_confirmed()


def ready(url: str) -> int:
    with open_blocking(url) as connection:
        return connection.call(QueueDeclare("q", passive=True), QueueDeclareOk).message_count


def holder(data: Path) -> int:
    """Tell the number of the process that works in a data directory."""
    return int((data / "lock").read_text(encoding="ascii"))


@contextmanager
def watched(pid: int) -> Iterator[select.poll]:
    """Watch a process that is not our child: what is given is readable once it has ended."""
    watch = select.poll()
    with os.fdopen(os.pidfd_open(pid), "rb", buffering=0) as handle:
        watch.register(handle, select.POLLIN)
        yield watch


def test_serve_prints_its_data_directory_and_logs_what_it_found(tmp_path: Path) -> None:
    with serving("--data", str(tmp_path)) as (process, announced):
        assert announced[2] == f"durable queues and messages are in {tmp_path}; stop it with Ctrl-C\n"
        (url,) = re.findall(r"amqp://\S+", announced[1])
        with open_blocking(url) as connection:
            publish(connection, b"1", b"2")
        log = end(process)
        assert f"INFO durable queues and messages are on disk directory={tmp_path} queues=0 messages=0\n" in log
        assert "in memory only" not in log
    with broker(tmp_path) as (process, _):
        assert f"are on disk directory={tmp_path} queues=1 messages=2\n" in end(process)


def test_directory_on_the_command_line_is_where_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not where the configuration is, as one that stands in the configuration."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "triomq.toml").write_text('data_dir = "configured"', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with serving("etc/triomq.toml", "--data", "typed") as (process, announced):
        assert f"are in {tmp_path / 'typed'};" in announced[2]
        end(process)
    with serving("etc/triomq.toml") as (process, announced):
        assert "are in etc/configured;" in announced[2]
        end(process)


def test_broker_that_is_drained_leaves_all_on_disk_and_no_process_behind(tmp_path: Path) -> None:
    with broker(tmp_path) as (process, url), watched(holder(tmp_path)) as store:
        with open_blocking(url) as connection:
            publish(connection, b"1", b"2", b"3")
            for number in range(500):
                connection.publisher.send("", "q", b"%d" % number, PERSISTENT)  # and waits for nothing
            connection.publisher.wait_confirmed()
            got = connection.get("q")
            assert got is not None
            connection.accept(got)
            log = end(process)
        assert store.poll(0)
        assert "WARNING" not in log
    with broker(tmp_path) as (process, url):
        assert ready(url) == 502
        end(process)
    assert run("store", "check", "--data", str(tmp_path)).returncode == 0


def test_broker_that_is_killed_has_all_it_confirmed_on_disk_and_its_store_ends_by_itself(tmp_path: Path) -> None:
    with broker(tmp_path) as (process, url), watched(holder(tmp_path)) as store, open_blocking(url) as connection:
        publish(connection, *(b"%d" % number for number in range(300)))
        process.kill()
        assert process.wait(PATIENCE) == -signal.SIGKILL
        assert store.poll(PATIENCE * 1000)
    with broker(tmp_path) as (process, url):
        assert ready(url) == 300
        end(process)
    assert run("store", "check", "--data", str(tmp_path)).returncode == 0


def test_broker_waits_for_the_store_of_the_one_before(tmp_path: Path) -> None:
    with broker(tmp_path) as (process, url), watched(holder(tmp_path)) as store:
        with open_blocking(url) as connection:
            publish(connection, b"1")
        pid = holder(tmp_path)
        os.kill(pid, signal.SIGSTOP)  # as if its last commit took long
        process.kill()
        process.wait(PATIENCE)
        command = [sys.executable, "-m", "triomq", "serve", "--port", "0", "--data", str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as second:
            try:
                while not children(second.pid):
                    assert second.poll() is None  # it starts its store, which waits
                assert not store.poll(0)
                os.kill(pid, signal.SIGCONT)
                assert second.stdout is not None
                announced = [second.stdout.readline() for _ in range(3)]
                assert ready(re.findall(r"amqp://\S+", announced[1])[0]) == 1
                assert store.poll(0)
                end(second)
            finally:
                second.kill()


def children(pid: int) -> str:
    return "".join(path.read_text(encoding="ascii") for path in Path(f"/proc/{pid}/task").glob("*/children"))


def test_second_broker_in_the_same_directory_ends_with_one_line(tmp_path: Path) -> None:
    with broker(tmp_path) as (process, _):
        done = run("serve", "--port", "0", "--data", str(tmp_path))
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == (
            f"triomq: {tmp_path}/lock is held by process {holder(tmp_path)}, also after 5 s. Two brokers cannot share "
            "a data directory: stop the other, or give this one a directory of its own\n"
        )
        end(process)


def spoil_with_garbage(data: Path) -> None:
    data.mkdir()
    (data / "store.db").write_bytes(b"no database at all" * 1000)


def spoil_with_another_database(data: Path) -> None:
    data.mkdir()
    with closing(sqlite3.connect(data / "store.db")) as connection:
        connection.execute("CREATE TABLE mine (a)")


def spoil_by_taking_rights(data: Path) -> None:
    data.mkdir(mode=0o500)


as_root = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (
            spoil_with_garbage,
            "{data}/store.db is damaged (file is not a database, SQLITE_NOTADB). ",
        ),
        (spoil_with_another_database, "{data}/store.db is a database, but not a store of triomq. Give the broker a "),
        pytest.param(spoil_by_taking_rights, "{data}/lock cannot be opened (Permission denied). Give", marks=as_root),
    ],
)
def test_directory_that_cannot_be_used_ends_with_1_and_one_line(tmp_path: Path, spoil: object, text: str) -> None:
    data = tmp_path / "data"
    assert callable(spoil)
    spoil(data)
    done = run("serve", "--port", "0", "--data", str(data))
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"triomq: {text.format(data=data)}")


def test_directory_that_cannot_be_made_ends_with_1_and_one_line() -> None:
    done = run("serve", "--port", "0", "--data", "/proc/triomq")  # not even root can
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("triomq: /proc/triomq/lock cannot be opened (")
    assert len(done.stderr.splitlines()) == 1


def test_settings_of_the_store_stay_at_a_reload(tmp_path: Path) -> None:
    file = tmp_path / "triomq.toml"
    file.write_text('data_dir = "here"', encoding="utf-8")
    with serving(str(file)) as (process, _):
        file.write_text('data_dir = "there"', encoding="utf-8")
        process.send_signal(signal.SIGHUP)
        assert process.stderr is not None
        while "WARNING" not in (line := process.stderr.readline()):
            assert line
        assert line.endswith(f"WARNING setting stays until a restart setting=data_dir value={tmp_path / 'here'}\n")
        end(process)
    assert not (tmp_path / "there").exists()


def test_domain_that_is_not_configured_any_more_stays_on_disk(tmp_path: Path) -> None:
    file = tmp_path / "triomq.toml"
    both = '[[endpoints]]\ntype = "amqp"\nvirtual_hosts = { "/" = "shop" }\n'
    file.write_text(f'domains = ["default", "shop"]\ndata_dir = "data"\n{both}', encoding="utf-8")
    with serving(str(file)) as (process, announced):
        (url,) = re.findall(r"amqp://\S+", announced[1])
        with open_blocking(url) as connection:
            publish(connection, b"1")
        end(process)
    with broker(tmp_path / "data") as (process, _):
        assert "WARNING domain is on disk and not configured; it stays there domain=shop\n" in end(process)
    with serving(str(file)) as (process, announced):
        (url,) = re.findall(r"amqp://\S+", announced[1])
        assert ready(url) == 1
        with open_blocking(url) as connection:
            connection.call(QueueDelete("q"), QueueDeleteOk)
        end(process)
