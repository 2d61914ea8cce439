"""Direct connections: leases and their codes, life spans, the end."""

import itertools

import pytest
import trio
import trio.testing

from endpoints.client import Client
from endpoints.conftest import LINGERING, Connect, crash
from endpoints.direct import Direct, lease_feed, lease_sink, open_feed, open_sink
from triomq.app import Broker
from triomq.core import SinkKind
from triomq.endpoints import AMQPEndpoint, StopListening
from triomq.protocols.amqp import (
    BasicConsume,
    ExchangeDelete,
    QueueBind,
    QueueDelete,
)
from triomq.protocols.dmp import NULL, PROTOCOL_HEADER, response

# Leases


@pytest.mark.parametrize("lease", ["unknown", "x" * 255, "F-000660C2435F46B4-auto.8"])
async def test_unknown_lease_is_refused(endpoint: AMQPEndpoint, lease: str) -> None:
    assert await Direct(endpoint, lease, "sink").refused() == (
        402,
        "402 BAD-LEASE lease is not valid; ask for a new one",
    )


async def test_empty_lease_is_a_syntax_error(endpoint: AMQPEndpoint) -> None:
    code, _ = await Direct(endpoint, "", "sink").refused()
    assert code == 502


@pytest.mark.parametrize("abruptly", [False, True], ids=["in order", "abruptly"])
async def test_unused_lease_keeps_its_thirty_seconds_when_its_amqp_connection_ends(
    client: Client, endpoint: AMQPEndpoint, broker: Broker, abruptly: bool
) -> None:
    await client.declare("mine", exclusive=True)
    sink, feed = await lease_sink(client, ""), await lease_feed(client, "mine")
    await (client.hang_up if abruptly else client.leave)()
    await trio.sleep(29)
    direct = await Direct(endpoint, sink, "sink").ready()
    await direct.publish("mine", b"x")
    await (await Direct(endpoint, feed, "feed").ready()).hang_up()
    assert broker.directory.queues["mine"].backlog.ready == 1
    await direct.hang_up()
    assert "mine" not in broker.directory.queues


async def test_lease_that_never_comes_is_not_waited_for(endpoint: AMQPEndpoint) -> None:
    direct = Direct(endpoint, "", "sink")
    await direct.say(PROTOCOL_HEADER)
    direct.engine.data_to_send()
    started = trio.current_time()
    direct.engine.receive_data(bytes(await direct.stream.receive_some(100)))
    direct.engine.data_to_send()  # the lease, which stays unsaid
    assert (await direct.refused())[0] == 402
    assert 5 <= trio.current_time() - started <= 6


async def test_lease_that_comes_in_drops_is_not_waited_for_either(endpoint: AMQPEndpoint) -> None:
    direct = Direct(endpoint, "", "sink")
    await direct.say(PROTOCOL_HEADER + b"\xff")
    for _ in range(6):
        await trio.sleep(0.9)
        await direct.say(b"x")
    direct.engine.data_to_send()
    assert bytes(await direct.stream.receive_some(100)) == response(200, "DMP/0.1") + response(
        402, "the lease was not there in time"
    )


async def test_resource_that_has_gone_since_it_was_leased_is_not_found(client: Client, endpoint: AMQPEndpoint) -> None:
    await client.declare("mine", exclusive=True)
    feed, sink = await lease_feed(client, "mine"), await lease_sink(client, "amq.topic")
    await client.call(1, QueueDelete("mine"))
    await client.declare("mine", exclusive=True)  # another one of the same name
    assert (await Direct(endpoint, feed, "feed").refused())[0] == 404
    await Direct(endpoint, sink, "sink").ready()


async def test_sink_that_was_deleted_since_is_not_found(client: Client, endpoint: AMQPEndpoint, broker: Broker) -> None:
    await broker.declare_sink("s", SinkKind.DIRECT)
    lease = await lease_sink(client, "s")
    await client.call(1, ExchangeDelete("s"))
    code, text = await Direct(endpoint, lease, "sink").refused()
    assert (code, text) == (404, "404 NOT-FOUND no sink 's' here; declare it first")


async def test_of_two_leases_of_a_feed_the_first_one_used_has_it(client: Client, endpoint: AMQPEndpoint) -> None:
    await client.declare("mine", exclusive=True)
    first, second = await lease_feed(client, "mine"), await lease_feed(client, "mine")
    await Direct(endpoint, second, "feed").ready()
    assert await Direct(endpoint, first, "feed").refused() == (
        530,
        "530 NOT-ALLOWED feed 'mine' has a connection already",
    )


# Life spans


