"""Topics: queues of the subscribers' own, filters, and what is kept of them for clients that come back."""

from datetime import UTC, datetime

import pytest
import trio
import trio.testing

from endpoints.micromsg.client import (
    USUAL,
    MicroMsgPeer,
    dial,
    listening,
    logging_in,
    micromsg_endpoint,
    open_micromsg_broker,
)
from endpoints.micromsg.conftest import USERS
from triomq.app import Broker, User
from triomq.core import DeleteQueue, Properties, SinkKind
from triomq.endpoints.micromsg.subscriber import MOST_FILTERS
from triomq.protocols.micromsg import HandshakeExtension, Settings, parse_filter
from triomq.security import ALL, UserLimits


async def known(broker: Broker, identity: str = "phone", user: str = "ann", **options: object) -> MicroMsgPeer:
    return await dial(broker, logging_in(identity, **options)).open(user)


def kept(broker: Broker) -> int:
    return len(micromsg_endpoint(broker).kept)


def own_queues(broker: Broker) -> list[str]:
    return [name for name in broker.directory.queues if name.startswith("micromsg.")]


async def test_message_on_a_topic_goes_to_all_subscribers(broker: Broker) -> None:
    peers = [await dial(broker).open() for _ in range(3)]
    for peer in peers:
        assert await peer.subscribe("topic/t") == 200
    await peers[0].send("topic/t", b"x", routing_key="a.b")
    for peer in peers:
        (got,) = await peer.take(1)
        assert (got.destination, got.body, got.values) == ("topic/t", b"x", {"routing-key": "a.b"})


async def test_message_on_a_topic_that_nobody_wants_is_acked(broker: Broker) -> None:
    peer = await dial(broker).open()
    await peer.send("topic/t", b"x")


async def test_subscriber_may_say_by_which_key(broker: Broker) -> None:
    peer = await dial(broker).open()
    await peer.subscribe("topic/t", key="eu.#")
    for key in "eu.1", "us.1", "eu.2":
        await peer.send("topic/t", key.encode(), routing_key=key)
    assert await peer.bodies(2) == [b"eu.1", b"eu.2"]


@pytest.mark.parametrize("kind", SinkKind)
async def test_topic_is_a_sink_of_any_kind(kind: SinkKind, broker: Broker) -> None:
    await broker.declare_sink("any", kind.value, durable=False)
    peer = await dial(broker).open()
    assert await peer.subscribe("topic/any") == 200
    await peer.send("topic/any", b"x")
    assert await peer.bodies(1) == [b"x"]


@pytest.mark.parametrize(
    ("filter", "passing"),
    [
        ("number>N5", "b"),
        ("number>=N5", "ab"),
        ("number<N6", "a"),
        ("number<=N5;text=Thello", "a"),
        ("number=N7.5", "b"),
        ("number!=N5", "bc"),
        ("text=Thello", "a"),
        ("text!=Thello", "bc"),
        ("text<The", "a"),
        ("text>Tlo", "a"),
        ("text&Tell", "a"),
        ("text~Tell", "bc"),
        ("at>D100.5", "b"),
        ("at=D100.5", "a"),
        ("none=T", ""),
        ("none!=T", "abc"),
        ("priority>N3", "b"),
        ("type=Torder", "a"),
        ("type<Tor;number=N5", "a"),
        ("timestamp>D10", "b"),
        ("correlation-id=Tc", "c"),
    ],
)
async def test_filter_lets_through_what_fulfils_all_its_conditions(filter: str, passing: str, broker: Broker) -> None:
    peer = await dial(broker).open()
    assert await peer.subscribe("topic/t", filter) == 200
    assert await peer.subscribe("queue/q") == 200
    start = datetime.fromtimestamp(100.5, UTC)
    peer.publish("topic/t", b"a", number=5, text="hello", at=start, type="order")
    peer.publish("topic/t", b"b", number=7.5, text="world", at=start.replace(second=50), priority=4, timestamp=start)
    peer.publish("topic/t", b"c", correlation_id="c")
    peer.publish("queue/q", b".")
    await peer.until(lambda: any(got.body == b"." for got in peer.got))
    assert "".join(sorted(got.body.decode() for got in peer.got)) == "." + passing


