"""``triomq top`` against a served broker, and on a terminal."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice

import msgspec
import pytest

from app.cli.conftest import Command
from app.cli.samples import make_sample, make_totals
from peers.served import open_served
from triomq.app.cli.sampling import Flow, Sample
from triomq.app.cli.top import Watcher, watch
from triomq.clients import BlockingConnection
from triomq.errors import Disconnected, NotFound

# Looking again and again


def looks(*answers: Sample | Exception) -> Iterator[Sample | Exception]:
    return iter(answers)


def look_at(answers: Iterator[Sample | Exception]) -> Sample:
    answer = next(answers)
    if isinstance(answer, Exception):
        raise answer
    return answer


def nothing(seconds: float) -> str:
    return ""


def test_rates_come_with_the_second_look() -> None:
    answers = looks(make_sample(0.0), make_sample(2.0, make_totals(published=10)))
    first, second = islice(watch(lambda: look_at(answers), 1.0, nothing), 2)
    assert first.rates is None
    assert second.rates is not None
    assert second.rates.totals == Flow(5.0, 0.0, 0.0)


def test_q_ends_it() -> None:
    answers = looks(make_sample(0.0), make_sample(1.0))
    keys = iter(["x", "q"])
    assert len(list(watch(lambda: look_at(answers), 1.0, lambda seconds: next(keys)))) == 2


def test_a_broker_that_goes_away_is_waited_for_and_begins_anew() -> None:
    answers = looks(make_sample(0.0), Disconnected("gone"), Disconnected("gone"), make_sample(9.0), make_sample(10.0))
    seen = list(islice(watch(lambda: look_at(answers), 1.0, nothing), 5))
    assert [one.note for one in seen] == ["", "gone; trying again", "gone; trying again", "", ""]
    assert [one.rates is None for one in seen] == [True, True, True, True, False]
    assert seen[1].sample is seen[0].sample


def test_what_cannot_be_reached_at_first_or_refuses_is_an_error() -> None:
    with pytest.raises(Disconnected):
        list(watch(lambda: look_at(looks(Disconnected("nobody"))), 1.0, nothing))
    answers = looks(make_sample(0.0), NotFound("no"))
    with pytest.raises(NotFound):
        list(watch(lambda: look_at(answers), 1.0, nothing))


def test_a_watcher_connects_again() -> None:
    with open_served() as served:
        watcher = Watcher(served.url)
        assert watcher.look().totals.connections == 1
        served.process.send_signal(signal.SIGTERM)
        with pytest.raises(Disconnected, match="320 CONNECTION_FORCED"):
            look_on(watcher)
        served.process.wait(30)
        with pytest.raises(Disconnected, match="no broker can be reached"):
            watcher.look()
        watcher.close()


def look_on(watcher: Watcher) -> None:
    while True:
        watcher.look()


# The command


def test_once_prints_one_snapshot_with_rates(command: Command, connection: BlockingConnection, queue: str) -> None:
    connection.publish("", queue, b"x")
    done = command("top", "--once", "--interval", "0.05")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("triomq ")
    assert "each second 0 in, 0 out, 0 settled" in done.stdout
    assert f"\n{queue} " in done.stdout
    assert "AMQPConnection" in done.stdout


def test_once_as_json(command: Command) -> None:
    seen = msgspec.json.decode(command("top", "--once", "--interval", "0.05", "--json").stdout)
    assert seen["sample"]["totals"]["connections"] >= 1
    assert seen["rates"]["totals"] == {"published": 0.0, "delivered": 0.0, "settled": 0.0}
    assert seen["note"] == ""


def test_where_there_is_no_terminal_it_is_printed_once(command: Command) -> None:
    done = command("top", "--interval", "0.05")
    assert done.exit_code == 0
    assert done.stdout.count("triomq ") == 1


def test_nobody_there_is_a_line_and_a_1(command: Command) -> None:
    done = command("top", "--url", "amqp+unix:///nowhere.sock")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("triomq: no broker can be reached at /nowhere.sock")


def test_json_goes_on_until_its_reader_goes(url: str) -> None:
    options = ["top", "--json", "--interval", "0.05", "--url", url]
    process = subprocess.Popen(
        [sys.executable, "-m", "triomq", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    moments = [msgspec.json.decode(process.stdout.readline())["sample"]["moment"] for _ in range(3)]
    assert moments == sorted(set(moments))
    process.stdout.close()
    assert (process.stderr.read(), process.wait(30)) == (b"", 0)
    process.stderr.close()


class Screen:
    """``triomq top`` on a terminal of 100 columns."""

    def __init__(self, url: str) -> None:
        self.terminal, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
        command = [sys.executable, "-m", "triomq", "top", "--interval", "0.1", "--url", url]
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
        )
        os.close(theirs)

    def read_until(self, text: bytes) -> bytes:
        """Read what is drawn until this is."""
        drawn, deadline = b"", time.monotonic() + 30
        while text not in drawn:
            assert time.monotonic() < deadline, f"{text!r} did not come: {drawn[-2000:]!r}"
            if select.select([self.terminal], [], [], 0.1)[0]:
                drawn += os.read(self.terminal, 65536)
        return drawn

    def end(self) -> int:
        """Read what is drawn at the end, which the process waits for, and give its exit code."""
        try:
            while os.read(self.terminal, 65536):
                pass
        except OSError:
            pass  # the other end is closed
        os.close(self.terminal)
        return self.process.wait(30)


def test_on_a_terminal_it_draws_until_q(url: str) -> None:
    screen = Screen(url)
    screen.read_until(b"each second 0 in")
    os.write(screen.terminal, b"q")
    assert screen.end() == 0


def test_ctrl_c_ends_it_too(url: str) -> None:
    screen = Screen(url)
    screen.read_until(b"each second 0 in")
    screen.process.send_signal(signal.SIGINT)
    assert screen.end() == 0


def test_it_outlives_its_broker_and_says_so() -> None:
    with open_served() as served:
        screen = Screen(served.url)
        screen.read_until(b"each second 0 in")
        served.terminate()
    screen.read_until(b"trying again")
    os.write(screen.terminal, b"q")
    assert screen.end() == 0
