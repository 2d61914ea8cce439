"""``triomq store``: looking over a data directory, writing it anew, copying it, and using the copy."""

import os
import re
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio

from app.cli.process import run
from app.cli.test_serve_durable import broker, end, holder, publish, ready, watched
from triomq import open_broker
from triomq.clients import open_blocking
from triomq.core import LeaseMessages, Session, ledgers_of


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with a queue of three messages, one of which was taken out of their midst."""
    directory = tmp_path / "data"

    async def fill() -> None:
        async with open_broker(data_dir=directory, store_host="thread") as broker:
            queue = await broker.declare_queue("orders\n")
            for number in range(4):
                await broker.publish("", queue.name, bytes(1000) + b"%d" % number)
            await broker.publish("", queue.name, b"later", delay=3600)
            deliveries = [await queue.get() for _ in range(3)]
            assert deliveries[1] is not None
            deliveries[1].accept()

    trio.run(fill)
    return directory


def change(data: Path, statement: str) -> None:
    with closing(sqlite3.connect(data / "store.db", isolation_level=None)) as connection:
        connection.execute(statement)


def test_check_lists_the_queues(data: Path) -> None:
    done = run("store", "check", "--data", str(data))
    assert (done.returncode, done.stderr) == (0, "")
    heading, row, summary = done.stdout.splitlines()
    assert heading.split() == ["domain", "queue", "messages", "delayed", "size", "gaps", "missing"]
    assert row.split() == ["default", "orders\\n", "3", "1", "3.1", "KiB", "1", "0"]
    assert summary == "format 5, 1 queue, 3 messages"


def test_check_ends_with_0_when_a_start_would_only_warn(data: Path) -> None:
    with open(data / "store.db-wal", "wb") as log:  # what a process leaves that ended within its first write
        log.write(bytes(32 + 24 + 100))
    done = run("store", "check", "--data", str(data))
    assert done.returncode == 0
    notice, verdict = done.stderr.splitlines()
    assert f"{data}/store.db-wal ends within a batch" in notice
    assert verdict == "triomq: nothing is damaged or missing; a broker starts on it as it is, and says the same"
    assert "damaged" not in done.stdout


def test_check_counts_missing_messages_and_ends_with_1(data: Path) -> None:
    change(data, "DELETE FROM segment WHERE first = 1")
    done = run("store", "check", "--data", str(data))
    assert done.returncode == 1
    assert "missing" in done.stdout
    complaint, advice = done.stderr.splitlines()
    assert complaint == f"triomq: {data}/store.db: queue 1: 1 messages are neither there nor settled"
    assert advice == (
        "triomq: copy the directory before anything else; then start on a backup, or `triomq store salvage`"
    )


def test_store_whose_names_cannot_be_read_is_shown_all_the_same(data: Path) -> None:
    change(data, "UPDATE queue SET key = x'ff'")
    assert " ff " in run("store", "check", "--data", str(data)).stdout


def test_ledger_is_shown_and_salvaged_with_its_queue(tmp_path: Path) -> None:
    data, target = tmp_path / "data", tmp_path / "salvaged"

    async def fill() -> None:
        async with open_broker(data_dir=data, store_host="thread") as broker:
            await broker.declare_queue("jobs")
            for number in range(3):
                await broker.publish("", "jobs", b"%d" % number)
            ada = Session(broker.domain_ref, broker.directory, user="ada")
            broker.domain_ref.ask_nowait(LeaseMessages("jobs", "etl", ada, 2, 1000))

    async def leased() -> int:
        async with open_broker(data_dir=target, store_host="thread") as broker:
            ledger = ledgers_of(broker.directory).find("jobs", "etl", "ada")
            return 0 if ledger is None else ledger.log.stop

    trio.run(fill)
    rows = run("store", "check", "--data", str(data)).stdout.splitlines()[1:-1]
    assert sorted(row.split("  ")[1].strip() for row in rows) == ["jobs", "jobs, leased by etl"]
    assert run("store", "salvage", "--data", str(data), str(target)).returncode == 0
    assert trio.run(leased) == 2


@pytest.mark.parametrize("command", ["check", "compact"])
def test_directory_that_a_broker_uses_is_left_alone(data: Path, command: str) -> None:
    with broker(data) as (process, _):
        done = run("store", command, "--data", str(data))
        end(process)
    assert (done.returncode, done.stdout) == (1, "")
    first, second = done.stderr.splitlines()
    assert first.startswith(f"triomq: {data}/lock is held by process ")
    assert second == "triomq: while a broker uses it, `triomq store backup` makes a copy, which can be checked"


def test_compact_prints_the_sizes_before_and_after(data: Path) -> None:
    done = run("store", "compact", "--data", str(data))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(" now\n")
    assert run("store", "check", "--data", str(data)).returncode == 0


@pytest.mark.parametrize("command", ["check", "compact", "backup"])
def test_directory_without_a_store_is_an_error(tmp_path: Path, command: str) -> None:
    done = run("store", command, "--data", str(tmp_path), *(["copy"] if command == "backup" else []))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"triomq: there is no store in {tmp_path}: {tmp_path}/store.db does not exist\n"


def test_directory_must_be_named() -> None:
    done = run("store", "check")
    assert done.returncode == 2
    assert "--data" in done.stderr


def test_copy_made_while_a_broker_works_is_used_by_another_broker(tmp_path: Path) -> None:
    copy = tmp_path / "restored"
    with broker(tmp_path / "data") as (process, url), open_blocking(url) as connection:
        publish(connection, b"1", b"2")
        done = run("store", "backup", "--data", str(tmp_path / "data"), str(copy))
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"{copy} has a copy of all, ")
        publish(connection, b"3")
        assert ready(url) == 3
        connection.close()
        end(process)
    with broker(tmp_path / "restored") as (process, url):
        assert ready(url) == 2
        end(process)


def test_backup_copies_the_store_of_a_killed_broker(tmp_path: Path) -> None:
    """Its last batches are still in the log alone."""
    data = tmp_path / "data"
    with broker(data) as (process, url), watched(holder(data)) as store, open_blocking(url) as connection:
        publish(connection, b"1", b"2")
        process.send_signal(signal.SIGSTOP)  # so that it starts no other store
        os.kill(holder(data), signal.SIGKILL)
        store.poll()
        process.kill()
        process.wait()
    assert (data / "store.db-wal").stat().st_size
    assert run("store", "backup", "--data", str(data), str(tmp_path / "restored")).returncode == 0
    with broker(tmp_path / "restored") as (process, url):
        assert ready(url) == 2
        end(process)


@pytest.mark.parametrize(("table", "what"), [("queue", "queue"), ("record", "sink|binding")])
def test_record_that_means_nothing_is_one_line_and_is_found_by_check(data: Path, table: str, what: str) -> None:
    change(data, f"UPDATE {table} SET key = x'ff00' WHERE rowid = 1" if table == "queue" else _GARBLED)
    for command in (["serve", "--port", "0"], ["store", "check"]):
        done = run(*command, "--data", str(data))
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        line = next(line for line in done.stderr.splitlines() if "cannot be decoded" in line)
        assert re.search(f"the store has a ({what}) that cannot be decoded .* with the key ff00", line)
        assert "`triomq store salvage`" in line


_GARBLED = "UPDATE record SET key = x'ff00' WHERE key = (SELECT min(key) FROM record WHERE kind = 1)"


def test_salvage_writes_a_store_that_a_broker_starts_on_and_a_report(data: Path, tmp_path: Path) -> None:
    octets = bytearray((data / "store.db").read_bytes())
    octets[octets.index(bytes(1000) + b"2") + 1000] ^= 1
    (data / "store.db").write_bytes(octets)
    new = tmp_path / "new"
    done = run("store", "salvage", "--data", str(data), str(new))
    assert (done.returncode, done.stderr) == (0, "")
    first, *_, summary, advice = done.stdout.splitlines()
    assert first == "default orders\\n: 3 messages, 1 lost"
    assert summary == f"{new} has 1 queue and 3 messages; 1 are lost"
    assert advice.startswith(f"start a broker with --data {new}")
    assert "orders\\n: 3 messages, 1 lost" in (new / "salvage.txt").read_text()
    assert (new / "salvage.txt").stat().st_mode & 0o777 == 0o600
    assert run("store", "check", "--data", str(new)).returncode == 0
    with broker(new) as (process, _):
        end(process)


def test_check_says_that_a_log_is_gone(data: Path) -> None:
    with closing(sqlite3.connect(data / "store.db", isolation_level=None)) as connection:
        connection.execute("UPDATE progress SET committed = 1")
    done = run("store", "check", "--data", str(data))
    assert done.returncode == 1
    assert "shows that batch" in done.stderr