@pytest.mark.parametrize("order", [*itertools.permutations(["principal", "sink", "feed"])], ids=" ".join)
@pytest.mark.parametrize("abruptly", [False, True], ids=["in order", "abruptly"])
async def test_resources_of_a_session_live_until_the_last_of_its_connections_closes(
    client: Client, endpoint: AMQPEndpoint, broker: Broker, order: tuple[str, ...], abruptly: bool
) -> None:
    await client.declare("mine", exclusive=True)
    sink = await open_sink(endpoint, client, "")
    feed = await open_feed(endpoint, client, "mine")
    closing = {
        "principal": client.hang_up if abruptly else client.leave,
        "sink": sink.hang_up,
        "feed": feed.hang_up,
    }
    for which in order:
        assert "mine" in broker.directory.queues
        await closing[which]()
        await trio.sleep(LINGERING)
    assert "mine" not in broker.directory.queues
    assert not endpoint.ref.children


async def test_direct_connections_end_with_a_principal_one_that_has_fallen_silent(
    connect: Connect, endpoint: AMQPEndpoint, broker: Broker
) -> None:
    client = await connect(heartbeat=2)
    await client.declare("mine", exclusive=True)
    await open_sink(endpoint, client, "")
    await open_feed(endpoint, client, "mine")
    await trio.sleep(4 + LINGERING)
    assert "mine" not in broker.directory.queues
    assert not endpoint.ref.children


async def test_lease_outlives_the_connection_that_asked_as_long_as_another_one_is_there(
    client: Client, endpoint: AMQPEndpoint, broker: Broker
) -> None:
    await client.declare("mine", exclusive=True)
    first, later, feed = await lease_sink(client, ""), await lease_sink(client, ""), await lease_feed(client, "mine")
    sink = await Direct(endpoint, first, "sink").ready()
    await client.leave()
    await trio.sleep(LINGERING)
    other = await Direct(endpoint, later, "sink").ready()
    await sink.hang_up()
    await other.publish("mine", b"x")
    await other.publish("nowhere", b"returned to nobody", mandatory=True)
    quiet = await Direct(endpoint, feed, "feed").ready()
    assert broker.directory.queues["mine"].backlog.ready == 1
    await other.hang_up()
    await quiet.silence()  # nobody is left who could consume
    await quiet.hang_up()
    assert "mine" not in broker.directory.queues


async def test_unused_lease_keeps_what_is_its_sessions_alive_for_thirty_seconds_and_no_longer(
    client: Client, endpoint: AMQPEndpoint, broker: Broker
) -> None:
    await client.declare("mine", exclusive=True)
    lease = await lease_feed(client, "mine")
    await client.leave()
    await trio.sleep(29)
    assert "mine" in broker.directory.queues
    await trio.sleep(2)
    assert "mine" not in broker.directory.queues
    assert (await Direct(endpoint, lease, "feed").refused())[0] == 402


async def test_consumer_passes_to_its_feed_when_its_own_connection_ends(
    client: Client, endpoint: AMQPEndpoint, broker: Broker
) -> None:
    await client.declare("mine", exclusive=True)
    feed = await open_feed(endpoint, client, "mine")
    await client.call(1, BasicConsume("mine"))
    await client.leave()
    await trio.sleep(LINGERING)
    await broker.publish("", "mine", b"still")
    assert await feed.bodies(1) == [b"still"]


async def test_consumer_that_comes_before_its_feed_passes_as_well(
    client: Client, endpoint: AMQPEndpoint, broker: Broker
) -> None:
    await client.declare("mine", exclusive=True, auto_delete=True)
    await client.call(1, BasicConsume("mine", no_ack=True))
    feed = await open_feed(endpoint, client, "mine")
    await client.hang_up()
    await trio.sleep(LINGERING)
    await broker.publish("", "mine", b"still")
    assert await feed.bodies(1) == [b"still"]
    await feed.hang_up()
    assert "mine" not in broker.directory.queues


# The end


async def test_feed_ends_with_its_queue(client: Client, endpoint: AMQPEndpoint) -> None:
    await client.declare("mine", exclusive=True)
    feed = await open_feed(endpoint, client, "mine")
    await client.call(1, QueueDelete("mine"))
    await feed.ended()
    assert feed.octets == len(b"\x0e200 OK DMP/0.1") + 1 + len('200 OK Ready to read from "mine"')


