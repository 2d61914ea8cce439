"""One connection from its first octet to its last, over memory streams and in virtual time."""

from itertools import pairwise

import trio
import trio.testing

from endpoints.client import Client
from endpoints.conftest import LINGERING, Connect, crash, dial, knock_out, only_connection, queue_ref
from triomq.app import Broker
from triomq.endpoints import AMQPEndpoint
from triomq.protocols.amqp import (
    AckRun,
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicNack,
    BasicQos,
    ChannelOpen,
    ConfirmSelect,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    EndOfStream,
    QueueDeclare,
    QueueDeclareOk,
    Returned,
)

HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"


# Timers


async def test_heartbeats_of_a_second_come_twice_in_it_and_their_peer_is_missed_as_soon(endpoint: AMQPEndpoint) -> None:
    client = dial(endpoint, heartbeat=1)
    await client.connect()
    before = trio.current_time()
    heard = []
    while await client.stream.receive_some():
        heard.append(trio.current_time() - before)
    gone = trio.current_time() - before
    assert 2 <= gone <= 2.5
    assert len(heard) >= 3
    assert all(0.4 < later - earlier < 0.7 for earlier, later in pairwise([0, *heard]))


async def test_heartbeats_keep_a_connection(endpoint: AMQPEndpoint) -> None:
    client = dial(endpoint, heartbeat=4)
    await client.connect()
    for _ in range(10):
        await trio.sleep(3)
        await client.stream.send_all(HEARTBEAT)
    await client.open_channel(1)


async def test_client_that_asked_for_no_heartbeat_may_be_silent_for_an_hour(client: Client) -> None:
    await trio.sleep(3600)
    await client.open_channel(2)


async def test_very_many_channels_end_in_turns_and_what_was_out_on_them_is_back_then(
    client: Client, endpoint: AMQPEndpoint, broker: Broker
) -> None:
    many = 2_000
    connection = only_connection(endpoint)
    await broker.declare_queue("q", durable=False)
    for number in range(2, many + 2):
        client.engine.send_method(number, ChannelOpen())
        client.engine.send_method(number, BasicQos(0, 1))
        client.engine.send_method(number, BasicConsume("q", no_wait=True))
    await client.flush()
    for _ in range(many * 2):
        await broker.publish("", "q", b"x")
    await broker_has_delivered(broker, "q", many)
    await client.hang_up()
    seen = set()
    while connection.open_channels:
        await trio.lowlevel.checkpoint()
        seen.add(len(connection.open_channels))
    assert len(seen) > 1
    await trio.testing.wait_all_tasks_blocked()
    statistics = broker.directory.queues["q"].statistics()
    assert (statistics.ready, statistics.unsettled) == (many * 2, 0)
    assert not endpoint.children
    assert broker.context.quotas.count("guest", "channels") == 0


async def test_queue_may_be_deleted_while_a_channel_with_very_many_consumers_of_it_ends(
    client: Client, endpoint: AMQPEndpoint, broker: Broker
) -> None:
    connection = only_connection(endpoint)
    queue = await broker.declare_queue("q", durable=False)
    for number in range(3_000):
        client.engine.send_method(1, BasicConsume("q", consumer_tag=str(number), no_wait=True))
    await client.flush()
    while len(connection.open_channels[1].consumers) < 3_000:
        await trio.lowlevel.checkpoint()
    connection.turn(connection.end_channels)
    assert broker.directory.queues["q"].feeds
    await queue.delete()
    await trio.testing.wait_all_tasks_blocked()
    assert not connection.open_channels
    assert endpoint.children  # it has not crashed


async def broker_has_delivered(broker: Broker, queue: str, count: int) -> None:
    while broker.directory.queues[queue].statistics().unsettled < count:
        await trio.lowlevel.checkpoint()


async def test_client_that_hangs_up_is_gone_at_once(client: Client, endpoint: AMQPEndpoint) -> None:
    await client.hang_up()
    await trio.testing.wait_all_tasks_blocked()
    assert not endpoint.children


