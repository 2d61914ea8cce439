"""Clients of MicroMsg2 that publish and consume, and how their connections end; in virtual time."""

import pytest
import trio
import trio.testing

from endpoints.conftest import counts, crash
from endpoints.micromsg.client import (
    USUAL,
    WITHOUT_ACKS,
    dial,
    listening,
    micromsg_endpoint,
    open_micromsg_broker,
)
from triomq.app import Broker
from triomq.core import DeleteQueue, Properties
from triomq.protocols.micromsg import HandshakeExtension, Settings


async def test_message_goes_into_a_queue_and_is_acked(broker: Broker) -> None:
    peer = await dial(broker).open()
    await peer.send("queue/q", b"1", b"2", b"3")
    assert await counts(broker, "q") == (3, 0)


async def test_messages_come_from_a_queue_and_are_settled_by_acks(broker: Broker) -> None:
    peer = await dial(broker).open()
    await peer.send("q", b"1", b"2")
    assert await peer.subscribe("queue/q") == 200
    found = await peer.take(2)
    assert [(got.destination, got.body) for got in found] == [("queue/q", b"1"), ("queue/q", b"2")]
    assert await counts(broker, "q") == (0, 2)
    await peer.accept()
    await peer.send("q", b"3")
    assert await peer.bodies(1) == [b"3"]


async def test_unknown_destination_is_refused(broker: Broker) -> None:
    for destination, expected in {
        "queue/nowhere": (404, "no queue 'nowhere' here; declare it first"),
        "nowhere": (404, "no queue 'nowhere' here; declare it first"),
        "topic/nowhere": (404, "no sink 'nowhere' here; declare it first"),
        "": (404, "the message names no destination; name queue/NAME or topic/NAME"),
        "topic/": (400, "'topic/' is no destination; name queue/NAME or topic/NAME, all of it in 255 octets"),
    }.items():
        peer = await dial(broker).open()
        peer.publish(destination, b"x")
        assert await peer.fails() == expected


async def test_message_without_a_destination_goes_to_the_one_that_is_configured(virtual_time: None) -> None:
    async with open_micromsg_broker(listening(default_destination="queue/q")) as broker:
        await broker.declare_queue("q", durable=False)
        peer = await dial(broker).open()
        await peer.send("", b"x")
        assert await counts(broker, "q") == (1, 0)


async def test_destinations_are_declared_where_that_is_configured(virtual_time: None) -> None:
    async with open_micromsg_broker(listening(dynamic_queues=True, dynamic_topics=True)) as broker:
        peer = await dial(broker).open()
        await peer.send("queue/jobs", b"x")
        assert await peer.subscribe("topic/events") == 200
        await peer.send("topic/events", b"y")
        assert await peer.bodies(1) == [b"y"]
        assert await counts(broker, "jobs") == (1, 0)
        assert broker.directory.sinks["events"].options.kind.value == "fanout"
        peer.publish("queue/amq.mine", b"x")
        assert (await peer.fails())[0] == 403


async def test_message_on_a_queue_goes_to_one_of_its_consumers(broker: Broker) -> None:
    one, other = await dial(broker).open(), await dial(broker).open()
    for peer in one, other:
        await peer.subscribe("queue/q")
    await one.send("queue/q", *[b"%d" % number for number in range(20)])
    await one.until(lambda: len(one.got) >= 10)
    await other.until(lambda: len(other.got) >= 10)
    assert sorted(got.body for got in (*one.got, *other.got)) == sorted(b"%d" % number for number in range(20))


async def test_client_without_acks_publishes_and_consumes(broker: Broker) -> None:
    peer = await dial(broker, Settings(optional=WITHOUT_ACKS)).open()
    peer.publish("queue/q", b"1", b"2")
    await peer.subscribe("queue/q")
    assert [got.body for got in await peer.take(2)] == [b"1", b"2"]
    assert await counts(broker, "q") == (0, 0)


async def test_window_bounds_what_is_out(broker: Broker) -> None:
    peer = await dial(broker, Settings(window=3, optional=USUAL)).open()
    for number in range(10):
        await broker.publish("", "q", b"%d" % number)
    await peer.subscribe("queue/q")
    await peer.take(3)
    assert await counts(broker, "q") == (7, 3)
    await peer.accept()
    await peer.take(3)
    assert await counts(broker, "q") == (4, 3)


