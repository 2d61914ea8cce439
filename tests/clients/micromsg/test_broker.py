"""The client with a broker of ours: queues, topics with filters, users, subscriptions that are kept, and restarts."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from clients.amqp.proxy import Proxy
from ports import free_port
from transports.test_tls import Files, client_context
from triomq import MicroMsg
from triomq.app import Broker, User, open_broker
from triomq.clients import FilterCondition, MicroMsgConnection, MicroMsgSubscription, Reconnect, open_micromsg
from triomq.errors import AccessRefused, ConsumerCancelled, Disconnected, LimitExceeded, NotFound
from triomq.security import ALL

SOON = Reconnect(delay=0.01, max_delay=0.05, jitter=0.0)


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    with trio.fail_after(60):
        async with open_broker() as broker:
            yield broker


@pytest.fixture
async def url(broker: Broker) -> str:
    listening = await broker.listen(MicroMsg(port=0, dynamic_topics=True))
    await broker.declare_queue("q")
    return f"micromsg://127.0.0.1:{listening.port}"


@pytest.fixture
async def micromsg(url: str) -> AsyncIterator[MicroMsgConnection]:
    async with open_micromsg(url, reconnect=SOON) as micromsg:
        yield micromsg


async def publish_all(micromsg: MicroMsgConnection, destination: str, count: int) -> None:
    async with micromsg.open_pipeline() as pipeline:
        for number in range(count):
            await pipeline.publish(destination, b"%d" % number, {"number": number})


async def take(messages: MicroMsgSubscription, count: int) -> list[int]:
    taken = list[int]()
    async for message in messages:
        message.accept()
        taken.append(int(message.body))
        if len(taken) == count:
            break
    return taken


@pytest.mark.parametrize("window", [0, 1, 7, 1000])
async def test_messages_come_as_they_were_published(url: str, window: int) -> None:
    async with open_micromsg(f"{url}?window={window}") as micromsg, trio.open_nursery() as nursery:
        nursery.start_soon(publish_all, micromsg, "queue/q", 300)
        async with micromsg.subscribe("queue/q") as messages:
            for number in range(300):
                message = await anext(messages)
                message.accept()
                assert (message.body, message.properties["number"]) == (b"%d" % number, number)


async def test_large_messages_go_through_in_parts(micromsg: MicroMsgConnection) -> None:
    body = bytes(range(256)) * 20_000
    await micromsg.publish("queue/q", body)
    async with micromsg.subscribe("queue/q") as messages:
        assert (await anext(messages)).body == body


async def test_filter_lets_through_what_matches(micromsg: MicroMsgConnection, url: str) -> None:
    conditions = [FilterCondition("number", "at-least", 5), FilterCondition("number", "different", 7)]
    async with (
        open_micromsg(url) as other,
        micromsg.subscribe("topic/numbers", filter="number<N3") as few,
        other.subscribe("topic/numbers", filter=conditions) as many,
    ):
        await publish_all(micromsg, "topic/numbers", 10)
        assert await take(few, 3) == [0, 1, 2]
        assert await take(many, 4) == [5, 6, 8, 9]


async def test_what_was_not_accepted_goes_back_when_the_block_is_left(micromsg: MicroMsgConnection) -> None:
    await publish_all(micromsg, "queue/q", 20)
    async with micromsg.subscribe("queue/q") as messages:
        assert await take(messages, 5) == [0, 1, 2, 3, 4]
        kept = await anext(messages)
    kept.accept()
    async with micromsg.subscribe("queue/q") as messages:
        message = await anext(messages)
        assert (message.body, message.redelivered) == (b"5", True)
        message.accept()
        assert await take(messages, 14) == list(range(6, 20))


async def test_window_is_free_again_behind_many_subscriptions(url: str) -> None:
    async with open_micromsg(f"{url}?window=10") as micromsg:
        await publish_all(micromsg, "queue/q", 100)
        for start in range(0, 100, 4):
            async with micromsg.subscribe("queue/q") as messages:
                assert await take(messages, 4) == list(range(start, start + 4))


async def test_message_of_a_consumer_that_dies_goes_to_the_next_one(micromsg: MicroMsgConnection, url: str) -> None:
    await publish_all(micromsg, "queue/q", 3)

    async def die() -> None:
        async with open_micromsg(url) as other, other.subscribe("queue/q") as messages:
            with await anext(messages):
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await die()
    async with micromsg.subscribe("queue/q") as messages:
        assert await take(messages, 3) == [0, 1, 2]


async def test_what_the_broker_refuses_is_an_error(micromsg: MicroMsgConnection) -> None:
    with pytest.raises(NotFound, match=r"404 .*nowhere"):
        async with micromsg.subscribe("queue/nowhere"):
            pass
    await micromsg.publish("queue/q", b"still here")
    with pytest.raises(NotFound, match=r"404 .*nowhere"):
        await micromsg.publish("queue/nowhere", b"x")
    with pytest.raises(NotFound, match=r"404 .*nowhere"):
        await micromsg.publish("queue/q", b"ended for good")


async def test_message_that_is_too_large_for_the_broker_ends_the_connection(broker: Broker) -> None:
    listening = await broker.listen(MicroMsg(port=0, max_message_size=2000))
    async with open_micromsg(f"micromsg://127.0.0.1:{listening.port}") as micromsg:
        with pytest.raises(LimitExceeded, match="413"):
            await micromsg.publish("queue/q", bytes(3000))


async def test_deleted_queue_ends_its_subscription(broker: Broker, micromsg: MicroMsgConnection) -> None:
    queue = await broker.declare_queue("q")
    async with micromsg.subscribe("queue/q") as messages:
        await queue.delete()
        with pytest.raises(ConsumerCancelled, match="has ended 'queue/q'"):
            await anext(messages)


USERS = {"ada": User(password="secret", permissions={"*": ALL})}


async def test_client_goes_on_with_a_broker_that_was_restarted(tmp_path: Path) -> None:
    config = MicroMsg(port=free_port())

    async def serve(task_status: trio.TaskStatus[trio.Event]) -> None:
        over = trio.Event()
        async with open_broker(config, data_dir=str(tmp_path)) as broker:
            await broker.declare_queue("q", durable=True)
            task_status.started(over)
            await over.wait()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            first = await nursery.start(serve)
            async with (
                open_micromsg(f"micromsg://127.0.0.1:{config.port}", reconnect=SOON) as micromsg,
                micromsg.subscribe("queue/q") as messages,
            ):
                await publish_all(micromsg, "queue/q", 10)
                assert await take(messages, 4) == [0, 1, 2, 3]
                first.set()
                await micromsg.wait_disconnected()
                second = await nursery.start(serve)
                await publish_all(micromsg, "queue/q", 1)
                found = set(await take(messages, 7))
                assert {0, 4, 5, 6, 7, 8, 9} == found
                assert micromsg.statistics().reconnects == 1
            second.set()


@pytest.mark.parametrize("mechanism", ["", "scram-sha-256", "plain"])
async def test_user_logs_in(mechanism: str) -> None:
    option = f"?auth_mechanism={mechanism}" if mechanism else ""
    with trio.fail_after(60):
        async with open_broker(users=USERS) as broker:
            listening = await broker.listen(MicroMsg(port=0, user="", dynamic_queues=True))
            place = f"127.0.0.1:{listening.port}/{option}"
            async with open_micromsg(f"micromsg://ada:secret@{place}") as micromsg:
                await micromsg.publish("queue/mine", b"x")
            for who in ("ada:wrong", "eve:secret"):
                with pytest.raises(AccessRefused, match="401 log-in by"):
                    async with open_micromsg(f"micromsg://{who}@{place}"):
                        pass
            with pytest.raises(AccessRefused, match="lets nobody in without a log-in"):
                async with open_micromsg(f"micromsg://127.0.0.1:{listening.port}"):
                    pass


async def test_subscription_with_an_id_misses_nothing_while_the_connection_is_lost() -> None:
    with trio.fail_after(60):
        async with open_broker(users=USERS) as broker, trio.open_nursery() as nursery:
            listening = await broker.listen(MicroMsg(port=0, dynamic_topics=True))
            proxy = Proxy("127.0.0.1", listening.port, nursery)
            await proxy.listen()
            async with (
                open_micromsg(f"micromsg://ada:secret@127.0.0.1:{listening.port}") as publisher,
                open_micromsg(f"micromsg://ada:secret@127.0.0.1:{proxy.port}", reconnect=SOON) as reader,
                reader.subscribe("topic/numbers", filter="number>N2", id="s1") as messages,
            ):
                await publish_all(publisher, "topic/numbers", 5)
                assert await take(messages, 1) == [3]
                proxy.refusing = True
                proxy.cut()
                await reader.wait_disconnected()
                await publish_all(publisher, "topic/numbers", 6)
                proxy.refusing = False
                found = list[tuple[int, bool]]()
                while (5, False) not in found:
                    message = await anext(messages)
                    found.append((int(message.body), message.redelivered))
                    message.accept()
                assert [number for number, _ in found][-4:] == [4, 3, 4, 5]
            nursery.cancel_scope.cancel()


async def test_connections_that_are_cut_again_and_again_lose_nothing_that_was_acked(broker: Broker, url: str) -> None:
    count, found = 3000, list[int]()
    async with trio.open_nursery() as nursery:
        proxy = Proxy("127.0.0.1", int(url.rpartition(":")[2]), nursery)
        await proxy.listen()
        place = f"micromsg://127.0.0.1:{proxy.port}?window=50"
        async with (
            open_micromsg(place, reconnect=SOON) as publisher,
            open_micromsg(place, reconnect=SOON) as reader,
            reader.subscribe("queue/q") as messages,
        ):
            nursery.start_soon(publish_all, publisher, "queue/q", count)
            async for message in messages:
                message.accept()
                found.append(int(message.body))
                if len(found) % 400 == 0:
                    proxy.cut()
                if len(set(found)) == count:
                    break
            assert set(found) == set(range(count))
            assert reader.statistics().reconnects >= 5
            assert publisher.statistics().reconnects >= 3
        nursery.cancel_scope.cancel()


async def test_client_over_tls_trusts_whom_it_is_told_to(broker: Broker, tmp_path: Path) -> None:
    listening = await broker.listen(MicroMsg(port=0, tls=Files(tmp_path).tls()))
    await broker.declare_queue("q")
    url = f"micromsgs://localhost:{listening.port}"
    async with open_micromsg(url, ssl_context=client_context()) as micromsg:
        await micromsg.publish("queue/q", b"x")
    with pytest.raises(Disconnected, match="TLS with"):
        async with open_micromsg(url):
            pass


async def test_client_over_a_unix_socket(broker: Broker, tmp_path: Path) -> None:
    await broker.listen(MicroMsg(path=str(tmp_path / "mm.sock")))
    await broker.declare_queue("q")
    async with open_micromsg(f"micromsg+unix://{tmp_path}/mm.sock") as micromsg:
        await micromsg.publish("queue/q", b"x")


async def test_client_that_cannot_connect_says_where(broker: Broker) -> None:
    with pytest.raises(Disconnected, match=r"no broker can be reached at 127.0.0.1:\d+: "):
        async with open_micromsg(f"micromsg://127.0.0.1:{free_port()}"):
            pass
