"""``triomq queues`` and ``triomq purge`` against a served broker."""

import os
import pty
import subprocess
import sys

import msgspec
import pytest

from app.cli.conftest import Command
from triomq.app.cli.tables import state_of
from triomq.clients import AMQPChannel, BlockingConnection
from triomq.protocols.amqp import QueueDeclare, QueueDeclareOk, QueueDelete, QueueDeleteOk, RestMSPipeCreate
from triomq.protocols.control import ListQueues


@pytest.fixture
def named(connection: BlockingConnection) -> BlockingConnection:
    """Three queues: list.a with one message, list.b with two, and one whose name a terminal would obey."""
    for name, count in (("list.a", 1), ("list.b", 2), ("list.\x1b[31m[red]", 0)):
        connection.call(QueueDeclare(name, exclusive=True), QueueDeclareOk)
        for _ in range(count):
            connection.publish("", name, b"x" * 1024)
    return connection


def test_queues_are_a_table(command: Command, named: BlockingConnection) -> None:
    done = command("queues", "list.*")
    assert done.exit_code == 0
    title, escaped, first, second = done.stdout.splitlines()
    columns = ["queue", "ready", "unsettled", "consumers", "size", "in", "out", "dropped", "state"]
    assert title.split() == columns
    assert escaped.split()[0] == r"list.\x1b[31m[red]"
    assert first.split() == ["list.a", "1", "0", "0", "1.0", "KiB", "1", "0", "0", "running"]
    assert second.split()[:2] == ["list.b", "2"]


def test_messages_that_were_dropped_show_with_the_reason(command: Command, connection: BlockingConnection) -> None:
    assert "expired" not in command("queues", "given*").stdout
    arguments = {"x-message-ttl": 0, "x-max-length": 2}
    connection.call(QueueDeclare("given.up", exclusive=True, arguments=arguments), QueueDeclareOk)
    connection.publish("", "given.up", b"x")
    title, row = command("queues", "given*").stdout.splitlines()
    assert title.split()[-3:] == ["dropped", "expired", "state"]
    assert row.split()[-3:] == ["0", "1", "running"]


def test_streams_show_what_can_be_read(command: Command, connection: BlockingConnection) -> None:
    connection.call(QueueDeclare("kept", durable=True, arguments={"x-queue-type": "stream"}), QueueDeclareOk)
    connection.publish("", "kept", b"x")
    try:
        title, row = command("queues", "kept").stdout.splitlines()
        assert title.split()[-3:] == ["state", "offsets", "behind"]
        assert row.split()[-2:] == ["running", "0…1"]
        (line,) = command("queues", "kept", "--json").stdout.splitlines()
        found = msgspec.json.decode(line)
        assert (found["kind"], found["stream"]["first"], found["stream"]["next"]) == ("stream", 0, 1)
        refused = command("purge", "kept", "--yes")
        assert refused.exit_code == 1
        assert "queue.purge not supported by stream queues" in refused.stderr
    finally:
        connection.call(QueueDelete("kept"), QueueDeleteOk)


def test_table_is_not_cut_where_there_is_no_terminal(command: Command, connection: BlockingConnection) -> None:
    name = "list." + "long" * 60
    connection.call(QueueDeclare(name, exclusive=True), QueueDeclareOk)
    assert f"{name} " in command("queues", "list.long*").stdout


def test_fullest_come_first_if_asked(command: Command, named: BlockingConnection) -> None:
    lines = command("queues", "list.*", "--sort", "ready", "--json").stdout.splitlines()
    found = [msgspec.json.decode(line) for line in lines]
    assert [(queue["name"], queue["ready"]) for queue in found][:2] == [("list.b", 2), ("list.a", 1)]


def test_list_without_queues_is_no_error(command: Command) -> None:
    done = command("queues", "nope*")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "no queue has a name like 'nope*'\n")


def test_trouble_shows() -> None:
    assert str(state_of("running", 0)) == "running"
    assert not state_of("running", 0).style
    assert str(state_of("backing_off", 2)) == "backing_off, restarted 2×"
    assert state_of("stopped", 3).style


def test_purge_says_how_many(command: Command, connection: BlockingConnection, queue: str) -> None:
    for _ in range(2):
        connection.publish("", queue, b"")
    assert command("purge", queue).stdout == "2 messages dropped\n"
    connection.publish("", queue, b"")
    assert command("purge", queue, "--yes").stdout == "1 message dropped\n"
    assert command("purge", queue, "--json").stdout == '{"purged":0}\n'
    assert command("purge", "nope").exit_code == 1


@pytest.mark.parametrize(("answer", "code", "left"), [(b"n\n", 1, 1), (b"y\n", 0, 0)])
def test_purge_asks_on_a_terminal(
    url: str, connection: BlockingConnection, queue: str, answer: bytes, code: int, left: int
) -> None:
    connection.publish("", queue, b"")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "triomq", "purge", queue, "--url", url]
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        os.write(ours, answer)
        printed, _ = process.communicate(timeout=100)
    os.close(ours)
    os.close(theirs)
    assert f"Drop all ready messages of '{queue}'?".encode() in printed
    assert process.returncode == code
    declared = connection.call(QueueDeclare(queue, passive=True), QueueDeclareOk)
    assert declared.message_count == left


async def create_pipe(channel: AMQPChannel) -> None:
    line = await channel.ready()
    line.link.send(line.number, RestMSPipeCreate("pipe", "forget.me"))  # nobody answers that


def test_forget_deletes_what_a_peer_has_made(command: Command, connection: BlockingConnection) -> None:
    connection._use(create_pipe)
    connection.call(QueueDeclare("forget.me", passive=True), QueueDeclareOk)
    (found,) = connection.control_all(ListQueues("forget.me"))
    assert found.origin == "guest@127.0.0.1"
    assert command("forget", "guest@nowhere").stdout == "0 things deleted\n"
    assert command("forget", found.origin, "--json").stdout == '{"count":1}\n'
    assert list(connection.control_all(ListQueues("forget.me"))) == []