async def test_client_that_ends_its_side_may_read_what_it_asked_for(client: Client, endpoint: AMQPEndpoint) -> None:
    await client.send(1, "", "nobody", b"x" * 10_000, mandatory=True)
    assert isinstance(client.stream, trio.StapledStream)
    await client.stream.send_eof()
    await client.expect(Returned)
    await client.expect(EndOfStream)
    await trio.sleep(LINGERING)
    assert not endpoint.children


async def test_client_that_does_not_answer_our_close_is_given_up(client: Client, endpoint: AMQPEndpoint) -> None:
    await client.stream.send_all(b"\x07\x00\x00\x00\x00\x00\x01x\xce")  # no such type of frame
    await trio.sleep(8)
    assert not endpoint.children


# Order and budget


async def test_replies_keep_the_order_of_what_was_asked(client: Client) -> None:
    for name in ("q1", "q2"):
        await client.declare(name)
    client.publish(1, "", "q1", b"first")
    client.publish(1, "", "q2", b"second")
    await client.say(1, BasicGet("q1"), BasicGet("q1"), BasicGet("q2"), QueueDeclare("q1"), BasicGet("q2"))
    assert (await client.got()).body == b"first"
    await client.read(BasicGetEmpty)
    assert (await client.got()).body == b"second"
    await client.read(QueueDeclareOk)
    await client.read(BasicGetEmpty)


async def test_chunk_that_uses_up_the_budget_goes_on_after_others_had_their_turn(
    client: Client, connect: Connect, broker: Broker
) -> None:
    await fan_out(broker, queues=300)
    other = await connect()
    for number in range(20):
        client.publish(1, "fan", str(number), b"x")  # another key each time: another run
    await client.say(1, QueueDeclare("q0", passive=True))
    await other.say(0, ConnectionUpdateSecret(b"", ""))
    await client.read(QueueDeclareOk)
    await other.read(ConnectionUpdateSecretOk, 0)
    async with broker.queue("q299").open_feed() as feed:
        keys = [(await anext(feed)).key for _ in range(20)]
    assert keys == [str(number) for number in range(20)]


async def test_reading_stops_while_the_budget_is_used_up(
    client: Client, broker: Broker, endpoint: AMQPEndpoint
) -> None:
    await fan_out(broker, queues=300)
    await client.open_channel(2)
    for number in range(20):  # on two channels in turn, so that each publish is an event of its own
        client.publish(1 + number % 2, "fan", "", b"x")
    connection, index = only_connection(endpoint), broker.directory.queues["q0"].backlog
    connection.received(b"".join(client.engine.data_to_send()))
    assert index.ready == 7  # seven times 300 is more than 2,000
    assert connection.engine.reading_paused
    await trio.testing.wait_all_tasks_blocked()
    assert index.ready == 20
    assert not connection.engine.reading_paused


async def fan_out(broker: Broker, *, queues: int) -> None:
    fan = await broker.declare_sink("fan", "fanout")
    for number in range(queues):
        await fan.bind(await broker.declare_queue(f"q{number}"))


# Restarts


async def test_declare_waits_for_a_queue_that_is_being_restarted_and_then_answers_in_order(
    client: Client, broker: Broker
) -> None:
    await client.declare("q")
    await client.send(1, "", "q", b"kept")
    await client.declare("other")
    await knock_out(broker, "q")
    before = trio.current_time()
    await client.say(1, QueueDeclare("q"), BasicGet("q"), QueueDeclare("other"))
    assert (await client.read(QueueDeclareOk)) == QueueDeclareOk("q", 1, 0)
    assert trio.current_time() - before >= 0.08
    assert (await client.got()).body == b"kept"
    assert (await client.read(QueueDeclareOk)).queue == "other"


async def test_feed_opens_when_its_queue_runs_again(client: Client, broker: Broker) -> None:
    await client.declare("q")
    await knock_out(broker, "q")
    client.publish(1, "", "q", b"x")
    assert await client.call(1, BasicConsume("q", consumer_tag="t"), BasicConsumeOk) == BasicConsumeOk("t")
    assert (await client.deliveries(1))[0].body == b"x"


