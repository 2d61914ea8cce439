"""The released EventMQ 0.3.13 under a broker: job managers that die, brokers that restart, clients by the hundred."""

import subprocess
from ast import literal_eval
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import trio
import zmq

from peers.eventmq import DEADLINE, Programs, kill
from ports import free_port
from triomq.app import Broker, User, open_broker
from triomq.clients import open_emqp_worker
from triomq.endpoints import EMQP
from triomq.endpoints.emqp.endpoint import EMQPEndpoint
from triomq.security import ALL

pytestmark = pytest.mark.peers

USERS = {"guest": User(password="guest", permissions={"*": ALL}, tags=("monitoring",))}
SENDER = "from eventmq.sender import Sender\nsocket = Sender()\nsocket.connect(addr=broker)\n"


def endpoint_of(broker: Broker) -> EMQPEndpoint:
    (found,) = (ref.actor for ref in broker.endpoints.children.values() if isinstance(ref.actor, EMQPEndpoint))
    return found


def address_of(broker: Broker) -> str:
    return f"tcp://127.0.0.1:{endpoint_of(broker).listener.port}"


async def until(condition: Callable[[], object]) -> None:
    """Wait for what other processes do."""
    with trio.fail_after(DEADLINE):
        while not condition():  # noqa: ASYNC110  # it happens in another process
            await trio.sleep(0.05)


def workers(broker: Broker) -> int:
    return sum(peer.worker is not None for peer in endpoint_of(broker).peers.values())


def slots(broker: Broker) -> int:
    return sum(peer.worker.slots.free for peer in endpoint_of(broker).peers.values() if peer.worker is not None)


def start_job_manager(
    programs: Programs, address: str, queues: str = '[[10, "default"]]', **settings: str
) -> "subprocess.Popen[bytes]":
    return programs.start("emq-jobmanager", "-J", "2", "-B", address, QUEUES=queues, **settings)


async def test_hundred_jobs_go_from_released_clients_to_released_workers(programs: Programs) -> None:
    async with open_broker(EMQP(port=0), users=USERS) as broker:
        start_job_manager(programs, address_of(broker))
        lines = (
            "for number in range(100):\n    eventmq.defer_job(socket, jobs.add, args=(number,), reply_requested=True)\n"
        )
        programs.run_client(address_of(broker), SENDER + lines)
        await until(lambda: len(programs.results()) == 100)
        assert sorted(programs.results()) == list(range(100))
        await until(lambda: not broker.directory.queues["default"].statistics().unsettled)
        assert not endpoint_of(broker).troubles["malformed"]


async def test_jobs_with_guarantee_run_although_their_job_manager_is_killed(programs: Programs) -> None:
    async with open_broker(EMQP(port=0, heartbeat=1.0, silence=5.0), users=USERS) as broker:
        first = start_job_manager(programs, address_of(broker))
        lines = "for number in range(20):\n    eventmq.defer_job(socket, jobs.slow, args=(number,), guarantee=True)\n"
        programs.run_client(address_of(broker), SENDER + lines)
        await until(lambda: len(programs.results()) >= 3)
        kill(first)  # which has two jobs
        start_job_manager(programs, address_of(broker))
        await until(lambda: set(programs.results()) == set(range(20)))
        await until(lambda: not broker.directory.queues["default"].statistics().unsettled)


async def test_job_manager_comes_back_after_a_restart_of_the_broker(programs: Programs, tmp_path: Path) -> None:
    config = EMQP(port=free_port(), heartbeat=1.0)
    async with open_broker(config, users=USERS, data_dir=tmp_path / "data") as broker:
        start_job_manager(programs, address_of(broker), HEARTBEAT_TIMEOUT="2")
        await until(lambda: slots(broker) == 2)  # one whose ACK is lost waits for it for ever
    async with open_broker(config, users=USERS, data_dir=tmp_path / "data") as broker:
        await until(lambda: slots(broker) == 2)  # it has noticed, after three times those seconds
        lines = "eventmq.defer_job(socket, jobs.add, args=(7,), guarantee=True)"
        programs.run_client(address_of(broker), SENDER + lines)
        await until(lambda: programs.results() == [7])


async def test_one_shot_clients_leave_nothing_behind_and_garbage_between_them_does_no_harm(programs: Programs) -> None:
    async with open_broker(EMQP(port=0), users=USERS) as broker:
        address = address_of(broker)
        lines = (
            "for number in range(300):\n"
            "    eventmq.job(jobs.add, broker_addr=broker).delay(number)\n"  # a socket and an identity for each
        )
        programs.run_client(address, lines)
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        dealer = context.socket(zmq.DEALER)
        dealer.connect(address)
        garbage = [[b""], [b"\xff"] * 9, [b"", b"eMQP/1.0", b"INFORM", b"x"], [b"", b"eMQP/1.0", b"REQUEST", b"\xff"]]
        for number in range(200):
            dealer.send_multipart(garbage[number % len(garbage)])
            await trio.lowlevel.checkpoint()
        dealer.send_multipart([b"", b"eMQP/1.0", b"STATUS", b"id"])
        await until(lambda: dealer.poll(0))  # the answer comes behind all that
        assert 0 < endpoint_of(broker).troubles["malformed"] <= 200
        context.destroy(linger=0)
        queues = broker.directory.queues
        await until(lambda: "default" in queues and queues["default"].statistics().ready == 300)
        async with open_emqp_worker(f"emqp://{address.removeprefix('tcp://')}", ["default"], slots=300) as worker:
            ran = [msgspec.json.decode((await worker.__anext__()).message)[1]["args"][0] for _ in range(300)]
            assert sorted(ran) == list(range(300))  # a released job manager takes half a minute for so many