async def test_window_is_the_smaller_one_of_both_sides(virtual_time: None) -> None:
    async with open_micromsg_broker(listening(window=2)) as broker:
        await broker.declare_queue("q", durable=False)
        peer = await dial(broker).open()
        assert peer.engine.window == 2


async def test_publisher_with_single_acks_hears_of_each_message(broker: Broker) -> None:
    peer = await dial(broker, Settings(required=(HandshakeExtension("ack"),), optional=())).open()
    for body in b"1", b"2", b"3":
        await peer.send("queue/q", body)
    assert await counts(broker, "q") == (3, 0)


async def test_more_than_the_window_that_is_not_acked_is_refused(broker: Broker) -> None:
    peer = await dial(broker, Settings(window=1, optional=USUAL)).open()
    await peer.flush()
    peer.publish("queue/q", b"1")
    octets = b"".join(peer.engine.data_to_send())
    await peer.stream.send_all(octets + octets.replace(b"\x00\x01", b"\x00\x02", 1))
    code, _ = await peer.fails()
    assert code == 409


async def test_full_queue_is_an_error_behind_the_acks_of_what_is_safe(broker: Broker) -> None:
    await broker.declare_queue("small", durable=False, max_length=2, overflow="reject-publish")
    peer = await dial(broker).open()
    peer.publish("queue/small", b"1", b"2", b"3", b"4")
    code, text = await peer.fails()
    assert (code, peer.acked) == (503, 2)
    assert "no room" in text
    assert await counts(broker, "small") == (2, 0)


async def test_what_is_not_acked_goes_back_marked_when_its_consumer_hangs_up(broker: Broker) -> None:
    peer = await dial(broker).open()
    await peer.subscribe("queue/q")
    await peer.send("queue/q", b"1")
    await peer.take(1)
    await peer.hang_up()
    await trio.testing.wait_all_tasks_blocked()
    other = await dial(broker).open()
    await other.subscribe("queue/q")
    (again,) = await other.take(1)
    assert (again.body, again.values["redelivered"]) == (b"1", 1)


async def test_unsubscribed_queue_gets_back_what_is_not_acked(broker: Broker) -> None:
    peer = await dial(broker, Settings(window=2, optional=USUAL)).open()
    await peer.subscribe("queue/q")
    for body in b"1", b"2", b"3":
        await broker.publish("", "q", body)
    await peer.take(2)
    assert await peer.unsubscribe("queue/q") == 200
    assert await counts(broker, "q") == (3, 0)
    assert await peer.subscribe("q") == 200
    assert await counts(broker, "q") == (1, 2)  # handed out, and waiting for the client's room
    await peer.accept()
    assert [(got.body, "redelivered" in got.values) for got in await peer.take(2)] == [(b"1", True), (b"2", True)]
    await peer.accept()
    assert await peer.bodies(1) == [b"3"]
    await trio.testing.wait_all_tasks_blocked()
    assert await counts(broker, "q") == (0, 0)


async def test_client_that_waits_for_room_leaves_nothing_behind(broker: Broker) -> None:
    peer = await dial(broker, Settings(window=1, optional=USUAL)).open()
    await peer.subscribe("queue/q")
    await broker.publish("", "q", b"1")
    await peer.take(1)
    await peer.unsubscribe("queue/q")
    await peer.subscribe("queue/q")
    assert await counts(broker, "q") == (0, 1)
    await peer.unsubscribe("queue/q")
    assert await counts(broker, "q") == (1, 0)
    await peer.subscribe("queue/q")
    await peer.hang_up()
    await trio.testing.wait_all_tasks_blocked()
    assert await counts(broker, "q") == (1, 0)


async def test_unsubscribing_what_is_not_there_is_refused(broker: Broker) -> None:
    peer = await dial(broker).open()
    assert await peer.unsubscribe("queue/q") == 404
    assert await peer.unsubscribe(id="mine") == 404
    assert await peer.subscribe("queue/q", id="mine") == 200
    assert await peer.unsubscribe("queue/q", id="other") == 404
    assert await peer.unsubscribe(id="mine") == 200
    assert not broker.directory.queues["q"].statistics().feeds


