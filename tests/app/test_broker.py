"""A broker in this process: opening, declaring, publishing, listening, leaving."""

from datetime import UTC, datetime

import pika
import pytest
import trio
import trio.testing

from endpoints.client import Client
from triomq import AMQP, Broker, Properties, QueueHandle, open_broker
from triomq.core import Inequivalent, NoSuchQueue, NoSuchSink, QueueLocked
from triomq.errors import ConfigError, RestartLimitExceeded
from triomq.protocols.amqp import BasicConsume

# Opening and leaving


@pytest.mark.parametrize("endpoints", [(), (AMQP(port=0),)], ids=["without endpoints", "listening"])
async def test_error_in_the_block_comes_out_bare(endpoints: tuple[AMQP, ...]) -> None:
    with pytest.raises(KeyError) as error:  # noqa: PT012  no group around it
        async with open_broker(*endpoints) as broker:
            await broker.declare_queue("q")
            raise KeyError("mine")
    assert error.value.args == ("mine",)


async def test_block_that_is_cancelled_raises_no_error(autojump_clock: trio.testing.MockClock) -> None:
    with trio.move_on_after(1) as scope:
        async with open_broker() as broker:
            await broker.declare_queue("q")
            await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_error_that_supervision_cannot_absorb_comes_out_of_the_block_bare(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(RestartLimitExceeded) as error:  # noqa: PT012
        async with open_broker() as broker:
            domains = broker.domain_ref.parent
            assert domains is not None
            top = domains.parent
            assert top is not None
            for _ in range(5):
                await top.wait_running()
                top.crash(None, ValueError("for good"))
                await trio.sleep(0.5)
            await trio.sleep_forever()
    assert str(error.value.__cause__) == "for good"
    assert "/broker crashed: too many restarts, it is stopped" in caplog.text


async def test_tree_shows_the_actors_of_a_broker(broker: Broker, queue: QueueHandle) -> None:
    paths = [node.path for node in broker.system.tree().walk()]
    assert {"/broker", "/broker/domains/default", "/broker/domains/default/queue.q", "/broker/endpoints"} <= set(paths)


# Declaring


async def test_declare_may_be_repeated_but_not_differ(broker: Broker) -> None:
    await broker.declare_queue("q", max_length=5)
    await broker.declare_queue("q", max_length=5)
    with pytest.raises(Inequivalent, match="max_length of 'q' is 5, not 6"):
        await broker.declare_queue("q", max_length=6)
    await broker.declare_sink("s", "topic", auto_delete=True)
    with pytest.raises(Inequivalent, match="auto_delete"):
        await broker.declare_sink("s", "topic")


async def test_handles_are_those_of_existing_queues_and_sinks(broker: Broker, queue: QueueHandle) -> None:
    assert broker.queue("q").name == "q"
    assert broker.sink("amq.topic").name == "amq.topic"
    with pytest.raises(NoSuchQueue):
        broker.queue("nope")
    with pytest.raises(NoSuchSink):
        broker.sink("nope")


@pytest.mark.parametrize("name", ["x" * 256, "ä" * 128, "\ud800"], ids=["long", "long in octets", "no text"])
async def test_name_that_no_wire_could_carry_is_refused_at_once(broker: Broker, name: str) -> None:
    await broker.declare_sink("fan", "fanout")
    with pytest.raises(ValueError, match=r"255|surrogates"):
        await broker.declare_queue(name)
    with pytest.raises(ValueError, match=r"255|surrogates"):
        await broker.declare_sink(name)
    with pytest.raises(ValueError, match=r"255|surrogates"):
        await broker.publish("fan", name, b"")


async def test_name_may_have_255_octets(broker: Broker) -> None:
    queue = await broker.declare_queue("ä" * 127)
    await broker.publish("", queue.name, b"x")
    assert (await queue.statistics()).ready == 1


# Wire and process together

PROPERTIES = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "headers": {"n": 1, "deep": {"list": [True, None, "x"]}, "big": 2**40},
    "priority": 3,
    "correlation_id": "c",
    "reply_to": "r",
    "message_id": "m",
    "type": "t",
    "user_id": "guest",
    "app_id": "a",
}


async def test_pika_and_this_process_share_queues_and_properties() -> None:
    async with open_broker(AMQP(host="127.0.0.1", port=0)) as broker:
        requests, answers = await broker.declare_queue("requests"), await broker.declare_queue("answers")
        moment = datetime(2024, 5, 17, 12, tzinfo=UTC)
        expected = Properties(**{**PROPERTIES, "reply_to": "answers"}, expiration=60.0, timestamp=moment)
        async with trio.open_nursery() as nursery, requests.open_feed() as feed:
            nursery.start_soon(trio.to_thread.run_sync, _ask_with_pika, broker.listening[0].port)
            with await anext(feed) as delivery:
                assert delivery.body == b"ping"
                assert delivery.properties == expected
                await broker.publish("", "answers", b"pong", delivery.properties)
        assert (await answers.statistics()).ready == 0


def _ask_with_pika(port: int) -> None:
    """Publish a request, and wait for the answer, which says the same of itself."""
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as connection:
        channel = connection.channel()
        others = {"reply_to": "answers", "delivery_mode": 2, "expiration": "60000", "timestamp": 1715947200}
        properties = pika.BasicProperties(**{**PROPERTIES, **others})
        channel.basic_publish("", "requests", b"ping", properties)
        for _, answer, body in channel.consume("answers", auto_ack=True, inactivity_timeout=100):
            assert body == b"pong"
            assert answer == properties
            break


async def test_queue_of_this_program_alone_is_locked_for_clients() -> None:
    async with open_broker(AMQP(host="127.0.0.1", port=0)) as broker:
        await broker.declare_queue("mine", exclusive=True)
        client = Client(await trio.open_tcp_stream(*broker.listening[0].address))
        await client.connect()
        await client.open_channel(1)
        await client.say(1, BasicConsume("mine"))
        assert (await client.channel_closed())[0] == 405
        await client.open_channel(1)
        await client.declare("theirs", exclusive=True)
        with pytest.raises(QueueLocked):
            broker.queue("theirs")
        await client.leave()


async def test_users_may_be_given_anew_while_it_runs(virtual_time: None) -> None:
    async with open_broker() as broker:
        changes = broker.set_users({"ada": "secret"})
        assert (changes.added, changes.removed) == (("ada",), ("guest",))
        assert broker.context.users.names == ["ada"]
        assert broker.set_users(None).added == ("guest",)


async def test_users_cannot_become_the_default_ones_while_an_endpoint_is_exposed() -> None:
    async with open_broker(AMQP(host="0.0.0.0", port=0), users={"ada": "secret"}) as broker:
        with pytest.raises(ConfigError, match="is open to other machines"):
            broker.set_users(None)
        assert broker.context.users.names == ["ada"]
