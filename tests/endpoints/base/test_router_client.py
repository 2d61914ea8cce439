"""Clients over a ROUTER, driven by the toy: real sockets, and time that jumps when a test says so."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

import pytest
import trio
import trio.testing

from endpoints.conftest import knock_out
from endpoints.toys.router import RouterToyClient, RouterToyEndpoint, RouterToys
from endpoints.toys.router_peer import RouterPeer
from triomq.actors import ChildSpec
from triomq.actors.turn import BUDGET
from triomq.app import Broker, User, open_broker
from triomq.endpoints.base import router_client
from triomq.endpoints.base.router_client import RouterClient
from triomq.errors import ConfigError
from triomq.security import ALL, Permission

pytestmark = pytest.mark.usefixtures("jumping_time")

USERS = {
    "guest": User(password="guest", permissions={"*": ALL}),
    "other": User(password="other", permissions={"*": ALL}),
    "foreign": User(password="foreign", permissions={"elsewhere": Permission(".*", ".*", ".*")}),
}

PUB = (b"", b"q", b"no", b"")


class Toy:
    """The toy's endpoint in a broker with a queue ``q``, and peers of it."""

    def __init__(self, broker: Broker, nursery: trio.Nursery) -> None:
        self.broker = broker
        self.nursery = nursery

    @property
    def endpoint(self) -> RouterToyEndpoint:
        return cast("RouterToyEndpoint", self.broker.endpoints.children["toy"].actor)

    @property
    def clients(self) -> list[RouterToyClient]:
        return [cast("RouterToyClient", ref.actor) for ref in self.endpoint.children.values()]

    async def connect(self, user: str = "guest", identity: bytes = b"") -> RouterPeer:
        peer = RouterPeer(self.endpoint.listener.port, user, identity=identity)
        self.nursery.start_soon(peer.run)
        assert await peer.is_let_in()
        return peer

    async def join(self, user: str = "guest", identity: bytes = b"") -> RouterPeer:
        peer = await self.connect(user, identity)
        await peer.call(b"HELLO")
        return peer

    async def wait_empty(self) -> None:
        """Wait until all clients have gone."""
        while self.clients:
            await trio.testing.wait_all_tasks_blocked(0.001)

    def jump(self, seconds: float) -> None:
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        clock.jump(seconds)


@asynccontextmanager
async def opened() -> AsyncIterator[Toy]:
    config = RouterToys(port=0)
    with trio.fail_after(60):
        async with open_broker(users=USERS, drain=1.0) as broker, trio.open_nursery() as nursery:
            await broker.endpoints.start_child(ChildSpec(lambda: config.make(broker.context), name="toy"))
            await broker.declare_queue("q", durable=False)
            yield Toy(broker, nursery)
            nursery.cancel_scope.cancel()


@pytest.fixture
async def toy(jumping_time: None) -> AsyncIterator[Toy]:
    async with opened() as toy:
        yield toy


# Who comes


async def test_client_begins_with_the_first_message_of_its_peer_as_the_user_that_was_let_in(toy: Toy) -> None:
    peer = await toy.connect()
    assert toy.clients == []
    await peer.call(b"HELLO")
    assert [client.user for client in toy.clients] == ["guest"]


async def test_connection_of_another_user_under_the_identity_of_a_client_ends_it(toy: Toy) -> None:
    peer = await toy.join(identity=b"one")
    await peer.call(b"SUB", b"q")
    await toy.broker.publish("", "q", b"x")
    await peer.until(lambda: bool(peer.got))
    await peer.close()  # which is not announced
    other = await toy.connect("other", identity=b"one")
    await toy.wait_empty()
    delivery = await toy.broker.queue("q").get()
    assert delivery is not None
    assert delivery.body == b"x"
    assert (await other.call(b"HELLO"))[0] == b"OK"
    assert [client.user for client in toy.clients] == ["other"]


async def test_user_who_may_not_enter_is_told_at_its_first_message(toy: Toy) -> None:
    peer = await toy.connect("foreign")
    assert (await peer.call(b"HELLO"))[0] == b"BYE"
    await toy.wait_empty()


async def test_removed_user_gets_nowhere_with_a_connection_that_is_still_there(toy: Toy) -> None:
    peer = await toy.join()
    toy.broker.set_users({"other": USERS["other"]})
    await peer.until(lambda: bool(peer.bye))
    peer.bye = b""
    assert (await peer.call(b"PUB", *PUB, b"x"))[0] == b"BYE"
    await toy.wait_empty()
    assert (await toy.broker.queue("q").statistics()).ready == 0


