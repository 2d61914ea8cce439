"""The command line tools of rabbitmq-c: amqp-publish, amqp-get, amqp-consume."""

import subprocess
from collections.abc import Callable

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from peers.pika_client import count, drain

pytestmark = pytest.mark.peers
Tool = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def run(tool: Callable[[str], str], broker_url: str) -> Tool:
    def run(program: str, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        command = [tool(program), f"--url={broker_url}", *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, timeout=100, check=False)

    return run


def test_message_of_amqp_publish_is_printed_by_amqp_get(run: Tool, shared_queue: str) -> None:
    sent = run("amqp-publish", "-r", shared_queue, "-b", "hello from the shell")
    got = run("amqp-get", "-q", shared_queue)
    assert (sent.returncode, sent.stderr) == (0, b"")
    assert (got.returncode, got.stdout) == (0, b"hello from the shell")


def test_amqp_get_says_by_its_exit_code_that_a_queue_is_empty(run: Tool, shared_queue: str) -> None:
    assert run("amqp-get", "-q", shared_queue).returncode == 2


def test_amqp_publish_sends_each_line(run: Tool, channel: BlockingChannel, shared_queue: str) -> None:
    assert run("amqp-publish", "-r", shared_queue, "-l", stdin=b"one\ntwo\nthree\n").returncode == 0
    assert drain(channel, shared_queue) == [b"one\n", b"two\n", b"three\n"]


def test_amqp_publish_sets_properties(run: Tool, channel: BlockingChannel, shared_queue: str) -> None:
    options = ["-p", "-C", "text/plain", "-t", "answers", "-H", "kind: test"]
    assert run("amqp-publish", "-r", shared_queue, *options, "-b", "x").returncode == 0
    _, properties, _ = channel.basic_get(shared_queue, auto_ack=True)
    assert (properties.delivery_mode, properties.content_type, properties.reply_to) == (2, "text/plain", "answers")
    assert properties.headers == {"kind": "test"}


def test_amqp_publish_reports_a_missing_exchange_or_nothing(run: Tool, shared_queue: str) -> None:
    """The tool does not wait for an answer, so its exit code may be either; the broker lives on."""
    run("amqp-publish", "-e", "no such exchange", "-r", "x", "-b", "lost")
    assert run("amqp-publish", "-r", shared_queue, "-b", "x").returncode == 0


@pytest.mark.parametrize("options", [[], ["-A"], ["-p", "1"]])
def test_amqp_consume_runs_a_command_for_each_message(
    run: Tool, channel: BlockingChannel, shared_queue: str, options: list[str]
) -> None:
    run("amqp-publish", "-r", shared_queue, "-l", stdin=b"one\ntwo\nthree\n")
    consumed = run("amqp-consume", "-q", shared_queue, "-c", "3", *options, "cat")
    assert (consumed.returncode, consumed.stdout) == (0, b"one\ntwo\nthree\n")
    assert count(channel, shared_queue) == 0
