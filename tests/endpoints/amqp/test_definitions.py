"""What a broker consists of, said in RabbitMQ's form and declared again from it."""

from collections.abc import AsyncIterator

import pytest

from triomq.app import Broker, DomainHandle, User, open_broker
from triomq.core import (
    Bind,
    DeclareQueue,
    DeclareSink,
    Inequivalent,
    Policy,
    PolicyOptions,
    QueueOptions,
    SinkOptions,
    StreamOptions,
    Target,
    make_binding,
)
from triomq.endpoints.amqp.definitions import declare_all, describe
from triomq.errors import PartOfStream
from triomq.protocols.control import (
    DefinedBinding,
    DefinedExchange,
    DefinedPermission,
    DefinedPolicy,
    DefinedQueue,
    DefinedUser,
    Definitions,
    join_definitions,
)
from triomq.security import UserLimits

HOSTS = {"/": "default", "shop": "shop"}

ARGUMENTS: dict[str, tuple[str, object, object]] = {
    "max_length": ("x-max-length", 10, 10),
    "max_bytes": ("x-max-length-bytes", 100, 100),
    "overflow": ("x-overflow", "reject-publish", "reject-publish"),
    "message_ttl": ("x-message-ttl", 1.5, 1500),
    "expires": ("x-expires", 60.0, 60000),
    "dead_letter_sink": ("x-dead-letter-exchange", "lost", "lost"),
    "dead_letter_key": ("x-dead-letter-routing-key", "k", "k"),
    "max_priority": ("x-max-priority", 5, 5),
    "single_active": ("x-single-active-consumer", True, True),
}
"""Option of a queue: its argument, a value of ours, and the same on the wire."""


@pytest.fixture
async def broker(virtual_time: None) -> AsyncIterator[Broker]:
    async with open_broker(users={"ada": "secret"}, domains=("default", "shop")) as broker:
        yield broker


def described(broker: Broker) -> Definitions:
    return join_definitions(describe(broker.context, HOSTS))


async def fill(domain: DomainHandle) -> None:
    options = {option: value for option, (_, value, _) in ARGUMENTS.items()}
    queue = await domain.declare_queue("all", **options)  # type: ignore[arg-type]
    sink = await domain.declare_sink("share", "x-consistent-hash", hash_property="message_id", alternate="lost")
    await domain.declare_sink("lost", "fanout", durable=False, internal=True)
    await sink.bind(queue, "3", {"note": [1, {"a": None}]})
    await sink.bind(domain.sink("lost"), "1")


async def test_broker_is_described_as_rabbitmq_would(broker: Broker) -> None:
    await fill(broker)
    await broker.set_policies([Policy("p", "^a", PolicyOptions(max_length=5), priority=2)])
    found = described(broker)
    assert found.queues == [DefinedQueue(name="all", arguments={name: value for name, _, value in ARGUMENTS.values()})]
    assert found.exchanges == [
        DefinedExchange(
            name="share",
            type="x-consistent-hash",
            arguments={"alternate-exchange": "lost", "hash-property": "message_id"},
        ),
        DefinedExchange(name="lost", type="fanout", durable=False, internal=True),
    ]
    assert found.bindings == [
        DefinedBinding(source="share", destination="all", routing_key="3", arguments={"note": [1, {"a": None}]}),
        DefinedBinding(source="share", destination="lost", destination_type="exchange", routing_key="1"),
    ]
    assert found.policies == [DefinedPolicy(name="p", pattern="^a", definition={"max-length": 5}, priority=2)]
    assert [host.name for host in found.vhosts] == ["/", "shop"]
    assert found.users == [DefinedUser(name="ada", tags=["administrator"])]
    assert found.permissions == [
        DefinedPermission(user="ada", vhost=host, configure=".*", write=".*", read=".*") for host in HOSTS
    ]


async def test_limits_of_users_are_described_in_rabbitmqs_words(broker: Broker) -> None:
    broker.put_user("ada", User("ada", limits=UserLimits(connections="unlimited", channels=7, queues=8)))
    (ada,) = described(broker).users
    assert ada.limits == {"max-connections": -1, "max-channels": 7}


async def test_definitions_can_be_declared_elsewhere_and_are_the_same(broker: Broker) -> None:
    await fill(broker)
    found = described(broker)
    async with open_broker(domains=("default", "shop")) as other:
        assert await declare_all(found, {**other.context.domains, "/": other.context.domains["default"]}) == []
        again = described(other)
        assert (again.queues, again.exchanges, again.bindings) == (found.queues, found.exchanges, found.bindings)
        await fill(other)  # nothing is declared otherwise


async def test_queue_that_waits_refuses_in_the_words_of_a_wire(broker: Broker) -> None:
    await broker.declare_queue("q", overflow="wait")
    (queue,) = described(broker).queues
    assert queue.arguments == {"x-overflow": "reject-publish"}


