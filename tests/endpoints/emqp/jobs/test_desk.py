"""Jobs as one who looks into the broker finds them: with workers, parked, waiting, delayed, dead."""

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
import trio

from endpoints.emqp.conftest import CALL, USERS, Served
from triomq.actors import Ref
from triomq.app import Broker, User, open_broker
from triomq.clients import EMQPConnection, open_blocking, open_emqp, open_emqp_worker
from triomq.core import Browse, Entry
from triomq.endpoints import AMQP, EMQP, AMQPEndpoint
from triomq.endpoints.emqp.endpoint import EMQPEndpoint
from triomq.endpoints.emqp.jobs.dead_letters import DEAD_JOBS
from triomq.endpoints.management.jobs import JobInspector
from triomq.endpoints.management.paging import Paged, fill_page
from triomq.errors import AccessRefused, LimitExceeded, NotFound, Refused
from triomq.protocols.control import (
    CancelJob,
    GetJobTotals,
    JobDetails,
    JobTotals,
    ListDeadJobs,
    ListJobs,
    LiveJobRecord,
    Operation,
    RequeueJob,
    ShowJob,
)
from triomq.protocols.emqp import Extension, make_headers
from triomq.security import ALL, Permission

T = TypeVar("T")

OTHER = CALL.replace(b"add", b"subtract").replace(b'"kwargs": {}', b'"kwargs": {"b": 2}')
GUARANTEED = make_headers(guarantee=True)


class Looking:
    """One who looks into the default domain of a broker with an eMQP endpoint, and sends jobs."""

    def __init__(self, broker: Broker, client: EMQPConnection) -> None:
        self.broker = broker
        self.client = client
        (self.endpoint,) = (
            ref.actor for ref in broker.endpoints.children.values() if isinstance(ref.actor, EMQPEndpoint)
        )
        self._peer = next(iter(self.endpoint.peers.values()))
        self.may_read = True

    @property
    def inspector(self) -> JobInspector:
        return JobInspector(
            self.broker.context.jobs["default"],
            browse=self._peer.ask,
            may_read=lambda queue: self.may_read,
            room=100_000,
        )

    async def send(self, queue: str = "q", message: bytes = CALL, **extension: object) -> str:
        request = self.client.begin(queue, message, GUARANTEED, Extension(**extension))  # type: ignore[arg-type]
        self.client.flush()
        await request.accepted()
        return request.id.decode()

    def list(self, asked: ListJobs | None = None) -> list[LiveJobRecord]:
        return [entry.record for entry in self.inspector.list_jobs(asked or ListJobs()) if isinstance(entry, Paged)]

    def cancel(self, job: str, may: Callable[[str], None] = lambda user: None) -> bool:
        return self.inspector.cancel(CancelJob(job), may).has_ended

    def show(self, job: str) -> JobDetails:
        return self.inspector.show(ShowJob(job))

    async def until(self, condition: Callable[[], object]) -> None:
        with trio.fail_after(60):
            while not condition():  # noqa: ASYNC110  # threads of libzmq work
                await trio.sleep(0.001)

    async def requeue(self, job: str) -> str:
        """Send a dead job again, as the client."""
        sent: list[str] = []
        asked = RequeueJob(job)
        self._peer.ref.run_in_turn(lambda: sent.append(self.inspector.requeue(asked, self._peer.publisher).id))
        await self.until(lambda: sent)
        return sent[0]


@pytest.fixture
async def looking(served: Served) -> Looking:
    await served.broker.declare_queue("q")
    return await _looking(served)


async def _looking(served: Served) -> Looking:
    async def run(task_status: trio.TaskStatus[EMQPConnection]) -> None:
        async with open_emqp(f"emqp://127.0.0.1:{served.port}") as client:
            task_status.started(client)
            await trio.sleep_forever()

    client: EMQPConnection = await served.nursery.start(run)
    await client.send("q", CALL)  # so that the broker knows it
    found = Looking(served.broker, client)
    await served.broker.queue("q").purge()
    return found


async def test_waiting_jobs_are_listed_with_what_they_call(looking: Looking) -> None:
    first, second = await looking.send(), await looking.send(message=OTHER)
    assert looking.list() == [
        LiveJobRecord(first, "jobs.add", "q", "waiting", 0, "guest"),
        LiveJobRecord(second, "jobs.subtract", "q", "waiting", 0, "guest"),
    ]


