"""What the contract does not ask, since it is HTTP's alone: sockets that go away, pipelining, bodies, and patience."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
import trio
import trio.testing

from endpoints.faults import unwritable
from endpoints.toys.http import LARGEST, HTTPSession, HTTPToyConnection, HTTPToyEndpoint, HTTPToys
from endpoints.toys.http_peer import ENDED, HTTPPeer
from triomq.actors import ChildSpec
from triomq.app import Broker, User, open_broker
from triomq.security import ALL

pytestmark = pytest.mark.usefixtures("jumping_time")

USERS = {
    "guest": User(password="guest", permissions={"*": ALL}),
    "other": User(password="other", permissions={"*": ALL}),
}


class Toy:
    """The toy's endpoint in a broker with a queue ``q``, and a session in it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.session = ""
        self.peers: list[HTTPPeer] = []

    @property
    def endpoint(self) -> HTTPToyEndpoint:
        return cast("HTTPToyEndpoint", self.broker.endpoints.children["toy"].actor)

    def count(self, kind: type[HTTPToyConnection | HTTPSession]) -> int:
        return sum(isinstance(ref.actor, kind) for ref in self.endpoint.children.values())

    async def connect(self, user: str = "guest") -> HTTPPeer:
        host, port = cast("tuple[str, int]", self.endpoint.addresses[0])
        peer = HTTPPeer(await trio.open_tcp_stream(host, port), user)
        self.peers.append(peer)
        if not self.session:
            reply = await peer.ask("POST", "/sessions")
            assert reply.status == 201
            self.session = reply.headers["location"]
        return peer

    @property
    def poll(self) -> str:
        return f"{self.session}/queues/q"

    @property
    def post(self) -> str:
        return f"{self.session}/sinks/-/q"

    async def begin_poll(self, peer: HTTPPeer, beside: bytes = b"") -> None:
        await peer.stream.send_all(peer.encode("GET", self.poll) + beside)
        await self.until(feeds=1)

    async def until(self, **expected: int) -> None:
        """Wait until the queue's statistics are these."""
        while True:
            found = await self.broker.queue("q").statistics()
            if all(getattr(found, name) == value for name, value in expected.items()):
                return
            await trio.testing.wait_all_tasks_blocked(0.001)

    async def require_in_queue(self, body: bytes, *, redelivered: bool) -> None:
        delivery = await self.broker.queue("q").get()
        assert delivery is not None
        assert (delivery.body, delivery.redelivered) == (body, redelivered)

    def jump(self, seconds: float) -> None:
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        clock.jump(seconds)


@asynccontextmanager
async def opened(directory: Path | None = None) -> AsyncIterator[Toy]:
    config = HTTPToys(port=0)
    with trio.fail_after(600):  # of a time that jumps
        async with open_broker(users=USERS, drain=1.0, data_dir=directory, store_host="thread") as broker:
            await broker.endpoints.start_child(ChildSpec(lambda: config.make(broker.context), name="toy"))
            await broker.declare_queue("q", durable=directory is not None)
            toy = Toy(broker)
            try:
                yield toy
            finally:
                for peer in toy.peers:
                    await trio.aclose_forcefully(peer.stream)


@pytest.fixture
async def toy(jumping_time: None) -> AsyncIterator[Toy]:
    async with opened() as toy:
        yield toy


# Requests, one after the other


async def test_message_is_published_taken_and_accepted_over_one_connection(toy: Toy) -> None:
    peer = await toy.connect()
    assert (await peer.ask("PUT", f"{toy.session}/queues/mine")).status == 204
    assert (await peer.ask("POST", f"{toy.session}/sinks/-/mine", b"x")).status == 204
    taken = await peer.ask("GET", f"{toy.session}/queues/mine")
    assert (taken.status, taken.body) == (200, b"x")
    assert (await peer.ask("DELETE", taken.headers["location"])).status == 204
    assert (await peer.ask("DELETE", taken.headers["location"])).status == 409
    assert (await toy.broker.queue("mine").statistics()).unsettled == 0


async def test_message_to_no_queue_is_answered_by_404(toy: Toy) -> None:
    peer = await toy.connect()
    assert (await peer.ask("POST", f"{toy.session}/sinks/-/none", b"x")).status == 404


async def test_session_is_its_users_alone(toy: Toy) -> None:
    await toy.connect()
    other = await toy.connect("other")
    assert (await other.ask("POST", toy.post, b"x")).status == 404