async def test_message_that_several_filters_let_through_comes_once(broker: Broker) -> None:
    peer = await dial(broker).open()
    await peer.subscribe("topic/t", "a=N1", "first")
    await peer.subscribe("topic/t", "b=N1", "second")
    await peer.send("topic/t", b"both", a=1, b=1)
    await peer.send("topic/t", b"one", b=1)
    await peer.send("topic/t", b"none")
    assert await peer.bodies(2) == [b"both", b"one"]
    assert len(own_queues(broker)) == 1


async def test_filter_of_an_id_is_replaced_by_its_next_one(broker: Broker) -> None:
    peer = await dial(broker).open()
    await peer.subscribe("topic/t", "a=N1", "mine")
    await peer.subscribe("topic/t", "a=N2", "mine")
    await peer.subscribe("topic/t", "a=N2", "twin")
    assert await peer.unsubscribe(id="twin") == 200
    await peer.send("topic/t", b"1", a=1)
    await peer.send("topic/t", b"2", a=2)
    assert await peer.bodies(1) == [b"2"]
    assert len(broker.directory.sinks["t"].bindings) == 1


async def test_unsubscribed_topic_leaves_nothing_behind(broker: Broker) -> None:
    peer = await dial(broker).open()
    await peer.subscribe("topic/t", "a=N1", "first")
    await peer.subscribe("topic/t", "", "second")
    assert await peer.unsubscribe("topic/t") == 200
    assert (own_queues(broker), broker.directory.sinks["t"].bindings) == ([], {})
    await peer.subscribe("topic/t", "a=N1", "first")
    await peer.hang_up()
    await trio.testing.wait_all_tasks_blocked()
    assert (own_queues(broker), broker.directory.sinks["t"].bindings) == ([], {})


async def test_filter_on_a_queue_is_refused(broker: Broker) -> None:
    peer = await dial(broker).open()
    answer = await peer.answer(peer.engine.subscribe("queue/q", parse_filter("a=N1", 16)))
    assert (answer.code, answer.text.split(";")[0]) == (412, "filters are for topics")


async def test_connection_has_a_hundred_subscriptions_at_most(broker: Broker) -> None:
    peer = await dial(broker).open()
    for number in range(MOST_FILTERS):
        assert await peer.subscribe("topic/t", f"a=N{number}", f"s{number}") == 200
    assert await peer.subscribe("topic/t", "", "one more") == 413
    assert await peer.subscribe("topic/t", "", "s7") == 200
    assert await peer.unsubscribe(id="s8") == 200
    assert await peer.subscribe("topic/t", "", "one more") == 200


async def test_unknown_topic_cannot_be_subscribed_to(broker: Broker) -> None:
    assert await (await dial(broker).open()).subscribe("topic/nowhere") == 404


async def test_subscriber_that_is_slow_loses_the_oldest_and_others_nothing(virtual_time: None) -> None:
    async with open_micromsg_broker(listening(most_waiting=10)) as broker:
        await broker.declare_sink("t", "fanout", durable=False)
        slow, other = await dial(broker, Settings(window=1, optional=USUAL)).open(), await dial(broker).open()
        for peer in slow, other:
            await peer.subscribe("topic/t")
        for number in range(50):
            await other.send("topic/t", b"%d" % number)
            await other.bodies(1)
        found = await slow.bodies(1)
        for _ in range(10):
            found += await slow.bodies(1)
        assert found == [b"0", *[b"%d" % number for number in range(40, 50)]]


async def test_message_of_another_door_comes_with_its_key(broker: Broker) -> None:
    peer = await dial(broker).open()
    await peer.subscribe("topic/t", "a=N1")
    await broker.publish("t", "some.key", b"x", Properties(headers={"a": 1}, persistent=False))
    (got,) = await peer.take(1)
    assert got.values == {"routing-key": "some.key", "a": 1, "delivery-mode": 1}


