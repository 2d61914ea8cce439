"""Exchanges, queues and bindings after a restart: what is durable is there again, and nothing else is."""

from pathlib import Path

import pytest

from endpoints.restarts import PERSISTENT, TRANSIENT, at_home
from triomq.protocols.amqp import (
    BasicCancel,
    BasicConsume,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)

ARGUMENTS = {
    "x-max-length": 3,
    "x-message-ttl": 3_600_000,
    "x-expires": 7_200_000,
    "x-dead-letter-exchange": "letters",
    "x-dead-letter-routing-key": "dead",
    "x-max-priority": 5,
    "x-single-active-consumer": True,
    "x-overflow": "reject-publish",
}


async def test_durable_queue_is_there_again_with_all_its_arguments(tmp_path: Path) -> None:
    declare = QueueDeclare("q", durable=True, arguments=ARGUMENTS)
    async with at_home(tmp_path) as home:
        await home.done(declare)
    async with at_home(tmp_path) as home:
        assert await home.client.call(1, declare, QueueDeclareOk) == QueueDeclareOk("q", 0, 0)
        options = home.broker.directory.queues["q"].options
        assert (options.max_length, options.max_priority, options.expires) == (3, 5, 7200.0)
        await home.client.say(1, QueueDeclare("q", durable=True, arguments={**ARGUMENTS, "x-max-length": 4}))
        code, text = await home.client.channel_closed()
        assert code == 406
        assert "x-max-length" in text


@pytest.mark.parametrize("kind", ["classic", "quorum"])
async def test_the_type_of_a_queue_is_there_again(tmp_path: Path, kind: str) -> None:
    declare = QueueDeclare("q", durable=True, arguments={"x-queue-type": kind})
    async with at_home(tmp_path) as home:
        await home.done(declare)
    async with at_home(tmp_path) as home:
        await home.done(declare)
        other = {"classic": "quorum", "quorum": "classic"}[kind]
        await home.client.say(1, QueueDeclare("q", durable=True, arguments={"x-queue-type": other}))
        assert (await home.client.channel_closed())[0] == 406


@pytest.mark.parametrize(
    "declare",
    [
        ExchangeDeclare("e", "direct", durable=True),
        ExchangeDeclare("e", "fanout", durable=True, internal=True),
        ExchangeDeclare("e", "topic", durable=True, auto_delete=True),
        ExchangeDeclare("e", "headers", durable=True, arguments={"alternate-exchange": "other"}),
        ExchangeDeclare("e", "x-consistent-hash", durable=True, arguments={"hash-header": "shard"}),
    ],
    ids=lambda declare: declare.type,
)
async def test_durable_exchange_is_there_again_as_it_was(tmp_path: Path, declare: ExchangeDeclare) -> None:
    async with at_home(tmp_path) as home:
        await home.done(declare)
        before = home.broker.directory.sinks["e"].declared
    async with at_home(tmp_path) as home:
        await home.done(ExchangeDeclare("e", passive=True))
        await home.done(declare)
        assert home.broker.directory.sinks["e"].declared == before


async def test_bindings_are_there_again_and_route(tmp_path: Path) -> None:
    setup: list[Method] = [
        QueueDeclare("q", durable=True),
        ExchangeDeclare("topics", "topic", durable=True),
        ExchangeDeclare("heads", "headers", durable=True),
        QueueBind("q", "topics", "order.#"),
        ExchangeBind("topics", "heads", "", arguments={"x-match": "any", "kind": "new", "size": 5}),
        QueueBind("q", "amq.direct", "straight"),
    ]
    async with at_home(tmp_path) as home:
        for method in setup:
            await home.done(method)
    async with at_home(tmp_path) as home:
        for exchange, key in (("topics", "order.new.big"), ("amq.direct", "straight"), ("topics", "other")):
            await home.publish(key, exchange.encode(), exchange=exchange)
        assert await home.drain("q") == [b"topics", b"amq.direct"]
        assert len(home.broker.directory.sinks["heads"].bindings) == 1
        for method in setup:
            await home.done(method)  # equal, so no second one
        await home.publish("order", b"once", exchange="topics")
        assert await home.drain("q") == [b"once"]


async def test_transient_resources_are_gone_and_so_are_their_bindings(tmp_path: Path) -> None:
    async with at_home(tmp_path) as home:
        for method in (
            QueueDeclare("transient"),
            QueueDeclare("durable", durable=True),
            ExchangeDeclare("brief", "fanout"),
            ExchangeDeclare("lasting", "fanout", durable=True),
            QueueBind("durable", "brief"),
            QueueBind("transient", "lasting"),
            QueueBind("durable", "lasting"),
        ):
            await home.done(method)
        await home.publish("transient", b"gone")
    async with at_home(tmp_path) as home:
        await home.publish("", b"one copy", exchange="lasting")
        assert await home.drain("durable") == [b"one copy"]
        await home.client.say(1, QueueDeclare("transient", passive=True))
        assert (await home.client.channel_closed())[0] == 404
        await home.client.open_channel(1)
        await home.client.say(1, ExchangeDeclare("brief", passive=True))
        assert (await home.client.channel_closed())[0] == 404