async def test_deleted_queue_is_told_by_a_second_answer(broker: Broker) -> None:
    peer = await dial(broker).open()
    number = peer.engine.subscribe("queue/q")
    assert (await peer.answer(number)).code == 200
    broker.domain_ref.ask_nowait(DeleteQueue("q", broker.session))
    gone = await peer.answer(number)
    assert (gone.code, gone.text) == (404, "queue/q has gone: the queue is deleted")
    await broker.declare_queue("q", durable=False)
    assert await peer.subscribe("queue/q") == 200


async def test_deleted_queue_ends_a_client_that_has_no_word_for_it(broker: Broker) -> None:
    peer = await dial(broker, Settings(optional=(HandshakeExtension("pub-sub"),))).open()
    peer.engine.subscribe("queue/q")
    await peer.flush()
    await trio.testing.wait_all_tasks_blocked()
    broker.domain_ref.ask_nowait(DeleteQueue("q", broker.session))
    assert (await peer.fails())[0] == 404


async def test_queue_that_crashes_is_read_on(broker: Broker) -> None:
    peer = await dial(broker).open()
    await peer.subscribe("queue/q")
    await peer.send("queue/q", b"1")
    await peer.take(1)
    crash(broker, "q")
    await broker.directory.queues["q"].ref.wait_running()
    (again,) = await peer.take(1)
    assert (again.body, again.values["redelivered"]) == (b"1", 1)
    await peer.accept()
    await trio.testing.wait_all_tasks_blocked()
    assert await counts(broker, "q") == (0, 0)


async def test_refused_command_ends_a_client_that_has_agreed_to_no_answers(broker: Broker) -> None:
    peer = await dial(broker, Settings(optional=(HandshakeExtension("pub-sub"),))).open()
    peer.engine.subscribe("queue/nowhere")
    assert await peer.fails() == (404, "no queue 'nowhere' here; declare it first")


async def test_message_too_large_for_the_client_becomes_a_dead_letter_and_others_come(virtual_time: None) -> None:
    async with open_micromsg_broker(listening(max_message_size=1000)) as broker:
        await broker.declare_queue("dead", durable=False)
        await broker.declare_queue("q", durable=False, dead_letter_sink="", dead_letter_key="dead")
        peer = await dial(broker, Settings(window=4, optional=USUAL)).open()
        for body in (b"1", bytes(1001), b"2", bytes(1002), b"3", b"4", b"5"):
            broker.publish_nowait("", "q", body)
        await peer.subscribe("queue/q")
        for body in b"1", b"2", b"3", b"4", b"5":
            assert await peer.bodies(1) == [body]
        await trio.testing.wait_all_tasks_blocked()
        assert await counts(broker, "q") == (0, 0)
        assert await counts(broker, "dead") == (2, 0)


async def test_messages_whose_properties_differ_keep_their_order_and_their_properties(broker: Broker) -> None:
    peer = await dial(broker).open()
    await peer.subscribe("queue/q")
    numbers = [7, 8, 12345, 9, 10**15, 1, 2, 3]
    for number in numbers:
        size = 300 if number in (9, 2) else 3
        peer.publish("queue/q", b"%d" % number + bytes(size), number=number)
    found = await peer.take(len(numbers))
    assert [(got.values["number"], int(got.body.rstrip(b"\0"))) for got in found] == [(one, one) for one in numbers]
    await peer.accept()
    await peer.until(lambda: peer.acked == len(numbers))
    await trio.testing.wait_all_tasks_blocked()
    assert await counts(broker, "q") == (0, 0)


async def test_client_that_is_silent_is_given_up(broker: Broker) -> None:
    peer = await dial(broker, Settings(heartbeat=1.0)).open()  # the broker's interval is longer, and counts
    await peer.subscribe("queue/q")
    await peer.send("queue/q", b"1")
    await peer.take(1)
    await trio.sleep(29)
    assert await counts(broker, "q") == (0, 1)
    await trio.sleep(11)
    assert await counts(broker, "q") == (1, 0)


async def test_client_that_does_not_read_is_given_up(broker: Broker) -> None:
    peer = dial(broker, Settings(optional=WITHOUT_ACKS, heartbeat=0.0), pair=trio.testing.lockstep_stream_pair)
    await peer.open()
    await peer.subscribe("queue/q")
    for _ in range(20):
        await broker.publish("", "q", bytes(100_000))
    await trio.sleep(29)
    assert micromsg_endpoint(broker).children
    await trio.sleep(3)
    assert not micromsg_endpoint(broker).children


