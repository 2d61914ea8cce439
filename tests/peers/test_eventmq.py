"""The released EventMQ 0.3.13 on the other side of our engines: its client, job manager, scheduler, router, emq-cli."""

from collections.abc import Iterator
from functools import partial

import pytest

from peers.eventmq import Dealer, Programs, Router, pumped
from ports import free_port
from triomq.protocols.emqp import (
    AdminAsked,
    Informed,
    MessageDropped,
    Opened,
    PeerEngine,
    PeerLeaving,
    Replied,
    Requested,
    ScheduleRemoved,
    ScheduleSet,
    WeightedQueue,
    make_headers,
)

pytestmark = pytest.mark.peers

DEFER = "eventmq.defer_job(socket, jobs.add, args=(number,), kwargs={'b': 1}, reply_requested=True)"
CLIENT = f"""
from eventmq.sender import Sender
socket = Sender()
socket.connect(addr=broker)
for number in range(5):
    {DEFER}
"""


@pytest.fixture
def router() -> Iterator[Router]:
    router = Router()
    with pumped(router):
        yield router


def start_job_manager(programs: Programs, address: str) -> None:
    programs.start("emq-jobmanager", "-J", "2", "-B", address, QUEUES='[[40,"email"],[10,"default"]]')


def test_released_client_and_job_manager_work_through_our_engines(programs: Programs, router: Router) -> None:
    start_job_manager(programs, router.address)
    programs.run_client(router.address, CLIENT)
    router.until(lambda: len([event for event in router.events if isinstance(event, Replied)]) == 5)
    assert sorted(programs.results()) == [1, 2, 3, 4, 5]
    (inform,) = [event for event in router.events if isinstance(event, Informed)]
    assert inform.queues == (WeightedQueue(40, "email"), WeightedQueue(10, "default"))
    assert {event.message for event in router.events if isinstance(event, Replied)} == {
        b'{"value": %d}' % number for number in range(1, 6)
    }
    assert not [event for event in router.events if isinstance(event, MessageDropped)]


def test_our_client_gets_results_of_a_released_job_manager(programs: Programs, router: Router) -> None:
    start_job_manager(programs, router.address)
    client = Dealer(router.address, partial(PeerEngine, "client"))
    with pumped(client):
        client.until(lambda: client.found(Opened), router)
        call = b'["run", {"path": "released_jobs", "callable": "boom"}]'
        msgid = client.engine.request("default", call, make_headers(reply_requested=True))
        client.until(lambda: client.found(Replied), router)
        (reply,) = client.found(Replied)
        assert (reply.request, reply.message) == (msgid, b'{"value": "boom"}')


def test_released_job_manager_says_one_goodbye(programs: Programs, router: Router) -> None:
    start_job_manager(programs, router.address)
    router.until(lambda: sum(router.slots.values()) == 2)
    programs.stop()
    router.until(lambda: [event for event in router.events if isinstance(event, PeerLeaving)])
    assert router.has("left")


def test_released_scheduler_sends_what_it_is_given(programs: Programs, router: Router) -> None:
    programs.start("emq-scheduler", SCHEDULER_ADDR=router.address, REDIS_STARTUP_ERROR_HARD_KILL="false")
    router.until(lambda: router.has("scheduler"))
    programs.run_client(
        router.address,
        "eventmq.schedule(jobs.add, broker, interval_secs=1, args=(1,), headers=('nohaste', 'run_count:2'))\n"
        "eventmq.schedule(jobs.add, broker, cron='* * * * *', args=(2,), headers=('nohaste',))",
    )
    router.until(lambda: len(router.waiting) == 2)
    schedules = [event for event in router.events if isinstance(event, ScheduleSet)]
    assert [(each.interval, each.cron, each.headers.run_count) for each in schedules] == [
        (1.0, "", 2),
        (0.0, "* * * * *", 0),
    ]
    # Not `eventmq.unschedule`, which connects twice under one identity, so that a ROUTER reads one of the two only.
    programs.run_client(
        router.address,
        "from eventmq.client import messages\n"
        "from eventmq.sender import Sender\n"
        "socket = Sender()\n"
        "socket.connect(addr=broker)\n"
        "messages.schedule(socket, jobs.add, args=(1,), unschedule=True)",
    )
    router.until(lambda: [event for event in router.events if isinstance(event, ScheduleRemoved)])
    assert router.has("scheduler")


def test_emq_cli_asks_and_reads_the_answer(programs: Programs, router: Router) -> None:
    program = (
        "from eventmq.sender import Sender\n"
        "from eventmq.utils.messages import send_emqp_message\n"
        "socket = Sender()\n"
        "socket.connect(addr=broker)\n"
        "send_emqp_message(socket, 'ROUTER_SHOW_WORKERS', ())\n"
        "import json\n"
        "open('answer', 'w').write(str(json.loads(socket.recv_multipart()[4])))\n"
    )
    process = programs.run_client(router.address, program)
    router.until(lambda: [event for event in router.events if isinstance(event, AdminAsked)])
    (asked,) = [event for event in router.events if isinstance(event, AdminAsked)]
    assert asked.command == "ROUTER_SHOW_WORKERS"
    next(iter(router.engines.values())).reply(asked.msgid, b'{"connected_workers": {}}')
    router.until(lambda: process.poll() is not None)
    assert (programs.ran.parent / "answer").read_text() == "{'connected_workers': {}}"


@pytest.fixture
def released_router(programs: Programs) -> tuple[str, str]:
    """Return where a released router takes clients, and where workers."""
    front, back, admin = (f"tcp://127.0.0.1:{free_port()}" for _ in range(3))
    programs.start("emq-router", FRONTEND_ADDR=front, BACKEND_ADDR=back, ADMINISTRATIVE_ADDR=admin)
    return front, back


def test_our_worker_and_client_work_under_a_released_router(released_router: tuple[str, str]) -> None:
    front, back = released_router
    worker = Dealer(back, partial(PeerEngine, "worker", queues=(WeightedQueue(10, "default"),)))
    client = Dealer(front, partial(PeerEngine, "client"))
    with pumped(worker, client):
        worker.until(lambda: worker.found(Opened) and client.found(Opened), client)
        assert worker.found(Opened) == client.found(Opened) == [Opened(())]  # it has no extensions
        worker.engine.ready(2)
        call = b'["run", {"path": "m", "callable": "f", "args": []}]'
        for _ in range(2):
            client.engine.request("default", call, make_headers(reply_requested=True))
        worker.until(lambda: len(worker.found(Requested)) == 2, client)
        for job in worker.found(Requested):
            worker.engine.reply(job.msgid, b'{"value": true}')
            worker.engine.ready()
        client.engine.request("default", call)
        worker.until(lambda: len(worker.found(Requested)) == 3, client)  # so it has survived our REPLY
        worker.engine.leave()
        worker.pump()
        late = Dealer(back, partial(PeerEngine, "worker", queues=(WeightedQueue(10, "default"),)))
        with pumped(late):
            late.until(lambda: late.found(Opened), client)  # and our goodbye, KBYE and KBAI
            late.engine.ready()
            client.engine.request("default", call)
            late.until(lambda: late.found(Requested), client)