# Kept


async def test_client_that_comes_back_misses_nothing(broker: Broker) -> None:
    peer, publisher = await known(broker), await dial(broker).open()
    await peer.subscribe("topic/t", id="mine")
    await publisher.send("topic/t", b"1")
    await peer.take(1)  # and does not ack it
    await peer.hang_up()
    await publisher.send("topic/t", b"2")
    await trio.sleep(59)
    assert (kept(broker), broker.directory.queues[own_queues(broker)[0]].statistics().ready) == (1, 2)
    again = await known(broker)
    assert await again.subscribe("topic/t", id="mine") == 200
    assert [(got.body, "redelivered" in got.values) for got in await again.take(2)] == [(b"1", True), (b"2", False)]
    await again.accept()
    await trio.sleep(100)
    assert (kept(broker), len(own_queues(broker))) == (0, 1)
    await publisher.send("topic/t", b"3")
    assert await again.bodies(1) == [b"3"]


async def test_client_that_comes_back_too_late_begins_anew(broker: Broker) -> None:
    peer, publisher = await known(broker), await dial(broker).open()
    await peer.subscribe("topic/t")
    await peer.hang_up()
    await publisher.send("topic/t", b"1")
    await trio.sleep(61)
    assert (kept(broker), own_queues(broker), broker.directory.sinks["t"].bindings) == (0, [], {})
    again = await known(broker)
    await again.subscribe("topic/t")
    await publisher.send("topic/t", b"2")
    assert await again.bodies(1) == [b"2"]


async def test_id_that_is_not_subscribed_again_goes_when_its_time_is_over(broker: Broker) -> None:
    peer, publisher = await known(broker), await dial(broker).open()
    await peer.subscribe("topic/t", "a=N1", "first")
    await peer.subscribe("topic/t", "b=N1", "second")
    await peer.hang_up()
    await trio.sleep(1)
    again = await known(broker)
    await again.subscribe("topic/t", "c=N1", "first")
    assert (kept(broker), len(broker.directory.sinks["t"].bindings)) == (1, 2)
    await trio.sleep(61)
    assert (kept(broker), len(broker.directory.sinks["t"].bindings)) == (0, 1)
    await publisher.send("topic/t", b"x", b=1)
    await publisher.send("topic/t", b"y", c=1)
    assert await again.bodies(1) == [b"y"]


@pytest.mark.parametrize("who", ["another identity", "another user", "no identity", "nobody"])
async def test_nobody_else_gets_what_is_kept(who: str, broker: Broker) -> None:
    peer, publisher = await known(broker), await dial(broker).open()
    await peer.subscribe("topic/t")
    await peer.hang_up()
    await publisher.send("topic/t", b"1")
    match who:
        case "another identity":
            other = await known(broker, "tablet")
        case "another user":
            other = await known(broker, user="guest")
        case "no identity":
            other = await known(broker, "")
        case _:
            other = await dial(broker, Settings(identity="phone", optional=USUAL)).open()
    await other.subscribe("topic/t")
    await publisher.send("topic/t", b"2")
    assert await other.bodies(1) == [b"2"]


async def test_client_that_has_not_logged_in_keeps_nothing(broker: Broker) -> None:
    peer = await dial(broker, Settings(identity="phone", optional=USUAL)).open()
    await peer.subscribe("topic/t")
    await peer.hang_up()
    await trio.testing.wait_all_tasks_blocked()
    assert (kept(broker), own_queues(broker)) == (0, [])


async def test_later_connection_of_a_client_takes_its_subscription_over(broker: Broker) -> None:
    peer, publisher = await known(broker), await dial(broker).open()
    await peer.subscribe("topic/t")
    await publisher.send("topic/t", b"1")
    await peer.take(1)
    again = await known(broker)
    assert await again.subscribe("topic/t") == 200
    assert await peer.fails() == (409, "another connection of this user and identity has subscribed to the topic")
    (got,) = await again.take(1)
    assert (got.body, got.values["redelivered"]) == (b"1", 1)


