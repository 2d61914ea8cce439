"""Transactions of a channel: what is published and settled happens at the commit, all of it or nothing."""

import pytest
import trio
import trio.testing

from endpoints.client import Client
from endpoints.conftest import Connect, crash, knock_out, queue_ref
from triomq.app import Broker
from triomq.protocols.amqp import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicGetEmpty,
    BasicNack,
    BasicQos,
    BasicRecover,
    BasicReject,
    ConfirmSelect,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    Returned,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxSelect,
)

FULL = {"x-max-length": 2, "x-overflow": "reject-publish"}


@pytest.fixture
async def tx(client: Client) -> Client:
    """A client whose channel 1 is in transaction mode, and queues q1 and q2."""
    await client.call(1, TxSelect())
    for name in ("q1", "q2"):
        await client.declare(name)
    return client


async def commit(client: Client) -> None:
    await client.call(1, TxCommit())


async def rollback(client: Client) -> None:
    await client.call(1, TxRollback())


async def counts(broker: Broker, *names: str) -> list[tuple[int, int]]:
    """Tell of each queue how many messages are ready and how many are out."""
    found = [await broker.queue(name).statistics() for name in names]
    return [(one.ready, one.unsettled) for one in found]


# Publishing


async def test_messages_reach_their_queues_at_the_commit(tx: Client, broker: Broker) -> None:
    tx.publish(1, "", "q1", b"1", b"2")
    tx.publish(1, "", "q2", b"3")
    await tx.declare("q1")
    assert await counts(broker, "q1", "q2") == [(0, 0), (0, 0)]
    await commit(tx)
    assert await counts(broker, "q1", "q2") == [(2, 0), (1, 0)]


async def test_rollback_leaves_no_trace(tx: Client) -> None:
    tx.publish(1, "", "q1", b"1")
    tx.publish(1, "", "missing", b"nobody wants it", mandatory=True)
    await rollback(tx)
    tx.publish(1, "", "q1", b"2")
    await commit(tx)
    assert (await tx.get("q1")).body == b"2"
    await tx.call(1, BasicGet("q1"), BasicGetEmpty)


async def test_messages_are_routed_when_they_are_published(tx: Client, broker: Broker) -> None:
    await tx.call(1, QueueBind("q1", "amq.fanout"))
    tx.publish(1, "amq.fanout", "", b"x")
    await tx.call(1, QueueBind("q2", "amq.fanout"))
    await commit(tx)
    assert await counts(broker, "q1", "q2") == [(1, 0), (0, 0)]


async def test_unroutable_messages_come_back_before_commit_ok_and_not_before_the_commit(tx: Client) -> None:
    tx.publish(1, "", "missing", b"1", b"2", mandatory=True)
    await tx.send(1, "", "missing", b"silently gone")
    await tx.silence()
    await tx.say(1, TxCommit())
    for body in (b"1", b"2"):
        event = await tx.expect(Returned)
        assert (event.method.reply_code, event.framing.body(event.content)) == (312, body)
    await tx.read(TxCommitOk)


async def test_mandatory_message_whose_queue_goes_before_the_commit_is_returned_at_the_commit(tx: Client) -> None:
    for body, mandatory in ((b"x", True), (b"y", False)):
        tx.publish(1, "", "q1", body, mandatory=mandatory)
    tx.publish(1, "", "q2", b"z", mandatory=True)
    await tx.call(1, QueueDelete("q1"))
    await tx.silence()
    await tx.say(1, TxCommit())
    event = await tx.expect(Returned)
    assert (event.method.reply_code, event.framing.body(event.content)) == (312, b"x")
    await tx.read(TxCommitOk)
    await commit(tx)


async def test_immediate_messages_find_their_consumers_at_the_commit(tx: Client) -> None:
    await tx.call(1, BasicConsume("q1", no_ack=True))
    tx.publish(1, "", "q1", b"taken", immediate=True)
    await tx.send(1, "", "q2", b"not taken", immediate=True)
    await tx.silence()
    await tx.say(1, TxCommit())
    event = await tx.expect(Returned)
    assert (event.method.reply_code, event.framing.body(event.content)) == (313, b"not taken")
    await tx.read(TxCommitOk)
    assert [one.body for one in await tx.deliveries(1)] == [b"taken"]


async def test_commit_of_a_long_transaction_is_not_cut(tx: Client, broker: Broker) -> None:
    fan = await broker.declare_sink("fan", "fanout")
    for number in range(300):
        await fan.bind(await broker.declare_queue(f"fan{number}"))
    for number in range(20):
        tx.publish(1, "fan", str(number), b"x")
    await commit(tx)
    assert {(await broker.queue(f"fan{number}").statistics()).ready for number in range(300)} == {20}