async def test_exclusive_queue_is_gone_although_it_is_durable(tmp_path: Path) -> None:
    async with at_home(tmp_path) as home:
        await home.done(QueueDeclare("mine", durable=True, exclusive=True))
        await home.publish("mine", b"gone")
    async with at_home(tmp_path) as home:
        await home.client.say(1, QueueDeclare("mine", passive=True))
        assert (await home.client.channel_closed())[0] == 404
        assert home.broker.recovered_domains == ["default"]


async def test_durable_auto_delete_queue_is_there_again_and_goes_with_its_last_consumer(tmp_path: Path) -> None:
    async with at_home(tmp_path) as home:
        await home.done(QueueDeclare("q", durable=True, auto_delete=True))
        await home.publish("q", b"x")
    async with at_home(tmp_path) as home:
        assert await home.count("q") == 1
        await home.done(BasicConsume("q", "c", no_ack=True))
        await home.client.deliveries(1)
        await home.done(BasicCancel("c"))
        await home.client.say(1, QueueDeclare("q", passive=True))
        assert (await home.client.channel_closed())[0] == 404
    async with at_home(tmp_path) as home:
        assert not home.broker.directory.queues


async def test_queue_that_the_server_named_is_there_again_under_that_name(tmp_path: Path) -> None:
    async with at_home(tmp_path) as home:
        name = (await home.client.call(1, QueueDeclare("", durable=True), QueueDeclareOk)).queue
        await home.publish(name, b"x")
    async with at_home(tmp_path) as home:
        assert await home.drain(name) == [b"x"]
        assert (await home.client.call(1, QueueDeclare("", durable=True), QueueDeclareOk)).queue != name


async def test_names_that_are_no_text_are_there_again(tmp_path: Path) -> None:
    name, key = "q\udcff\udc80", "k\udcfe"
    async with at_home(tmp_path) as home:
        await home.done(QueueDeclare(name, durable=True))
        await home.done(ExchangeDeclare("e\udcff", durable=True))
        await home.done(QueueBind(name, "e\udcff", key))
    async with at_home(tmp_path) as home:
        await home.publish(key, b"x", exchange="e\udcff")
        assert await home.drain(name) == [b"x"]


async def test_deleted_unbound_and_purged_resources_stay_so(tmp_path: Path) -> None:
    async with at_home(tmp_path) as home:
        for method in (
            QueueDeclare("q", durable=True),
            QueueDeclare("deleted", durable=True),
            ExchangeDeclare("gone", durable=True),
            ExchangeDeclare("stays", durable=True),
            QueueBind("q", "gone", "k"),
            QueueBind("q", "stays", "k"),
            QueueBind("q", "stays", "other"),
            QueueBind("deleted", "stays", "k"),
            ExchangeBind("stays", "amq.fanout"),
        ):
            await home.done(method)
        await home.publish("q", b"purged")
        await home.publish("deleted", b"deleted")
    async with at_home(tmp_path) as home:
        for method in (
            QueuePurge("q"),
            QueueDelete("deleted"),
            ExchangeDelete("gone"),
            QueueUnbind("q", "stays", "k"),
            ExchangeUnbind("stays", "amq.fanout"),
        ):
            await home.done(method)
    async with at_home(tmp_path) as home:
        assert list(home.broker.directory.queues) == ["q"]
        assert "gone" not in home.broker.directory.sinks
        assert [binding.key for binding in home.broker.directory.sinks["stays"].bindings] == ["other"]
        assert not list(home.broker.directory.sinks["amq.fanout"].bindings)
        assert await home.count("q") == 0


async def test_queue_of_the_same_name_begins_anew(tmp_path: Path) -> None:
    async with at_home(tmp_path) as home:
        await home.done(QueueDeclare("q", durable=True))
        await home.publish("q", b"old")
        await home.done(QueueDelete("q"))
        await home.done(QueueDeclare("q", durable=True))
        await home.publish("q", b"new")
    async with at_home(tmp_path) as home:
        assert await home.drain("q") == [b"new"]


async def test_virtual_hosts_are_separate(tmp_path: Path) -> None:
    async with at_home(tmp_path, domains=("default", "shop")) as home:
        await home.broker.domain("shop").declare_queue("q")
        await home.broker.domain("shop").publish("", "q", b"of the shop")
        await home.done(QueueDeclare("q", durable=True))
        await home.publish("q", b"of the default")
    async with at_home(tmp_path) as home:
        assert sorted(home.broker.recovered_domains) == ["default", "shop"]
        assert await home.drain("q") == [b"of the default"]
        shop = await home.broker.add_domain("shop")
        assert (await shop.queue("q").statistics()).ready == 1


@pytest.mark.parametrize(("properties", "found"), [(PERSISTENT, 1), (TRANSIENT, 0)])
async def test_persistent_message_is_there_again_and_a_transient_one_is_not(
    tmp_path: Path, properties: bytes, found: int
) -> None:
    async with at_home(tmp_path) as home:
        await home.done(QueueDeclare("q", durable=True))
        await home.publish("q", b"x", properties=properties)
    async with at_home(tmp_path) as home:
        assert await home.count("q") == found
