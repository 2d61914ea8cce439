"""Several domains in one broker."""

import logging
from typing import cast

import pytest
import trio

from app.conftest import bodies
from triomq.app import Broker, QueueHandle, open_broker
from triomq.core import DeclareQueue, NoSuchSink, QueueOptions, Session
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


async def test_every_domain_has_the_sinks_that_amqp_knows(virtual_time: None) -> None:
    async with open_broker(domains=("a", "b")) as broker:
        assert broker.domain("b").sink("amq.topic").name == "amq.topic"
        assert broker.domains == ["a", "b"]


async def test_a_broker_is_the_handle_of_its_first_domain(broker: Broker, queue: QueueHandle) -> None:
    assert broker.domain("default") is broker
    assert repr(broker) == "<Broker 'default'>"


async def test_a_domain_that_does_not_exist_is_not_found_and_the_others_are_named(broker: Broker) -> None:
    with pytest.raises(NotFound, match="there is no domain 'shop', but 'default'"):
        broker.domain("shop")


async def test_a_domain_may_come_later_and_twice_is_once(broker: Broker) -> None:
    shop = await broker.add_domain("shop")
    await shop.declare_queue("q")
    assert await broker.add_domain("shop") is shop
    assert broker.house.domains["shop"].directory.queues.keys() == {"q"}
    assert repr(shop) == "<DomainHandle 'shop'>"


async def test_a_domain_that_came_later_keeps_what_it_has_when_another_crashes(
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