# Settling


async def take(tx: Client, count: int) -> list[int]:
    """Let a consumer have so many messages of q1, and give their tags."""
    for number in range(count):
        tx.publish(1, "", "q1", bytes([number]))
    await commit(tx)
    await tx.call(1, BasicConsume("q1", consumer_tag="t"))
    return [one.tag for one in await tx.deliveries(count)]


async def test_settled_messages_are_gone_at_the_commit(tx: Client, broker: Broker) -> None:
    tags = await take(tx, 6)
    await tx.call(1, BasicCancel("t"))
    await tx.say(
        1, BasicAck(tags[1], multiple=True), BasicReject(tags[2], requeue=False), BasicNack(tags[3], requeue=True)
    )
    await tx.declare("q1")
    assert await counts(broker, "q1") == [(0, 6)]
    await commit(tx)
    assert await counts(broker, "q1") == [(1, 2)]


async def test_tag_is_settled_once_also_within_a_transaction(tx: Client, broker: Broker) -> None:
    tags = await take(tx, 2)
    await tx.say(1, BasicAck(tags[0]), BasicAck(tags[0]))
    assert await tx.channel_closed() == (406, f"PRECONDITION_FAILED - unknown delivery tag {tags[0]}")
    assert await counts(broker, "q1") == [(2, 0)]


@pytest.mark.parametrize("multiple", [False, True], ids=["one by one", "multiple"])
async def test_deliveries_whose_acks_are_rolled_back_can_be_settled_again(
    tx: Client, broker: Broker, multiple: bool
) -> None:
    tags = await take(tx, 5)
    for _ in range(2):
        await tx.say(1, BasicAck(tags[4]))
        if multiple:
            await tx.say(1, BasicAck(tags[2], multiple=True))
        else:
            await tx.say(1, *(BasicAck(tag) for tag in tags[:3]))
        await rollback(tx)
        assert await counts(broker, "q1") == [(0, 5)]
    await tx.silence()  # nothing was requeued, and so nothing comes again
    await tx.say(1, BasicAck(tags[1]), BasicAck(tags[3], multiple=True))
    await commit(tx)
    assert await counts(broker, "q1") == [(0, 1)]
    await tx.say(1, BasicAck(0, multiple=True))
    await commit(tx)
    assert await counts(broker, "q1") == [(0, 0)]


async def test_window_has_room_again_at_the_commit_and_not_at_the_ack(tx: Client) -> None:
    await tx.call(1, BasicQos(prefetch_count=2))
    await tx.call(1, BasicConsume("q1"))
    tx.publish(1, "", "q1", b"1", b"2", b"3", b"4")
    await tx.say(1, TxCommit())
    await tx.read(TxCommitOk)
    out = await tx.deliveries(2)
    await tx.say(1, BasicAck(out[1].tag, multiple=True))
    await tx.silence()
    await rollback(tx)
    await tx.silence()
    await tx.say(1, BasicAck(out[0].tag), TxCommit())
    await tx.read(TxCommitOk)
    assert [one.body for one in await tx.deliveries(1)] == [b"3"]
    await tx.silence()


async def test_the_ack_and_the_answer_to_it_are_one(tx: Client, connect: Connect, broker: Broker) -> None:
    (tag,) = await take(tx, 1)
    tx.publish(1, "", "q2", b"answer")
    await tx.say(1, BasicAck(tag))
    await tx.hang_up()
    await trio.testing.wait_all_tasks_blocked()
    assert await counts(broker, "q1", "q2") == [(1, 0), (0, 0)]
    other = await connect()
    assert (await other.get("q1")).redelivered


async def test_channel_that_closes_rolls_back_and_puts_everything_back(tx: Client, broker: Broker) -> None:
    tags = await take(tx, 3)
    tx.publish(1, "", "q2", b"x")
    await tx.say(1, BasicAck(tags[0]))
    await tx.close_channel()
    assert await counts(broker, "q1", "q2") == [(3, 0), (0, 0)]


async def test_recover_in_a_transaction_leaves_what_it_has_settled_alone(tx: Client, broker: Broker) -> None:
    tags = await take(tx, 3)
    await tx.call(1, BasicCancel("t"))
    await tx.say(1, BasicAck(tags[1]))
    await tx.call(1, BasicRecover(requeue=True))
    assert await counts(broker, "q1") == [(2, 1)]
    await rollback(tx)
    await tx.say(1, BasicAck(tags[1]))
    await commit(tx)
    assert await counts(broker, "q1") == [(2, 0)]