async def test_other_connections_go_on_while_one_waits_for_a_restart(
    client: Client, connect: Connect, broker: Broker
) -> None:
    await client.declare("q")
    other = await connect()
    await knock_out(broker, "q")
    before = trio.current_time()
    await client.say(1, QueueDeclare("q"))
    await trio.testing.wait_all_tasks_blocked()
    await other.declare("r")
    assert trio.current_time() == before
    await client.read(QueueDeclareOk)


async def test_connection_that_ends_while_it_waits_for_a_restart_is_gone(
    client: Client, broker: Broker, endpoint: AMQPEndpoint
) -> None:
    await client.declare("q")
    await knock_out(broker, "q")
    await client.say(1, QueueDeclare("q"))
    await client.hang_up()
    await trio.sleep(LINGERING)
    assert not endpoint.children


async def test_queue_that_crashed_too_often_is_refused_by_name(client: Client, broker: Broker) -> None:
    await client.declare("q")
    for _ in range(4):
        await queue_ref(broker, "q").wait_running()
        crash(broker, "q")
    await trio.sleep(1)
    await client.say(1, QueueDeclare("q"))
    code, text = await client.channel_closed()
    assert (code, text) == (404, "NOT_FOUND - queue 'q' in vhost '/' process is stopped by supervisor")


async def test_queue_that_is_given_up_while_a_declare_waits_is_refused(client: Client, broker: Broker) -> None:
    await client.declare("q")
    await knock_out(broker, "q")
    await client.say(1, QueueDeclare("q"))
    for _ in range(2):
        crash(broker, "q")  # kept, and so the next incarnation crashes as well
        await trio.sleep(0.15)
    assert (await client.channel_closed())[0] == 404


async def test_confirms_wait_for_a_restart_and_later_ones_do_not(client: Client, broker: Broker) -> None:
    await client.declare("broken")
    await client.declare("whole")
    await client.call(1, ConfirmSelect())
    await knock_out(broker, "broken")
    client.publish(1, "", "broken", b"1", b"2")
    await client.send(1, "", "whole", b"3", b"4")
    assert await client.expect(AckRun) == AckRun(1, [3, 4])
    assert await client.read(BasicAck) == BasicAck(2, multiple=True)


async def test_publishes_to_a_queue_that_is_given_up_are_refused(
    client: Client, broker: Broker, endpoint: AMQPEndpoint
) -> None:
    await client.declare("q")
    await client.call(1, ConfirmSelect())
    for _ in range(4):
        await queue_ref(broker, "q").wait_running()
        crash(broker, "q")
    client.publish(1, "", "q", b"1", b"2")
    only_connection(endpoint).received(b"".join(client.engine.data_to_send()))  # before its supervisor hears of it
    assert await client.read(BasicNack) == BasicNack(1, multiple=False, requeue=False)
    assert await client.read(BasicNack) == BasicNack(2, multiple=False, requeue=False)


async def test_consumer_learns_that_its_queue_crashed_and_may_consume_again(client: Client, broker: Broker) -> None:
    await client.declare("q")
    await client.call(1, BasicConsume("q", consumer_tag="t"))
    await client.send(1, "", "q", b"x")
    (first,) = await client.deliveries(1)
    crash(broker, "q")
    assert await client.read(BasicCancel) == BasicCancel("t", no_wait=True)
    await client.say(1, BasicAck(first.tag))  # of an earlier incarnation: dropped, and no error
    await client.call(1, BasicConsume("q", consumer_tag="t"))
    (second,) = await client.deliveries(1)
    assert (second.body, second.redelivered) == (b"x", True)


# The end


async def test_close_is_answered_and_the_exclusive_queues_are_gone(client: Client, broker: Broker) -> None:
    await client.declare("mine", exclusive=True)
    await client.leave()
    await trio.testing.wait_all_tasks_blocked()
    assert "mine" not in broker.directory.queues


async def test_messages_published_before_a_close_stay_though_they_use_up_the_budget(
    client: Client, broker: Broker
) -> None:
    await fan_out(broker, queues=300)
    await client.open_channel(2)
    for number in range(20):  # on two channels in turn, so that each publish is an event of its own
        client.publish(1 + number % 2, "fan", "", b"x")
    await client.leave()
    assert (await broker.queue("q299").statistics()).ready == 20