async def test_emq_cli_shows_status_and_stops_the_endpoint(programs: Programs) -> None:
    users = {"guest": User(password="guest", permissions={"*": ALL}, tags=("administrator",))}
    async with open_broker(EMQP(port=0, admin_port=0), users=users) as broker:
        endpoint = endpoint_of(broker)
        assert endpoint.admin is not None
        start_job_manager(programs, address_of(broker), '[[40, "email"]]')
        await until(lambda: slots(broker) == 2)
        address = f"tcp://127.0.0.1:{endpoint.admin.port}"
        typed = "status\nshow_workers\nshow_schedulers\nshutdown\nquit\n"
        shell = programs.start("emq-cli", "--addr", address, typed=typed)
        await until(lambda: shell.poll() is not None)
        status, workers, schedulers, shutdown = programs.printed("emq-cli").split("> ")[1:5]
        assert literal_eval(status)["waiting_messages_by_queue"]["email"] == 0
        (worker,) = literal_eval(workers)["connected_workers"].values()
        assert (worker["queues"], worker["available_slots"]) == ([[40, "email"]], 2)
        assert literal_eval(workers)["connected_queues"].keys() == {"email"}
        assert literal_eval(schedulers) == {"connected_schedulers": {}}
        assert literal_eval(shutdown)[2] == "ACK"
        await endpoint.wait_empty()


async def test_released_publisher_reaches_a_released_subscriber(programs: Programs) -> None:
    async with open_broker(EMQP(port=0, publish_port=0, topic_port=0), users=USERS) as broker:
        topics = endpoint_of(broker).topics
        assert topics is not None
        ((_, port),) = endpoint_of(broker).listeners[1].addresses  # type: ignore[misc]
        lines = (
            "import zmq\n"
            "socket = zmq.Context().socket(zmq.SUB)\n"
            "socket.setsockopt(zmq.SUBSCRIBE, b'news')\n"
            f"socket.connect('tcp://127.0.0.1:{topics.port}')\n"
            "open('got', 'w').write(repr(socket.recv_multipart()))\n"
        )
        subscriber = programs.run_client(address_of(broker), lines)
        publish = (
            "from eventmq.client.messages import send_publish_request\n"
            "import time\n"
            "while True:\n"  # nothing tells a publisher that somebody has subscribed
            "    send_publish_request(socket, 'news', {'text': 'hello'})\n"
            "    time.sleep(0.05)\n"
        )
        programs.run_client(f"tcp://127.0.0.1:{port}", SENDER + publish)
        await until(lambda: subscriber.poll() is not None)
        got = (programs.ran.parent / "got").read_text()
        assert got == """[b'news', b'{"text": "hello"}']"""


SCHEDULE = "eventmq.schedule(jobs.add, broker, interval_secs=1, args=(5,), headers=('guarantee',))\n"
UNSCHEDULE = (
    "from eventmq.client import messages\n"  # `eventmq.unschedule` connects twice under one identity
    "messages.schedule(socket, jobs.add, args=(5,), unschedule=True)\n"
)


async def test_schedule_of_a_released_client_is_the_brokers_own_and_survives_it(
    programs: Programs, tmp_path: Path
) -> None:
    async with open_broker(EMQP(port=0), users=USERS, data_dir=tmp_path / "data") as broker:
        programs.run_client(address_of(broker), SCHEDULE)
        book = endpoint_of(broker).book
        assert book is not None
        await until(lambda: book.schedules)
    async with open_broker(EMQP(port=0), users=USERS, data_dir=tmp_path / "data") as broker:
        start_job_manager(programs, address_of(broker))
        await until(lambda: len(programs.results()) >= 3)
        programs.run_client(address_of(broker), SENDER + UNSCHEDULE)
        book = endpoint_of(broker).book
        assert book is not None
        await until(lambda: not book.schedules)
        assert set(programs.results()) == {5}


async def test_released_scheduler_runs_schedules_where_that_is_configured(programs: Programs) -> None:
    async with open_broker(EMQP(port=0, schedules="peers"), users=USERS) as broker:
        address = address_of(broker)
        programs.start("emq-scheduler", SCHEDULER_ADDR=address, REDIS_STARTUP_ERROR_HARD_KILL="false")
        await until(lambda: endpoint_of(broker).schedulers)
        programs.run_client(address, SCHEDULE)
        start_job_manager(programs, address)
        await until(lambda: len(programs.results()) >= 2)
        assert endpoint_of(broker).schedulers  # it has not ended over what it was handed
