"""Brokers whose data directory, or a file in it, goes away while they run; and ends of brokers whose disk is full."""

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from app.cli.process import PATIENCE, run, serving
from triomq.clients import BlockingConnection, open_blocking
from triomq.errors import LimitExceeded, TriomqError
from triomq.protocols import BasicProperties
from triomq.protocols.amqp import QueueDeclare, QueueDeclareOk
from triomq.store import back_up

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="finds open files in /proc")

PERSISTENT = BasicProperties(delivery_mode=2)

LOST = 3
"""The exit code of a broker whose store is lost, or that could not write everything."""


class Served:
    """A broker as a process of its own, and what its log has said so far."""

    def __init__(self, process: subprocess.Popen[str], url: str, data: Path) -> None:
        self.process = process
        self.url = url
        self.data = data
        self.log: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.store = int((data / "lock").read_text(encoding="ascii"))

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._changed:
                self.log.append(line)
                self._changed.notify_all()

    def wait_logged(self, text: str) -> float:
        """Wait until the log has a text; return how long that took, in seconds."""
        began = time.monotonic()
        with self._changed:
            assert self._changed.wait_for(lambda: any(text in line for line in self.log), PATIENCE), self.log
        return time.monotonic() - began

    def end(self) -> int:
        """End the broker in order; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code


@contextmanager
def served(data: Path, *options: str) -> Iterator[Served]:
    with serving("--data", str(data), *options) as (process, announced):
        (url,) = re.findall(r"amqp://\S+", announced[1])
        yield Served(process, url, data)


def refused(data: Path) -> str:
    """Start a broker in vain; return what it says."""
    done = run("serve", "--port", "0", "--data", str(data))
    assert done.returncode == LOST, done.stderr
    return done.stderr


def publish(connection: BlockingConnection, queue: str, *bodies: bytes, persistent: bool = True) -> None:
    """Publish, and wait until all is confirmed."""
    for body in bodies:
        connection.publisher.send("", queue, body, PERSISTENT if persistent else BasicProperties())
    connection.publisher.wait_confirmed()


def fill(url: str) -> None:
    """Declare a durable queue, and have five messages in it, one of them taken out again."""
    with open_blocking(url) as connection:
        connection.call(QueueDeclare("q", durable=True), QueueDeclareOk)
        publish(connection, "q", *(b"%d" % number for number in range(5)))
        got = connection.get("q")
        assert got is not None
        connection.accept(got)
        publish(connection, "q", b"5")  # whose confirm comes when the disk has the acknowledgement, too
        connection.call(QueueDeclare("transient"), QueueDeclareOk)


def ready(url: str) -> int:
    with open_blocking(url) as connection:
        return connection.call(QueueDeclare("q", passive=True), QueueDeclareOk).message_count


# What may happen to a directory

Loss = Callable[[Path], object]


def move(data: Path) -> None:
    data.rename(data.with_name("moved"))


def make_anew(data: Path) -> None:
    shutil.rmtree(data)
    data.mkdir()


def swap(data: Path) -> None:
    move(data)
    shutil.copytree(data.with_name("older"), data)


def replace_database(data: Path) -> None:
    shutil.copy(data.with_name("older") / "store.db", data.with_name("copy"))
    os.replace(data.with_name("copy"), data / "store.db")


def overwrite_database(data: Path) -> None:
    shutil.copyfile(data.with_name("older") / "store.db", data / "store.db")


def replace_log(data: Path) -> None:
    (data / "new").write_bytes(b"somebody's own")
    os.replace(data / "new", data / "store.db-wal")


def removed(name: str) -> Loss:
    return lambda data: (data / name).unlink()


LOSSES: dict[str, tuple[Loss, str]] = {
    "moved": (move, "/moved. Move it back"),
    "removed": (shutil.rmtree, "is gone. Nothing durable is taken any more. All that was confirmed can be saved"),
    "made anew": (make_anew, "is another directory now. Nothing durable"),
    "swapped": (swap, "/moved. Move it back"),
    "database removed": (removed("store.db"), "store.db is gone. Nothing durable"),
    "database replaced": (replace_database, "store.db is replaced"),
    "database overwritten": (overwrite_database, "store.db was overwritten by another program"),
    "database emptied": (lambda data: os.truncate(data / "store.db", 0), "store.db was overwritten"),
    "log removed": (removed("store.db-wal"), "store.db-wal is gone. What was in it is in store.db now"),
    "log replaced": (replace_log, "store.db-wal is replaced. What was in it is in store.db now"),
    "log emptied": (lambda data: os.truncate(data / "store.db-wal", 0), "store.db-wal was overwritten"),
    "mark removed": (removed("store.mark"), "store.mark is gone"),
    "lock removed": (removed("lock"), "lock is gone"),
    "spill file removed": (removed("spill.db"), "spill.db is gone"),
}

WHOLE_AGAIN = {"log removed", "log replaced", "mark removed", "lock removed", "spill file removed"}
"""Losses after which a start finds all that was confirmed."""


@pytest.mark.parametrize("loss", LOSSES)
def test_loss_is_noticed_and_nothing_durable_is_taken_any_more(tmp_path: Path, loss: str) -> None:
    data = tmp_path / "data"
    lose, said = LOSSES[loss]
    with served(data) as broker:
        fill(broker.url)
        back_up(data, tmp_path / "older")
        lose(data)
        # Nothing happens meanwhile. It is noticed within half a second, and a laden machine may take longer.
        assert broker.wait_logged("the store cannot be written") < 5
        assert any(said in line for line in broker.log), broker.log
        with open_blocking(broker.url) as connection, pytest.raises(LimitExceeded):
            publish(connection, "q", b"late")
        with open_blocking(broker.url) as connection, pytest.raises(TriomqError, match="cannot be declared as durable"):
            connection.call(QueueDeclare("new", durable=True), QueueDeclareOk)
        with open_blocking(broker.url) as connection:
            publish(connection, "transient", b"goes on", persistent=False)
            assert connection.get("transient") is not None
        assert broker.end() == LOST
        assert "triomq: the store is lost: " in broker.log[-1]
    if loss in WHOLE_AGAIN:
        with served(data) as broker:
            assert ready(broker.url) == 5
            assert broker.end() == 0


@pytest.mark.parametrize("loss", ["moved", "removed", "made anew", "swapped", "database replaced", "log emptied"])
def test_store_that_is_started_again_confirms_into_no_other(tmp_path: Path, loss: str) -> None:
    data = tmp_path / "data"
    with served(data) as broker:
        fill(broker.url)
        back_up(data, tmp_path / "older")
        LOSSES[loss][0](data)
        os.kill(broker.store, signal.SIGKILL)
        broker.wait_logged("the store cannot be written")
        with open_blocking(broker.url) as connection, pytest.raises(LimitExceeded):
            publish(connection, "q", b"late")
        assert broker.end() == LOST
    assert not (data / "store.db").exists() or loss in ("swapped", "database replaced", "log emptied")


@pytest.mark.parametrize("killed", [False, True], ids=["store lives", "store killed"])
def test_directory_that_is_moved_back_is_used_again(tmp_path: Path, killed: bool) -> None:
    data = tmp_path / "data"
    with served(data) as broker:
        fill(broker.url)
        move(data)
        if killed:
            os.kill(broker.store, signal.SIGKILL)
        broker.wait_logged("a note keeps later brokers from beginning with an empty store")
        assert (tmp_path / "data.lost").exists()
        (tmp_path / "moved").rename(data)
        broker.wait_logged("the store can be written again")
        with open_blocking(broker.url) as connection:
            publish(connection, "q", b"late")
        assert broker.end() == 0
    assert not (tmp_path / "data.lost").exists()
    with served(data) as broker:
        assert ready(broker.url) == 6
        assert broker.end() == 0


@pytest.mark.parametrize("loss", ["moved", "made anew"])
def test_next_broker_does_not_begin_with_an_empty_store(tmp_path: Path, loss: str) -> None:
    data = tmp_path / "data"
    with served(data) as broker:
        fill(broker.url)
        back_up(data, tmp_path / "older")
        LOSSES[loss][0](data)
        broker.wait_logged("a note keeps later brokers from beginning with an empty store")
        broker.process.kill()
        broker.process.wait(PATIENCE)
    note = tmp_path / "data.lost" if loss == "moved" else data / "store.lost"
    assert f"to begin with an empty store, delete {note}" in refused(data)
    # With a backup in its place it starts, and the note goes.
    if data.exists():
        shutil.copy(tmp_path / "older" / "store.db", data)
    else:
        (tmp_path / "older").rename(data)
    with served(data) as broker:
        assert ready(broker.url) == 5
        assert broker.end() == 0
    assert not note.exists()


def test_files_without_a_name_can_be_saved_as_the_log_says(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with served(data) as broker:
        fill(broker.url)
        shutil.rmtree(data)
        broker.wait_logged("the store cannot be written")
        (advice,) = {
            found for line in broker.log for found in re.findall(r"(mkdir -m 700 SAVED;.*?); then end it", line)
        }
        subprocess.run(advice.replace("SAVED", str(tmp_path / "saved")), shell=True, check=True)
        assert broker.end() == LOST
    with served(tmp_path / "saved") as broker:
        assert ready(broker.url) == 5
        assert broker.end() == 0


def test_change_that_changes_nothing_is_none(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with served(data) as broker:
        fill(broker.url)
        for path in data.iterdir():
            os.utime(path)
        done = subprocess.run(
            [sys.executable, "-c", f"import sqlite3; sqlite3.connect({str(data / 'store.db')!r}).execute('VACUUM')"],
            check=False,
        )
        assert done.returncode in (0, 1)  # it may be busy
        time.sleep(1.0)  # two looks
        with open_blocking(broker.url) as connection:
            publish(connection, "q", b"late")
        assert broker.end() == 0


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


@contextmanager
def mounted(*arguments: str) -> Iterator[None]:
    """Mount what is unmounted in any case; a test is skipped where that is not allowed."""
    try:
        _mount(*arguments)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"nothing can be mounted here: {error}")
    try:
        yield
    finally:
        with suppress(OSError):
            subprocess.run(["umount", "--lazy", arguments[-1]], check=False, capture_output=True)


def test_volume_that_is_unmounted_is_missed_and_found_again(tmp_path: Path) -> None:
    volume, place = tmp_path / "volume", tmp_path / "place"
    volume.mkdir()
    place.mkdir()
    with mounted("--bind", str(volume), str(place)), served(place) as broker:
        fill(broker.url)
        subprocess.run(["umount", "--lazy", str(place)], check=True)
        assert broker.wait_logged("the store cannot be written") < 5
        with open_blocking(broker.url) as connection, pytest.raises(LimitExceeded):
            publish(connection, "q", b"late")
        assert not (place / "store.db").exists()
        _mount("--bind", str(volume), str(place))
        broker.wait_logged("the store can be written again")
        with open_blocking(broker.url) as connection:
            publish(connection, "q", b"late")
        assert broker.end() == 0


# The end of a broker that cannot write


def acknowledge_all(url: str) -> None:
    with open_blocking(url) as connection:
        while (got := connection.get("q")) is not None:
            connection.accept(got)


def limit_files(pid: int, octets: int) -> None:
    """Let a process's files grow no further, as on a disk that is full."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (octets, resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]))