async def test_connections_of_one_client_have_topics_of_their_own(broker: Broker) -> None:
    await broker.declare_sink("u", "fanout", durable=False)
    one, other, publisher = await known(broker), await known(broker), await dial(broker).open()
    await one.subscribe("topic/t")
    await other.subscribe("topic/u")
    await publisher.send("topic/t", b"t")
    await publisher.send("topic/u", b"u")
    assert (await one.bodies(1), await other.bodies(1)) == ([b"t"], [b"u"])
    await one.hang_up()
    await trio.sleep(30)
    again = await known(broker)
    await again.subscribe("topic/t")
    await other.hang_up()
    await trio.sleep(61)
    assert len(own_queues(broker)) == 1


async def test_user_keeps_a_bounded_number_of_subscriptions(virtual_time: None) -> None:
    async with open_micromsg_broker(listening(most_kept=2), users=USERS) as broker:
        await broker.declare_sink("t", "fanout", durable=False)
        for number in range(4):
            peer = await known(broker, f"phone {number}")
            await peer.subscribe("topic/t")
            await peer.hang_up()
            await trio.testing.wait_all_tasks_blocked()
        assert (kept(broker), len(own_queues(broker))) == (2, 2)
        await trio.sleep(61)
        assert (kept(broker), own_queues(broker)) == (0, [])


async def test_nothing_is_kept_where_that_is_configured(virtual_time: None) -> None:
    async with open_micromsg_broker(listening(kept_seconds=0), users=USERS) as broker:
        await broker.declare_sink("t", "fanout", durable=False)
        peer = await known(broker)
        await peer.subscribe("topic/t")
        await peer.hang_up()
        await trio.testing.wait_all_tasks_blocked()
        assert (kept(broker), own_queues(broker)) == (0, [])


async def test_kept_queue_that_was_deleted_is_made_anew(broker: Broker) -> None:
    peer, publisher = await known(broker), await dial(broker).open()
    await peer.subscribe("topic/t", id="a")
    await peer.subscribe("topic/t", id="b")
    await peer.hang_up()
    await trio.testing.wait_all_tasks_blocked()
    state = broker.directory.queues[own_queues(broker)[0]]
    assert state.owner is not None
    broker.domain_ref.ask_nowait(DeleteQueue(state.name, state.owner))
    again = await known(broker)
    assert await again.subscribe("topic/t", id="a") == 200
    await publisher.send("topic/t", b"x")
    assert await again.bodies(1) == [b"x"]
    await trio.sleep(61)
    await publisher.send("topic/t", b"y")
    assert await again.bodies(1) == [b"y"]


async def test_end_of_the_endpoint_ends_what_is_kept(broker: Broker) -> None:
    peer = await known(broker)
    await peer.subscribe("topic/t")
    await peer.hang_up()
    await trio.testing.wait_all_tasks_blocked()
    await broker.endpoints.stop_child(micromsg_endpoint(broker).ref)
    await trio.testing.wait_all_tasks_blocked()
    assert own_queues(broker) == []


async def test_crash_of_the_endpoint_ends_what_is_kept(broker: Broker) -> None:
    async def fail() -> None:
        raise RuntimeError("the endpoint has a bug")

    peer = await known(broker)
    await peer.subscribe("topic/t")
    await peer.hang_up()
    await trio.testing.wait_all_tasks_blocked()
    assert kept(broker) == 1
    endpoint = micromsg_endpoint(broker)
    endpoint.start_task(fail)
    await trio.sleep(5)
    assert micromsg_endpoint(broker) is not endpoint
    assert (kept(broker), own_queues(broker)) == (0, [])


