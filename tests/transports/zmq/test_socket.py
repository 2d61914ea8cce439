"""ZeroMQ sockets under Trio, against blocking ones in a thread or a process."""

import random
from collections.abc import AsyncIterator
from threading import Thread

import pytest
import trio
import trio.testing
import zmq
from hypothesis import settings

from triomq.errors import ConfigError
from triomq.transports.zmq import ZMQSocket, close_context, make_context


class Sockets:
    """Makes sockets of one context, and closes them all."""

    def __init__(self) -> None:
        self.context = make_context()
        self.opened: list[ZMQSocket] = []

    def open(self, kind: int = zmq.DEALER, *, high_water: int = 1000) -> ZMQSocket:
        self.opened.append(ZMQSocket(self.context, kind, high_water=high_water))
        return self.opened[-1]

    def pair(self, kind: int = zmq.DEALER, other: int = zmq.DEALER) -> tuple[ZMQSocket, ZMQSocket]:
        bound, connected = self.open(kind), self.open(other)
        connected.connect(bound.bind("tcp://127.0.0.1:0"))
        return bound, connected


@pytest.fixture
async def sockets() -> AsyncIterator[Sockets]:
    sockets = Sockets()
    yield sockets
    for socket in sockets.opened:
        socket.close()
    await close_context(sockets.context)


async def test_frames_arrive_as_they_were_sent(sockets: Sockets) -> None:
    bound, connected = sockets.pair()
    await connected.send([b"one", b"", b"x" * 100_000])
    await connected.send([b"two"])
    received: list[list[bytes]] = []
    while len(received) < 2:
        received += await bound.receive()
    assert received == [[b"one", b"", b"x" * 100_000], [b"two"]]


async def test_receiving_waits_and_sends_of_other_tasks_do_not_eat_its_wake_up(sockets: Sockets) -> None:
    bound, connected = sockets.pair()
    received: list[list[bytes]] = []

    async def answer() -> None:
        received.extend(await bound.receive())

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            await trio.testing.wait_all_tasks_blocked()
            await connected.send([b"question"])
            while not bound.send_nowait([b"at the same time"]):  # a call, which empties the mailbox
                await trio.lowlevel.checkpoint()
    assert received == [[b"question"]]


async def test_full_socket_takes_nothing_until_its_peer_has_read(sockets: Sockets) -> None:
    bound, connected = sockets.open(high_water=1), sockets.open(high_water=1)
    connected.connect(bound.bind("inproc://full"))
    sent = 0
    while connected.send_nowait([b"x"]):
        sent += 1
    assert 0 < sent <= 2
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connected.send, [b"last"])
        received: list[list[bytes]] = []
        while [b"last"] not in received:
            received += await bound.receive()
    assert len(received) == sent + 1


async def test_closing_ends_those_that_wait(sockets: Sockets) -> None:
    bound, _ = sockets.pair()

    async def wait() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await bound.receive()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        bound.close()
    with pytest.raises(trio.ClosedResourceError):
        bound.send_nowait([b"late"])
    bound.close()


async def test_address_that_cannot_be_used_is_named(sockets: Sockets) -> None:
    bound, other = sockets.open(), sockets.open()
    address = bound.bind("tcp://127.0.0.1:0")
    with pytest.raises(ConfigError, match=f"cannot listen on '{address}': Address already in use"):
        other.bind(address)
    with pytest.raises(ConfigError, match="cannot connect to 'nonsense'"):
        other.connect("nonsense")


async def test_subscribers_get_their_topics(sockets: Sockets) -> None:
    publisher, subscriber = sockets.pair(zmq.XPUB, zmq.SUB)
    subscriber.socket.subscribe(b"news")
    assert await publisher.receive() == [[b"\x01news"]]
    await publisher.send([b"weather", b"rain"])
    await publisher.send([b"news.today", b"sun"])
    assert await subscriber.receive() == [[b"news.today", b"sun"]]


async def test_context_ends_when_what_lingers_is_sent(sockets: Sockets) -> None:
    context = make_context()
    sending, receiving = ZMQSocket(context, zmq.DEALER), sockets.open()
    sending.connect(receiving.bind("tcp://127.0.0.1:0"))
    await sending.send([b"last words"])
    sending.close(linger=5.0)
    await close_context(context)
    assert await receiving.receive() == [[b"last words"]]


def echo(address: str, messages: int) -> None:
    """Send numbers and read those that come, in steps of random length, from a thread that blocks."""
    chance = random.Random(2)
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.set_hwm(10)
        socket.linger = 5000
        socket.connect(address)
        sent = received = 0
        while sent < messages or received < messages:
            for _ in range(chance.randrange(1, 40)):
                if sent < messages and socket.poll(0, zmq.POLLOUT):
                    socket.send(b"%d" % sent)
                    sent += 1
            for _ in range(chance.randrange(1, 40)):
                if received < messages and socket.poll(1 if sent == messages else 0, zmq.POLLIN):
                    assert socket.recv() == b"%d" % received
                    received += 1


async def cancel_often(socket: ZMQSocket, chance: random.Random) -> list[list[bytes]]:
    """Receive, and give up now and then before something is here."""
    while True:
        with trio.move_on_after(chance.choice((0, 0.001, 1))):
            return await socket.receive(chance.randrange(1, 300))


async def test_wake_ups_are_never_lost_when_tasks_send_and_receive_on_one_socket(sockets: Sockets) -> None:
    messages, chance = 500 * settings().max_examples, random.Random(1)  # 50,000, or a million with the profile `deep`
    socket = sockets.open(high_water=10)
    peer = Thread(target=echo, args=(socket.bind("tcp://127.0.0.1:0"), messages))
    peer.start()

    async def send_all() -> None:
        for number in range(messages):
            await socket.send([b"%d" % number])

    with trio.fail_after(messages / 500):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_all)
            received = 0
            while received < messages:
                batch = await cancel_often(socket, chance)
                assert batch == [[b"%d" % (received + number)] for number in range(len(batch))]
                received += len(batch)
    await trio.to_thread.run_sync(peer.join)