async def test_why_a_feed_ends_is_in_the_log(
    client: Client, endpoint: AMQPEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    await client.declare("mine", exclusive=True)
    feed = await open_feed(endpoint, client, "mine")
    with caplog.at_level("INFO", "triomq.dmp"):
        await client.call(1, QueueDelete("mine"))
        await feed.ended()
    fields = [record.fields for record in caplog.records if record.getMessage() == "direct connection closed"]  # type: ignore[attr-defined]
    assert [(line["reason"], line["user"], line["vhost"]) for line in fields] == [
        ("the queue is deleted", "guest", "/"),
    ]


async def test_feed_whose_consumer_has_passed_to_it_ends_when_the_queue_crashes(
    client: Client, endpoint: AMQPEndpoint, broker: Broker
) -> None:
    await client.declare("mine", exclusive=True)
    await client.call(1, BasicConsume("mine", no_ack=True))
    feed = await open_feed(endpoint, client, "mine")
    await client.leave()
    await trio.sleep(LINGERING)
    crash(broker, "mine")
    await feed.ended()
    await trio.sleep(LINGERING)
    assert not endpoint.ref.children
    assert "mine" not in broker.directory.queues


async def test_end_of_the_broker_refuses_a_sink_and_closes_a_feed(client: Client, endpoint: AMQPEndpoint) -> None:
    await client.declare("mine", exclusive=True)
    sink, feed = await open_sink(endpoint, client, ""), await open_feed(endpoint, client, "mine")
    endpoint.ref.tell_nowait(StopListening())
    assert await sink.refused() == (530, "530 NOT-ALLOWED the broker is shutting down")
    await feed.ended()
    await client.hang_up()
    with trio.fail_after(60):
        await endpoint.wait_empty()


async def test_fault_on_a_sink_is_logged_and_hurts_no_other(
    client: Client, endpoint: AMQPEndpoint, broker: Broker
) -> None:
    await client.declare("q")
    bad, good = await open_sink(endpoint, client, ""), await open_sink(endpoint, client, "")
    await bad.publish("q", b"1")
    await bad.say(b"\0\0\0\x01?")
    assert await bad.refused() == (502, "502 SYNTAX-ERROR a message of 1 octets; the shortest has 8")
    await good.publish("q", b"2")
    await trio.testing.wait_all_tasks_blocked()
    assert broker.directory.queues["q"].backlog.ready == 2
    await client.declare("other")  # the principal connection does not mind


async def test_sink_that_is_half_closed_has_all_its_messages_taken(
    client: Client, endpoint: AMQPEndpoint, broker: Broker
) -> None:
    await client.declare("q")
    sink = await open_sink(endpoint, client, "")
    await sink.publish("q", b"1", b"2")
    assert isinstance(sink.stream, trio.StapledStream)
    await sink.stream.send_eof()
    await sink.ended()
    assert broker.directory.queues["q"].backlog.ready == 2


async def test_bytes_that_a_feeds_client_sends_are_dropped(
    client: Client, endpoint: AMQPEndpoint, broker: Broker
) -> None:
    await client.declare("mine", exclusive=True)
    feed = await open_feed(endpoint, client, "mine")
    await feed.say(b"\xff" * 100_000)
    await client.call(1, BasicConsume("mine"))
    await broker.publish("", "mine", b"x")
    assert await feed.bodies(1) == [b"x"]


async def test_quiet_feed_gets_null_messages(client: Client, endpoint: AMQPEndpoint) -> None:
    await client.declare("mine", exclusive=True)
    feed = await open_feed(endpoint, client, "mine")
    before = feed.octets
    await feed.silence(21)
    assert 3 * len(NULL) <= feed.octets - before <= 4 * len(NULL)


async def test_quiet_sink_is_left_alone(client: Client, endpoint: AMQPEndpoint, broker: Broker) -> None:
    await client.declare("q")
    sink = await open_sink(endpoint, client, "")
    await sink.silence(150)
    await sink.publish("q", b"x")
    await trio.testing.wait_all_tasks_blocked()
    assert broker.directory.queues["q"].backlog.ready == 1


async def test_message_that_comes_in_drops_is_not_waited_for_for_ever(client: Client, endpoint: AMQPEndpoint) -> None:
    sink = await open_sink(endpoint, client, "")
    await sink.say(b"\0\0\x10\0")
    assert await sink.refused() == (503, "503 INVALID a message was begun and not finished in time")


async def test_direct_connection_is_listed_with_the_others(client: Client, endpoint: AMQPEndpoint) -> None:
    await client.declare("mine", exclusive=True)
    await client.call(1, BasicConsume("mine"))
    await open_feed(endpoint, client, "mine")
    found = {name: ref.actor.statistics() for name, ref in endpoint.ref.children.items()}  # type: ignore[attr-defined]
    assert sorted(found) == ["connection-1", "direct-1"]
    assert (found["direct-1"].user, found["direct-1"].consumers) == ("guest", 1)


async def test_binding_that_changes_leads_the_next_messages_elsewhere(
    client: Client, endpoint: AMQPEndpoint, broker: Broker
) -> None:
    await client.declare("q")
    sink = await open_sink(endpoint, client, "amq.direct")
    await sink.publish("key", b"lost")
    await trio.testing.wait_all_tasks_blocked()
    await client.call(1, QueueBind("q", "amq.direct", "key"))
    await sink.publish("key", b"found")
    await trio.testing.wait_all_tasks_blocked()
    assert broker.directory.queues["q"].backlog.ready == 1
