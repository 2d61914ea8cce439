"""``triomq top`` against a served broker, and on a terminal."""

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from typing import IO

import msgspec
import pytest
import typer

from app.cli.conftest import Command
from app.cli.samples import make_sample, make_totals
from peers.served import open_served
from triomq.app.cli.keys import END
from triomq.app.cli.sampling import Flow, Sample
from triomq.app.cli.top import Watcher, _print_once, watch
from triomq.clients import BlockingConnection
from triomq.errors import Disconnected, NotFound
from triomq.protocols.amqp import QueueDeclare, QueueDeclareOk

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


@pytest.mark.parametrize("last", ["q", END])
def test_q_and_the_end_of_input_end_it(last: str) -> None:
    answers = looks(make_sample(0.0), make_sample(1.0))
    keys = iter(["x", last])
    assert len(list(watch(lambda: look_at(answers), 1.0, lambda seconds: next(keys)))) == 2


def test_broker_that_goes_away_is_waited_for_and_begins_anew() -> None:
    answers = looks(make_sample(0.0), Disconnected("gone"), Disconnected("gone"), make_sample(9.0), make_sample(10.0))
    seen = list(islice(watch(lambda: look_at(answers), 1.0, nothing), 5))
    assert [one.note for one in seen] == ["", "gone; trying again", "gone; trying again", "", ""]
    assert [one.rates is None for one in seen] == [True, True, True, True, False]
    assert seen[1].sample is seen[0].sample


def test_broker_that_cannot_be_reached_at_first_or_refuses_is_an_error() -> None:
    with pytest.raises(Disconnected):
        list(watch(lambda: look_at(looks(Disconnected("nobody"))), 1.0, nothing))
    answers = looks(make_sample(0.0), NotFound("no"))
    with pytest.raises(NotFound):
        list(watch(lambda: look_at(answers), 1.0, nothing))


def test_watcher_connects_again() -> None:
    with open_served() as served:
        watcher = Watcher(served.url)
        assert watcher.look().totals.connections == 1
        served.process.send_signal(signal.SIGTERM)
        with pytest.raises(Disconnected, match="320 CONNECTION_FORCED"):
            look_on(watcher)
        served.process.wait(100)
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
    assert "AMQPServerConnection" in done.stdout


def test_once_as_json(command: Command) -> None:
    seen = msgspec.json.decode(command("top", "--once", "--interval", "0.05", "--json").stdout)
    assert seen["sample"]["totals"]["connections"] >= 1
    assert seen["rates"]["totals"] == {"published": 0.0, "delivered": 0.0, "settled": 0.0}
    assert seen["note"] == ""


def test_screen_is_printed_once_where_there_is_no_terminal(command: Command) -> None:
    done = command("top", "--interval", "0.05")
    assert done.exit_code == 0
    assert done.stdout.count("triomq ") == 1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--interval", "0"), "--interval"),
        (("--url", "http://127.0.0.1/"), "http"),
        (("now",), "unexpected extra argument"),
    ],
)
def test_wrong_command_line_is_a_2(command: Command, options: tuple[str, ...], text: str) -> None:
    done = command("top", *options)
    assert (done.exit_code, done.stdout) == (2, "")
    assert text in done.stderr


def test_wrong_password_is_a_line_and_a_1(command: Command, url: str) -> None:
    done = command("top", "--url", url.replace("guest:guest", "guest:wrong"))
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("triomq: ")
    assert "403" in done.stderr


def test_broker_that_ends_before_the_only_look_that_counts_is_a_1(capsys: pytest.CaptureFixture[str]) -> None:
    with open_served() as served, closing(Watcher(served.url)) as watcher:

        def wait(seconds: float) -> str:
            served.terminate()
            return ""

        with pytest.raises(typer.Exit) as ended:
            _print_once(watch(watcher.look, 1.0, wait), json=True)
    assert ended.value.exit_code == 1
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.startswith("triomq: ")


# A line for each look


@contextmanager
def lines(url: str, *, stdin: int = subprocess.DEVNULL) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """``triomq top --json``, which has to end well and may complain of nothing, and what it prints."""
    command = [sys.executable, "-m", "triomq", "top", "--json", "--interval", "0.05", "--url", url]
    with subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            yield process, process.stdout
            assert (process.stderr.read(), process.wait(100)) == (b"", 0)
        finally:
            process.kill()


