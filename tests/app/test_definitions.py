"""Definitions from RabbitMQ in a configuration."""

import logging
from pathlib import Path

import msgspec
import pytest

from triomq import AMQP, Config, User, open_broker
from triomq.app.definitions import additions_of, declare_definitions, knows_guest, load_definitions
from triomq.app.policies import PolicyConfig
from triomq.app.reload import change_to, set_up_domains
from triomq.core import AppliesTo, DomainLimits, PolicyOptions, QueueOptions, SinkKind, SinkOptions, Target
from triomq.errors import ConfigError
from triomq.security import Permission, UserLimits

BOB = "2byjgVsRdEBO6CH5lXu7q9LgUSiJcblKt2GBW0BQYTQzc3QJ"
"""RabbitMQ's hash of the password pw2."""
GUEST = "RMK3UnaO3qVffGU0z+ElYsVVucwIGf+06DNjN8Gi5j7Qk/Xk"

WHOLE: dict[str, object] = {
    "rabbit_version": "3.10.8",
    "product_name": "RabbitMQ",
    "users": [
        {
            "name": "bob",
            "password_hash": BOB,
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": ["monitoring"],
            "limits": {"max-connections": 5},
        },
        {"name": "certified", "password_hash": "", "tags": "a, b"},
    ],
    "vhosts": [{"name": "/", "metadata": {}}, {"name": "shop", "limits": []}],
    "permissions": [
        {"user": "bob", "vhost": "/", "configure": "^bob", "write": ".*", "read": ""},
        {"user": "bob", "vhost": "shop", "configure": "", "write": ".*", "read": ".*"},
    ],
    "topic_permissions": [],
    "parameters": [{"component": "vhost-limits", "name": "limits", "value": {}, "vhost": "shop"}],
    "policies": [
        {"vhost": "/", "name": "logs", "pattern": "^logs", "apply-to": "queues", "definition": {"max-length": 2}}
    ],
    "queues": [
        {"name": "logs", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {"x-max-length": 10}},
        {"name": "q", "vhost": "shop", "durable": False, "auto_delete": False, "arguments": {}, "type": "classic"},
    ],
    "exchanges": [
        {"name": "s", "vhost": "/", "type": "topic", "durable": True, "arguments": {"alternate-exchange": "lost"}},
        {"name": "amq.topic", "vhost": "/", "type": "fanout"},
        {"name": "lost", "vhost": "/", "type": "fanout", "internal": True},
    ],
    "bindings": [
        {
            "source": "s",
            "vhost": "/",
            "destination": "logs",
            "destination_type": "queue",
            "routing_key": "log.#",
            "arguments": {},
        },
        {"source": "s", "vhost": "/", "destination": "lost", "destination_type": "exchange", "routing_key": "#"},
    ],
}


def write(tmp_path: Path, **changes: object) -> Path:
    path = tmp_path / "definitions.json"
    path.write_bytes(msgspec.json.encode({**WHOLE, **changes}))
    return path


def config_of(path: Path, **options: object) -> Config:
    return Config(definitions=str(path), **options).completed()  # type: ignore[arg-type]


def test_definitions_become_part_of_a_configuration(tmp_path: Path) -> None:
    config = config_of(write(tmp_path))
    assert config.domains == ("default", "shop")
    assert config.endpoints == (AMQP(virtual_hosts={"/": "default", "shop": "shop"}),)
    assert config.policies == (PolicyConfig("logs", "^logs", {"max-length": 2}, "queues", 0, "default"),)
    assert config.users["bob"] == User(
        verifiers=(f"RABBITMQ-SHA-256${BOB}",),
        permissions={"default": Permission("^bob", ".*", ""), "shop": Permission("", ".*", ".*")},
        tags=("monitoring",),
        limits=UserLimits(connections=5),
    )
    assert config.users["certified"] == User(certificate=True, permissions={}, tags=("a", "b"))
    config.check()


def test_configuration_without_definitions_stays_as_it_is(tmp_path: Path) -> None:
    config = config_of(write(tmp_path))
    assert config.completed() == config
    assert Config().completed() == Config()


