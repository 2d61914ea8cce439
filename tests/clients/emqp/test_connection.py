"""``open_emqp`` and ``open_emqp_worker`` against our own broker, over real sockets."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from ports import free_port
from triomq.app import Broker, User, open_broker
from triomq.clients import open_emqp, open_emqp_worker
from triomq.endpoints import EMQP
from triomq.endpoints.emqp.endpoint import EMQPEndpoint
from triomq.errors import AccessRefused, ConfigError, Disconnected, LimitExceeded, LocalProtocolError
from triomq.protocols.emqp import Extension
from triomq.security import ALL, Permission
from triomq.transports import make_curve_keys, write_curve_keys

USERS = {
    "guest": User(password="guest", permissions={"*": ALL}),
    "reader": User(password="reader", permissions={"*": Permission("", "", ".*")}),
}


def endpoint_of(broker: Broker) -> EMQPEndpoint:
    (found,) = (ref.actor for ref in broker.endpoints.children.values() if isinstance(ref.actor, EMQPEndpoint))
    return found


def url_of(broker: Broker, who: str = "", more: str = "") -> str:
    return f"emqp://{who}127.0.0.1:{endpoint_of(broker).listener.port}{more}"


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    with trio.fail_after(60):
        async with open_broker(EMQP(port=0, heartbeat=0.1, silence=2.0), users=USERS, drain=0.2) as broker:
            await broker.declare_queue("q", durable=False)
            yield broker


async def test_request_is_answered_by_a_worker(broker: Broker) -> None:
    async def work() -> None:
        async with open_emqp_worker(url_of(broker), ["q"]) as worker:
            async for job in worker:
                assert (job.queue, job.attempt, job.timeout) == ("q", 1, 5.0)
                job.reply(b'{"value": ' + job.message + b"}")

    async with open_emqp(url_of(broker)) as emqp, trio.open_nursery() as nursery:
        nursery.start_soon(work)
        replies = [await emqp.request("q", b"%d" % number, job_timeout=5) for number in range(3)]
        assert [reply.message for reply in replies] == [b'{"value": 0}', b'{"value": 1}', b'{"value": 2}']
        assert replies[0].extension == Extension(state="ok", attempt=1)
        nursery.cancel_scope.cancel()


async def test_hundred_requests_at_a_time_are_done_by_two_workers_with_a_few_slots_each(broker: Broker) -> None:
    done: list[bytes] = []

    async def work() -> None:
        async with open_emqp_worker(url_of(broker), ["q"], slots=4) as worker:
            async for job in worker:
                done.append(job.message)
                job.reply(job.message)

    async def ask(number: int) -> None:
        reply = await emqp.request("q", b"%d" % number)
        assert reply.message == b"%d" % number

    async with open_emqp(url_of(broker)) as emqp, trio.open_nursery() as workers:
        workers.start_soon(work)
        workers.start_soon(work)
        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(ask, number)
        assert len(done) == 100
        workers.cancel_scope.cancel()


async def test_failed_job_is_tried_again_and_its_requester_hears_why(broker: Broker) -> None:
    attempts: list[int] = []

    async def work() -> None:
        async with open_emqp_worker(url_of(broker), ["q"]) as worker:
            async for job in worker:
                attempts.append(job.attempt)
                job.fail(ValueError("no"))

    async with open_emqp(url_of(broker)) as emqp, trio.open_nursery() as nursery:
        nursery.start_soon(work)
        reply = await emqp.request("q", b"1", retry_count=2, extension=Extension(backoff=(1, 1)))
        assert attempts == [1, 2, 3]
        assert reply.message == b'{"value":"no"}'
        assert (reply.extension.state, reply.extension.type) == ("failed", "ValueError")
        nursery.cancel_scope.cancel()


async def test_job_of_a_worker_that_goes_is_done_by_another_one(broker: Broker) -> None:
    async with open_emqp(url_of(broker)) as emqp, trio.open_nursery() as nursery:
        answers: list[bytes] = []

        async def ask() -> None:
            answers.append((await emqp.request("q", b"1", guarantee=True)).message)

        async with open_emqp_worker(url_of(broker), ["q"]) as first:
            nursery.start_soon(ask)
            await first.__anext__()
        async with open_emqp_worker(url_of(broker), ["q"]) as second:
            job = await second.__anext__()
            job.reply(b"done")
            job.reply(b"twice")
            while not answers:  # noqa: ASYNC110  # a thread of libzmq works
                await trio.sleep(0.001)
        assert answers == [b"done"]
        nursery.cancel_scope.cancel()


async def test_job_without_an_answer_is_sent_when_the_broker_has_it(broker: Broker) -> None:
    async with open_emqp(url_of(broker)) as emqp:
        await emqp.send("q", b"1")
        assert (await broker.queue("q").statistics()).ready == 1


async def test_full_queue_refuses_a_job(broker: Broker) -> None:
    await broker.declare_queue("small", max_length=1, overflow="reject-publish", durable=False)
    async with open_emqp(url_of(broker)) as emqp:
        await emqp.send("small", b"1")
        with pytest.raises(LimitExceeded):
            await emqp.send("small", b"2")


async def test_publications_come_to_those_who_want_their_topic(broker: Broker) -> None:
    async with open_emqp(url_of(broker)) as emqp, emqp.subscribe("news.*") as news, emqp.subscribe("#") as everything:
        await emqp.publish("news.today", b"sun")
        await emqp.publish("weather", b"rain")
        assert (await news.__anext__()).message == b"sun"
        got = await everything.__anext__()
        assert (got.topic, got.message) == ("news.today", b"sun")


async def test_publication_reaches_a_queue_of_another_wire_by_its_topic(broker: Broker) -> None:
    queue = await broker.declare_queue("mine", durable=False)
    await broker.sink("emqp.topic").bind(queue, "news.#")
    async with open_emqp(url_of(broker)) as emqp:
        await emqp.publish("news.today", b"sun")
    delivery = await queue.get()
    assert delivery is not None
    assert (delivery.body, delivery.key) == (b"sun", "news.today")
    assert not delivery.properties.persistent


async def test_publication_with_a_guarantee_is_persistent(broker: Broker) -> None:
    queue = await broker.declare_queue("mine", durable=False)
    await broker.sink("emqp.topic").bind(queue, "#")
    async with open_emqp(url_of(broker)) as emqp:
        await emqp.publish("news.today", b"sun", guarantee=True)
    delivery = await queue.get()
    assert delivery is not None
    assert delivery.properties.persistent


# Coming back


async def test_conversation_goes_on_after_the_endpoint_was_away(broker: Broker) -> None:
    async with open_emqp(url_of(broker, more="?heartbeat=0.05&silence=1")) as emqp:
        await emqp.send("q", b"1")
        endpoint = endpoint_of(broker)

        async def fail() -> None:
            raise RuntimeError("the endpoint has a bug")

        endpoint.start_task(fail)
        await emqp.send("q", b"2")
        while (await broker.queue("q").statistics()).ready < 2:  # noqa: ASYNC110  # a thread of libzmq works
            await trio.sleep(0.001)


async def test_client_and_worker_come_back_when_the_broker_was_restarted() -> None:
    config = EMQP(port=free_port(), heartbeat=0.1, silence=20.0)
    url = f"emqp://127.0.0.1:{config.port}"
    began, ended, lost = trio.Event(), trio.Event(), trio.Event()

    async def serve() -> None:
        async with open_broker(config, users=USERS, drain=0.05) as broker:
            await broker.declare_queue("q", durable=False)
            began.set()
            await ended.wait()
        async with open_broker(config, users=USERS, drain=0.05) as broker:
            await broker.declare_queue("q", durable=False)
            await trio.sleep_forever()

    async def work() -> None:
        async with open_emqp_worker(url, ["q"], slots=2) as worker:
            async for job in worker:
                if job.message != b"never":
                    job.reply(job.message)

    async def ask_in_vain() -> None:
        with pytest.raises(Disconnected):
            await emqp.request("q", b"never")
        lost.set()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            await began.wait()
            nursery.start_soon(work)
            async with open_emqp(url) as emqp:
                assert (await emqp.request("q", b"1")).message == b"1"
                nursery.start_soon(ask_in_vain)
                await emqp.request("q", b"behind it")
                ended.set()
                await lost.wait()
                assert (await emqp.request("q", b"2")).message == b"2"
            nursery.cancel_scope.cancel()


# Who may


async def test_broker_that_is_not_there_is_said_so() -> None:
    with pytest.raises(Disconnected, match="see that one listens for eMQP there"):
        async with open_emqp("emqp://127.0.0.1:9?timeout=0.1"):
            pass


async def test_passwords_and_rights_are_asked() -> None:
    async with open_broker(EMQP(port=0, security="plain"), users=USERS, drain=0.2) as broker:
        async with open_emqp(url_of(broker, "reader:reader@")) as emqp:
            with pytest.raises(AccessRefused):
                await emqp.send("q", b"1")
        with pytest.raises(Disconnected, match="this user"):
            async with open_emqp(url_of(broker, "guest:wrong@", "?timeout=0.2")):
                pass


async def test_keys_let_their_owner_in(tmp_path: Path) -> None:
    ours, broker_keys = make_curve_keys(), make_curve_keys()
    write_curve_keys(tmp_path / "ada.key_secret", ours)
    write_curve_keys(tmp_path / "broker.key_secret", broker_keys)
    users = {"ada": User(curve_key=ours.public, permissions={"*": ALL})}
    config = EMQP(port=0, security="curve", key_file=str(tmp_path / "broker.key_secret"))
    async with open_broker(config, users=users, drain=0.2) as broker:
        await broker.declare_queue("q", durable=False)
        more = f"?keys={tmp_path / 'ada.key_secret'}&server_key={tmp_path / 'broker.key_secret'}"
        async with open_emqp(url_of(broker, more=more)) as emqp:
            await emqp.send("q", b"1")


# Brokers without extensions


async def test_peer_without_extensions_is_not_acknowledged_but_answered(broker: Broker) -> None:
    async with open_emqp(url_of(broker, more="?extensions=no")) as emqp:
        assert not emqp.has_extensions
        async with open_emqp_worker(url_of(broker, more="?extensions=no"), ["q"]) as worker:
            await emqp.send("q", b'["run", {"path": "a", "callable": "b"}]')
            job = await worker.__anext__()
            job.reply()
        with pytest.raises(LocalProtocolError):
            async with emqp.subscribe("news"):
                pass


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("amqp://localhost", "begins with 'amqp'"),
        ("emqp://localhost:x", "cannot be read"),
        ("emqp://localhost/path", "behind the port"),
        ("emqp://localhost?nonsense=1", "'nonsense' is not known"),
        ("emqp://localhost?dialect=latin", "eventmq-0.3 or strict"),
        ("emqp://localhost?timeout=0", "seconds, more than 0"),
        ("emqp://localhost?keys=/nonexistent", "a file that is there"),
    ],
)
async def test_wrong_url_is_refused(url: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        async with open_emqp(url):
            pass
