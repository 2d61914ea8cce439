"""``open_emqp`` and ``open_emqp_worker`` to the broker of the same program, without sockets, in virtual time."""

from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from triomq.app import Broker, User, open_broker
from triomq.clients import EMQPJob, open_emqp, open_emqp_worker
from triomq.endpoints import EMQP
from triomq.endpoints.emqp.endpoint import EMQPEndpoint
from triomq.errors import Disconnected, NotFound
from triomq.protocols.emqp import Extension
from triomq.security import ALL


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with open_broker(users={}) as broker:
        yield broker


async def work(broker: Broker, queue: str = "q", *, slots: int = 1) -> None:
    async with open_emqp_worker(await broker.emqp_connector(), [queue], slots=slots) as worker:
        async for job in worker:
            job.reply(b'{"value": ' + job.message + b"}")


def endpoints_of(broker: Broker) -> list[EMQPEndpoint]:
    return [ref.actor for ref in broker.endpoints.children.values() if isinstance(ref.actor, EMQPEndpoint)]


async def test_request_is_answered_by_a_worker(autojump_clock: object, broker: Broker, nursery: trio.Nursery) -> None:
    nursery.start_soon(work, broker)
    async with open_emqp(await broker.emqp_connector()) as emqp:
        replies = [await emqp.request("q", b"%d" % number) for number in range(3)]
        assert [reply.message for reply in replies] == [b'{"value": 0}', b'{"value": 1}', b'{"value": 2}']
        assert replies[0].extension == Extension(state="ok", attempt=1)
    nursery.cancel_scope.cancel()


async def test_endpoint_without_a_socket_is_started_once(autojump_clock: object, broker: Broker) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(broker.emqp_connector)
        nursery.start_soon(broker.emqp_connector)
    assert [endpoint.addresses for endpoint in endpoints_of(broker)] == [[]]


async def test_conversations_go_on_when_the_endpoint_that_they_had_is_closed(
    autojump_clock: object, broker: Broker, nursery: trio.Nursery
) -> None:
    listening = await broker.listen(EMQP(port=None))
    nursery.start_soon(work, broker)
    async with open_emqp(await broker.emqp_connector()) as emqp:
        await emqp.request("q", b"1")
        await listening.aclose()
        with trio.fail_after(60):
            assert (await emqp.request("q", b"2")).message == b'{"value": 2}'
    nursery.cancel_scope.cancel()


async def test_hundreds_of_requests_at_a_time_are_all_answered(
    autojump_clock: object, broker: Broker, nursery: trio.Nursery
) -> None:
    nursery.start_soon(lambda: work(broker, slots=40))
    got: list[bytes] = []

    async def ask(number: int) -> None:
        got.append((await emqp.request("q", b"%d" % number)).message)

    async with open_emqp(await broker.emqp_connector()) as emqp:
        async with trio.open_nursery() as requests:
            for number in range(1500):
                requests.start_soon(ask, number)
        assert len(set(got)) == 1500
    nursery.cancel_scope.cancel()


async def test_hours_without_a_word_are_no_silence(
    autojump_clock: object, broker: Broker, nursery: trio.Nursery
) -> None:
    nursery.start_soon(work, broker)
    async with open_emqp(await broker.emqp_connector()) as emqp:
        assert (await emqp.request("q", b"1")).message == b'{"value": 1}'
        (endpoint,) = endpoints_of(broker)
        before = set(endpoint.peers.values())
        await trio.sleep(5 * 3600)
        assert (await emqp.request("q", b"2")).message == b'{"value": 2}'
        assert set(endpoint.peers.values()) == before
    nursery.cancel_scope.cancel()


