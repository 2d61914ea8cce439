"""Time to live, dead letters, priorities and who is active, with pika's blocking connection."""

from typing import cast

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import UnroutableError

from peers.conftest import Connect, wait_until
from peers.test_pika_consume import Taken
from peers.test_pika_queues import count, drain, publish

Arguments = dict[str, object]


def letters(channel: BlockingChannel) -> tuple[str, Arguments]:
    """Declare a queue for dead letters, and give the arguments that lead there."""
    dead = channel.queue_declare("", exclusive=True).method.queue
    return dead, {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}


def declared(channel: BlockingChannel, **arguments: object) -> str:
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    return channel.queue_declare("", exclusive=True, arguments=named).method.queue


def with_letters(channel: BlockingChannel, **arguments: object) -> tuple[str, str]:
    dead, leading = letters(channel)
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    return dead, channel.queue_declare("", exclusive=True, arguments={**leading, **named}).method.queue


def letter(channel: BlockingChannel, dead: str) -> tuple[bytes, pika.BasicProperties]:
    """Wait for a dead letter."""
    wait_until(channel.connection, lambda: count(channel, dead) > 0, "a dead letter")
    _, properties, body = channel.basic_get(dead, auto_ack=True)
    return body, properties


def death(properties: pika.BasicProperties) -> dict[str, object]:
    (only,) = cast("list[dict[str, object]]", properties.headers["x-death"])
    return only


def test_a_message_expires_in_a_queue_with_a_time_to_live(channel: BlockingChannel) -> None:
    queue = declared(channel, message_ttl=100)
    channel.confirm_delivery()
    publish(channel, queue, b"x")
    wait_until(channel.connection, lambda: count(channel, queue) == 0, "the message to expire")


def test_a_message_expires_when_it_says(channel: BlockingChannel, queue: str) -> None:
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"short", pika.BasicProperties(expiration="100"))
    publish(channel, queue, b"long")
    wait_until(channel.connection, lambda: count(channel, queue) == 1, "the first message to expire")
    assert drain(channel, queue) == [b"long"]


def test_a_consumer_that_waits_gets_what_lives_no_time_at_all(channel: BlockingChannel) -> None:
    queue = declared(channel, message_ttl=0)
    taken = Taken(channel, queue, auto_ack=True)
    publish(channel, queue, b"x")
    assert taken.wait_for(1).bodies == [b"x"]


def test_an_expired_message_becomes_a_dead_letter(channel: BlockingChannel) -> None:
    dead, queue = with_letters(channel)
    properties = pika.BasicProperties(expiration="50", message_id="m", headers={"mine": [1, {"a": None}]})
    channel.basic_publish("", queue, b"x", properties)
    body, found = letter(channel, dead)
    assert (body, found.message_id, found.expiration, found.headers["mine"]) == (b"x", "m", None, [1, {"a": None}])
    assert death(found)["reason"] == "expired"
    assert death(found)["original-expiration"] == "50"


@pytest.mark.parametrize("way", ["reject", "nack", "nack multiple"])
def test_a_rejected_message_becomes_a_dead_letter(channel: BlockingChannel, way: str) -> None:
    dead, queue = with_letters(channel)
    publish(channel, queue, b"x")
    Taken(channel, queue).wait_for(1)
    if way == "reject":
        channel.basic_reject(1, requeue=False)
    else:
        channel.basic_nack(1, multiple=way == "nack multiple", requeue=False)
    body, properties = letter(channel, dead)
    assert body == b"x"
    found = death(properties)
    assert (found["queue"], found["reason"], found["count"]) == (queue, "rejected", 1)
    assert (found["exchange"], found["routing-keys"]) == ("", [queue])
    assert properties.headers["x-first-death-queue"] == queue


def test_a_message_that_gives_way_becomes_a_dead_letter(channel: BlockingChannel) -> None:
    dead, queue = with_letters(channel, max_length=1)
    publish(channel, queue, b"1", b"2")
    body, properties = letter(channel, dead)
    assert (body, death(properties)["reason"]) == (b"1", "maxlen")


def test_a_message_that_is_rejected_again_and_again_counts_its_deaths(channel: BlockingChannel) -> None:
    dead, queue = with_letters(channel)
    properties = pika.BasicProperties(message_id="m")
    for times in (1, 2, 3):
        channel.basic_publish("", queue, b"x", properties)
        wait_until(channel.connection, lambda: count(channel, queue) > 0)
        method, _, _ = channel.basic_get(queue)
        channel.basic_reject(method.delivery_tag, requeue=False)
        _, properties = letter(channel, dead)
        assert death(properties)["count"] == times


def test_higher_priorities_go_first(channel: BlockingChannel) -> None:
    queue = declared(channel, max_priority=5)
    for number, priority in enumerate((1, 5, None, 3, 5)):
        channel.basic_publish("", queue, str(number).encode(), pika.BasicProperties(priority=priority))
    assert drain(channel, queue) == [b"1", b"4", b"3", b"0", b"2"]


def test_a_consumer_of_higher_priority_is_served_first(channel: BlockingChannel, queue: str) -> None:
    low = Taken(channel, queue, auto_ack=True, arguments={"x-priority": 1})
    high = Taken(channel, queue, auto_ack=True, arguments={"x-priority": 2})
    publish(channel, queue, b"1", b"2", b"3")
    assert high.wait_for(3).bodies == [b"1", b"2", b"3"]
    assert low.bodies == []


def test_of_several_consumers_one_is_active_until_it_goes(channel: BlockingChannel) -> None:
    queue = declared(channel, single_active_consumer=True)
    first, second = (Taken(channel, queue, auto_ack=True) for _ in range(2))
    publish(channel, queue, b"1", b"2")
    assert first.wait_for(2).bodies == [b"1", b"2"]
    channel.basic_cancel(first.tag)
    publish(channel, queue, b"3")
    assert second.wait_for(1).bodies == [b"3"]


def test_a_queue_that_nobody_uses_goes(connect: Connect, name: str) -> None:
    channel = connect().channel()
    channel.queue_declare(name, arguments={"x-expires": 200})
    channel.confirm_delivery()

    def is_gone() -> bool:
        try:
            channel.basic_publish("", name, b"x", mandatory=True)  # looking at it would be a use, this is none
        except UnroutableError:
            return True
        return False

    assert not is_gone()
    wait_until(channel.connection, is_gone, "the queue to go")