def test_end_on_a_full_disk_says_what_is_not_written(tmp_path: Path) -> None:
    with served(tmp_path) as broker:
        fill(broker.url)
        limit_files(broker.store, 1)
        acknowledge_all(broker.url)
        broker.wait_logged("the store cannot be written")
        assert broker.end() == LOST
        assert "not on disk are 5 x acknowledgement or end of a job: " in broker.log[-1]
        assert "store.db cannot be written" in broker.log[-1]
        assert any("WARNING waiting for the store" in line for line in broker.log)
        assert any("ERROR not everything is on disk" in line for line in broker.log)
    with served(tmp_path) as broker:
        assert ready(broker.url) == 5
        assert broker.end() == 0


def test_end_waits_for_the_disk_as_long_as_it_may(tmp_path: Path) -> None:
    configuration = tmp_path / "triomq.toml"
    configuration.write_text("drain = 60.0\n", encoding="utf-8")
    with served(tmp_path / "data", str(configuration)) as broker:
        fill(broker.url)
        limit_files(broker.store, 1)
        acknowledge_all(broker.url)
        broker.wait_logged("the store cannot be written")
        broker.process.send_signal(signal.SIGTERM)
        broker.wait_logged("waiting for the store")
        limit_files(broker.store, resource.RLIM_INFINITY)
        assert broker.process.wait(50) == 0
    with served(tmp_path / "data") as broker:
        assert ready(broker.url) == 0
        assert broker.end() == 0


