"""Several domains in one broker."""

import logging
from typing import cast

import pytest
import trio

from app.conftest import bodies
from triomq.app import Broker, QueueHandle, open_broker
from triomq.core import DeclareQueue, NoSuchSink, Overflow, QueueOptions, Session, SinkKind, SinkOptions
from triomq.errors import NotFound


async def test_domains_share_no_names(virtual_time: None) -> None:
    async with open_broker(domains=("default", "shop")) as broker:
        shop = broker.domain("shop")
        ours, theirs = await broker.declare_queue("q"), await shop.declare_queue("q", max_length=1)
        await shop.declare_sink("only here")
        await shop.publish("", "q", b"1")
        assert (await ours.statistics()).ready == 0
        assert await bodies(theirs, 1) == [(b"1", False)]
        with pytest.raises(NoSuchSink):
            await broker.publish("only here", "q", b"2")


async def test_domain_has_the_standard_exchanges_of_amqp(virtual_time: None) -> None:
    async with open_broker(domains=("a", "b")) as broker:
        assert broker.domains == ["a", "b"]
        for name in broker.domains:
            sinks = broker.domain(name).directory.sinks
            assert {sink: found.options.kind.value for sink, found in sinks.items()} == {
                "amq.direct": "direct",
                "amq.fanout": "fanout",
                "amq.topic": "topic",
                "amq.headers": "headers",
                "amq.match": "headers",
            }


async def test_broker_is_the_handle_of_its_first_domain(broker: Broker, queue: QueueHandle) -> None:
    assert broker.domain("default") is broker
    assert repr(broker) == "<Broker 'default'>"


async def test_domain_that_does_not_exist_is_not_found_and_the_others_are_named(broker: Broker) -> None:
    with pytest.raises(NotFound, match="there is no domain 'shop', but 'default'"):
        broker.domain("shop")


async def test_domain_may_come_later_and_twice_is_once(broker: Broker) -> None:
    shop = await broker.add_domain("shop")
    await shop.declare_queue("q")
    assert await broker.add_domain("shop") is shop
    assert broker.context.domains["shop"].directory.queues.keys() == {"q"}
    assert repr(shop) == "<DomainHandle 'shop'>"


async def test_domain_that_came_later_is_whole_after_another_one_crashed(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="triomq.actors")
    shop = await broker.add_domain("shop")
    queue = await shop.declare_queue("q")
    await shop.publish("", "q", b"kept")
    broker.domain_ref.tell_nowait(DeclareQueue("poison", cast("QueueOptions", None), cast("Session", None)))
    await trio.sleep(1)  # it is tried once more, alone, and given up
    assert broker.domain_ref.epoch == 3
    await shop.domain_ref.wait_running()
    assert await bodies(queue, 1) == [(b"kept", False)]
    assert await broker.add_domain("shop") is shop


async def test_sink_is_declared_with_all_that_the_core_knows(broker: Broker) -> None:
    options = {"durable": False, "auto_delete": True, "internal": True, "alternate": "lost", "hash_header": "h"}
    await broker.declare_sink("s", "x-consistent-hash", **options)
    assert broker.directory.sinks["s"].options == SinkOptions(kind=SinkKind.CONSISTENT_HASH, **options)


async def test_sink_chooses_by_one_thing_that_it_can_choose_by(broker: Broker) -> None:
    with pytest.raises(ValueError, match="hash_property is 'app_id'; it is one of 'correlation_id', 'message_id', 't"):
        await broker.declare_sink("s", "x-consistent-hash", hash_property="app_id")
    with pytest.raises(ValueError, match="by the header 'h' or by the property 'message_id', not by both"):
        await broker.declare_sink("s", "x-consistent-hash", hash_header="h", hash_property="message_id")


async def test_queue_is_declared_with_all_that_the_core_knows(broker: Broker) -> None:
    options = {
        "durable": False,
        "auto_delete": True,
        "max_length": 5,
        "max_bytes": 100,
        "message_ttl": 0.5,
        "expires": 60.0,
        "dead_letter_sink": "dead",
        "dead_letter_key": "letters",
        "max_priority": 9,
        "delivery_limit": 3,
        "single_active": True,
    }
    await broker.declare_queue("q", overflow="reject-publish-dlx", **options)
    declared = broker.directory.queues["q"].options
    assert {name: getattr(declared, name) for name in options} == options
    assert declared.overflow is Overflow.REJECT_PUBLISH_DLX


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_length": -1}, "max_length is -1; it is a whole number of at least 0"),
        ({"max_bytes": -1}, "max_bytes is -1"),
        ({"message_ttl": -0.5}, "message_ttl is -0.5"),
        ({"message_ttl": float("nan")}, "message_ttl is nan"),
        ({"expires": 0}, "expires is 0; it is a number of at least 0.001"),
        ({"max_priority": 256}, "max_priority is 256; it is a whole number from 0 to 255"),
        ({"dead_letter_key": "k"}, "there is no dead_letter_sink to use it at"),
    ],
)
async def test_options_that_no_queue_can_use_are_refused(broker: Broker, options: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        await broker.declare_queue("q", **options)
    assert "q" not in broker.directory.queues
