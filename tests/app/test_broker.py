"""A broker in this process: opening, declaring, publishing, listening, leaving."""

from datetime import UTC, datetime
from pathlib import Path

import pika
import pytest
import trio
import trio.testing

from endpoints.client import Client
from triomq import AMQP, Broker, Properties, QueueHandle, open_broker
from triomq.core import Inequivalent, NoSuchQueue, NoSuchSink, QueueLocked
from triomq.endpoints import from_amqp
from triomq.errors import ConfigError, RestartLimitExceeded
from triomq.protocols import BasicProperties, encode_properties
from triomq.protocols.amqp import BasicConsume, BasicConsumeOk

# Opening and leaving


@pytest.mark.parametrize("endpoints", [(), (AMQP(port=0),)], ids=["without endpoints", "listening"])
async def test_an_error_in_the_block_comes_out_bare(endpoints: tuple[AMQP, ...]) -> None:
    with pytest.raises(KeyError) as error:  # noqa: PT012  no group around it
        async with open_broker(*endpoints) as broker:
            await broker.declare_queue("q")
            raise KeyError("mine")
    assert error.value.args == ("mine",)


async def test_a_cancelled_block_is_cancelled_and_no_error(autojump_clock: trio.testing.MockClock) -> None:
    with trio.move_on_after(1) as scope:
        async with open_broker() as broker:
            await broker.declare_queue("q")
            await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_what_supervision_gives_up_on_comes_out_of_the_block_bare(
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
                top._crashed(None, ValueError("for good"))
                await trio.sleep(0.5)
            await trio.sleep_forever()
    assert str(error.value.__cause__) == "for good"
    assert "/ gives up" in caplog.text


async def test_the_sinks_that_amqp_knows_are_there(broker: Broker) -> None:
    kinds = {name: store.options.kind.value for name, store in broker.directory.sinks.items()}
    assert kinds == {
        "amq.direct": "direct",
        "amq.fanout": "fanout",
        "amq.topic": "topic",
        "amq.headers": "headers",
        "amq.match": "headers",
    }


async def test_the_tree_shows_who_lives_here(broker: Broker, queue: QueueHandle) -> None:
    paths = [node.path for node in broker.system.tree().walk()]
    assert {"/broker", "/broker/domains/default", "/broker/domains/default/queue.q", "/broker/endpoints"} <= set(paths)


# Declaring


async def test_a_declare_may_be_repeated_but_not_differ(broker: Broker) -> None:
    await broker.declare_queue("q", max_length=5)
    await broker.declare_queue("q", max_length=5)
    with pytest.raises(Inequivalent, match="max_length of 'q' is 5, not 6"):
        await broker.declare_queue("q", max_length=6)
    await broker.declare_sink("s", "topic", auto_delete=True)
    with pytest.raises(Inequivalent, match="auto_delete"):
        await broker.declare_sink("s", "topic")


async def test_kinds_and_overflows_have_names(broker: Broker) -> None:
    with pytest.raises(ValueError, match="'ring' is not a valid SinkKind"):
        await broker.declare_sink("s", "ring")
    with pytest.raises(ValueError, match="'explode' is not a valid Overflow"):
        await broker.declare_queue("q", overflow="explode")


async def test_handles_are_had_of_what_exists_alone(broker: Broker, queue: QueueHandle) -> None:
    assert broker.queue("q").name == "q"
    assert broker.sink("amq.topic").name == "amq.topic"
    with pytest.raises(NoSuchQueue):
        broker.queue("nope")
    with pytest.raises(NoSuchSink):
        broker.sink("nope")


@pytest.mark.parametrize("name", ["x" * 256, "ä" * 128, "\ud800"], ids=["long", "long in octets", "no text"])
async def test_a_name_that_no_wire_could_carry_is_refused_at_once(broker: Broker, name: str) -> None:
    await broker.declare_sink("fan", "fanout")
    with pytest.raises(ValueError, match=r"255|surrogates"):
        await broker.declare_queue(name)
    with pytest.raises(ValueError, match=r"255|surrogates"):
        await broker.declare_sink(name)
    with pytest.raises(ValueError, match=r"255|surrogates"):
        await broker.publish("fan", name, b"")


async def test_a_name_may_have_255_octets(broker: Broker) -> None:
    queue = await broker.declare_queue("ä" * 127)
    await broker.publish("", queue.name, b"x")
    assert (await queue.statistics()).ready == 1


# Listening


async def test_endpoints_come_and_go_at_run_time() -> None:
    async with open_broker() as broker:
        first = await broker.listen(AMQP(host="127.0.0.1", port=0))
        second = await broker.listen(AMQP(host="127.0.0.1", port=0))
        assert first.port != second.port
        assert broker.listening == [first, second]
        client = Client(await trio.open_tcp_stream("127.0.0.1", first.port))
        await client.connect()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(first.aclose)
            assert (await client.closed())[0] == 320
            await client.hang_up()
        assert broker.listening == [second]
        assert first.addresses == []
        other = Client(await trio.open_tcp_stream("127.0.0.1", second.port))
        await other.connect()
        await other.leave()
        await first.aclose()


async def test_a_port_in_use_is_a_configuration_error_and_the_broker_goes_on() -> None:
    async with open_broker(AMQP(host="127.0.0.1", port=0)) as broker:
        port = broker.listening[0].port
        with pytest.raises(ConfigError, match="is in use by another program"):
            await broker.listen(AMQP(host="127.0.0.1", port=port))
        await broker.declare_queue("q")
        assert len(broker.listening) == 1


async def test_a_port_in_use_comes_out_of_open_broker_bare() -> None:
    async with open_broker(AMQP(host="127.0.0.1", port=0)) as broker:
        port = broker.listening[0].port
        with pytest.raises(ConfigError):
            async with open_broker(AMQP(host="127.0.0.1", port=port)):
                raise AssertionError


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
async def test_an_address_open_to_others_is_refused_while_everybody_knows_the_password(host: str) -> None:
    async with open_broker() as broker:
        with pytest.raises(ConfigError, match="is open to other machines"):
            await broker.listen(AMQP(host=host, port=0))


async def test_an_address_open_to_others_is_fine_with_users_of_ones_own() -> None:
    async with open_broker(AMQP(host="0.0.0.0", port=0), users={"ada": "secret"}) as broker:
        address = ("127.0.0.1", broker.listening[0].port)
        stranger = Client(await trio.open_tcp_stream(*address))
        await stranger.flush()
        await stranger.next()
        assert (await stranger.closed())[0] == 403
        await stranger.hang_up()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_a_loopback_address_is_not_open_to_others(host: str) -> None:
    async with open_broker(AMQP(host=host, port=0)) as broker:
        assert broker.listening[0].address[0] in ("127.0.0.1", "::1")


async def test_an_endpoint_that_crashed_listens_again_on_its_port(caplog: pytest.LogCaptureFixture) -> None:
    async with open_broker(AMQP(host="127.0.0.1", port=0)) as broker:
        listening = broker.listening[0]
        port = listening.port
        (ref,) = broker.endpoint_refs.values()
        ref._crashed(None, ValueError("an endpoint"))
        await ref.wait_running()
        assert listening.port == port
        client = Client(await trio.open_tcp_stream("127.0.0.1", port))
        await client.connect()
        await client.leave()


async def test_leaving_says_goodbye_to_clients(nursery: trio.Nursery) -> None:
    async with open_broker(AMQP(host="127.0.0.1", port=0)) as broker:
        client = Client(await trio.open_tcp_stream(*broker.listening[0].address))
        await client.connect()
        goodbyes: list[tuple[int, str]] = []

        async def listen() -> None:
            goodbyes.append(await client.closed())
            await client.hang_up()

        nursery.start_soon(listen)
    assert goodbyes == [(320, "CONNECTION_FORCED - the broker is shutting down")]


# Wire and process together

SAID = {
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


async def test_what_a_client_says_is_what_this_process_reads_and_back() -> None:
    async with open_broker(AMQP(host="127.0.0.1", port=0)) as broker:
        queue = await broker.declare_queue("q")
        client = Client(await trio.open_tcp_stream(*broker.listening[0].address))
        await client.connect()
        await client.open_channel(1)
        wire = BasicProperties(**SAID, delivery_mode=2, expiration="60000", timestamp=1715947200)
        client.publish(1, "", "q", b"from the wire", properties=encode_properties(wire))
        await client.flush()
        async with queue.open_feed() as feed:
            delivery = await anext(feed)
            moment = datetime(2024, 5, 17, 12, tzinfo=UTC)
            said = Properties(**SAID, persistent=True, expiration=60.0, timestamp=moment)
            assert (delivery.body, delivery.properties) == (b"from the wire", said)
            delivery.accept()
        await broker.publish("", "q", b"from here", said)
        await client.call(1, BasicConsume("q"), BasicConsumeOk)
        (delivered,) = await client.deliveries(1)
        assert (delivered.body, from_amqp(delivered.properties)) == (b"from here", said)
        await client.leave()


async def test_pika_and_this_process_share_queues_with_all_that_is_said() -> None:
    async with open_broker(AMQP(host="127.0.0.1", port=0)) as broker:
        requests, answers = await broker.declare_queue("requests"), await broker.declare_queue("answers")
        said = Properties(**{**SAID, "reply_to": "answers"})
        async with trio.open_nursery() as nursery, requests.open_feed() as feed:
            nursery.start_soon(trio.to_thread.run_sync, _ask_with_pika, broker.listening[0].port)
            with await anext(feed) as delivery:
                assert delivery.body == b"ping"
                assert delivery.properties == said
                await broker.publish("", "answers", b"pong", delivery.properties)
        assert (await answers.statistics()).ready == 0


def _ask_with_pika(port: int) -> None:
    """Publish a request, and wait for the answer, which says the same of itself."""
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as connection:
        channel = connection.channel()
        properties = pika.BasicProperties(**{**SAID, "reply_to": "answers"}, delivery_mode=2)
        channel.basic_publish("", "requests", b"ping", properties)
        for _, answer, body in channel.consume("answers", auto_ack=True, inactivity_timeout=20):
            assert body == b"pong"
            assert answer == properties
            break


async def test_a_queue_of_this_program_alone_is_locked_for_clients() -> None:
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


async def test_an_endpoint_may_listen_on_a_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "broker.sock")
    async with open_broker(AMQP(path=path)) as broker:
        listening = broker.listening[0]
        assert listening.address == path
        with pytest.raises(ValueError, match="is a Unix socket, which has no port"):
            _ = listening.port
        client = Client(await trio.open_unix_socket(path))
        await client.connect()
        await client.leave()
        await listening.aclose()
        assert not await trio.Path(path).exists()


async def test_users_may_be_given_anew_while_it_runs(virtual_time: None) -> None:
    async with open_broker() as broker:
        changes = broker.set_users({"ada": "secret"})
        assert (changes.added, changes.removed) == (("ada",), ("guest",))
        assert broker.house.users.names == ["ada"]
        assert broker.set_users(None).added == ("guest",)


async def test_who_listens_to_others_keeps_users_of_ones_own() -> None:
    async with open_broker(AMQP(host="0.0.0.0", port=0), users={"ada": "secret"}) as broker:
        with pytest.raises(ConfigError, match="is open to other machines"):
            broker.set_users(None)
        assert broker.house.users.names == ["ada"]