async def test_recover_without_requeue_in_a_transaction_leaves_old_tags_to_the_rollback(
    tx: Client, broker: Broker
) -> None:
    tags = await take(tx, 4)
    await tx.say(1, BasicAck(tags[2]))
    await tx.call(1, BasicRecover(requeue=False))
    again = await tx.deliveries(3)
    assert [(one.body, one.tag) for one in again] == [(b"\0", 5), (b"\1", 6), (b"\3", 7)]
    await rollback(tx)
    await tx.say(1, BasicAck(tags[2]), BasicAck(6))
    await commit(tx)
    assert await counts(broker, "q1") == [(0, 2)]
    await tx.say(1, BasicReject(5, requeue=True), TxCommit())
    await tx.read(TxCommitOk)
    assert [(one.body, one.redelivered) for one in await tx.deliveries(1)] == [(b"\0", True)]


async def test_acks_for_a_queue_that_crashed_meanwhile_are_dropped_at_the_commit(tx: Client, broker: Broker) -> None:
    (tag,) = await take(tx, 1)
    await tx.say(1, BasicAck(tag))
    await tx.declare("q2")
    crash(broker, "q1")
    await tx.read(BasicCancel)
    await commit(tx)
    assert await counts(broker, "q1") == [(1, 0)]


# What cannot be


async def test_commit_that_a_full_queue_refuses_does_nothing_and_names_which(tx: Client, broker: Broker) -> None:
    (tag,) = await take(tx, 1)
    await tx.declare("full", arguments=FULL)
    tx.publish(1, "", "q2", b"with the others or not at all")
    tx.publish(1, "", "full", b"1", b"2", b"3")
    await tx.say(1, BasicAck(tag), TxCommit())
    text = "PRECONDITION_FAILED - queue 'full' in vhost '/' is full; the whole transaction was rolled back"
    assert await tx.channel_closed() == (406, text)
    assert await counts(broker, "q1", "q2", "full") == [(1, 0), (0, 0), (0, 0)]


async def test_transaction_that_just_fits_is_committed(tx: Client, broker: Broker) -> None:
    await tx.declare("full", arguments=FULL)
    tx.publish(1, "", "full", b"1", b"2")
    await commit(tx)
    assert await counts(broker, "full") == [(2, 0)]


async def test_commit_waits_for_a_queue_that_is_being_restarted(tx: Client, broker: Broker) -> None:
    tx.publish(1, "", "q1", b"1")
    tx.publish(1, "", "q2", b"2")
    await tx.declare("q2")
    await knock_out(broker, "q1")
    before = trio.current_time()
    await tx.say(1, TxCommit(), QueueDeclare("q2"))
    await trio.testing.wait_all_tasks_blocked()
    assert broker.directory.queues["q2"].backlog.ready == 0
    await tx.read(TxCommitOk)
    assert trio.current_time() - before >= 0.08
    assert await tx.read(QueueDeclareOk) == QueueDeclareOk("q2", 1, 0)
    assert await counts(broker, "q1", "q2") == [(1, 0), (1, 0)]


async def test_commit_that_a_stopped_queue_cannot_take_does_nothing(tx: Client, broker: Broker) -> None:
    tx.publish(1, "", "q1", b"1")
    tx.publish(1, "", "q2", b"2")
    await tx.declare("q2")
    for _ in range(4):
        await queue_ref(broker, "q1").wait_running()
        crash(broker, "q1")
    await trio.sleep(1)
    await tx.say(1, TxCommit())
    assert (await tx.channel_closed())[0] == 404
    assert await counts(broker, "q2") == [(0, 0)]


async def test_transactions_may_be_asked_for_twice_and_the_one_that_is_going_on_goes_on(
    tx: Client, broker: Broker
) -> None:
    tx.publish(1, "", "q1", b"x")
    await tx.call(1, TxSelect())
    await commit(tx)
    await commit(tx)
    assert await counts(broker, "q1") == [(1, 0)]


async def test_other_channels_have_nothing_to_do_with_it(tx: Client, broker: Broker) -> None:
    await tx.open_channel(2)
    await tx.call(2, ConfirmSelect())
    tx.publish(1, "", "q1", b"waits")
    await tx.send(2, "", "q1", b"goes")
    assert (await tx.read(BasicAck, 2)).delivery_tag == 1
    assert await counts(broker, "q1") == [(1, 0)]