async def test_handshake_that_is_not_over_in_time_ends_without_a_word(broker: Broker) -> None:
    peer = dial(broker)
    await peer.stream.send_all(b"\x01\x00\x00")
    began = trio.current_time()
    assert await peer.stream.receive_some() == b""
    assert 10 <= trio.current_time() - began < 12


async def test_frame_that_is_not_whole_in_time_ends_without_a_word(broker: Broker) -> None:
    peer = await dial(broker, Settings(optional=WITHOUT_ACKS[:1])).open()
    await peer.flush()
    await peer.stream.send_all(b"\x00\x00\x01")
    began = trio.current_time()
    assert await peer.stream.receive_some() == b""
    assert 30 <= trio.current_time() - began < 32


async def test_broker_that_ends_waits_for_acks_and_says_so(broker: Broker) -> None:
    peer = await dial(broker).open()
    await peer.subscribe("queue/q")
    await peer.send("queue/q", b"1")
    await peer.take(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(broker.drain)
        await trio.testing.wait_all_tasks_blocked()
        assert micromsg_endpoint(broker).children
        await peer.accept()
        assert await peer.fails() == (503, "the broker is shutting down")
    assert await counts(broker, "q") == (0, 0)


async def test_broker_that_ends_waits_no_longer_than_a_second(broker: Broker) -> None:
    peer = await dial(broker).open()
    await peer.subscribe("queue/q")
    await peer.send("queue/q", b"1")
    await peer.take(1)
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(broker.drain)
        assert (await peer.fails())[0] == 503
        assert 1 <= trio.current_time() - began < 2
    assert await counts(broker, "q") == (1, 0)


# Pressure


async def test_client_that_consumes_acks_during_an_alarm_and_what_it_publishes_is_parked(broker: Broker) -> None:
    peer = await dial(broker).open()
    await broker.publish("", "q", bytes(20_000))
    await peer.subscribe("queue/q")
    await peer.take(1)
    broker.set_memory_high_watermark(10_000)
    peer.publish("queue/q", b"1", b"2")
    await peer.flush()
    peer.publish("queue/q", b"3")
    await peer.flush()
    await trio.testing.wait_all_tasks_blocked()
    assert await counts(broker, "q") == (0, 1)
    await peer.accept()  # which makes room
    assert await peer.bodies(3) == [b"1", b"2", b"3"]
    await peer.until(lambda: peer.acked == 3)


async def test_client_that_parks_too_much_is_told_to_try_later(broker: Broker) -> None:
    peer = await dial(broker).open()
    await broker.publish("", "q", bytes(20_000))
    await peer.subscribe("queue/q")
    await peer.take(1)
    broker.set_memory_high_watermark(10_000)
    for _ in range(12):
        peer.publish("queue/q", bytes(100_000))
        await peer.flush()
    assert (await peer.fails())[0] == 503


async def test_client_that_only_publishes_is_not_read_during_an_alarm(broker: Broker) -> None:
    peer = await dial(broker).open()
    await broker.declare_queue("full", durable=False)
    await broker.publish("", "full", bytes(20_000))
    broker.set_memory_high_watermark(10_000)
    peer.publish("queue/q", b"1")
    await peer.flush()
    await trio.testing.wait_all_tasks_blocked()
    assert await counts(broker, "q") == (0, 0)
    broker.set_memory_high_watermark(0)
    await peer.until(lambda: peer.acked == 1)
    assert await counts(broker, "q") == (1, 0)


@pytest.mark.parametrize("value", ["5000", 5000])
async def test_message_expires(broker: Broker, value: str | int) -> None:
    peer = await dial(broker).open()
    await peer.send("queue/q", b"x", expiration=value)
    await trio.sleep(4)
    assert await counts(broker, "q") == (1, 0)
    await trio.sleep(2)
    assert await counts(broker, "q") == (0, 0)


async def test_message_of_the_program_comes_with_its_properties(broker: Broker) -> None:
    peer = await dial(broker).open()
    await peer.subscribe("queue/q")
    await broker.publish("", "q", b"x", Properties(type="order", headers={"a": 1}, persistent=False))
    (got,) = await peer.take(1)
    assert got.values == {"type": "order", "a": 1, "delivery-mode": 1}