async def test_list_is_narrowed_by_queue_state_and_name(looking: Looking) -> None:
    await looking.broker.declare_queue("other")
    first, second = await looking.send(), await looking.send("other", message=OTHER)
    assert [job.id for job in looking.list(ListJobs(queue="other"))] == [second]
    assert [job.id for job in looking.list(ListJobs(name="jobs.a*"))] == [first]
    assert looking.list(ListJobs(state="running")) == []


async def test_list_goes_on_behind_each_cursor(looking: Looking) -> None:
    await looking.broker.declare_queue("other queue")
    sent = [await looking.send("other queue"), await looking.send(), await looking.send(delay=60_000)]
    async with open_emqp_worker(f"emqp://127.0.0.1:{looking.endpoint.listener.port}", ["r"], slots=2) as worker:
        running = await looking.send("r")
        with trio.fail_after(60):
            await worker.receive()
        whole = [entry for entry in looking.inspector.list_jobs(ListJobs()) if isinstance(entry, Paged)]
        assert [entry.record.id for entry in whole] == [running, *sent]
        for place, entry in enumerate(whole):
            rest = looking.list(ListJobs(after=str(entry.cursor)))
            assert [job.id for job in rest] == [running, *sent][place + 1 :]
        assert len(looking.list(ListJobs(after="nonsense"))) == len(whole)


async def test_queues_of_other_protocols_are_not_looked_into(looking: Looking) -> None:
    await looking.broker.declare_queue("others")
    await looking.broker.publish("", "others", b"no job")
    job = await looking.send()
    asked: list[Ref] = []

    def browse(ref: Ref, browse: Browse) -> Sequence[Entry]:
        asked.append(ref)
        return looking._peer.ask(ref, browse)

    desk = looking.broker.context.jobs["default"]
    assert [found.id for found in desk.unended(browse)] == [job]
    assert looking.broker.directory.queues["others"].ref not in asked
    assert list(desk.unended(browse, queue="others")) == []


