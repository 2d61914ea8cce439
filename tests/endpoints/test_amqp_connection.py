"""One connection from its first octet to its last, over memory streams and in virtual time."""

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from endpoints.client import Client
from endpoints.conftest import LINGERING, Connect, crash, dial, knock_out, only_connection, queue_ref
from triomq.app import Broker
from triomq.core import Deliver
from triomq.endpoints import AMQPEndpoint
from triomq.endpoints.amqp_outlet import UNREAD_BYTES, WRITE_BYTES
from triomq.protocols import encode_table
from triomq.protocols.amqp import (
    PROTOCOL_HEADER,
    AckRun,
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicNack,
    ChannelClosed,
    Closed,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    DeliverRun,
    EndOfStream,
    ExchangeDeclare,
    Login,
    QueueDeclare,
    QueueDeclareOk,
    Returned,
    ServerStarted,
    plain,
)

HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"


# The handshake


async def test_a_client_logs_in_with_plain(endpoint: AMQPEndpoint) -> None:
    client = dial(endpoint)
    connected = await client.connect()
    assert connected.server_properties["product"] == "triomq"
    assert (connected.channel_max, connected.frame_max, connected.heartbeat) == (2047, 131072, 0)


async def test_a_client_logs_in_with_amqplain(endpoint: AMQPEndpoint) -> None:
    table = encode_table({"LOGIN": "guest", "PASSWORD": "guest"})[4:]
    await dial(endpoint, login=Login("AMQPLAIN", table)).connect()


@pytest.mark.parametrize(
    "login",
    [plain("guest", "wrong"), plain("nobody", "guest"), Login("PLAIN", b"guest"), Login("EXTERNAL", b"guest")],
    ids=["password", "user", "form", "mechanism"],
)
async def test_a_wrong_login_is_told_so_when_the_client_can_bear_it(endpoint: AMQPEndpoint, login: Login) -> None:
    client = dial(endpoint, login=login)
    await client.flush()
    await client.expect(ServerStarted)
    code, text = await client.closed()
    assert (code, text.split(" - ")[0]) == (403, "ACCESS_REFUSED")
    assert f"using authentication mechanism {login.mechanism}" in text


async def test_a_wrong_login_without_the_capability_hears_nothing_more(endpoint: AMQPEndpoint) -> None:
    client = dial(endpoint, login=plain("guest", "wrong"), client_properties={})
    await client.flush()
    await client.expect(ServerStarted)
    await client.expect(EndOfStream)


async def test_an_unknown_virtual_host_closes_with_530(endpoint: AMQPEndpoint) -> None:
    client = dial(endpoint, virtual_host="/nope")
    await client.flush()
    await client.expect(ServerStarted)
    assert await client.closed() == (530, "NOT_ALLOWED - vhost /nope not found")


async def test_octets_of_another_protocol_are_answered_with_ours(endpoint: AMQPEndpoint) -> None:
    client = dial(endpoint)
    await client.stream.send_all(b"GET / HTTP/1.1\r\n\r\n")
    assert await client.stream.receive_some() == PROTOCOL_HEADER
    assert await client.stream.receive_some() == b""


# Timers


async def test_a_client_that_says_nothing_has_five_seconds_and_is_told_our_header(endpoint: AMQPEndpoint) -> None:
    client, before = dial(endpoint), trio.current_time()
    assert await client.stream.receive_some() == PROTOCOL_HEADER
    assert await client.stream.receive_some() == b""
    assert 5 <= trio.current_time() - before < 6


async def test_a_handshake_has_ten_seconds_in_all(endpoint: AMQPEndpoint) -> None:
    client, before = dial(endpoint, login=None), trio.current_time()
    await client.flush()
    await client.expect(ServerStarted)
    await trio.sleep(4)
    event = await client.next()
    assert isinstance(event, Closed | EndOfStream), event
    assert 10 <= trio.current_time() - before < 11