def test_end_with_a_lost_store_says_what_is_not_written(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with served(data) as broker:
        fill(broker.url)
        move(data)
        broker.wait_logged("the store cannot be written")
        acknowledge_all(broker.url)
        assert broker.end() == LOST
        assert "not on disk are 5 x acknowledgement or end of a job: " in broker.log[-1]
        assert "/moved. Move it back" in broker.log[-1]


def test_broker_on_a_small_volume_goes_on_when_there_is_room_again(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    with mounted("-t", "tmpfs", "-o", "size=140m", "tmpfs", str(volume)), served(volume / "data") as broker:
        with open_blocking(broker.url) as connection:
            connection.call(QueueDeclare("q", durable=True), QueueDeclareOk)
            for _ in range(600):  # each a batch of its own, of which the log keeps all
                publish(connection, "q", bytes(500))
        assert (volume / "data" / "store.db-wal").stat().st_size > 5_000_000
        room = os.statvfs(volume).f_bavail * os.statvfs(volume).f_frsize
        (volume / "other").write_bytes(bytes(room - 20_000_000))
        with open_blocking(f"{broker.url}/?timeout=1") as connection, pytest.raises(TriomqError):
            publish(connection, "q", b"refused")
        broker.wait_logged("the store cannot be written")
        (volume / "other").unlink()
        broker.wait_logged("the store can be written again")
        with open_blocking(broker.url) as connection:
            publish(connection, "q", b"late")
        assert broker.end() == 0
