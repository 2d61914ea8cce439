"""One peer of the endpoint: what it may, what is refused, and how it ends."""

from collections.abc import AsyncIterator

import pytest
import trio
import zmq

from endpoints.emqp.conftest import CALL, USERS, Served
from endpoints.emqp.raw import RawPeer
from triomq.app import User, open_broker
from triomq.endpoints import EMQP
from triomq.endpoints.emqp import peer as peer_module

BINARY = b"\xff\xfe"


# What is refused


async def test_nonsense_is_counted_and_harms_nobody(served: Served) -> None:
    client, other = served.connect(), await served.client()
    for frames in ([b"x"], [b""] * 40, [b"", b"eMQP/1.0", b"REQUEST", b"i", b"q", b"", BINARY], [BINARY] * 7):
        await client.say(*frames)
    await served.count("malformed", 4)
    assert (await other.answer_to(await other.request(CALL))).command == b"ACK"
    await served.wait_ready("q", 1)


async def test_peer_with_extensions_hears_why_a_message_is_refused(served: Served) -> None:
    client = await served.client()
    msgid = await client.send(b"REQUEST", b"q")
    answer = await client.answer_to(msgid)
    assert (answer.command, answer.rest[1]) == (b"ERROR", b"malformed")


async def test_released_client_is_not_answered_and_the_broker_counts_what_it_refuses(served: Served) -> None:
    await served.broker.declare_queue("small", max_length=1, overflow="reject-publish", durable=False)
    client = served.connect()
    for _ in range(3):
        await client.request(CALL, "small")
    await served.count("refused", 2)
    assert client.of(b"ERROR") == []


async def test_jobs_wait_while_memory_is_short_and_answers_do_not(served: Served) -> None:
    worker, client = await served.worker(ready=1), await served.client()
    await client.request(CALL, headers=b"reply-requested")
    (request,) = await worker.hear(b"REQUEST")
    await served.broker.declare_queue("full", durable=False)
    await served.broker.publish("", "full", bytes(20_000))
    served.broker.set_memory_high_watermark(10_000)
    late = await client.request(CALL)
    await worker.reply(request)
    await client.hear(b"REPLY")
    assert not [heard for heard in client.of(b"ACK") if heard.rest[0] == late]
    served.broker.set_memory_high_watermark(0)
    assert (await client.answer_to(late)).command == b"ACK"


async def test_many_jobs_that_wait_are_refused_in_the_end_and_the_others_keep_their_order(served: Served) -> None:
    client = await served.client()
    await served.broker.declare_queue("q", durable=False)
    await served.broker.declare_queue("full", durable=False)
    await served.broker.publish("", "full", bytes(20_000))
    served.broker.set_memory_high_watermark(10_000)
    ids = [await client.request(b"%d" % number) for number in range(150)]
    refused = await client.hear(b"ERROR", 50)
    assert [heard.rest[0] for heard in refused] == ids[100:]
    assert {heard.rest[1] for heard in refused} == {b"full"}
    served.broker.set_memory_high_watermark(0)
    await client.answer_to(ids[99])
    bodies = [message.body for message in await served.broker.queue("q").browse(limit=1000)]
    assert bodies == [b"%d" % number for number in range(100)]


# How it ends


async def test_broker_that_goes_says_goodbye_and_waits_for_answers(served: Served) -> None:
    worker, client = await served.worker(ready=1), await served.client()
    await client.request(CALL, headers=b"guarantee")
    (request,) = await worker.hear(b"REQUEST")
    served.broker.drain_seconds = 5.0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(served.broker.drain)
        await worker.hear(b"KBYE")  # as released programs call it
        await worker.reply(request)
    assert (await served.broker.queue("q").statistics()).unsettled == 0


async def test_peer_that_never_said_what_it_is_is_forgotten_after_a_while(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_module, "_SILENT_GUEST", 0.05)
    client = served.connect()
    await client.request(CALL)
    await served.wait_ready("default", 1)
    with trio.fail_after(60):
        while served.endpoint.peers:  # noqa: ASYNC110  # a thread of libzmq works
            await trio.sleep(0.005)


async def test_client_that_was_forgotten_gets_its_answer_from_a_worker_at_another_port(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_module, "_SILENT_GUEST", 0.05)
    async with open_broker(EMQP(port=0, worker_port=0), users=USERS, drain=0.2) as broker:
        served = Served(broker, nursery, EMQP())
        client, worker = served.connect(), RawPeer(served.endpoint.routers[1].port)
        nursery.start_soon(worker.run)
        await worker.work("q", ready=1)
        await client.request(CALL, headers=b"reply-requested")
        (request,) = await worker.hear(b"REQUEST")
        with trio.fail_after(60):
            while len(served.endpoint.peers) > 1:  # noqa: ASYNC110  # a thread of libzmq works
                await trio.sleep(0.005)
        await worker.reply(request)
        await client.hear(b"REPLY")


