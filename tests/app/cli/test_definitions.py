"""``triomq definitions`` against a served broker."""

import stat
from pathlib import Path

import msgspec
import pytest

from app.cli.conftest import Command
from triomq.clients import BlockingConnection
from triomq.protocols.amqp import QueueDeclare, QueueDeclareOk, QueueDelete, QueueDeleteOk

NAMES = ("definitions.a", "definitions.b")

GIVEN: dict[str, list[dict[str, object]]] = {
    "exchanges": [
        {
            "name": "definitions.s",
            "type": "topic",
            "auto_delete": True,
            "arguments": {"alternate-exchange": "amq.fanout"},
        },
        {"name": "amq.direct", "type": "direct"},
    ],
    "queues": [
        {"name": NAMES[0], "durable": True, "arguments": {"x-max-length": 5}},
        {"name": NAMES[1], "durable": False, "arguments": {"x-note": "n"}},
    ],
    "bindings": [
        {"source": "definitions.s", "destination": NAMES[0], "destination_type": "queue", "routing_key": "a.#"},
        {"source": "", "destination": NAMES[0], "destination_type": "queue", "routing_key": NAMES[0]},
    ],
}


def write(tmp_path: Path, **changes: object) -> str:
    path = tmp_path / "definitions.json"
    path.write_bytes(msgspec.json.encode({**GIVEN, **changes}))
    return str(path)


def delete(connection: BlockingConnection) -> None:
    for name in NAMES:
        connection.call(QueueDelete(name), QueueDeleteOk)


def test_imported_definitions_are_exported_again(
    command: Command, connection: BlockingConnection, tmp_path: Path
) -> None:
    done = command("definitions", "import", write(tmp_path))
    assert (done.exit_code, done.stdout) == (0, "4 of 4 exchanges, queues and bindings are there\n")
    assert command("definitions", "import", write(tmp_path)).exit_code == 0
    done = command("definitions", "export")
    assert done.exit_code == 0
    found = msgspec.json.decode(done.stdout)
    for kind in ("exchanges", "queues", "bindings"):
        ours = {item.get("name", item.get("source")): item for item in found[kind]}
        for item in GIVEN[kind]:
            name = str(item.get("name", item.get("source")))
            if name and not name.startswith("amq."):
                assert {key: ours[name][key] for key in item} == item
    assert "user guest: its password is left out, since it is not hashed as in RabbitMQ" in done.stderr
    delete(connection)


def test_export_is_for_its_owner_alone(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    assert command("definitions", "export", str(path)).exit_code == 0
    assert msgspec.json.decode(path.read_bytes())["vhosts"] == [{"name": "/"}]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    done = command("definitions", "export", str(tmp_path / "nowhere" / "out.json"))
    assert (done.exit_code, "No such file" in done.stderr) == (1, True)


def test_export_to_a_dash_goes_to_standard_output(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = command("definitions", "export", "-")
    assert msgspec.json.decode(done.stdout)["vhosts"] == [{"name": "/"}]
    assert list(tmp_path.iterdir()) == []


def test_definitions_that_clients_cannot_declare_are_named(
    command: Command, connection: BlockingConnection, tmp_path: Path
) -> None:
    user = {"name": "ada", "password_hash": ""}
    policy = {"name": "p", "pattern": "", "definition": {"max-length": 1}}
    done = command("definitions", "import", write(tmp_path, users=[user], policies=[policy]))
    assert done.exit_code == 0
    assert done.stderr == (
        "not imported: 1 users, 1 policies; name the file as definitions in the broker's configuration, and send it "
        "SIGHUP\n"
    )
    delete(connection)


def test_refused_definition_does_not_stop_the_rest(
    command: Command, connection: BlockingConnection, tmp_path: Path
) -> None:
    connection.call(QueueDeclare(NAMES[0]), QueueDeclareOk)
    exchange = {"name": "x", "type": "x-delayed-message"}
    done = command("definitions", "import", write(tmp_path, exchanges=[exchange, *GIVEN["exchanges"]]))
    assert done.exit_code == 1
    assert done.stdout == "3 of 5 exchanges, queues and bindings are there\n"
    first, second = done.stderr.splitlines()
    assert first == "triomq: exchange 'x': 503 COMMAND_INVALID - unknown exchange type 'x-delayed-message'"
    assert second.startswith(f"triomq: queue '{NAMES[0]}': 406 PRECONDITION_FAILED - inequivalent arg 'durable'")
    delete(connection)


def test_virtual_host_that_is_not_there_ends_it(command: Command, tmp_path: Path) -> None:
    done = command("definitions", "import", write(tmp_path, queues=[{"name": "q", "vhost": "nope"}], bindings=[]))
    assert done.exit_code == 1
    assert "nope" in done.stderr


def test_file_without_definitions_is_an_error(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("[1]")
    done = command("definitions", "import", str(path))
    assert (done.exit_code, "no definitions as RabbitMQ exports them" in done.stderr) == (1, True)
    done = command("definitions", "import", str(tmp_path / "nope.json"))
    assert (done.exit_code, "No such file" in done.stderr) == (1, True)
    assert command("definitions", "import", "-", input=b"{}").exit_code == 0
