"""What stays when a whole domain crashes: everything but the connections."""

import logging
from typing import cast

import pytest
import trio

from triomq.app import AMQP, Broker, open_broker
from triomq.core import DeclareQueue, QueueOptions, Session


async def crash_domain(broker: Broker) -> None:
    """Tell the domain something that its handler trips over, and wait until it runs again."""
    poison = DeclareQueue("poison", cast("QueueOptions", None), cast("Session", None))
    broker.domain_ref.tell_nowait(poison)
    while broker.domain_ref.epoch < 3:  # it is tried once more, alone, and given up
        await trio.lowlevel.checkpoint()
    await broker.domain_ref.wait_running()


@pytest.fixture(autouse=True)
def quiet_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="triomq.actors")


async def test_messages_bindings_and_unsettled_deliveries_survive_a_crash_of_their_domain() -> None:
    async with open_broker() as broker:
        queue = await broker.declare_queue("q")
        sink = await broker.declare_sink("s", "topic")
        await sink.bind(queue, "k.*")
        for body in (b"0", b"1", b"2"):
            await broker.publish("s", "k.x", body)
        async with queue.open_feed() as feed:
            first = await feed.__anext__()
            await crash_domain(broker)
            with pytest.raises(trio.BrokenResourceError, match="open the feed again"):
                await feed.__anext__()
            first.accept()  # comes from before the crash, and so is ignored
        await broker.publish("s", "k.y", b"3")
        async with queue.open_feed() as feed:
            found = []
            for _ in range(4):
                delivery = await feed.__anext__()
                found.append((delivery.body, delivery.redelivered))
                delivery.accept()
        assert found == [(b"0", True), (b"1", True), (b"2", True), (b"3", False)]


async def test_endpoint_listens_on_its_port_again_after_a_crash_of_its_domain() -> None:
    async with open_broker(AMQP(port=0)) as broker:
        (listening,) = broker.listening
        before, ref = listening.addresses, broker.endpoint_refs[listening.name]
        await crash_domain(broker)
        await ref.wait_running()
        assert listening.addresses == before
        async with await trio.open_tcp_stream(*listening.address) as stream:
            await stream.send_all(b"HTTP/1.1")
            assert await stream.receive_some(8) == b"AMQP\x00\x00\x09\x01"
