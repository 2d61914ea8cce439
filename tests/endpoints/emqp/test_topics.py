"""What is published to topics, at plain ZeroMQ SUB sockets."""

from collections.abc import AsyncIterator, Callable

import pytest
import trio
import zmq

from endpoints.emqp.conftest import USERS, Served
from endpoints.emqp.subscriber import Subscriber
from endpoints.zmtp.raw import Stranger
from protocols.zmtp.wire import command
from triomq.app import User, open_broker
from triomq.endpoints import AMQP, EMQP
from triomq.endpoints.emqp.topics import TopicFeed
from triomq.security import Permission
from triomq.transports.zmq import ZMQSocket, close_context, make_context

READERS = {
    **USERS,
    "reader": User(password="reader", permissions={"*": Permission("", "", ".*")}),
    "writer": User(password="writer", permissions={"*": Permission("", ".*", "")}),
}


async def until(condition: Callable[[], object]) -> None:
    with trio.fail_after(60):
        while not condition():  # noqa: ASYNC110  # a thread of libzmq works
            await trio.sleep(0.005)


async def let_in(served: Served, subscriber: Subscriber) -> None:
    """Publish until the subscriber gets what is meant for it: nothing tells that a subscription has come."""
    while not subscriber.got:
        await served.broker.publish("emqp.topic", "hello", b"first")
        await trio.sleep(0.01)
    subscriber.got.clear()


@pytest.fixture
async def served(nursery: trio.Nursery) -> AsyncIterator[Served]:
    config = EMQP(port=0, publish_port=0, topic_port=0)
    async with open_broker(AMQP(host="127.0.0.1", port=0), config, users=USERS, drain=0.2) as broker:
        yield Served(broker, nursery, config)


def subscriber_of(served: Served, *topics: str, user: str = "") -> Subscriber:
    topics_listener = served.endpoint.topics
    assert topics_listener is not None
    subscriber = Subscriber(topics_listener.port, *topics, user=user)
    served.nursery.start_soon(subscriber.run)
    return subscriber


async def test_subscriber_gets_two_frames_of_what_begins_with_its_topic(served: Served) -> None:
    subscriber = subscriber_of(served, "hello", "news.")
    await let_in(served, subscriber)
    client = await served.client()
    await client.answer_to(await client.send(b"PUBLISH", b"news.today", b'"one"'))
    await client.answer_to(await client.send(b"PUBLISH", b"weather", b'"two"'))
    await client.answer_to(await client.send(b"PUBLISH", b"news.today", b"", b'"three"'))
    await until(lambda: len(subscriber.got) == 2)
    assert subscriber.got == [[b"news.today", b'"one"'], [b"news.today", b'"three"']]


async def test_broker_with_topics_ends_when_it_is_cancelled() -> None:
    with trio.fail_after(30):
        with trio.CancelScope() as scope:
            async with open_broker(EMQP(port=0, topic_port=0), users=USERS):
                scope.cancel()
                await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_publishers_may_have_a_port_of_their_own(served: Served) -> None:
    subscriber = subscriber_of(served, "hello")
    await let_in(served, subscriber)
    other = served.endpoint.listeners[1]
    ((_, port),) = other.addresses  # type: ignore[misc]
    context = make_context()
    dealer = ZMQSocket(context, zmq.DEALER)
    dealer.connect(f"tcp://127.0.0.1:{port}")
    await dealer.send([b"", b"eMQP/1.0", b"PUBLISH", b"id", b"hello", b'"there"'])
    await until(lambda: subscriber.got == [[b"hello", b'"there"']])
    dealer.close()
    await close_context(context)


async def test_what_other_protocols_publish_into_the_sink_reaches_subscribers_if_it_is_text(served: Served) -> None:
    subscriber = subscriber_of(served, "")
    await let_in(served, subscriber)
    await served.broker.publish("emqp.topic", "t", b"\xff")
    await served.broker.publish("emqp.topic", "t", b"text")
    await until(lambda: [b"t", b"text"] in subscriber.got)
    assert [b"t", b"\xff"] not in subscriber.got


async def test_queue_of_topics_that_is_lost_is_opened_anew(served: Served) -> None:
    subscriber = subscriber_of(served, "hello")
    await let_in(served, subscriber)
    endpoint = served.endpoint
    (feed,) = (child.actor for child in endpoint.children.values() if isinstance(child.actor, TopicFeed))
    feed.ref.run_in_turn(feed.leave)
    await feed.gone.wait()
    await let_in(served, subscriber)


async def test_subscribers_need_the_right_to_read(nursery: trio.Nursery) -> None:
    config = EMQP(port=0, topic_port=0, security="plain")
    async with open_broker(config, users=READERS, drain=0.2) as broker:
        served = Served(broker, nursery, config)
        reader, writer = (subscriber_of(served, "hello", user=user) for user in ("reader", "writer"))
        nobody = subscriber_of(served, "hello", user="nobody")
        await let_in(served, reader)
        await broker.publish("emqp.topic", "hello", b"again")
        await until(lambda: reader.got[-1:] == [[b"hello", b"again"]])
        assert writer.got == nobody.got == []


async def test_subscriber_that_does_not_read_holds_up_nobody(served: Served) -> None:
    topics = served.endpoint.topics
    assert topics is not None
    slow = Subscriber(topics.port, "hello")  # which nobody runs
    fast = subscriber_of(served, "hello")
    await let_in(served, fast)
    with trio.fail_after(60):
        for number in range(3000):
            await served.broker.publish("emqp.topic", "hello", b"%d " % number + b"x" * 1000)
    await until(lambda: fast.got[-1][1].startswith(b"2999 "))
    slow.socket.close()
    await close_context(slow.context)


async def test_client_without_extensions_that_subscribes_is_sent_what_is_text(served: Served) -> None:
    client = served.connect()
    await client.send(b"INFORM", b"", b"client")
    await client.send(b"SUBSCRIBE", b"t")
    await client.answer_to(await client.send(b"STATUS"))  # comes behind both
    await served.broker.publish("emqp.topic", "t", b"\xff")
    await served.broker.publish("emqp.topic", "t", b"text")
    (publication,) = await client.hear(b"PUBLISH")
    assert b"text" in publication.rest


async def test_topic_that_is_cancelled_right_behind_its_subscription_is_wanted_no_more(served: Served) -> None:
    topics = served.endpoint.topics
    assert topics is not None
    async with await Stranger.greeted(topics.port, b"SUB") as subscriber:
        words = (command(b"SUBSCRIBE", b"a"), command(b"CANCEL", b"a"), command(b"SUBSCRIBE", b"b"))
        await subscriber.say(b"".join(words) + command(b"PING", b"\0\0done"))
        await subscriber.hear(b"PONGdone")
        assert (len(topics.index), len(topics.index.find(b"b"))) == (1, 1)
