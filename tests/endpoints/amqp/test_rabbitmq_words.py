"""Words of RabbitMQ's versions: what the table in the reference says of each, a broker does."""

import csv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from endpoints.client import Client
from triomq import Config
from triomq.app import Broker
from triomq.app.definitions import Additions
from triomq.core import AppliesTo, PolicyOptions, QueueOptions, SinkKind, SinkOptions
from triomq.endpoints.amqp import policies
from triomq.endpoints.declaring import arguments
from triomq.protocols.amqp import (
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueDeclare,
)
from triomq.security import UserLimits

TABLE = Path(__file__).parents[3] / "docs" / "reference" / "rabbitmq-words.csv"

OURS = {"x-partition-of", "x-stream-deduplicate"}
"""Arguments that RabbitMQ has not."""


class Word(NamedTuple):
    """One row of the table."""

    kind: str
    word: str
    versions: str
    example: str
    of: str
    triomq: str
    how: str

    @property
    def value(self) -> object:
        return msgspec.json.decode(self.example) if self.example else None


def read_table() -> list[Word]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    return [Word(*row) for row in rows]


WORDS = read_table()


def words(kind: str) -> list[Word]:
    return [word for word in WORDS if word.kind == kind]


def each(kind: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("word", words(kind), ids=lambda word: word.word)


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Additions]:
    """Read definitions, as a broker does at its start."""

    def read(**definitions: object) -> Additions:
        path = tmp_path / "definitions.json"
        path.write_bytes(msgspec.json.encode(definitions))
        config = Config(definitions=str(path))
        config.completed().check()
        return config.read_definitions()[1]

    return read


def test_table_says_one_of_three_things_and_each_once() -> None:
    assert {word.triomq for word in WORDS} == {"holds", "no effect", "refused"}
    names = [(word.kind, word.word) for word in WORDS]
    assert sorted(set(names)) == sorted(names)


def test_table_has_all_words_that_the_broker_knows() -> None:
    known = {
        "policy key": policies._SETTINGS.keys() | policies.IGNORED - {"member-placement-tag"},
        "apply-to": policies.APPLY_TO.keys(),
        "queue argument": (
            arguments._QUEUE_ARGUMENTS.keys() | arguments._STREAM_ARGUMENTS.keys() | set(arguments._COMPARED)
        )
        - OURS,
    }
    for kind, expected in known.items():
        assert {word.word for word in words(kind)} >= expected
    assert {word.word for word in words("exchange type") if word.triomq == "holds"} == {kind.value for kind in SinkKind}


@each("policy key")
def test_policy_key_is_read(read: Callable[..., Additions], word: Word) -> None:
    policy = {"name": "p", "pattern": "", "vhost": "/", "definition": {word.word: word.value}}
    check_policy(read(vhosts=[{"name": "/"}], policies=[policy]), word)


@each("operator policy key")
def test_key_of_an_operators_policy_is_read(read: Callable[..., Additions], word: Word) -> None:
    value = {"pattern": "", "definition": {word.word: word.value}, "priority": 0, "apply-to": "queues"}
    parameter = {"component": "operator_policy", "name": "p", "vhost": "/", "value": value}
    added = read(vhosts=[{"name": "/"}], parameters=[parameter])
    check_policy(added, word)
    assert added.policies[0].policy().operator


def check_policy(added: Additions, word: Word) -> None:
    (policy,) = added.policies
    assert (policy.policy().options != PolicyOptions()) is (word.triomq == "holds")
    assert any(f"{word.word} has no effect" in trouble for trouble in added.troubles) is (word.triomq == "no effect")


@each("apply-to")
def test_policy_applies_to_what_it_names(read: Callable[..., Additions], word: Word) -> None:
    policy = {"name": "p", "pattern": "", "definition": {"max-length": 5}, "apply-to": word.word}
    added = read(policies=[policy])
    assert added.troubles == ()
    assert added.policies[0].policy().applies_to is policies.APPLY_TO[word.word]
    assert isinstance(policies.APPLY_TO[word.word], AppliesTo)