def test_settings_go_before_definitions(tmp_path: Path) -> None:
    bob, logs = User(password="mine"), PolicyConfig("logs", "mine", {"max-length": 9})
    endpoint = AMQP(virtual_hosts={"/": "main", "shop": "other"})
    config = config_of(
        write(tmp_path), users={"bob": bob}, policies=(logs,), endpoints=(endpoint,), domains=("main", "other")
    )
    assert config.users["bob"] is bob
    assert config.policies == (logs,)
    assert config.endpoints == (endpoint,)
    assert config.domains == ("main", "other")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"topic_permissions": [{"user": "bob", "exchange": "amq.topic", "write": "^mine", "read": ".*"}]},
            "topic_permissions narrow what bob may pub",
        ),
        ({"vhosts": [{"name": "*"}]}, r"a virtual host '\*' would be taken for all of them; rename it"),
        ({"queues": 5}, r"these are no definitions as RabbitMQ exports them: Expected `array`, got `int`"),
    ],
)
def test_errors_name_the_place(tmp_path: Path, changes: dict[str, object], text: str) -> None:
    path = write(tmp_path, **changes)
    with pytest.raises(ConfigError, match=text) as refused:
        config_of(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert BOB not in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"users": [{"name": "x", "password_hash": BOB, "hashing_algorithm": "rabbit_password_hashing_md5"}]},
            "user 'x' is passed over, and cannot log in: hashing_algorithm: found 'rabbit_password_hashing_md5'",
        ),
        ({"users": [{"name": "x", "password_hash": "c2hvcnQ="}]}, "user 'x' is passed over, and cannot log in: found"),
        ({"users": [{"name": 5}]}, "users[0] cannot be read: Expected `str`, got `int`"),
        (
            {"permissions": [{"user": "bob", "vhost": "nope"}]},
            "user 'bob': the permission in vhost 'nope' is passed over: vhosts has '/', 'shop'",
        ),
        (
            {"permissions": [{"user": "bob", "vhost": "/", "read": "("}]},
            "user 'bob': the permission in vhost '/' is passed over: read: '(' is no regular expression",
        ),
        (
            {"policies": [{"name": "p", "pattern": "(", "definition": {"max-length": 1}}]},
            "policy 'p' is passed over: pattern: the pattern '(' of policy 'p' is no regular expression",
        ),
        (
            {"policies": [{"name": "p", "pattern": "", "vhost": "nope"}]},
            "policy 'p' is passed over: vhost: found 'nope', but vhosts has '/', 'shop'",
        ),
        (
            {"policies": [{"name": "p", "pattern": "", "definition": {"max-length": 1}, "apply-to": "all of them"}]},
            "policy 'p' is passed over: apply_to: found 'all of them', allowed are 'queues', 'classic_queues'",
        ),
        ({"policies": [{"name": "p", "pattern": "", "definition": {"new": 1}}]}, "policy 'p': new is not known here"),
        ({"policies": [{"name": "p", "pattern": "", "definition": {"ha-mode": 1}}]}, "policy 'p': ha-mode has no eff"),
        (
            {"policies": [{"name": "p", "pattern": "", "definition": {"max-length": "x"}}]},
            "policy 'p': max-length is 'x', expected a number from 0",
        ),
        (
            {"parameters": [{"component": "operator_policy", "name": "o", "value": 5}]},
            "an operator policy is passed over: it cannot be read",
        ),
        (
            {"parameters": [{"component": "shovel", "name": "s", "vhost": "/", "value": {}}]},
            "parameter 's' of 'shovel' has no effect here",
        ),
        (
            {"vhosts": [{"name": "/", "metadata": {"default_queue_type": "jms"}}]},
            "vhost '/': default_queue_type 'jms' is not known here",
        ),
        (
            {"parameters": [{"component": "vhost-limits", "name": "limits", "vhost": "/", "value": {"max-sloths": 1}}]},
            "vhost '/': limit max-sloths = 1 is not known here",
        ),
    ],
)
def test_word_that_is_not_known_is_passed_over_with_a_line(
    tmp_path: Path, changes: dict[str, object], text: str
) -> None:
    path = write(tmp_path, **{"parameters": [], "permissions": [], **changes})
    _, added = Config(definitions=str(path)).read_definitions()
    (trouble,) = added.troubles
    assert trouble.startswith(text)
    config_of(path).check()


def test_newer_words_hold(tmp_path: Path) -> None:
    operator = {"pattern": "^q", "definition": {"max-length": 5}, "priority": 1, "apply-to": "quorum_queues"}
    path = write(
        tmp_path,
        vhosts=[{"name": "/", "metadata": {"default_queue_type": "quorum"}, "limits": []}, {"name": "shop"}],
        policies=[
            {"name": "free", "pattern": "", "definition": {"delivery-limit": -1, "consumer-timeout": 5000}},
        ],
        parameters=[
            {"component": "operator_policy", "name": "most", "vhost": "/", "value": operator},
            {"component": "vhost-limits", "name": "limits", "vhost": "shop", "value": {"max-queues": 3}},
        ],
        queues=[{"name": "q", "type": "quorum", "arguments": []}],
    )
    found, added = Config(definitions=str(path)).read_definitions()
    assert added.troubles == ()
    assert found.queues[0].arguments == {}
    config = config_of(path)
    free, most = (policy.policy() for policy in config.policies)
    assert free.options == PolicyOptions(consumer_timeout=5.0)
    assert (most.operator, most.options, most.applies_to) == (
        True,
        PolicyOptions(max_length=5),
        AppliesTo.QUORUM_QUEUES,
    )
    assert config.default_queue_types == {"default": "quorum"}
    assert config.domain_limits == {"shop": DomainLimits(queues=3)}


