"""What strangers, and users with few rights, can make a port of ZeroMQ hold: bounds on octets and parts, no times."""

from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from endpoints.emqp.conftest import Served
from endpoints.zmtp.raw import Stranger
from protocols.zmtp.wire import GREETING, PLAIN_GREETING, command, message
from triomq.app import User, open_broker
from triomq.endpoints import EMQP
from triomq.endpoints.zmtp.acceptor import MOST_STRANGERS_OF_ADDRESS
from triomq.security import ALL, Permission

USERS = {
    "guest": User(password="guest", permissions={"*": ALL}),
    "eve": User(password="eve", permissions={"*": Permission("", "eve", "eve")}),
}


@pytest.fixture
async def plain(nursery: trio.Nursery) -> AsyncIterator[Served]:
    config = EMQP(port=0, topic_port=0, security="plain")
    async with open_broker(config, users=USERS, drain=0.2) as broker:
        yield Served(broker, nursery, config)


@pytest.fixture
async def null(nursery: trio.Nursery) -> AsyncIterator[Served]:
    config = EMQP(port=0, topic_port=0)
    async with open_broker(config, users=USERS, drain=0.2) as broker:
        yield Served(broker, nursery, config)


def held(served: Served) -> int:
    return served.broker.context.unfinished.held


async def test_message_of_large_frames_without_an_end_ends_its_connection(plain: Served) -> None:
    most = 0
    async with await Stranger.logged_in(plain.port, b"eve") as eve:
        frame = b"\x03" + (10_000_000).to_bytes(8, "big") + bytes(10_000_000)
        for _ in range(30):
            if not await eve.say(frame):
                break
            most = max(most, held(plain))
        assert await eve.is_ended()
    assert most <= 16 * 1024 * 1024 + 64 * 1024
    assert held(plain) == 0


async def test_message_of_empty_frames_without_an_end_holds_nothing_and_ends_its_connection(null: Served) -> None:
    async with await Stranger.greeted(null.port) as stranger:
        while await stranger.say(b"\x01\x00" * 100_000):
            assert held(null) <= 65_536
        assert await stranger.is_ended()
    assert held(null) == 0


async def test_hello_of_16_mib_is_not_taken(plain: Served) -> None:
    assert plain.endpoint.topics is not None
    for port in (plain.port, plain.endpoint.topics.port):
        for _ in range(40):
            async with await Stranger.connect(port) as stranger:
                await stranger.say(PLAIN_GREETING + b"\x06" + (1 << 24).to_bytes(8, "big") + bytes(100_000))
                assert await stranger.is_ended()
    assert held(plain) == 0


async def test_octets_before_the_log_in_are_bounded_whatever_they_are(plain: Served) -> None:
    async with await Stranger.connect(plain.port) as stranger:
        await stranger.say(PLAIN_GREETING + b"\x06" + (4000).to_bytes(8, "big") + bytes(3900))
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert held(plain) <= 4096
        await stranger.say(bytes(10_000))
        assert await stranger.is_ended()
    assert held(plain) == 0


async def test_strangers_of_one_address_have_so_many_connections_and_no_more(plain: Served) -> None:
    strangers = [await Stranger.connect(plain.port) for _ in range(MOST_STRANGERS_OF_ADDRESS)]
    for stranger in strangers:
        await stranger.say(PLAIN_GREETING)
        await stranger.hear(b"PLAIN")
    async with await Stranger.connect(plain.port) as late:
        assert await late.is_ended()
    await trio.aclose_forcefully(strangers[0].stream)
    await trio.testing.wait_all_tasks_blocked(0.02)
    async with await Stranger.logged_in(plain.port, b"guest") as guest:  # there is a place again
        assert await guest.say(message(b""))
    for stranger in strangers:
        await trio.aclose_forcefully(stranger.stream)


async def test_connections_that_are_open_do_not_count_as_strangers(null: Served) -> None:
    friends = [await Stranger.greeted(null.port) for _ in range(MOST_STRANGERS_OF_ADDRESS + 20)]
    for friend in friends:
        await trio.aclose_forcefully(friend.stream)


async def test_subscription_of_20_mb_is_not_taken(null: Served) -> None:
    assert null.endpoint.topics is not None
    for octets in (message(b"\1" + b"z" * 20_000_000), command(b"SUBSCRIBE", b"z" * 20_000_000)):
        async with await Stranger.greeted(null.endpoint.topics.port, b"SUB") as subscriber:
            await subscriber.say(octets)
            assert await subscriber.is_ended()
    assert held(null) == 0
    assert len(null.endpoint.topics.index) == 0