async def test_pipelined_requests_are_answered_in_order(toy: Toy) -> None:
    peer = await toy.connect()
    await peer.stream.send_all(peer.encode("POST", toy.post, b"1") + peer.encode("GET", toy.poll))
    assert (await peer.reply()).status == 204
    assert (await peer.reply()).body == b"1"


async def test_request_behind_a_poll_waits_for_it(toy: Toy) -> None:
    peer = await toy.connect()
    await toy.begin_poll(peer, beside=peer.encode("POST", toy.post, b"2"))
    await toy.until(feeds=1, ready=0)
    await toy.broker.publish("", "q", b"1")
    assert (await peer.reply()).body == b"1"
    assert (await peer.reply()).status == 204


async def test_client_that_sends_too_much_behind_a_poll_is_let_go(toy: Toy) -> None:
    peer = await toy.connect()
    await toy.begin_poll(peer)
    await peer.stream.send_all(bytes(100_000))
    await toy.until(feeds=0)


# Sockets that go away


async def test_poll_whose_socket_goes_away_takes_nothing(toy: Toy) -> None:
    peer = await toy.connect()
    await toy.begin_poll(peer)
    await peer.stream.aclose()
    await toy.until(feeds=0)
    await toy.broker.publish("", "q", b"x")
    await toy.require_in_queue(b"x", redelivered=False)


async def test_poll_with_a_request_behind_it_sees_that_its_socket_goes_away(toy: Toy) -> None:
    peer = await toy.connect()
    await toy.begin_poll(peer, beside=peer.encode("POST", toy.post, b"never"))
    await peer.stream.aclose()
    await toy.until(feeds=0, ready=0)


async def test_message_that_was_sent_to_a_socket_that_has_gone_stays_with_the_session_and_goes_back_with_it(
    toy: Toy,
) -> None:
    peer = await toy.connect()
    await toy.begin_poll(peer)
    await toy.broker.publish("", "q", b"x")
    await toy.until(unsettled=1, feeds=0)  # so that the answer is written
    await peer.stream.aclose()
    assert (await (await toy.connect()).ask("DELETE", toy.session)).status == 204
    await toy.require_in_queue(b"x", redelivered=True)


async def test_half_closed_socket_ends_a_poll(toy: Toy) -> None:
    peer = await toy.connect()
    await toy.begin_poll(peer)
    await cast("trio.SocketStream", peer.stream).send_eof()
    assert await peer.reply() == ENDED
    await toy.until(feeds=0)


async def test_half_closed_socket_gets_the_answer_to_its_publish(toy: Toy) -> None:
    peer = await toy.connect()
    await peer.stream.send_all(peer.encode("POST", toy.post, b"x"))
    await cast("trio.SocketStream", peer.stream).send_eof()
    assert (await peer.reply()).status == 204
    assert await peer.reply() == ENDED


async def test_client_that_goes_away_in_the_middle_of_a_body_publishes_nothing_and_leaves_nothing(toy: Toy) -> None:
    peer = await toy.connect()
    await peer.stream.send_all(peer.encode("POST", toy.post, b"half of it")[:-3])
    await peer.stream.aclose()
    while toy.count(HTTPToyConnection):
        await trio.testing.wait_all_tasks_blocked(0.001)
    toy.jump(6)  # no request holds the session any more
    while toy.count(HTTPSession):
        await trio.testing.wait_all_tasks_blocked(0.001)
    assert (await toy.broker.queue("q").statistics()).ready == 0


# Bodies


async def test_password_is_looked_at_before_the_body_is_asked_for(toy: Toy) -> None:
    await toy.connect()
    thief = await toy.connect()
    head = {"Authorization": "Basic Z3Vlc3Q6d3Jvbmc=", "Expect": "100-continue"}
    await thief.stream.send_all(thief.encode("POST", toy.post, b"x", head)[:-1])
    assert (await thief.reply()).status == 401


async def test_body_is_asked_for_when_the_user_may_send_it(toy: Toy) -> None:
    peer = await toy.connect()
    await peer.stream.send_all(peer.encode("POST", toy.post, b"x", {"Expect": "100-continue"})[:-1])
    assert bytes(await peer.stream.receive_some(100)) == b"HTTP/1.1 100 Continue\r\n\r\n"
    await peer.stream.send_all(b"x")
    assert (await peer.reply()).status == 204


