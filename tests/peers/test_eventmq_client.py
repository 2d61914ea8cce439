"""Our client and our worker, with the released EventMQ 0.3.13 on the other side of a broker, or as the broker."""

import json

import pytest
import trio

from peers.eventmq import DEADLINE, Programs
from peers.test_eventmq_broker import SENDER, USERS, address_of, start_job_manager, until, workers
from ports import free_port
from triomq.app import open_broker
from triomq.clients import NotAnswered, open_emqp, open_emqp_worker
from triomq.endpoints import EMQP

pytestmark = pytest.mark.peers


def call(number: int) -> bytes:
    arguments = {"path": "released_jobs", "callable": "add", "args": [number], "kwargs": {}}
    return json.dumps(["run", {**arguments, "class_args": [], "class_kwargs": {}}]).encode()


def url_of(address: str) -> str:
    return address.replace("tcp://", "emqp://")


async def test_released_client_gives_work_to_our_worker(programs: Programs) -> None:
    with trio.fail_after(DEADLINE):
        async with open_broker(EMQP(port=0), users=USERS) as broker:
            address, done = address_of(broker), []
            async with open_emqp_worker(url_of(address), ["default"], slots=3) as worker:
                lines = "for number in range(100):\n    eventmq.defer_job(socket, jobs.add, args=(number,))\n"
                programs.run_client(address, SENDER + lines)
                async for job in worker:
                    done += json.loads(job.message)[1]["args"]
                    job.reply()
                    if len(done) == 100:
                        break
            assert done == list(range(100))


async def test_our_client_has_a_hundred_jobs_done_by_a_released_job_manager(programs: Programs) -> None:
    answers: list[int] = []

    async def ask(number: int) -> None:
        reply = await emqp.request("default", call(number), guarantee=True)
        answers.append(json.loads(reply.message)["value"])

    with trio.fail_after(DEADLINE):
        async with open_broker(EMQP(port=0), users=USERS) as broker:
            start_job_manager(programs, address_of(broker))
            await until(lambda: workers(broker) == 1)
            async with open_emqp(url_of(address_of(broker))) as emqp, trio.open_nursery() as nursery:
                for number in range(100):
                    nursery.start_soon(ask, number)
    assert sorted(answers) == sorted(programs.results()) == list(range(100))


@pytest.fixture
def router(programs: Programs) -> tuple[str, str]:
    """Where a released router takes clients, and where workers."""
    front, back, admin = (f"tcp://127.0.0.1:{free_port()}" for _ in range(3))
    programs.start("emq-router", FRONTEND_ADDR=front, BACKEND_ADDR=back, ADMINISTRATIVE_ADDR=admin)
    return front, back


async def test_our_client_sends_jobs_through_a_released_router_to_its_job_manager(
    programs: Programs, router: tuple[str, str]
) -> None:
    front, back = router
    start_job_manager(programs, back)
    with trio.fail_after(DEADLINE):
        async with open_emqp(url_of(front)) as emqp:
            assert not emqp.has_extensions
            for number in range(100):
                await emqp.send("default", call(number))
            await until(lambda: len(programs.results()) == 100)
            with pytest.raises(NotAnswered):
                await emqp.request("default", call(100))
        await until(lambda: sorted(programs.results()) == list(range(101)))


async def test_our_worker_works_under_a_released_router_and_leaves_it_alive(
    programs: Programs, router: tuple[str, str]
) -> None:
    front, back = router
    lines = "for number in range(20):\n    eventmq.defer_job(socket, jobs.add, args=(number,), reply_requested=True)\n"
    with trio.fail_after(DEADLINE):
        for _ in range(2):
            done: list[int] = []
            async with open_emqp_worker(url_of(back), ["default"], slots=2) as worker:
                programs.run_client(front, SENDER + lines)
                async for job in worker:
                    done += json.loads(job.message)[1]["args"]
                    job.reply(b'{"value": 1}')
                    if len(done) == 20:
                        break
            assert done == list(range(20))