@each("queue argument")
async def test_queue_argument_is_taken_or_refused(client: Client, broker: Broker, word: Word) -> None:
    given = {"x-queue-type": word.of} if word.of else {}
    if word.triomq == "refused":
        await client.say(1, declare_of("q", {**given, word.word: word.value}))
        assert (await client.channel_closed())[0] == 406
        return
    await client.declare("plain", durable=True, arguments=given)
    await client.declare("q", durable=True, arguments={**given, word.word: word.value})
    await client.declare("q", durable=True, arguments={**given, word.word: word.value})
    plain, declared = (broker.directory.queues[name].declared for name in ("plain", "q"))
    changes = core_options(declared) != core_options(plain) or word.word == "x-queue-type"
    assert changes is (word.triomq == "holds")


def declare_of(name: str, given: Mapping[str, object]) -> QueueDeclare:
    return QueueDeclare(name, durable=True, arguments=given)  # type: ignore[arg-type]


def core_options(declared: QueueOptions) -> QueueOptions:
    return msgspec.structs.replace(declared, notes=(), remarks=())


@each("consumer argument")
async def test_consumer_argument_is_taken(client: Client, broker: Broker, word: Word) -> None:
    await client.declare("q", durable=True, arguments={"x-queue-type": word.of or "classic"})
    await client.call(1, BasicQos(prefetch_count=5))
    given = {word.word: word.value}
    await client.call(1, BasicConsume("q", consumer_tag="t", arguments=given), BasicConsumeOk)  # type: ignore[arg-type]
    assert word.triomq in ("holds", "no effect")


@each("exchange type")
async def test_exchange_type_is_there_or_refused(client: Client, broker: Broker, word: Word) -> None:
    if word.triomq == "refused":
        await client.say(1, ExchangeDeclare("e", word.word))
        assert (await client.closed())[0] == 503
    else:
        await client.call(1, ExchangeDeclare("e", word.word), ExchangeDeclareOk)
        assert broker.directory.sinks["e"].declared.kind.value == word.word


@each("exchange argument")
async def test_exchange_argument_is_taken(client: Client, broker: Broker, word: Word) -> None:
    given = {word.word: word.value}
    declare = ExchangeDeclare("e", word.of or "direct", arguments=given)  # type: ignore[arg-type]
    await client.call(1, declare, ExchangeDeclareOk)
    declared = broker.directory.sinks["e"].declared
    plain = SinkOptions(kind=declared.kind, durable=declared.durable)
    assert (msgspec.structs.replace(declared, remarks=()) != plain) is (word.triomq == "holds")


@each("virtual host")
def test_word_about_a_virtual_host_is_read(read: Callable[..., Additions], word: Word) -> None:
    host = {"name": "/", word.word: word.value, "metadata": {word.word: word.value}, "limits": []}
    added = read(vhosts=[host])
    assert added.troubles == ()
    assert bool(added.default_queue_types) is (word.triomq == "holds")


@each("limit of a virtual host")
def test_limit_of_a_virtual_host_is_read(read: Callable[..., Additions], word: Word) -> None:
    parameter = {"component": "vhost-limits", "name": "limits", "vhost": "/", "value": {word.word: word.value}}
    (limits,) = read(vhosts=[{"name": "/"}], parameters=[parameter]).domain_limits.values()
    assert [limit for limit in (limits.connections, limits.queues) if limit is not None] == [word.value]


@each("limit of a user")
def test_limit_of_a_user_is_read(read: Callable[..., Additions], word: Word) -> None:
    (user,) = read(users=[{"name": "u", "limits": {word.word: word.value}}]).users.values()
    assert user.limits == UserLimits(**{word.word.removeprefix("max-"): word.value})


@each("parameter")
def test_parameter_is_read(read: Callable[..., Additions], word: Word) -> None:
    value: object = {"pattern": "", "definition": {"expires": 5}} if word.triomq == "holds" else {"uri": "amqp://"}
    value = {"max-queues": 5} if word.word == "vhost-limits" else value
    parameter = {"component": word.word, "name": "p", "vhost": "/", "value": value}
    added = read(vhosts=[{"name": "/"}], parameters=[parameter])
    assert bool(added.troubles) is (word.triomq == "no effect")