async def test_page_ends_where_enough_was_looked_at(looking: Looking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triomq.endpoints.management.jobs._LOOKED_AT", 2)
    for _ in range(3):
        await looking.send()
    wanted = await looking.send(message=OTHER)
    asked = ListJobs(name="jobs.subtract")
    first = fill_page(looking.inspector.list_jobs(asked), limit=10, room=10_000)
    assert not first.items
    assert isinstance(first.next, str)
    (found, _) = looking.inspector.list_jobs(ListJobs(name="jobs.subtract", after=first.next))
    assert isinstance(found, Paged)
    assert found.record.id == wanted


async def test_running_job_has_its_attempt_and_delayed_one_its_time(looking: Looking) -> None:
    async with open_emqp_worker(f"emqp://127.0.0.1:{looking.endpoint.listener.port}", ["q"], slots=1) as worker:
        job = await looking.send()
        with trio.fail_after(60):
            (got,) = await worker.receive()
        later = await looking.send(delay=60_000)
        running, delayed = looking.list()
        assert running == LiveJobRecord(job, "jobs.add", "q", "running", 1, "guest")
        assert (delayed.id, delayed.state, delayed.name) == (later, "delayed", "jobs.add")
        assert 50 < delayed.due <= 60
        got.reply()
        worker.flush()
        await looking.until(lambda: len(looking.list()) == 1)


async def test_parked_job_is_listed(looking: Looking) -> None:
    async with open_emqp_worker(f"emqp://127.0.0.1:{looking.endpoint.listener.port}", ["q"], slots=2) as worker:
        jobs = [await looking.send(key="k", limit=1) for _ in range(2)]
        with trio.fail_after(60):
            await worker.receive()
        await looking.until(lambda: [job.state for job in looking.list()] == ["running", "parked"])
        assert [job.id for job in looking.list()] == jobs
        assert looking.show(jobs[1]).args == [1]


async def test_job_is_shown_with_its_arguments_to_who_may_read_its_queue(looking: Looking) -> None:
    job = await looking.send(message=OTHER)
    shown = looking.show(job)
    assert (shown.name, shown.state, shown.args, shown.kwargs) == ("jobs.subtract", "waiting", [1], {"b": 2})
    looking.may_read = False
    assert (looking.show(job).state, looking.show(job).args) == ("waiting", None)
    with pytest.raises(NotFound, match="no job 'nope'"):
        looking.show("nope")


async def test_waiting_job_is_cancelled_at_once_and_is_listed_no_more(looking: Looking) -> None:
    job = await looking.send()
    assert looking.cancel(job)
    assert looking.list() == []
    assert looking.show(job).state == "cancelled"
    with pytest.raises(NotFound):
        looking.cancel("nope")


async def test_running_job_is_cancelled_by_its_worker(looking: Looking) -> None:
    async with open_emqp_worker(f"emqp://127.0.0.1:{looking.endpoint.listener.port}", ["q"], slots=1) as worker:
        job = await looking.send()
        with trio.fail_after(60):
            (got,) = await worker.receive()
        assert not looking.cancel(job)
        assert looking.list()[0].state == "cancelling"
        await looking.until(lambda: got.is_cancelled)
        got.end("cancelled")
        worker.flush()
        await looking.until(lambda: not looking.list())
        assert looking.show(job).state == "cancelled"


async def test_who_may_not_cancel_does_not(looking: Looking) -> None:
    def may(user: str) -> None:
        raise AccessRefused(f"{user} alone")

    job = await looking.send()
    with pytest.raises(AccessRefused, match="guest alone"):
        looking.cancel(job, may)
    assert len(looking.list()) == 1


async def fail(looking: Looking, **extension: object) -> str:
    """Have a job fail for good."""
    async with open_emqp_worker(f"emqp://127.0.0.1:{looking.endpoint.listener.port}", ["q"], slots=1) as worker:
        job = await looking.send(message=OTHER, **extension)
        with trio.fail_after(60):
            (got,) = await worker.receive()
        got.end("failed", type="ValueError", text="no such number", traceback="line 1\nline 2")
        worker.flush()
        await looking.until(lambda: DEAD_JOBS in looking.broker.directory.queues)
        await looking.until(lambda: looking.broker.directory.queues[DEAD_JOBS].statistics().ready)
        return job


async def test_job_that_has_failed_for_good_is_among_the_dead_with_its_error(looking: Looking) -> None:
    job = await fail(looking)
    (dead,) = (entry.record for entry in looking.inspector.list_dead(ListDeadJobs()))
    assert (dead.id, dead.name, dead.queue, dead.state, dead.attempts) == (job, "jobs.subtract", "q", "failed", 1)
    assert (dead.type, dead.message) == ("ValueError", "no such number")
    assert list(looking.inspector.list_dead(ListDeadJobs("mail.*"))) == []
    shown = looking.show(job)
    assert (shown.state, shown.traceback, shown.args) == ("failed", "line 1\nline 2", [1])
    assert shown.time == dead.time > 1e9
    assert looking.inspector.show(ShowJob(job, dead.place)) == shown
    with pytest.raises(NotFound):
        looking.inspector.show(ShowJob("another", dead.place))
    assert looking.list() == []


async def test_jobs_are_counted(looking: Looking) -> None:
    await fail(looking)
    async with open_emqp_worker(f"emqp://127.0.0.1:{looking.endpoint.listener.port}", ["q"], slots=1) as worker:
        await looking.send()
        with trio.fail_after(60):
            await worker.receive()
        found = looking.inspector.get_totals(GetJobTotals())
        assert (found.running, found.parked, found.dead) == (1, 0, 1)
        assert found.happened["failed"] == 1


async def test_domain_without_a_desk_has_no_jobs() -> None:
    inspector = JobInspector(None, browse=lambda ref, asked: [], may_read=lambda queue: True, room=1000)
    assert inspector.get_totals(GetJobTotals()) == JobTotals()
    assert [*inspector.list_jobs(ListJobs()), *inspector.list_dead(ListDeadJobs())] == []
    with pytest.raises(NotFound):
        inspector.show(ShowJob("j"))
    with pytest.raises(NotFound):
        inspector.cancel(CancelJob("j"), lambda user: None)


async def test_dead_job_is_sent_again_under_a_new_id(looking: Looking) -> None:
    job = await fail(looking, unique="u", deadline=3_600_000)
    again = await looking.requeue(job)
    (found,) = looking.list()
    assert found == LiveJobRecord(again, "jobs.subtract", "q", "waiting", 0, "guest")
    with pytest.raises(NotFound, match="no dead letter of a job 'nope'"):
        looking.inspector.requeue(RequeueJob("nope"), looking._peer.publisher)
    with pytest.raises(Refused, match="the same unique key"):
        looking.inspector.requeue(RequeueJob(job), looking._peer.publisher)
    async with open_emqp_worker(f"emqp://127.0.0.1:{looking.endpoint.listener.port}", ["q"], slots=1) as worker:
        with trio.fail_after(60):
            (got,) = await worker.receive()
        assert (got.id.decode(), got.attempt, got.message) == (again, 1, OTHER)


async def test_dead_job_without_a_queue_stays_dead(looking: Looking) -> None:
    job = await fail(looking)
    await looking.broker.queue("q").delete()
    with pytest.raises(NotFound, match="the job's queue 'q' is not there any more"):
        looking.inspector.requeue(RequeueJob(job), looking._peer.publisher)
    assert looking.show(job).state == "failed"
    assert looking.list() == []


async def test_dead_job_waits_while_publishers_have_to_wait(looking: Looking) -> None:
    job = await fail(looking)
    await looking.broker.declare_queue("full", durable=False)
    await looking.broker.publish("", "full", bytes(20_000))
    looking.broker.set_memory_high_watermark(10_000)
    with pytest.raises(LimitExceeded, match="short of memory"):
        looking.inspector.requeue(RequeueJob(job), looking._peer.publisher)
    assert looking.list() == []
    looking.broker.set_memory_high_watermark(0)
    assert await looking.requeue(job) == looking.list()[0].id


async def test_job_of_an_earlier_life_is_found_and_cancelled(tmp_path: Path, nursery: trio.Nursery) -> None:
    config = EMQP(port=0)
    async with open_broker(config, users=USERS, data_dir=tmp_path / "data") as broker:
        await broker.declare_queue("q")
        first = await _looking(Served(broker, nursery, config))
        job = await first.send("declared by a client of ours")
        nursery.cancel_scope.cancel()
    async with (
        open_broker(config, users=USERS, data_dir=tmp_path / "data") as broker,
        trio.open_nursery() as other,
    ):
        client = await Served(broker, other, config).client()
        looking = Looking(broker, client)  # type: ignore[arg-type]  # it only looks
        await looking.until(looking.list)
        assert [found.id for found in looking.list()] == [job]
        assert looking.cancel(job)
        assert looking.list() == []
        other.cancel_scope.cancel()


# Who may do what


MIXED = {
    "guest": USERS["guest"],
    "other": User(password="other", permissions={"*": ALL}, tags=("monitoring",)),
    "chief": User(password="chief", permissions={"*": ALL}, tags=("administrator",)),
    "watcher": User(password="watcher", permissions={"*": Permission("", "", "")}, tags=("monitoring",)),
}


@pytest.fixture
async def guarded(nursery: trio.Nursery) -> AsyncIterator[Looking]:
    config = EMQP(port=0)
    async with open_broker(AMQP(host="127.0.0.1", port=0), config, users=MIXED, drain=0.2) as broker:
        await broker.declare_queue("q")
        yield await _looking(Served(broker, nursery, config))


async def ask(looking: Looking, user: str, operation: Operation[T]) -> T:
    """Ask over AMQP."""
    (port,) = (port for ref in looking.broker.endpoints.children.values() for port in amqp_ports(ref.actor))

    def ask() -> T:
        with open_blocking(f"amqp://{user}:{user}@127.0.0.1:{port}/") as connection:
            return connection.control(operation)

    return await trio.to_thread.run_sync(ask)


def amqp_ports(actor: object) -> list[int]:
    return [int(address[1]) for address in actor.addresses] if isinstance(actor, AMQPEndpoint) else []


async def test_job_is_cancelled_by_its_own_user_or_an_administrator(guarded: Looking) -> None:
    first, second = await guarded.send(), await guarded.send()
    with pytest.raises(AccessRefused, match="cancelling another user's job refused for user 'other'"):
        await ask(guarded, "other", CancelJob(first))
    assert (await ask(guarded, "chief", CancelJob(first))).has_ended
    assert (await ask(guarded, "guest", CancelJob(second))).has_ended


async def test_who_may_not_read_sees_jobs_without_arguments_and_requeues_none(guarded: Looking) -> None:
    job = await fail(guarded)
    waiting = await guarded.send()
    assert (await ask(guarded, "watcher", ShowJob(waiting))).args is None
    assert (await ask(guarded, "other", ShowJob(waiting))).args == [1]
    with pytest.raises(AccessRefused, match=r"access to queue 'jobs\.dead'"):
        await ask(guarded, "watcher", RequeueJob(job))
    assert (await ask(guarded, "other", RequeueJob(job))).dead_letters == DEAD_JOBS