async def test_heartbeats_come_while_nothing_else_does(endpoint: AMQPEndpoint) -> None:
    client = dial(endpoint, heartbeat=4)
    assert (await client.connect()).heartbeat == 4
    before = trio.current_time()
    assert await client.stream.receive_some() == HEARTBEAT
    assert trio.current_time() - before < 4
    await client.stream.send_all(HEARTBEAT)
    assert await client.stream.receive_some() == HEARTBEAT


async def test_a_client_that_is_silent_for_two_intervals_is_let_go(endpoint: AMQPEndpoint) -> None:
    client = dial(endpoint, heartbeat=4)
    await client.connect()
    before = trio.current_time()
    await client.expect(EndOfStream)
    assert 8 <= trio.current_time() - before <= 10.5
    await client.hang_up()
    await trio.testing.wait_all_tasks_blocked()
    assert not endpoint.children


async def test_heartbeats_keep_a_connection(endpoint: AMQPEndpoint) -> None:
    client = dial(endpoint, heartbeat=4)
    await client.connect()
    for _ in range(10):
        await trio.sleep(3)
        await client.stream.send_all(HEARTBEAT)
    await client.open_channel(1)


async def test_a_client_that_asked_for_no_heartbeat_may_be_silent_for_an_hour(client: Client) -> None:
    await trio.sleep(3600)
    await client.open_channel(2)


async def test_a_client_that_never_hangs_up_is_cut_after_a_while(client: Client, endpoint: AMQPEndpoint) -> None:
    client.engine.close(200, "Goodbye")
    await client.flush()
    await client.expect(Closed)
    await trio.testing.wait_all_tasks_blocked()
    assert len(endpoint.children) == 1
    await trio.sleep(LINGERING)
    assert not endpoint.children


async def test_a_client_that_hangs_up_is_gone_at_once(client: Client, endpoint: AMQPEndpoint) -> None:
    await client.hang_up()
    await trio.testing.wait_all_tasks_blocked()
    assert not endpoint.children


async def test_a_client_that_says_that_it_will_send_nothing_more_may_read_what_it_asked_for(
    client: Client, endpoint: AMQPEndpoint
) -> None:
    client.publish(1, "", "nobody", b"x" * 10_000, mandatory=True)
    await client.flush()
    assert isinstance(client.stream, trio.StapledStream)
    await client.stream.send_eof()
    await client.expect(Returned)
    await client.expect(EndOfStream)
    await trio.sleep(LINGERING)
    assert not endpoint.children


async def test_a_client_that_does_not_answer_our_close_is_given_up(client: Client, endpoint: AMQPEndpoint) -> None:
    await client.stream.send_all(b"\x07\x00\x00\x00\x00\x00\x01x\xce")  # no such type of frame
    await trio.sleep(8)
    assert not endpoint.children


# Channels


async def test_a_channel_number_is_free_again_after_close_ok(client: Client) -> None:
    for _ in range(3):
        client.engine.close_channel(1, 200, "done")
        await client.flush()
        assert not (await client.expect(ChannelClosed)).by_peer
        await client.open_channel(1)


async def test_a_channel_error_closes_that_channel_alone(client: Client) -> None:
    await client.open_channel(2)
    await client.say(1, QueueDeclare("missing", passive=True))
    assert (await client.channel_closed(1))[0] == 404
    await client.declare("there", channel=2)
    await client.open_channel(1)


async def test_what_follows_an_error_on_its_channel_is_dropped(client: Client) -> None:
    await client.declare("q")
    client.engine.send_method(1, QueueDeclare("missing", passive=True))
    client.publish(1, "", "q", b"lost")
    client.engine.send_method(1, QueueDeclare("also missing", passive=True))
    await client.flush()
    assert (await client.channel_closed(1))[0] == 404
    await client.open_channel(1)
    assert (await client.declare("q")).message_count == 0