async def test_peer_that_the_broker_has_forgotten_is_told_to_begin_again(toy: Toy) -> None:
    peer = await toy.join()
    await peer.call(b"SUB", b"q")
    toy.clients[0].ref.run_in_turn(partial(int, "a bug"))  # crashes this client alone
    await toy.wait_empty()
    assert (await peer.call(b"PING"))[0] == b"BYE"
    peer.bye = b""
    assert (await peer.call(b"HELLO"))[0] == b"OK"


async def test_malformed_messages_are_refused_and_crash_nothing(toy: Toy) -> None:
    peer = await toy.join()
    for frames in ([b""], [b"PUB"], [b"PUB", b"m"], [b"ACK", b"x"], [b"ACK", b"7"], [b"SUB", b"m", b"\xff"]):
        await peer.say(*frames)
    assert (await peer.call(b"PING"))[0] == b"OK"
    assert len(toy.clients) == 1


# How clients end


async def test_silent_peer_ends_and_what_it_has_goes_back(toy: Toy) -> None:
    peer = await toy.join()
    await peer.call(b"SUB", b"q")
    await toy.broker.publish("", "q", b"x")
    await peer.until(lambda: bool(peer.got))
    await peer.close()
    toy.jump(RouterToyClient.silence + 1)
    await toy.wait_empty()
    delivery = await toy.broker.queue("q").get()
    assert delivery is not None
    assert (delivery.body, delivery.redelivered) == (b"x", True)


async def test_peer_that_is_heard_in_time_stays(toy: Toy) -> None:
    peer = await toy.join()
    for _ in range(3):
        toy.jump(RouterToyClient.silence - 0.5)
        await peer.call(b"PING")
    assert len(toy.clients) == 1


async def test_peer_that_comes_back_under_its_identity_is_the_same_client(toy: Toy) -> None:
    peer = await toy.join(identity=b"one")
    await peer.call(b"SUB", b"q")
    await toy.broker.publish("", "q", b"x")
    await peer.until(lambda: bool(peer.got))
    await peer.close()
    again = await toy.connect(identity=b"one")
    await again.say(b"ACK", peer.got[0][0])
    await again.call(b"PING")
    assert len(toy.clients) == 1
    assert (await toy.broker.queue("q").statistics()).unsettled == 0


async def test_last_words_are_sent_when_the_broker_drains() -> None:
    async with opened() as toy:
        peer = await toy.join()
        await toy.broker.drain()
        await peer.until(lambda: bool(peer.bye))
        assert b"shutting down" in peer.bye


# Pressure


async def test_acks_overtake_publishes_that_are_parked_and_these_come_once_and_in_order(toy: Toy) -> None:
    peer = await toy.join()
    await peer.call(b"SUB", b"q")
    await toy.broker.publish("", "q", bytes(20_000))
    await peer.until(lambda: bool(peer.got))
    toy.broker.set_memory_high_watermark(10_000)
    numbers = [await peer.send(b"PUB", *PUB, b"%d" % number) for number in range(3)]
    await peer.call(b"PING")
    assert not any(number in peer.answers for number in numbers)
    await peer.say(b"ACK", peer.got[0][0])  # what it accepts makes the room that its publishes wait for
    await peer.until(lambda: len(peer.got) == 4)
    assert [body for _, body in peer.got[1:]] == [b"0", b"1", b"2"]
    assert toy.endpoint.listener.parked == 0


async def test_request_to_a_queue_that_is_being_restarted_is_answered_when_it_runs(toy: Toy) -> None:
    peer = await toy.join()
    await knock_out(toy.broker, "q")
    number = await peer.send(b"SUB", b"q")
    assert (await peer.call(b"PING"))[0] == b"OK"  # which overtakes it
    assert number not in peer.answers
    toy.jump(1)
    await peer.until(lambda: number in peer.answers)
    assert peer.answers[number][0] == b"OK"


async def test_publishes_above_what_may_be_parked_are_refused(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RouterClient, "most_parked", 2)
    await toy.broker.declare_queue("full", durable=False)
    await toy.broker.publish("", "full", bytes(20_000))
    toy.broker.set_memory_high_watermark(10_000)
    peer = await toy.join()
    numbers = [await peer.send(b"PUB", *PUB, b"%d" % number) for number in range(4)]
    await peer.call(b"PING")
    assert [peer.answers.get(number, [b""])[0] for number in numbers] == [b"", b"", b"ERR", b"ERR"]
    toy.broker.set_memory_high_watermark(0)
    await peer.until(lambda: numbers[1] in peer.answers)
    assert (await toy.broker.queue("q").statistics()).ready == 2


