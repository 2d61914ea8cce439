"""An XPUB: who may subscribe, who gets what, and who is not waited for."""

import pytest
import trio
import zmq

from triomq.transports.zmq import Broadcast, ZMQSocket, close_context, make_context


async def test_subscriptions_are_asked_for_and_messages_go_by_the_beginning_of_their_topic(
    nursery: trio.Nursery,
) -> None:
    context, asked = make_context(), []

    def may_subscribe(user: str, topic: bytes) -> bool:
        asked.append((user, topic))
        return topic != b"secret"

    broadcast = Broadcast(context, may_subscribe)
    address = broadcast.bind("tcp://127.0.0.1:0")
    nursery.start_soon(broadcast.run)
    subscriber = ZMQSocket(context, zmq.SUB)
    for topic in (b"secret", b"a."):
        subscriber.socket.setsockopt(zmq.SUBSCRIBE, topic)
    subscriber.connect(address)
    with trio.fail_after(60):
        while len(asked) < 2:  # noqa: ASYNC110  # a thread of libzmq works
            await trio.sleep(0.001)
        for topic in (b"secret", b"b", b"a.1"):
            broadcast.publish([(topic, b"message")])
        assert await subscriber.receive() == [[b"a.1", b"message"]]
    assert sorted(asked) == [("", b"a."), ("", b"secret")]
    broadcast.close()
    broadcast.publish([(b"a.1", b"late")])  # which nobody hears
    subscriber.close()
    await close_context(context)


async def test_run_ends_when_it_is_closed(nursery: trio.Nursery) -> None:
    context = make_context()
    broadcast = Broadcast(context, lambda user, topic: True)
    broadcast.bind("tcp://127.0.0.1:0")
    with trio.fail_after(60):
        async with trio.open_nursery() as running:
            running.start_soon(broadcast.run)
            await trio.testing.wait_all_tasks_blocked()
            broadcast.close()
    with pytest.raises(trio.ClosedResourceError):
        broadcast.events()
    await close_context(context)