@pytest.fixture
async def guarded(nursery: trio.Nursery) -> AsyncIterator[Served]:
    """An endpoint that asks for passwords."""
    config = EMQP(port=0, security="plain", heartbeat=0.1, silence=20.0)
    async with open_broker(config, users=USERS, drain=0.2) as broker:
        yield Served(broker, nursery, config)


def logged_in(guarded: Served, user: str, identity: bytes = b"") -> RawPeer:
    def prepare(socket: zmq.Socket[bytes]) -> None:
        socket.plain_username = socket.plain_password = user.encode()

    return guarded.connect(identity, prepare)


async def test_answer_is_for_the_user_that_has_asked_whoever_has_its_identity_now(guarded: Served) -> None:
    worker = logged_in(guarded, "guest")
    await worker.work("q", ready=1)
    asking = logged_in(guarded, "guest", b"same")
    await asking.join()
    await asking.request(CALL, headers=b"reply-requested")
    (request,) = await worker.hear(b"REQUEST")
    await asking.close()
    other = logged_in(guarded, "other", b"same")
    with trio.fail_after(60):
        while not other.heard:
            await other.send(b"INFORM", b"", b"client", b'{"v": 1, "capabilities": ["jobs"]}')
            await trio.sleep(0.05)
    await worker.reply(request)
    await guarded.count("unanswered")
    assert other.of(b"REPLY") == []


async def test_worker_that_may_not_read_a_queue_is_refused(guarded: Served) -> None:
    await guarded.broker.declare_queue("q", durable=False)
    nobody = {**USERS, "reader": User(password="reader", permissions={})}
    guarded.broker.set_users(nobody)
    worker = logged_in(guarded, "reader")
    msgid = await worker.send(b"INFORM", b'["q"]', b"worker", b'{"v": 1, "capabilities": ["jobs"]}')
    answer = await worker.answer_to(msgid)
    assert (answer.command, answer.rest[1]) == (b"ERROR", b"forbidden")


async def test_client_that_sends_without_end_holds_up_no_other(served: Served) -> None:
    greedy, other = served.connect(), await served.client()
    async with trio.open_nursery() as nursery:

        async def send_without_end() -> None:
            while True:
                await greedy.request(CALL)

        nursery.start_soon(send_without_end)
        await served.broker.declare_queue("other", durable=False)
        for _ in range(10):
            assert (await other.answer_to(await other.request(CALL, "other"))).command == b"ACK"
        nursery.cancel_scope.cancel()


async def test_client_that_is_busy_while_thousands_of_answers_come_gets_them_all(served: Served) -> None:
    worker, client = await served.worker(ready=2000), await served.client()
    client.stop_reading()
    for _ in range(2000):
        await client.request(CALL, headers=b"reply-requested")
    answer = b'{"value": "%s"}' % (b"a" * 8000)
    for request in await worker.hear(b"REQUEST", 2000):
        await worker.reply(request, answer)
    await worker.answer_to(await worker.send(b"STATUS"))  # comes behind all answers
    assert served.endpoint.context.unread.held > 1024 * 1024
    await client.read_again(b"REPLY", 2000)


INFORM_AGAIN = b'{"v": 1, "capabilities": ["jobs"], "identity": "first"}'


async def test_peer_that_comes_under_another_identity_is_known_by_its_first_one(served: Served) -> None:
    worker = await served.worker(ready=1)
    first, second = served.connect(b"first"), served.connect(b"second")
    await first.join()
    await first.request(CALL, headers=b"reply-requested")
    (request,) = await worker.hear(b"REQUEST")
    await second.answer_to(await second.send(b"INFORM", b"", b"client", INFORM_AGAIN))
    await worker.reply(request)
    await second.hear(b"REPLY")
    assert not [heard for heard in first.heard if heard.command == b"REPLY"]
    assert [peer.identity for peer in served.endpoint.peers.values() if peer.worker is None] == [b"second"]


async def test_word_of_an_earlier_connection_does_not_bring_that_back(served: Served) -> None:
    worker = await served.worker(ready=1)
    first, second = served.connect(b"first"), served.connect(b"second")
    await first.join()
    await second.answer_to(await second.send(b"INFORM", b"", b"client", INFORM_AGAIN))
    await first.answer_to(await first.send(b"STATUS"))
    await second.request(CALL, headers=b"reply-requested")
    (request,) = await worker.hear(b"REQUEST")
    await worker.reply(request)
    await second.hear(b"REPLY")


async def test_nobody_is_known_by_the_identity_of_another_users_peer(guarded: Served) -> None:
    first, second = logged_in(guarded, "guest", b"first"), logged_in(guarded, "other", b"second")
    await first.join()
    await second.send(b"INFORM", b"", b"client", INFORM_AGAIN)
    (refusal,) = await second.hear(b"ERROR")
    assert refusal.rest[1] == b"forbidden"
    assert guarded.endpoint.peers[b"first"].login == "guest"
