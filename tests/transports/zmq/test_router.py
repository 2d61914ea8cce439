"""A ROUTER with many peers: blocking DEALERs of pyzmq itself, in contexts of their own."""

from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing
import zmq

from triomq.transports.zmq import Frames, Received, Router, Sent, close_context, make_context


class Served:
    """A router that runs, what it has received, and its peers."""

    def __init__(self) -> None:
        self.contexts = [make_context(), make_context()]
        self.received: list[tuple[bytes, Frames, str]] = []
        self.drained: list[bytes] = []
        self.gone: list[bytes] = []
        self.router = Router(
            self.contexts[0],
            self.take,
            drained=self.drained.append,
            gone=self.gone.append,
            outbox_bytes=1_000_000,
        )
        self.address = self.router.bind("tcp://127.0.0.1:0")
        self.peers: list[zmq.Socket[bytes]] = []

    def take(self, found: Received) -> None:
        self.received += [(identity, frames, user) for (identity, user), sent in found.items() for frames in sent]

    def connect(self, identity: bytes = b"") -> zmq.Socket[bytes]:
        peer = self.contexts[1].socket(zmq.DEALER)
        self.peers.append(peer)
        peer.set_hwm(1)
        peer.rcvtimeo = 5000
        peer.setsockopt(zmq.RCVBUF, 4096)
        if identity:
            peer.identity = identity
        peer.connect(self.address)
        return peer

    async def wait_received(self, count: int) -> None:
        with trio.fail_after(60):
            while len(self.received) < count:  # noqa: ASYNC110  # a thread of libzmq works
                await trio.sleep(0.001)

    async def join(self, identity: bytes) -> zmq.Socket[bytes]:
        """Connect, and wait until the router knows the peer."""
        peer, before = self.connect(identity), len(self.received)
        peer.send(b"hello")
        await self.wait_received(before + 1)
        return peer

    async def fill(self, identity: bytes, size: int = 100_000) -> int:
        """Send until the peer's outbox is full, and return how many messages were taken."""
        count = 0
        while self.router.send_to(identity, [b"%06d" % count, bytes(size)]) is Sent.TAKEN:
            count += 1
            if not self.router.unsent(identity):
                await trio.sleep(0.001)  # libzmq's thread still finds room in buffers of the system
        return count


@pytest.fixture
async def served(nursery: trio.Nursery) -> AsyncIterator[Served]:
    served = Served()
    nursery.start_soon(served.router.run)
    yield served
    served.router.close()
    await close_context(served.contexts[0])
    served.contexts[1].destroy(0)


async def test_messages_come_with_the_identity_of_their_peer_and_answers_go_to_it(served: Served) -> None:
    one, two = await served.join(b"one"), await served.join(b"two")
    assert served.received == [(b"one", [b"hello"], ""), (b"two", [b"hello"], "")]
    assert served.router.send_to(b"two", [b"to", b"two"]) is Sent.TAKEN
    assert served.router.send_to(b"one", [b"to", b"one"]) is Sent.TAKEN
    assert one.recv_multipart() == [b"to", b"one"]
    assert two.recv_multipart() == [b"to", b"two"]


async def test_unknown_peer_is_gone(served: Served) -> None:
    assert served.router.send_to(b"stranger", [b"hello"]) is Sent.GONE


async def test_slow_peer_has_a_bounded_outbox_and_holds_up_no_other(served: Served) -> None:
    slow, fast = await served.join(b"slow"), await served.join(b"fast")
    count = await served.fill(b"slow")
    assert 800_000 < served.router.unsent(b"slow") <= 1_000_000
    assert served.router.send_to(b"slow", [bytes(100_000)]) is Sent.FULL
    assert served.router.send_to(b"fast", [b"hello"]) is Sent.TAKEN
    assert fast.recv() == b"hello"
    fast.send(b"still read")
    await served.wait_received(3)

    def read_all() -> list[bytes]:
        return [slow.recv_multipart()[0] for _ in range(count)]

    assert await trio.to_thread.run_sync(read_all) == [b"%06d" % number for number in range(count)]
    assert served.drained == [b"slow"]
    assert served.router.unsent(b"slow") == 0
    assert served.router.send_to(b"slow", [b"more"]) is Sent.TAKEN


async def test_large_message_is_taken_when_nothing_else_waits(served: Served) -> None:
    slow = await served.join(b"slow")
    while not served.router.unsent(b"slow"):
        assert served.router.send_to(b"slow", [bytes(2_000_000)]) is Sent.TAKEN
        await trio.sleep(0.001)
    assert served.router.unsent(b"slow") > 2_000_000
    assert served.router.send_to(b"slow", [b"small"]) is Sent.FULL
    served.router.forget(b"slow")
    assert served.router.unsent(b"slow") == 0
    slow.close(0)


async def test_peer_that_leaves_with_an_outbox_is_told_of(served: Served) -> None:
    slow = await served.join(b"slow")
    await served.fill(b"slow")
    assert served.router.stuck_for(b"slow", trio.current_time() + 7) > 6
    slow.close(0)
    with trio.fail_after(60):
        while served.gone != [b"slow"]:  # noqa: ASYNC110  # a thread of libzmq works
            await trio.sleep(0.001)
    assert served.router.stuck_for(b"slow", trio.current_time()) == 0
    assert served.router.send_to(b"slow", [b"late"]) is Sent.GONE


async def test_closed_router_sends_nothing(served: Served) -> None:
    served.router.close()
    with pytest.raises(trio.ClosedResourceError):
        served.router.send_to(b"slow", [b"late"])


async def test_large_frames_wait_in_the_outbox_of_a_peer_that_does_not_read_and_not_with_libzmq(
    nursery: trio.Nursery,
) -> None:
    contexts, drained = [make_context(), make_context()], trio.Event()
    router = Router(
        contexts[0], lambda found: None, drained=lambda name: drained.set(), outbox_bytes=1 << 30, high_water=200
    )
    address = router.bind("tcp://127.0.0.1:0")
    nursery.start_soon(router.run)
    peer = contexts[1].socket(zmq.DEALER)
    peer.set_hwm(1)
    peer.setsockopt(zmq.RCVBUF, 4096)
    peer.rcvtimeo = 5000
    peer.identity = b"one"
    peer.connect(address)
    with trio.fail_after(60):
        while router.send_to(b"one", [b"hello"]) is Sent.GONE:  # noqa: ASYNC110  # a thread of libzmq works
            await trio.sleep(0.001)
        for number in range(60):
            assert router.send_to(b"one", [b"%d" % number, bytes(1 << 20)]) is Sent.TAKEN
        assert router.unsent(b"one") > 40 << 20  # beside a few for libzmq, and for the buffers of the system
        assert await trio.to_thread.run_sync(peer.recv_multipart) == [b"hello"]
        for number in range(60):
            found, _ = await trio.to_thread.run_sync(peer.recv_multipart)
            assert found == b"%d" % number
        await drained.wait()
    assert router.unsent(b"one") == 0
    router.close()
    await close_context(contexts[0])
    contexts[1].destroy(0)
