"""Definitions that RabbitMQ exports, imported here; and ours, imported there."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, ProbableAccessDeniedError, ProbableAuthenticationError
from typer.testing import CliRunner

from peers.pika_client import count, drain
from peers.rabbitmq import Node, find_rabbitmq, open_node
from peers.served import Served, open_served
from triomq.app.cli.commands import make_app

Json = dict[str, list[dict[str, object]]]

KINDS = ("exchanges", "queues", "bindings", "policies", "permissions", "vhosts", "parameters")


@pytest.fixture(scope="module")
def rabbitmq(request: pytest.FixtureRequest) -> Iterator[Node]:
    """A RabbitMQ with a bit of everything."""
    if find_rabbitmq() is None:
        if request.config.getoption("--require-peers"):
            pytest.fail("rabbitmq-server is not installed")
        pytest.skip("rabbitmq-server is not installed")
    with open_node() as node:
        furnish(node)
        yield node


def furnish(node: Node) -> None:
    for command in (
        ("add_vhost", "shop"),
        ("add_user", "ada", "a secret"),
        ("set_user_tags", "ada", "administrator"),
        ("set_permissions", "ada", ".*", ".*", ".*"),
        ("set_permissions", "-p", "shop", "ada", ".*", ".*", ".*"),
        ("add_user", "bob", "another"),
        ("set_permissions", "-p", "shop", "bob", "^bob", ".*", "^$"),
        ("set_policy", "limits", "^log", '{"max-length":2}', "--apply-to", "queues", "--priority", "3"),
        ("set_operator_policy", "most", "^log", '{"max-length":4}', "--apply-to", "queues"),
        ("set_vhost_limits", "-p", "shop", '{"max-queues": 50}'),
        ("delete_user", "guest"),
    ):
        node.control(*command)
    with pika.BlockingConnection(pika.URLParameters(of(node.url, "ada", "a secret"))) as connection:
        channel = connection.channel()
        channel.exchange_declare("orders", "topic", durable=True, arguments={"alternate-exchange": "lost"})
        channel.exchange_declare("lost", "fanout", durable=True)
        channel.exchange_declare("share", "x-consistent-hash", durable=True, arguments={"hash-header": "h"})
        for queue, arguments in (
            ("new", {"x-message-ttl": 60_000, "x-max-priority": 5, "x-dead-letter-exchange": "lost"}),
            ("lost", {"x-queue-mode": "lazy", "x-max-length": 10}),
            ("safe", {"x-queue-type": "quorum", "x-delivery-limit": 3}),
            ("log.a", {}),
        ):
            channel.queue_declare(queue, durable=True, arguments=arguments)
        channel.queue_bind("new", "orders", "order.#")
        channel.queue_bind("lost", "lost", "", {"note": "n", "number": 5})
        channel.queue_bind("new", "share", "2")
        channel.exchange_bind("share", "orders", "shared")


def of(url: str, user: str, password: str, virtual_host: str = "") -> str:
    return url.replace("guest:guest", f"{user}:{password}").replace("a secret", "a%20secret") + virtual_host


def exported(node: Node, path: Path) -> Json:
    node.control("export_definitions", str(path))
    return decoded(path)


def decoded(path: Path) -> Json:
    """Read the lists of a file of definitions."""
    found: dict[str, object] = msgspec.json.decode(path.read_bytes())
    return msgspec.convert({kind: value for kind, value in found.items() if isinstance(value, list)}, Json)


def comparable(found: Json, kind: str) -> list[dict[str, object]]:
    """Take away what only one of the two says."""
    items = [{key: value for key, value in item.items() if key not in _SAID_BY_ONE[kind]} for item in found[kind]]
    if kind == "permissions":
        items = [item for item in items if item["user"] != "guest"]
    for item in items:
        value = item.get("value")
        if isinstance(value, dict) and isinstance(value.get("definition"), list):
            value["definition"] = dict(value["definition"])  # RabbitMQ writes pairs, which it does not read itself
    return sorted(items, key=lambda item: msgspec.json.encode(item, order="deterministic"))


_SAID_BY_ONE = {"exchanges": ("internal",), "queues": ("type",), "vhosts": ("limits", "metadata")}
_SAID_BY_ONE |= {kind: () for kind in KINDS if kind not in _SAID_BY_ONE}


def test_export_of_rabbitmq_is_served_and_exported_the_same(rabbitmq: Node, tmp_path: Path) -> None:
    theirs = exported(rabbitmq, tmp_path / "definitions.json")
    with configured(tmp_path) as served:
        ada = of(url_of(served), "ada", "a secret")
        with pika.BlockingConnection(pika.URLParameters(ada)) as connection:
            channel = connection.channel()
            for queue in ("new", "lost", "safe", "log.a"):
                channel.queue_declare(queue, passive=True)
            channel.queue_declare("safe", durable=True, arguments={"x-queue-type": "quorum", "x-delivery-limit": 3})
            channel.exchange_declare("orders", "topic", durable=True, arguments={"alternate-exchange": "lost"})
            channel.basic_publish("orders", "order.a", b"order")
            channel.basic_publish("orders", "nothing", b"lost")
            assert (drain(channel, "new"), drain(channel, "lost")) == ([b"order"], [b"lost"])
            for _ in range(5):
                channel.basic_publish("", "log.a", b"")
            assert count(channel, "log.a") == 2
        ours = export(ada, tmp_path / "ours.json")
    for kind in KINDS:
        assert comparable(ours, kind) == comparable(theirs, kind), kind
    names = {user["name"]: user["password_hash"] for user in ours["users"]}
    assert names == {user["name"]: user["password_hash"] for user in theirs["users"]}


def test_users_come_along_with_their_passwords_and_rights(rabbitmq: Node, tmp_path: Path) -> None:
    exported(rabbitmq, tmp_path / "definitions.json")
    with configured(tmp_path) as served:
        url = url_of(served)
        with pika.BlockingConnection(pika.URLParameters(of(url, "bob", "another", "shop"))) as connection:
            connection.channel().queue_declare("bob.q")
            with pytest.raises(ChannelClosedByBroker) as refused:
                connection.channel().queue_declare("q")
            assert refused.value.reply_code == 403
        with pytest.raises(ProbableAuthenticationError):
            pika.BlockingConnection(pika.URLParameters(of(url, "bob", "wrong", "shop")))
        with pytest.raises(ProbableAccessDeniedError):
            pika.BlockingConnection(pika.URLParameters(of(url, "bob", "another")))


def test_export_of_triomq_is_imported_by_rabbitmq(rabbitmq: Node, tmp_path: Path) -> None:
    theirs = exported(rabbitmq, tmp_path / "definitions.json")
    with configured(tmp_path) as served:
        ours = export(of(url_of(served), "ada", "a secret"), tmp_path / "ours.json")
    with open_node() as node:
        node.control("import_definitions", str(tmp_path / "ours.json"))
        again = exported(node, tmp_path / "again.json")
    for kind in KINDS:
        assert comparable(again, kind) == comparable(theirs, kind), kind
    assert comparable(ours, "queues") == comparable(again, "queues")


def newer() -> dict[str, object]:
    """Definitions as RabbitMQ 4.1 writes them, with some of a plug-in's."""
    operator = {"pattern": "^bound", "definition": {"max-length": 5}, "priority": 0, "apply-to": "quorum_queues"}
    return {
        "rabbit_version": "4.1.2",
        "rabbitmq_version": "4.1.2",
        "product_name": "RabbitMQ",
        "product_version": "4.1.2",
        "rabbitmq_definition_format": "cluster",
        "explanation": "Definitions of cluster 'rabbit@here'",
        "users": [
            {
                "name": "ada",
                "password_hash": "MIoyV8RvcSKEfQ5Zd8lUCpPF3vJnUPNRuAZqiKz6z7QvRvP9",
                "hashing_algorithm": "rabbit_password_hashing_sha256",
                "tags": ["administrator"],
                "limits": [],
            }
        ],
        "vhosts": [
            {
                "name": "/",
                "description": "Default virtual host",
                "tags": [],
                "metadata": {"description": "Default virtual host", "tags": [], "default_queue_type": "quorum"},
                "limits": [],
            }
        ],
        "permissions": [{"user": "ada", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
        "topic_permissions": [],
        "parameters": [
            {"vhost": "/", "component": "operator_policy", "name": "most", "value": operator},
            {"vhost": "/", "component": "vhost-limits", "name": "limits", "value": {"max-queues": 5}},
            {"vhost": "/", "component": "shovel", "name": "s", "value": {"src-queue": "q"}},
        ],
        "global_parameters": [{"name": "cluster_tags", "value": []}, {"name": "internal_cluster_id", "value": "x"}],
        "policies": [
            {
                "vhost": "/",
                "name": "streams",
                "pattern": ".*",
                "apply-to": "streams",
                "definition": {"max-age": "1D", "stream-filter-size-bytes": 16},
                "priority": 0,
            },
            {
                "vhost": "/",
                "name": "quorum",
                "pattern": ".*",
                "apply-to": "quorum_queues",
                "definition": {"delivery-limit": -1, "consumer-timeout": 60000, "target-group-size": 3, "newer": {}},
                "priority": 0,
            },
        ],
        "queues": [
            {
                "name": "bound",
                "vhost": "/",
                "type": "quorum",
                "durable": True,
                "auto_delete": False,
                "arguments": {"x-queue-type": "quorum", "x-delivery-limit": -1},
            },
            {
                "name": "old",
                "vhost": "/",
                "type": "classic",
                "durable": True,
                "auto_delete": False,
                "arguments": {"x-queue-type": "classic"},
            },
        ],
        "exchanges": [
            {
                "name": "later",
                "vhost": "/",
                "type": "x-delayed-message",
                "durable": True,
                "auto_delete": False,
                "internal": False,
                "arguments": {"x-delayed-type": "direct"},
            }
        ],
        "bindings": [],
    }


def test_newer_definitions_hold_and_what_means_nothing_here_is_a_line(tmp_path: Path) -> None:
    (tmp_path / "definitions.json").write_bytes(msgspec.json.encode({**newer(), "users": [], "permissions": []}))
    (tmp_path / "triomq.toml").write_text('definitions = "definitions.json"\n', encoding="utf-8")
    checked = CliRunner().invoke(make_app(["check"]), ["check", str(tmp_path / "triomq.toml")])
    assert checked.exit_code == 0
    warnings = [line.partition("definitions.json: ")[2] for line in checked.stderr.splitlines()[:-1]]
    assert warnings == [
        "policy 'streams': stream-filter-size-bytes has no effect here",
        "policy 'quorum': target-group-size has no effect here",
        "policy 'quorum': newer is not known here",
        "parameter 's' of 'shovel' has no effect here",
    ]
    with configured(tmp_path) as served, pika.BlockingConnection(pika.URLParameters(url_of(served))) as connection:
        channel = connection.channel()
        channel.queue_declare("bound", durable=True, arguments={"x-delivery-limit": -1})  # the type is the default
        for _ in range(20):
            channel.basic_publish("", "bound", b"")
        assert count(channel, "bound") == 5
        channel.queue_declare("old", durable=True, arguments={"x-queue-type": "classic"})
        channel.queue_declare("transient")
        channel.queue_declare("new", durable=True)
        channel.queue_declare("new", durable=True, arguments={"x-queue-type": "quorum"})
        channel.queue_declare("", exclusive=True)
        with pytest.raises(ChannelClosedByBroker, match="queue limit of domain 'default'"):
            channel.queue_declare("sixth")
        other = connection.channel()
        with pytest.raises(ChannelClosedByBroker, match="inequivalent arg 'x-queue-type'"):
            other.queue_declare("old", durable=True)


def configured(folder: Path) -> AbstractContextManager[Served]:
    """Serve with the definitions that are in a folder."""
    (folder / "triomq.toml").write_text('definitions = "definitions.json"\n', encoding="utf-8")
    return open_served(str(folder / "triomq.toml"))


def url_of(served: Served) -> str:
    return served.url.replace("NAME:PASSWORD", "guest:guest") + "/"


def export(url: str, path: Path) -> Json:
    done = CliRunner().invoke(make_app(["definitions"]), ["definitions", "export", str(path), "--url", url])
    assert done.exit_code == 0, done.stderr
    return decoded(path)