async def test_topic_that_was_deleted_and_declared_again_is_subscribed_to_again(broker: Broker) -> None:
    peer = await dial(broker).open()
    await peer.subscribe("topic/t", id="mine")
    await broker.sink("t").delete()
    await broker.declare_sink("t", "fanout", durable=False)
    await peer.send("topic/t", b"1")
    assert await peer.subscribe("topic/t", id="mine") == 200
    await peer.send("topic/t", b"2")
    assert await peer.bodies(1) == [b"2"]


async def test_key_that_means_nothing_leaves_nothing_behind(broker: Broker) -> None:
    await broker.declare_sink("hash", "x-consistent-hash", durable=False)
    peer = await dial(broker).open()
    assert await peer.subscribe("topic/hash", key="many") == 412
    assert own_queues(broker) == []
    assert await peer.subscribe("topic/hash", key="2") == 200
    assert await peer.subscribe("topic/hash", id="other", key="many") == 412
    assert len(own_queues(broker)) == 1


# Rights


async def test_right_to_read_a_topic_is_all_that_a_subscriber_needs(broker: Broker) -> None:
    reader = await dial(broker, logging_in()).open("reader")
    assert await reader.subscribe("topic/t") == 200
    await broker.publish("t", "", b"x")
    assert await reader.bodies(1) == [b"x"]
    assert await reader.subscribe("queue/q") == 200
    writer = await dial(broker, logging_in()).open("writer")
    assert (await writer.subscribe("topic/t"), await writer.subscribe("queue/q")) == (403, 403)


async def test_right_to_write_is_asked_by_the_name_of_the_queue_or_the_topic(broker: Broker) -> None:
    await broker.declare_queue("other", durable=False)
    writer = await dial(broker, logging_in()).open("writer")
    await writer.send("queue/q", b"x")
    await writer.send("topic/t", b"x")
    writer.publish("queue/other", b"x")
    assert (await writer.fails())[0] == 403
    reader = await dial(broker, logging_in()).open("reader")
    reader.publish("topic/t", b"x")
    assert (await reader.fails())[0] == 403


async def test_limit_of_a_users_queues_counts_for_topics(broker: Broker) -> None:
    broker.set_users({**USERS, "ann": User(password="ann", permissions={"*": ALL}, limits=UserLimits(queues=1))})
    await broker.declare_sink("u", "fanout", durable=False)
    peer = await known(broker)
    assert await peer.subscribe("topic/t") == 200
    assert await peer.subscribe("topic/u") == 503


async def test_user_id_of_somebody_else_is_refused(broker: Broker) -> None:
    peer = await dial(broker, logging_in()).open("ann")
    await peer.send("queue/q", b"x", user_id="ann")
    peer.publish("queue/q", b"x", user_id="guest")
    assert (await peer.fails())[0] == 412


async def test_expiration_that_is_none_is_refused(broker: Broker) -> None:
    peer = await dial(broker).open()
    peer.publish("queue/q", b"x", expiration=-1)
    assert (await peer.fails())[0] == 412


# Clients that cannot subscribe


async def test_client_without_subscriptions_gets_what_is_pushed_to_it(virtual_time: None) -> None:
    config = listening(pushed={"till": "queue/q", "*": "topic/t"})
    async with open_micromsg_broker(config) as broker:
        await broker.declare_queue("q", durable=False)
        await broker.declare_sink("t", "fanout", durable=False)
        plain = (HandshakeExtension("batch-ack"),)
        till = await dial(broker, Settings(identity="till", optional=plain)).open()
        other = await dial(broker, Settings(identity="screen", optional=plain)).open()
        able = await dial(broker, Settings(identity="till")).open()
        await able.send("queue/q", b"q")
        await able.send("topic/t", b"t")
        assert (await till.bodies(1), await other.bodies(1)) == ([b"q"], [b"t"])


async def test_client_whose_pushed_destination_is_not_there_is_told(virtual_time: None) -> None:
    async with open_micromsg_broker(listening(pushed={"*": "queue/q"})) as broker:
        peer = await dial(broker, Settings(optional=())).open()
        assert (await peer.fails())[0] == 404