async def test_body_that_is_too_long_is_refused_unread(toy: Toy) -> None:
    peer = await toy.connect()
    head = peer.encode("POST", toy.post, b"", {"Content-Length": str(LARGEST + 1)})
    await peer.stream.send_all(head)
    assert (await peer.reply()).status == 413
    assert await peer.reply() == ENDED


async def test_chunks_that_are_too_long_together_are_refused(toy: Toy) -> None:
    peer = await toy.connect()
    head = peer.encode("POST", toy.post, b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    chunk = b"100000\r\n" + bytes(1 << 20) + b"\r\n"
    await peer.stream.send_all(head + chunk * (LARGEST // (1 << 20)) + b"1\r\nx\r\n")
    assert (await peer.reply()).status == 413


async def test_what_is_no_http_is_answered_by_400(toy: Toy) -> None:
    peer = await toy.connect()
    await peer.stream.send_all(b"HELO there\r\n\r\n")
    assert (await peer.reply()).status == 400
    assert await peer.reply() == ENDED


# Pressure


async def test_patience_with_an_alarm_ends_with_503(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HTTPToyEndpoint, "patience", 0.0)
    await toy.broker.publish("", "q", bytes(20_000))
    toy.broker.set_memory_high_watermark(10_000)
    reply = await (await toy.connect()).ask("POST", toy.post, b"x")
    assert (reply.status, reply.headers["retry-after"]) == (503, "10")
    assert (await toy.broker.queue("q").statistics()).ready == 1


async def test_patience_with_a_full_disk_ends_with_507(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HTTPToyEndpoint, "patience", 0.0)
    async with opened(tmp_path) as toy:
        peer = await toy.connect()
        with unwritable(toy.broker):
            reply = await peer.ask("POST", toy.post, b"x", {"X-Persistent": "yes"})
        assert (reply.status, reply.headers["retry-after"]) == (507, "10")


async def test_publish_that_waits_is_answered_when_the_alarm_is_over(toy: Toy) -> None:
    await toy.broker.publish("", "q", bytes(20_000))
    toy.broker.set_memory_high_watermark(10_000)
    peer = await toy.connect()
    await peer.stream.send_all(peer.encode("POST", toy.post, b"x"))
    await trio.testing.wait_all_tasks_blocked(0.005)
    assert (await toy.broker.queue("q").statistics()).ready == 1
    toy.broker.set_memory_high_watermark(0)
    assert (await peer.reply()).status == 204


# Time


async def test_poll_that_gets_nothing_for_a_while_is_answered(toy: Toy) -> None:
    peer = await toy.connect()
    await toy.begin_poll(peer)
    toy.jump(21)
    assert (await peer.reply()).status == 204
    await toy.until(feeds=0)


async def test_session_without_requests_ends_and_what_it_has_goes_back(toy: Toy) -> None:
    peer = await toy.connect()
    await toy.broker.publish("", "q", b"x")
    assert (await peer.ask("GET", toy.poll)).body == b"x"
    toy.jump(6)
    await toy.until(unsettled=0)
    await toy.require_in_queue(b"x", redelivered=True)
    assert (await peer.ask("GET", toy.poll)).status == 404


async def test_client_that_never_finishes_a_head_is_let_go(toy: Toy) -> None:
    peer = await toy.connect()
    await peer.stream.send_all(b"GET / HTTP/1.1\r\n")
    for _ in range(3):
        await trio.testing.wait_all_tasks_blocked(0.005)
        toy.jump(5)
    assert (await peer.reply()).status == 408


# The end


async def test_drain_wakes_polls_and_lets_publishes_end() -> None:
    async with opened() as toy, trio.open_nursery() as nursery:
        waiting, publishing, idle = await toy.connect(), await toy.connect(), await toy.connect()
        await toy.begin_poll(waiting)
        encoded = publishing.encode("POST", toy.post, b"x")
        await publishing.stream.send_all(encoded[:-1])
        await trio.testing.wait_all_tasks_blocked(0.005)
        nursery.start_soon(toy.broker.drain)
        woken = await waiting.reply()
        assert (woken.status, woken.headers["connection"]) == (503, "close")
        assert await idle.reply() == ENDED
        await publishing.stream.send_all(encoded[-1:])
        done = await publishing.reply()
        assert (done.status, done.headers["connection"]) == (204, "close")
        for peer in (waiting, publishing, idle):
            await peer.stream.aclose()
