"""``triomq publish`` and ``triomq get`` against a served broker."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from app.cli.conftest import Command
from triomq.clients import BlockingConnection
from triomq.protocols.amqp import QueueDeclare, QueueDeclareOk


def bodies(connection: BlockingConnection, queue: str) -> list[bytes]:
    """Take all that is in a queue."""
    found = []
    while (got := connection.get(queue)) is not None:
        connection.accept(got)
        found.append(got.body)
    return found


def fill(connection: BlockingConnection, queue: str, *contents: bytes) -> None:
    for body in contents:
        connection.publish("", queue, body)


# publish


def test_body_is_published(command: Command, connection: BlockingConnection, queue: str) -> None:
    done = command("publish", queue, "--body", "hej", "--property", "type=t", "--header", "n:=5")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "1 message was published\n", "")
    got = connection.get(queue)
    assert got is not None
    properties = got.properties
    assert (got.body, properties.type, properties.delivery_mode, properties.headers) == (b"hej", "t", 2, {"n": 5})


def test_input_is_published_whole_or_by_line(command: Command, connection: BlockingConnection, queue: str) -> None:
    assert command("publish", queue, input=b"\xff\x00a\nb\n").exit_code == 0
    assert command("publish", queue, "--file", "-", input=b"c").exit_code == 0
    done = command("publish", queue, "--lines", "--json", input=b"d\n\ne")
    assert msgspec.json.decode(done.stdout) == {"published": 3}
    assert bodies(connection, queue) == [b"\xff\x00a\nb\n", b"c", b"d", b"", b"e"]


def test_file_is_published(command: Command, connection: BlockingConnection, queue: str, tmp_path: Path) -> None:
    file = tmp_path / "message"
    file.write_bytes(b"a\nb")
    assert command("publish", queue, "--file", str(file), "--count", "2").stdout == "2 messages were published\n"
    assert command("publish", queue, "--file", str(file), "--lines").exit_code == 0
    assert bodies(connection, queue) == [b"a\nb", b"a\nb", b"a", b"b"]


def test_exchange_routes(command: Command, connection: BlockingConnection, queue: str) -> None:
    done = command("publish", "key", "--exchange", "amq.direct", "--body", "x")
    assert done.exit_code == 1
    assert "no queue took a message published to exchange 'amq.direct' with routing key 'key'" in done.stderr
    assert done.stderr.count("\n") == 1
    assert command("publish", "key", "--exchange", "amq.direct", "--body", "x", "--no-mandatory").exit_code == 0


def test_messages_published_before_a_refusal_are_counted(command: Command, connection: BlockingConnection) -> None:
    arguments = {"x-max-length": 2, "x-overflow": "reject-publish"}
    full = connection.call(QueueDeclare("cli.full", arguments=arguments, auto_delete=True), QueueDeclareOk).queue
    done = command("publish", full, "--body", "x", "--count", "3")
    assert done.exit_code == 1
    assert "a queue is full" in done.stderr
    assert done.stderr.endswith("; 2 messages were published\n")


WRONG = [
    ("publish",),
    ("publish", "q", "--body", "x", "--file", "-"),
    ("publish", "q", "--body", "x", "--lines"),
    ("publish", "q", "--lines", "--count", "2"),
    ("publish", "q", "--file", "/nowhere/to/be/found"),
    ("publish", "q", "--body", "x", "--property", "colour=blue"),
    ("publish", "q", "--body", "x", "--count", "0"),
    ("get",),
    ("get", "q", "--peek", "--requeue"),
    ("get", "q", "--json", "--body-only"),
    ("get", "q", "--url", "nowhere"),
]


@pytest.mark.parametrize("options", WRONG, ids=" ".join)
def test_wrong_command_line_ends_with_2(command: Command, options: tuple[str, ...]) -> None:
    done = command(*options)
    assert done.exit_code == 2
    assert done.stdout == ""


# get


def test_message_is_printed_and_gone(command: Command, connection: BlockingConnection, queue: str) -> None:
    fill(connection, queue, b"a", b"b")
    done = command("get", queue)
    assert done.exit_code == 0
    assert done.stdout == f"[1] default exchange, key {queue}, 1 B\na\n"
    assert bodies(connection, queue) == [b"b"]


def test_messages_are_printed_up_to_the_count_or_all(
    command: Command, connection: BlockingConnection, queue: str
) -> None:
    fill(connection, queue, b"a", b"b", b"c", b"d")
    assert command("get", queue, "--count", "2", "--body-only").stdout == "a\nb\n"
    assert command("get", queue, "--body-only").stdout == "c"
    assert command("get", queue, "--count", "0", "--body-only").stdout == "d\n"


def test_json_is_an_object_on_each_line(command: Command, connection: BlockingConnection, queue: str) -> None:
    fill(connection, queue, b"a", b"\xff")
    lines = command("get", queue, "--count", "0", "--json").stdout.splitlines()
    first, second = map(msgspec.json.decode, lines)
    assert (first["body"], first["routing_key"], second["body_base64"]) == ("a", queue, "/w==")


def test_peek_leaves_everything_as_it_is(command: Command, connection: BlockingConnection, queue: str) -> None:
    fill(connection, queue, b"a", b"b", b"c")
    for _ in range(2):
        lines = command("get", queue, "--peek", "--count", "2", "--json").stdout.splitlines()
        found = [msgspec.json.decode(line) for line in lines]
        assert [(message["id"], message["body"], message["redelivered"]) for message in found] == [
            (1, "a", False),
            (2, "b", False),
        ]
    assert len(command("get", queue, "--peek", "--count", "0", "--json").stdout.splitlines()) == 3
    got = connection.get(queue)
    assert got is not None
    assert (got.body, got.redelivered, got.remaining) == (b"a", False, 2)


def test_requeued_message_is_marked(command: Command, connection: BlockingConnection, queue: str) -> None:
    fill(connection, queue, b"a", b"b", b"c")
    assert command("get", queue, "--requeue", "--count", "2", "--body-only").stdout == "a\nb\n"
    assert ", redelivered\n" in command("get", queue, "--requeue").stdout
    assert bodies(connection, queue) == [b"a", b"b", b"c"]


def test_empty_queue_is_no_error(command: Command, queue: str) -> None:
    for options in ((), ("--peek",), ("--json",)):
        done = command("get", queue, *options)
        assert (done.exit_code, done.stdout, done.stderr) == (0, "", f"queue '{queue}' is empty\n")


def test_queue_that_is_not_there_is_one(command: Command) -> None:
    for options in ((), ("--peek",)):
        done = command("get", "nope", *options)
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr == "triomq: 404 NOT_FOUND - no queue 'nope' in vhost '/'\n"


def test_reader_that_ends_early_ends_get_silently_and_leaves_the_rest(
    url: str, connection: BlockingConnection, queue: str
) -> None:
    fill(connection, queue, *(b"x" * 1000 for _ in range(300)))
    options = ["get", queue, "--count", "0", "--url", url]
    process = subprocess.Popen(
        [sys.executable, "-m", "triomq", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith(b"[1] ")
    process.stdout.close()
    assert (process.stderr.read(), process.wait(100)) == (b"", 0)
    process.stderr.close()
    assert len(bodies(connection, queue)) > 100