async def test_job_of_a_worker_that_goes_is_done_by_another_one_at_once(autojump_clock: object, broker: Broker) -> None:
    async with open_emqp(await broker.emqp_connector()) as emqp, trio.open_nursery() as nursery:
        answers: list[bytes] = []

        async def ask() -> None:
            answers.append((await emqp.request("q", b"1", guarantee=True)).message)

        began = trio.current_time()
        async with open_emqp_worker(await broker.emqp_connector(), ["q"]) as first:
            nursery.start_soon(ask)
            await first.__anext__()
        nursery.start_soon(work, broker)
        await trio.testing.wait_all_tasks_blocked()
        assert answers == [b'{"value": 1}']
        assert trio.current_time() == began
        nursery.cancel_scope.cancel()


async def test_conversation_goes_on_after_a_crash_of_the_endpoint(autojump_clock: object, broker: Broker) -> None:
    async with open_emqp(await broker.emqp_connector()) as emqp:
        await emqp.send("q", b"1")

        async def fail() -> None:
            raise RuntimeError("the endpoint has a bug")

        endpoints_of(broker)[0].start_task(fail)
        await trio.testing.wait_all_tasks_blocked()
        with trio.fail_after(60):
            await emqp.send("q", b"2")
        assert (await broker.queue("q").statistics()).ready == 2


async def test_conversation_goes_on_after_its_peer_in_the_broker_has_crashed(
    autojump_clock: object, broker: Broker
) -> None:
    async with open_emqp(await broker.emqp_connector()) as emqp:
        await emqp.send("q", b"1")
        (peer,) = endpoints_of(broker)[0].peers.values()
        peer.ref.run_in_turn(lambda: 1 / 0)
        with trio.fail_after(60):
            await emqp.send("q", b"2")
        assert (await broker.queue("q").statistics()).ready == 2


async def test_slow_worker_of_large_jobs_does_not_fill_the_memory(autojump_clock: object, broker: Broker) -> None:
    body = bytes(100_000)
    async with open_emqp(await broker.emqp_connector()) as emqp:
        await broker.declare_queue("q")
        for _ in range(400):
            await emqp.send("q", body)
        async with open_emqp_worker(await broker.emqp_connector(), ["q"], slots=400) as worker:
            jobs: list[EMQPJob] = [await worker.__anext__() for _ in range(400)]
            assert all(job.message == body for job in jobs)


async def test_domain_of_its_own_is_found(autojump_clock: object, broker: Broker) -> None:
    await broker.add_domain("shop")
    async with open_emqp(await broker.emqp_connector("shop")) as emqp:
        await emqp.send("default", b"1")
    assert (await broker.domain("shop").queue("default").statistics()).ready == 1
    with pytest.raises(NotFound):
        await broker.emqp_connector("nowhere")


async def test_conversation_that_outlives_its_broker_hears_that_no_other_will_come() -> None:
    with pytest.RaisesGroup(Disconnected, flatten_subgroups=True):
        async with trio.open_nursery() as nursery, open_broker() as broker:
            nursery.start_soon(work, broker)
            await trio.testing.wait_all_tasks_blocked()


# Beside sockets: real time


async def test_client_in_memory_gets_the_answers_of_a_worker_over_a_socket() -> None:
    users = {"guest": User(password="guest", permissions={"*": ALL})}
    with trio.fail_after(60):
        async with open_broker(users=users, drain=0.2) as broker, trio.open_nursery() as nursery:
            async with open_emqp(await broker.emqp_connector()) as emqp:
                await broker.declare_queue("q")
                listening = await broker.listen(EMQP(port=0))

                async def work() -> None:
                    async with open_emqp_worker(f"emqp://127.0.0.1:{listening.port}", ["q"]) as worker:
                        async for job in worker:
                            job.reply()

                nursery.start_soon(work)
                assert (await emqp.request("q", b"1")).message == b'{"value": true}'
            nursery.cancel_scope.cancel()


async def test_endpoint_that_listens_is_taken_where_there_is_one() -> None:
    async with open_broker(EMQP(port=0)) as broker:
        async with open_emqp(await broker.emqp_connector()) as emqp:
            await emqp.send("q", b"1")
        assert len(endpoints_of(broker)) == 1