async def test_bytes_that_all_clients_may_park_are_bounded_and_given_back_when_one_ends(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router_client, "PARKED_BYTES", 50_000)
    await toy.broker.publish("", "q", bytes(20_000))
    toy.broker.set_memory_high_watermark(10_000)
    one, two = await toy.join(), await toy.join()
    await one.send(b"PUB", *PUB, bytes(40_000))
    await one.call(b"PING")
    assert (await two.call(b"PUB", *PUB, bytes(40_000)))[0] == b"ERR"
    await one.call(b"QUIT")
    await two.send(b"PUB", *PUB, bytes(40_000))
    await two.call(b"PING")
    assert 40_000 <= toy.endpoint.listener.parked < 50_000


async def test_what_is_too_much_for_one_turn_is_done_in_further_ones_in_its_order(toy: Toy) -> None:
    await toy.join()
    (client,) = toy.clients
    turn = client.system.turn

    def receive() -> None:
        turn.charge(BUDGET + 1)
        client.received([[b"PUB", b"%d" % number, *PUB, b"%d" % number] for number in range(5)])
        client.received([[b"PUB", b"5", *PUB, b"5"]])

    turn.run(receive)
    assert client.is_behind
    await trio.testing.wait_all_tasks_blocked()
    assert not client.is_behind
    queue = toy.broker.queue("q")
    assert [message.body for message in await queue.browse(limit=10)] == [b"%d" % number for number in range(6)]


# Peers that do not read


async def fill(toy: Toy, count: int, size: int = 50_000) -> None:
    for _ in range(count):
        await toy.broker.publish("", "q", bytes(size))


async def test_peer_that_does_not_read_holds_a_bounded_amount_and_the_rest_goes_back_unmarked(toy: Toy) -> None:
    peer = await toy.join()
    await peer.call(b"SUB", b"q")
    peer.stop_reading()
    (client,) = toy.clients
    await fill(toy, 400)  # 20 MB: what the system's buffers and the window take is less than half of that
    found = await toy.broker.queue("q").statistics()
    assert found.ready > 200
    assert toy.endpoint.listener.unsent(client.identity) < 2_000_000
    client.ref.run_in_turn(client.leave)
    toy.jump(2)
    await toy.wait_empty()
    found = await toy.broker.queue("q").statistics()
    assert (found.ready, found.unsettled) == (400, 0)


async def test_peer_that_takes_nothing_for_too_long_is_let_go_though_it_is_not_silent(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RouterClient, "patience", 3.0)
    peer = await toy.join()
    await peer.call(b"SUB", b"q")
    peer.stop_reading()
    (client,) = toy.clients
    await fill(toy, 200)
    for _ in range(4):
        toy.jump(RouterToyClient.silence - 1)
        await peer.send(b"PING")
        await trio.testing.wait_all_tasks_blocked(0.005)
    toy.jump(2)  # for its last words
    await toy.wait_empty()
    assert client.ending == "the peer does not read what it is sent"


async def test_peer_that_leaves_its_answers_unread_is_let_go(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router_client, "UNREAD_BYTES", 10_000)
    monkeypatch.setattr(RouterToyClient, "most_unread", 10_000)
    peer = await toy.join()
    peer.stop_reading()
    (client,) = toy.clients
    await client.ref.wait_running()
    while not client.has_left:
        await peer.say(b"PUB", bytes(50_000), b"", b"q")  # which is refused by its number
    assert client.ending == "the peer does not read its answers"


# The listener


async def test_address_in_use_is_a_config_error(toy: Toy) -> None:
    config = RouterToys(port=toy.endpoint.listener.port)
    with pytest.raises(ConfigError, match="in use by another program"):
        await toy.broker.endpoints.start_child(ChildSpec(lambda: config.make(toy.broker.context), name="second"))


async def test_peers_are_not_let_in_while_the_endpoint_drains(toy: Toy) -> None:
    await toy.join()
    toy.endpoint.listener.stop_accepting()
    await trio.testing.wait_all_tasks_blocked()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", toy.endpoint.listener.port))