def test_json_goes_on_until_its_reader_goes(url: str) -> None:
    with lines(url) as (_, output):
        moments = [msgspec.json.decode(output.readline())["sample"]["moment"] for _ in range(3)]
        assert moments == sorted(set(moments))
        output.close()


def test_ctrl_c_ends_json(url: str) -> None:
    with lines(url) as (process, output):
        assert output.readline()
        process.send_signal(signal.SIGINT)
        output.read()


def test_json_outlives_its_broker_and_says_so() -> None:
    with open_served() as served, lines(served.url) as (_, output):
        first = msgspec.json.decode(output.readline())
        assert first["note"] == ""
        served.terminate()
        noted = next(line for line in map(msgspec.json.decode, output) if line["note"])
        assert noted["note"].endswith("; trying again")
        assert noted["rates"] is None
        output.close()


def test_json_leaves_the_terminal_alone_so_that_it_can_run_in_the_background(url: str) -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    with lines(url, stdin=theirs) as (_, output):
        assert output.readline()
        assert termios.tcgetattr(theirs) == before
        output.close()
    os.close(ours)
    os.close(theirs)


# A screen


LEAVE_SCREEN = b"\x1b[?1049l"


class Screen:
    """``triomq top`` on a terminal of 100 columns and 30 lines."""

    def __init__(self, url: str, *, interval: float = 0.1) -> None:
        self.terminal, self.theirs = pty.openpty()
        self.before = termios.tcgetattr(self.theirs)
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
        command = [sys.executable, "-m", "triomq", "top", "--interval", str(interval), "--url", url]
        self.process = subprocess.Popen(
            command, stdin=self.theirs, stdout=self.theirs, stderr=self.theirs, env=environment, start_new_session=True
        )

    def read_until(self, text: bytes) -> bytes:
        """Read what is drawn until this is."""
        drawn, deadline = b"", time.monotonic() + 100
        while text not in drawn:
            assert time.monotonic() < deadline, f"{text!r} did not come: {drawn[-2000:]!r}"
            if select.select([self.terminal], [], [], 0.1)[0]:
                drawn += os.read(self.terminal, 65536)
        return drawn

    def end(self) -> int:
        """See that the terminal is given back as it was, and give the exit code."""
        left = self.read_until(LEAVE_SCREEN)
        assert b"Traceback" not in left
        code = self.process.wait(100)
        assert termios.tcgetattr(self.theirs) == self.before
        os.close(self.theirs)
        os.close(self.terminal)
        return code


def test_screen_is_drawn_on_a_terminal_until_q(url: str) -> None:
    screen = Screen(url)
    screen.read_until(b"each second 0 in")
    os.write(screen.terminal, b"q")
    assert screen.end() == 0


def test_key_takes_a_sample_at_once(url: str) -> None:
    screen = Screen(url, interval=600)
    screen.read_until("each second – in".encode())
    os.write(screen.terminal, b" ")
    screen.read_until(b"each second 0 in")
    os.write(screen.terminal, END.encode())
    assert screen.end() == 0


def test_screen_has_no_more_lines_than_the_terminal(url: str, connection: BlockingConnection) -> None:
    for number in range(40):
        connection.call(QueueDeclare(f"tall.{number}", exclusive=True), QueueDeclareOk)
    screen = Screen(url)
    drawn = screen.read_until(b"each second 0 in")
    os.write(screen.terminal, b"q")
    first = drawn[: drawn.index(b"\x1b[H", drawn.index(b"each second"))]
    assert 20 < first.count(b"\n") < 30
    assert screen.end() == 0


def test_ctrl_c_ends_top(url: str) -> None:
    screen = Screen(url)
    screen.read_until(b"each second 0 in")
    screen.process.send_signal(signal.SIGINT)
    assert screen.end() == 0


def test_top_outlives_its_broker_and_shows_that() -> None:
    with open_served() as served:
        screen = Screen(served.url)
        screen.read_until(b"each second 0 in")
        served.terminate()
    screen.read_until(b"trying again")
    assert screen.process.poll() is None
    os.write(screen.terminal, b"q")
    assert screen.end() == 0