async def test_acks_that_follow_an_error_on_their_channel_are_dropped_too(client: Client, broker: Broker) -> None:
    await client.declare("q")
    client.publish(1, "", "q", b"x")
    await client.call(1, BasicConsume("q"), BasicConsumeOk)
    (delivery,) = await client.deliveries(1)
    await client.say(1, QueueDeclare("missing", passive=True), BasicAck(delivery.tag))
    assert (await client.channel_closed(1))[0] == 404
    assert (await broker.queue("q").statistics()).ready == 1


async def test_a_queue_that_crashes_over_a_request_costs_who_asked_its_connection(
    client: Client, connect: Connect, broker: Broker
) -> None:
    await client.declare("q")
    broker.directory.queues["q"].index.ready = 1  # a lie: there is nothing to take
    await client.say(1, BasicGet("q"))
    code, text = await client.closed()
    assert code == 541
    assert "queue.q crashed while it handled Get" in text
    other = await connect()
    await other.open_channel()
    await other.declare("another")


async def test_a_hard_error_closes_the_connection_and_names_the_method(client: Client) -> None:
    await client.say(1, ExchangeDeclare("e", "nope"))
    assert await client.closed() == (503, "COMMAND_INVALID - unknown exchange type 'nope'")
    await client.expect(EndOfStream)


async def test_publishes_and_confirms_before_an_error_are_told_first(client: Client) -> None:
    await client.declare("q")
    await client.call(1, ConfirmSelect(), ConfirmSelectOk)
    client.publish(1, "", "q", b"1", b"2")
    client.engine.send_method(1, QueueDeclare("missing", passive=True))
    await client.flush()
    assert await client.read(BasicAck) == BasicAck(2, multiple=True)
    assert (await client.channel_closed(1))[0] == 404


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