def test_topic_permissions_that_narrow_nothing_are_no_trouble(tmp_path: Path) -> None:
    config_of(write(tmp_path, topic_permissions=[{"user": "bob", "exchange": "e", "write": ".*", "read": ".*"}]))


def test_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the definitions in .*: No such file"):
        load_definitions(tmp_path / "nope.json")


def test_imported_default_user_stays_on_the_loopback(tmp_path: Path) -> None:
    path = write(tmp_path, users=[{"name": "guest", "password_hash": GUEST}], permissions=[])
    assert knows_guest(config_of(path).users)
    config_of(path).check()
    with pytest.raises(ConfigError, match=r"'0\.0\.0\.0' is open to other machines, and the default user"):
        config_of(path, endpoints=(AMQP(host="0.0.0.0"),)).check()
    other = write(tmp_path, users=[{"name": "guest", "password_hash": BOB}], permissions=[])
    config_of(other, endpoints=(AMQP(host="0.0.0.0"),)).check()


async def test_exchanges_queues_and_bindings_are_declared(
    tmp_path: Path, virtual_time: None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="triomq")
    config = config_of(write(tmp_path))
    async with open_broker(users=config.all_users(), domains=config.domains) as broker:
        await set_up_domains(broker, Config(), config)
        logs, directory = broker.directory.queues["logs"], broker.directory
        assert (logs.declared, logs.options) == (QueueOptions(max_length=10), QueueOptions(max_length=2))
        assert directory.sinks["s"].options == SinkOptions(kind=SinkKind.TOPIC, alternate="lost")
        assert directory.sinks["lost"].options.internal
        assert directory.sinks["amq.topic"].options.kind is SinkKind.TOPIC
        found = [(binding.target, binding.destination, binding.key) for binding in directory.sinks["s"].bindings]
        assert found == [(Target.QUEUE, "logs", "log.#"), (Target.SINK, "lost", "#")]
        assert broker.domain("shop").directory.queues["q"].options == QueueOptions(durable=False)
        events = [record.getMessage() for record in caplog.records if record.name in ("triomq.app", "triomq.serve")]
        assert events == [
            "policies changed",
            "definitions declared",
        ]
        before = directory.version
        await set_up_domains(broker, config, config)  # at a reload all of it is there
        assert directory.version == before


async def test_definitions_that_cannot_be_declared_are_logged_and_the_rest_is_there(
    tmp_path: Path, virtual_time: None, caplog: pytest.LogCaptureFixture
) -> None:
    exchanges = [{"name": "later", "type": "x-delayed-message"}, {"name": "s", "type": "direct"}]
    queues = [
        {"name": "bad", "arguments": {"x-max-length": -1}},
        {"name": "elsewhere", "vhost": "nope"},
        {"name": "q"},
    ]
    bindings = [{"source": "later", "destination": "q"}, {"source": "s", "destination": "q", "routing_key": "k"}]
    path = write(tmp_path, exchanges=exchanges, queues=queues, bindings=bindings, parameters=[])
    found, _ = load_definitions(path)
    async with open_broker() as broker:
        added = additions_of(found, path, ["default"], {"/": "default"})
        await declare_definitions(broker, found, added)
        assert len(broker.directory.route("s", "k", dict).queues) == 1
    assert [getattr(record, "fields", {}).get("trouble") for record in caplog.records] == [
        "exchange 'later': unknown exchange type 'x-delayed-message'",
        "queue 'bad': invalid arg 'x-max-length' for queue 'bad' in vhost '/': {value_negative,-1}",
        "queue 'elsewhere': there is no virtual host 'nope'",
        "binding of exchange 'later' to queue 'q': no exchange 'later' in vhost '/'",
    ]


async def test_reload_reads_definitions_again(tmp_path: Path, virtual_time: None) -> None:
    old = config_of(write(tmp_path), endpoints=())
    async with open_broker(users=old.all_users(), domains=old.domains) as broker:
        await set_up_domains(broker, Config(), old)
        policy = {"name": "new", "pattern": "^logs", "definition": {"max-length": 1}}
        new = config_of(write(tmp_path, queues=[{"name": "more"}], users=[], policies=[policy]), endpoints=())
        await change_to(broker, old, new)
        assert list(broker.directory.queues) == ["logs", "more"]
        assert broker.directory.queues["logs"].options.max_length == 1
        assert broker.context.users.get("bob") is None


def test_limit_below_nought_is_none_in_both_directions_and_without_one_the_default_holds(tmp_path: Path) -> None:
    users = [
        {"name": "free", "password_hash": BOB, "limits": {"max-connections": -1, "max-channels": 7}},
        {"name": "plain", "password_hash": BOB},
    ]
    free, plain = config_of(write(tmp_path, users=users, permissions=[])).users.values()
    assert free.limits == UserLimits(connections="unlimited", channels=7)
    assert (free.limits.of("connections"), free.limits.of("queues")) == (None, 100_000)
    assert plain.limits == UserLimits()