async def test_stream_is_described_and_declared_again_as_one(broker: Broker) -> None:
    options = QueueOptions(max_length=10, max_bytes=100, stream=StreamOptions(max_age=90.0, segment_bytes=50))
    broker.domain_ref.ask_nowait(DeclareQueue("s", options, broker.session))  # type: ignore[arg-type]
    found = described(broker)
    (queue,) = found.queues
    assert queue.arguments == {
        "x-queue-type": "stream",
        "x-max-age": "90s",
        "x-max-length": 10,
        "x-max-length-bytes": 100,
        "x-stream-max-segment-size-bytes": 50,
    }
    async with open_broker(domains=("default", "shop")) as other:
        assert await declare_all(found, {"/": other.context.domains["default"]}) == []
        assert other.directory.queues["s"].declared == options
        assert described(other).queues == found.queues
        plain = Definitions(queues=[DefinedQueue(name="s")])
        (trouble,) = await declare_all(plain, {"/": other.context.domains["default"]})
        assert "received none" in trouble


@pytest.mark.parametrize("durable", [True, False])
async def test_partitioned_stream_is_declared_again_as_a_whole(broker: Broker, durable: bool) -> None:
    await broker.declare_stream("orders", partitions=3, max_age=60.0, max_length=9, durable=durable)
    await broker.declare_stream("alone", durable=durable)
    found = described(broker)
    assert {queue.name: queue.arguments.get("x-partition-of") for queue in found.queues} == {
        "orders-0": "orders",
        "orders-1": "orders",
        "orders-2": "orders",
        "alone": None,
    }
    async with open_broker(domains=("default", "shop")) as other:
        places = {"/": other.context.domains["default"]}
        for _ in range(2):
            assert await declare_all(found, places) == []
            again = described(other)
            assert (again.queues, again.exchanges, again.bindings) == (found.queues, found.exchanges, found.bindings)
        await other.declare_stream("orders", partitions=3, max_age=60.0, max_length=9, durable=durable)
        with pytest.raises(PartOfStream):
            await other.queue("orders-1").delete()
        await other.stream("orders").delete()
        assert not [name for name in other.directory.queues if name != "alone"]


PART = {"x-queue-type": "stream", "x-partition-of": "orders"}


@pytest.mark.parametrize(
    ("queues", "text"),
    [
        (
            [DefinedQueue(name="orders-0", arguments=PART), DefinedQueue(name="orders-2", arguments=PART)],
            "stream 'orders': its partitions are 'orders-0', 'orders-2'; they have the numbers from 0 on without a gap",
        ),
        (
            [
                DefinedQueue(name="orders-0", arguments=PART),
                DefinedQueue(name="orders-1", arguments={**PART, "x-max-age": "1h"}),
            ],
            "stream 'orders': its partitions differ in durable or arguments; they are all alike",
        ),
        ([DefinedQueue(name="there-0", arguments={**PART, "x-partition-of": "there"})], "stream 'there': "),
    ],
)
async def test_partitions_that_make_no_stream_are_a_trouble(
    broker: Broker, queues: list[DefinedQueue], text: str
) -> None:
    await broker.declare_queue("there-0")
    (trouble,) = await declare_all(Definitions(queues=queues), {"/": broker.context.domains["default"]})
    assert trouble.startswith(text)
    assert set(broker.directory.queues) == {"there-0"}
    assert "there" not in broker.directory.sinks


async def test_resources_of_a_session_are_left_out(broker: Broker) -> None:
    queue = await broker.declare_queue("mine", exclusive=True)
    sink = await broker.declare_sink("s", "fanout")
    await sink.bind(queue)
    found = described(broker)
    assert (found.queues, found.bindings) == ([], [])


async def test_resources_of_a_peer_are_left_out(broker: Broker) -> None:
    for request in (
        DeclareSink("s", SinkOptions(), broker.session, "peer"),
        DeclareQueue("q", QueueOptions(), broker.session, "peer"),
        Bind(make_binding("s", Target.QUEUE, "q"), broker.session, "peer"),
    ):
        broker.domain_ref.ask_nowait(request)  # type: ignore[arg-type]
    found = described(broker)
    assert (found.exchanges, found.queues, found.bindings) == ([], [], [])


async def test_user_from_rabbitmq_keeps_its_hash(broker: Broker) -> None:
    password_hash = "2byjgVsRdEBO6CH5lXu7q9LgUSiJcblKt2GBW0BQYTQzc3QJ"
    broker.put_user("bob", User(verifiers=(f"RABBITMQ-SHA-256${password_hash}",), permissions={}))
    (bob,) = (user for user in described(broker).users if user.name == "bob")
    assert bob == DefinedUser(name="bob", password_hash=password_hash, tags=[])


async def test_resources_that_are_there_and_differ_are_a_trouble(broker: Broker) -> None:
    await broker.declare_queue("q", max_length=1)
    places = {"/": broker.context.domains["default"]}
    assert await declare_all(Definitions(queues=[DefinedQueue(name="q")]), places) == [
        "queue 'q': inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received none but current is the value "
        "'1' of type 'signedint'"
    ]
    with pytest.raises(Inequivalent):
        await broker.declare_queue("q")