async def test_a_chunk_that_uses_up_the_budget_goes_on_after_others_had_their_turn(
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
        keys = [(await anext(feed)).routing_key for _ in range(20)]
    assert keys == [str(number) for number in range(20)]


async def test_nothing_is_read_while_the_budget_is_used_up(
    client: Client, broker: Broker, endpoint: AMQPEndpoint
) -> None:
    await fan_out(broker, queues=300)
    for number in range(20):
        client.publish(1, "fan", str(number), b"x")
    connection, index = only_connection(endpoint), broker.directory.queues["q0"].index
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


async def test_a_declare_waits_for_a_queue_that_is_being_restarted_and_then_answers_in_order(
    client: Client, broker: Broker
) -> None:
    await client.declare("q")
    client.publish(1, "", "q", b"kept")
    await client.flush()
    await client.declare("other")
    await knock_out(broker, "q")
    before = trio.current_time()
    await client.say(1, QueueDeclare("q"), BasicGet("q"), QueueDeclare("other"))
    assert (await client.read(QueueDeclareOk)) == QueueDeclareOk("q", 1, 0)
    assert trio.current_time() - before >= 0.08
    assert (await client.got()).body == b"kept"
    assert (await client.read(QueueDeclareOk)).queue == "other"


async def test_a_feed_opens_when_its_queue_runs_again(client: Client, broker: Broker) -> None:
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
    await other.open_channel()
    await knock_out(broker, "q")
    before = trio.current_time()
    await client.say(1, QueueDeclare("q"))
    await trio.testing.wait_all_tasks_blocked()
    await other.declare("r")
    assert trio.current_time() == before
    await client.read(QueueDeclareOk)


async def test_a_connection_that_ends_while_it_waits_for_a_restart_is_gone(
    client: Client, broker: Broker, endpoint: AMQPEndpoint
) -> None:
    await client.declare("q")
    await knock_out(broker, "q")
    await client.say(1, QueueDeclare("q"))
    await client.hang_up()
    await trio.sleep(LINGERING)
    assert not endpoint.children


async def test_a_queue_that_crashed_too_often_is_refused_by_name(client: Client, broker: Broker) -> None:
    await client.declare("q")
    for _ in range(4):
        await queue_ref(broker, "q").wait_running()
        crash(broker, "q")
    await trio.sleep(1)
    await client.say(1, QueueDeclare("q"))
    code, text = await client.channel_closed()
    assert (code, text) == (404, "NOT_FOUND - queue 'q' in vhost '/' process is stopped by supervisor")


async def test_a_queue_that_is_given_up_while_a_declare_waits_is_refused(client: Client, broker: Broker) -> None:
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
    await client.call(1, ConfirmSelect(), ConfirmSelectOk)
    await knock_out(broker, "broken")
    client.publish(1, "", "broken", b"1", b"2")
    client.publish(1, "", "whole", b"3", b"4")
    await client.flush()
    assert await client.expect(AckRun) == AckRun(1, [3, 4])
    assert await client.read(BasicAck) == BasicAck(2, multiple=True)


async def test_publishes_to_a_queue_that_is_given_up_are_refused(
    client: Client, broker: Broker, endpoint: AMQPEndpoint
) -> None:
    await client.declare("q")
    await client.call(1, ConfirmSelect(), ConfirmSelectOk)
    for _ in range(4):
        await queue_ref(broker, "q").wait_running()
        crash(broker, "q")
    client.publish(1, "", "q", b"1", b"2")
    only_connection(endpoint).received(b"".join(client.engine.data_to_send()))  # before its supervisor hears of it
    assert await client.read(BasicNack) == BasicNack(1, multiple=False, requeue=False)
    assert await client.read(BasicNack) == BasicNack(2, multiple=False, requeue=False)


async def test_a_consumer_hears_that_its_queue_crashed_and_may_consume_again(client: Client, broker: Broker) -> None:
    await client.declare("q")
    await client.call(1, BasicConsume("q", consumer_tag="t"), BasicConsumeOk)
    client.publish(1, "", "q", b"x")
    await client.flush()
    (first,) = await client.deliveries(1)
    crash(broker, "q")
    assert await client.read(BasicCancel) == BasicCancel("t", no_wait=True)
    await client.say(1, BasicAck(first.tag))  # of an earlier incarnation: dropped, and no error
    await client.call(1, BasicConsume("q", consumer_tag="t"), BasicConsumeOk)
    (second,) = await client.deliveries(1)
    assert (second.body, second.redelivered) == (b"x", True)


async def test_a_consumer_that_does_not_know_of_cancels_is_not_told(connect: Connect, broker: Broker) -> None:
    client = await connect(client_properties={})
    await client.open_channel()
    await client.declare("q")
    await client.call(1, BasicConsume("q", consumer_tag="t"), BasicConsumeOk)
    await broker.queue("q").delete()
    await client.silence()


# Gates and writing


@pytest.fixture
async def slow(endpoint: AMQPEndpoint) -> Client:
    """A client over a stream on which each side waits until the other has read; with channel 1 open."""
    ours, theirs = trio.testing.lockstep_stream_pair()
    endpoint.connect_stream(theirs, "lockstep")
    client = Client(ours, heartbeat=4)
    await client.connect()
    await client.open_channel(1)
    return client


async def test_a_client_that_does_not_read_its_replies_is_not_read_either(
    slow: Client, endpoint: AMQPEndpoint, broker: Broker
) -> None:
    connection, body = only_connection(endpoint), b"x" * 60_000
    for _ in range(40):
        slow.publish(1, "", "nowhere", body, mandatory=True)
        with trio.move_on_after(0.1) as late:
            await slow.flush()
        if late.cancelled_caught:
            break
    else:
        raise AssertionError("everything was read")
    assert connection.engine.reading_paused
    assert UNREAD_BYTES < connection.engine.unsent < UNREAD_BYTES + 2 * 65536 + len(body)
    await trio.sleep(60)  # the client cannot be heard, so its silence is not held against it
    assert endpoint.children
    assert connection.engine.reading_paused


async def test_a_client_that_reads_its_replies_at_last_is_read_again(
    slow: Client, endpoint: AMQPEndpoint, nursery: trio.Nursery
) -> None:
    body, rounds = b"x" * 60_000, 40

    async def publish() -> None:
        for _ in range(rounds):
            slow.publish(1, "", "nowhere", body, mandatory=True)
            await slow.flush()

    nursery.start_soon(publish)
    await trio.sleep(1)
    assert only_connection(endpoint).engine.reading_paused
    returned = 0
    while returned < rounds:
        slow.engine.receive_data(bytes(await slow.stream.receive_some(65536)))
        returned += sum(isinstance(event, Returned) for event in slow.engine.events())
    assert not only_connection(endpoint).engine.reading_paused


async def test_a_backlog_without_prefetch_is_written_in_pieces_with_the_loop_free_between(
    client: Client, broker: Broker, endpoint: AMQPEndpoint
) -> None:
    queue = await broker.declare_queue("q")
    for number in range(1000):
        broker.publish_nowait("", "q", number.to_bytes(2, "big") * 2_000)
    await client.say(1, BasicConsume("q", no_ack=True))
    pieces: list[int] = []
    bodies: list[bytes] = []
    with trio.fail_after(100):
        while len(bodies) < 1000:
            data = await client.stream.receive_some(10**9)
            pieces.append(len(data))
            client.engine.receive_data(bytes(data))
            for event in client.engine.events():
                if isinstance(event, DeliverRun):
                    bodies += [event.framing.body(content)[:2] for content in event.contents]
            assert only_connection(endpoint).engine.unsent <= 2 * WRITE_BYTES
    assert [int.from_bytes(body, "big") for body in bodies] == list(range(1000))
    assert max(pieces) < 2.2 * WRITE_BYTES
    assert len(pieces) > 10
    assert (await queue.statistics()).unsettled == 0


async def test_a_backlog_for_a_client_that_does_not_read_stays_in_its_queue(slow: Client, broker: Broker) -> None:
    queue = await broker.declare_queue("q")
    for _ in range(1000):
        broker.publish_nowait("", "q", b"x" * 4_000)
    await slow.say(1, BasicConsume("q"))
    await trio.sleep(1)
    statistics = await queue.statistics()
    assert 0 < statistics.unsettled < 200
    assert statistics.ready == 1000 - statistics.unsettled


# Giving back


async def hold_back(slow: Client, broker: Broker, endpoint: AMQPEndpoint) -> None:
    """Let a slow client consume more than fits into one write; nothing of it is read."""
    await broker.declare_queue("q")
    for number in range(200):
        broker.publish_nowait("", "q", bytes([number]) * 4_000)
    await slow.say(1, BasicConsume("q", consumer_tag="t"))
    await trio.sleep(0.1)


async def marks(broker: Broker) -> dict[int, bool]:
    """Take all messages of the queue, and tell which are marked as redelivered."""
    found: dict[int, bool] = {}
    while (delivery := await broker.queue("q").get()) is not None:
        found[delivery.body[0]] = delivery.redelivered
        delivery.accept()
    return found


GiveUp = Callable[[Client], Awaitable[None]]


async def _close_channel(slow: Client) -> None:
    slow.engine.close_channel(1, 200, "enough")
    await slow.flush()


async def _hang_up(slow: Client) -> None:
    await slow.hang_up()


@pytest.mark.parametrize("give_up", [_close_channel, _hang_up], ids=["channel closes", "connection dies"])
async def test_what_was_not_encoded_yet_comes_back_unmarked(
    slow: Client, broker: Broker, endpoint: AMQPEndpoint, give_up: GiveUp
) -> None:
    await hold_back(slow, broker, endpoint)
    assert broker.directory.queues["q"].index.unsettled > 40
    await give_up(slow)
    await trio.sleep(0.1)
    found = await marks(broker)
    assert list(found) == list(range(200))
    seen = [number for number, marked in found.items() if marked]
    assert seen == list(range(len(seen)))  # the first ones were encoded: a consumer may have seen them
    assert 0 < len(seen) <= 2 * WRITE_BYTES // 4_000


async def test_what_was_not_encoded_when_its_consumer_is_cancelled_comes_back_unmarked(
    slow: Client, broker: Broker, endpoint: AMQPEndpoint
) -> None:
    await hold_back(slow, broker, endpoint)
    await slow.say(1, BasicCancel("t", no_wait=True))
    await trio.sleep(0.1)
    index = broker.directory.queues["q"].index
    out = index.unsettled  # what was encoded stays the client's until it settles it
    assert 0 < out <= 2 * WRITE_BYTES // 4_000
    found = await marks(broker)
    assert found == dict.fromkeys(range(out, 200), False)


async def test_a_connection_that_dies_gives_everything_back_in_order_and_marked(
    client: Client, broker: Broker, endpoint: AMQPEndpoint
) -> None:
    await client.declare("q")
    client.publish(1, "", "q", *(bytes([number]) for number in range(10)))
    await client.call(1, BasicConsume("q"), BasicConsumeOk)
    deliveries = await client.deliveries(10)
    await client.say(1, BasicAck(deliveries[4].tag))
    await client.hang_up()
    await trio.testing.wait_all_tasks_blocked()
    assert await marks(broker) == {number: True for number in range(10) if number != 4}
    await trio.sleep(LINGERING)
    assert not endpoint.children


async def test_a_connection_that_crashes_gives_everything_back_and_hurts_nobody(
    client: Client, connect: Connect, broker: Broker, endpoint: AMQPEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    await client.declare("mine", exclusive=True)
    await client.declare("q")
    client.publish(1, "", "q", b"1", b"2")
    await client.call(1, BasicConsume("q"), BasicConsumeOk)
    await client.deliveries(2)
    (connection,) = endpoint.children.values()
    other = await connect()
    await other.open_channel()
    await other.call(1, BasicConsume("q"), BasicConsumeOk)
    connection.tell_nowait(Deliver(None, None))  # type: ignore[arg-type]
    again = await other.deliveries(2)
    assert [(one.body, one.redelivered) for one in again] == [(b"1", True), (b"2", True)]
    await client.expect(EndOfStream)
    assert "mine" not in broker.directory.queues
    assert "crashed" in caplog.text
    await other.open_channel(2)


async def test_a_poisoned_message_cannot_be_told_twice(
    client: Client, endpoint: AMQPEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    (connection,) = endpoint.children.values()
    connection.tell_nowait(Deliver(None, None))  # type: ignore[arg-type]
    await trio.testing.wait_all_tasks_blocked()
    assert connection.state == "stopped"
    assert not endpoint.children
    assert "crashed" in caplog.text


# The end


async def test_a_close_is_answered_and_the_exclusive_queues_are_gone(client: Client, broker: Broker) -> None:
    await client.declare("mine", exclusive=True)
    await client.leave()
    await trio.testing.wait_all_tasks_blocked()
    assert "mine" not in broker.directory.queues


async def test_what_was_published_before_a_close_is_kept_though_it_uses_up_the_budget(
    client: Client, broker: Broker
) -> None:
    await fan_out(broker, queues=300)
    for number in range(20):
        client.publish(1, "fan", str(number), b"x")
    await client.leave()
    assert (await broker.queue("q299").statistics()).ready == 20


async def test_what_was_published_before_a_close_in_the_same_chunk_is_kept(client: Client, broker: Broker) -> None:
    await client.declare("q")
    client.publish(1, "", "q", *[b"x"] * 50)
    await client.leave()
    assert (await broker.queue("q").statistics()).ready == 50