async def test_subscriptions_of_one_peer_are_so_many_and_go_with_it(null: Served) -> None:
    topics = null.endpoint.topics
    assert topics is not None
    async with await Stranger.greeted(topics.port, b"SUB") as subscriber:
        octets = b"".join(command(b"SUBSCRIBE", b"%d" % number) for number in range(300_000))
        await subscriber.say(octets)
        assert await subscriber.is_ended()
    assert len(topics.index) == 0


async def test_subscription_without_the_right_to_read_is_not_kept(plain: Served) -> None:
    topics = plain.endpoint.topics
    assert topics is not None
    async with await Stranger.logged_in(topics.port, b"eve", b"SUB") as eve:
        await eve.say(b"".join(command(b"SUBSCRIBE", b"%d" % number) for number in range(5_000)))
        await eve.say(command(b"PING", b"\0\0done"))
        await eve.hear(b"PONGdone")
        assert len(topics.index) == 0


async def test_answers_to_pings_that_nobody_reads_are_bounded(null: Served) -> None:
    async with await Stranger.greeted(null.port) as stranger:
        with trio.move_on_after(1.0):
            for _ in range(100):
                await stranger.say(command(b"PING", b"\0\0" + bytes(16)) * 5_000)
        assert sum(each.unsent for each in null.endpoint.listener.connections) <= 128 * 1024


async def test_subscriber_that_does_not_read_misses_messages_and_holds_a_bounded_number(null: Served) -> None:
    topics = null.endpoint.topics
    assert topics is not None
    async with await Stranger.greeted(topics.port, b"SUB") as slow:
        await slow.say(command(b"SUBSCRIBE") + command(b"PING", b"\0\0done"))
        await slow.hear(b"PONGdone")
        (connection,) = topics.index.find(b"t")
        for _ in range(200):
            await null.broker.publish("emqp.topic", "t", bytes(100_000))
        assert connection.unsent <= 1024 * 1024 + 100_100
        assert topics.missed > 0


# Identities


async def test_newcomer_of_the_same_user_takes_an_identity_over_at_once(plain: Served) -> None:
    async with await Stranger.logged_in(plain.port, b"guest", identity=b"me") as older:
        await older.say(message(b"", b"eMQP/1.0", b"INFORM", b"id1", b"", b"client"))
        await older.hear(b"ACK")
        async with await Stranger.logged_in(plain.port, b"guest", identity=b"me") as newer:
            await newer.say(message(b"", b"eMQP/1.0", b"INFORM", b"id2", b"", b"client"))
            await newer.hear(b"ACK")
            assert await older.is_ended()


async def test_newcomer_of_another_user_takes_nothing_over(plain: Served) -> None:
    async with await Stranger.logged_in(plain.port, b"guest", identity=b"me") as older:
        async with await Stranger.logged_in(plain.port, b"eve", identity=b"me") as newer:
            await newer.say(message(b"", b"eMQP/1.0", b"INFORM", b"id2", b"", b"client"))
            assert await newer.is_ended()
        await older.say(message(b"", b"eMQP/1.0", b"INFORM", b"id1", b"", b"client"))
        await older.hear(b"ACK")


async def test_peer_that_comes_back_through_another_connection_is_answered_though_the_old_one_stays(
    null: Served,
) -> None:
    """A network that has broken for the client alone leaves the broker's side open, and silent."""
    async with await Stranger.greeted(null.port, identity=b"worker") as broken:
        await broken.say(message(b"", b"eMQP/1.0", b"INFORM", b"id1", b"q", b"worker"))
        await broken.hear(b"ACK")
        async with await Stranger.greeted(null.port, identity=b"worker") as again:
            await again.say(message(b"", b"eMQP/1.0", b"INFORM", b"id2", b"q", b"worker"))
            assert b"id2" in await again.hear(b"id2")


async def test_identity_that_looks_like_one_of_ours_is_replaced_by_one_of_ours(null: Served) -> None:
    async with await Stranger.greeted(null.port, identity=b"\0forged") as forger:
        await forger.say(message(b"", b"eMQP/1.0", b"INFORM", b"id1", b"", b"client"))
        await forger.hear(b"ACK")
        assert b"\0forged" not in null.endpoint.peers


async def test_octets_that_are_no_greeting_end_the_connection(plain: Served) -> None:
    for octets in (b"GET / HTTP/1.1\r\n\r\n", GREETING, b"\x01\x00" + bytes(20)):
        async with await Stranger.connect(plain.port) as stranger:
            await stranger.say(octets)
            assert await stranger.is_ended()
