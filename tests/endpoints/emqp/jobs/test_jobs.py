"""Jobs of clients with extensions, from REQUEST to REPLY, over memory in virtual time: the book behind its peers."""

from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from triomq.app import Broker, open_broker
from triomq.clients import EMQPConnection, EMQPJob, EMQPRequest, EMQPWorker, open_emqp, open_emqp_worker
from triomq.core import Properties
from triomq.endpoints.emqp.endpoint import EMQPEndpoint
from triomq.endpoints.emqp.jobs.dead_letters import DEAD_JOBS
from triomq.endpoints.jobs import JobBook, parking
from triomq.errors import NotFound, Refused
from triomq.protocols.emqp import Extension, make_headers

REPLYING = make_headers(reply_requested=True)


class Desk:
    """A broker, a client of it, and workers that come and go."""

    def __init__(self, broker: Broker, client: EMQPConnection, nursery: trio.Nursery) -> None:
        self.broker = broker
        self.client = client
        self._nursery = nursery
        self._scopes: dict[EMQPWorker, trio.CancelScope] = {}

    @property
    def endpoint(self) -> EMQPEndpoint:
        (found,) = (ref.actor for ref in self.broker.endpoints.children.values() if isinstance(ref.actor, EMQPEndpoint))
        return found

    @property
    def book(self) -> JobBook:
        return self.endpoint.jobs

    async def rest(self) -> None:
        """Wait until all have done what there is to do now."""
        await trio.testing.wait_all_tasks_blocked()

    async def worker(self, *queues: str, slots: int = 1) -> EMQPWorker:
        worker: EMQPWorker = await self._nursery.start(self._work, queues or ("q",), slots)
        await self.rest()
        return worker

    async def _work(self, queues: tuple[str, ...], slots: int, *, task_status: trio.TaskStatus[EMQPWorker]) -> None:
        with trio.CancelScope() as scope:
            async with open_emqp_worker(await self.broker.emqp_connector(), queues, slots=slots) as worker:
                self._scopes[worker] = scope
                task_status.started(worker)
                await trio.sleep_forever()

    async def end(self, worker: EMQPWorker) -> None:
        """Have a worker end with all that it has."""
        self._scopes.pop(worker).cancel()
        await self.rest()

    def send(
        self, message: bytes = b"1", queue: str = "q", *, client: EMQPConnection | None = None, **extension: object
    ) -> EMQPRequest:
        """Give the broker a job that wants an answer."""
        about = Extension(**extension)  # type: ignore[arg-type]
        return (client or self.client).begin(queue, message, REPLYING, about)

    async def state(self, request: EMQPRequest) -> str:
        return (await self.client.states([request.id]))[request.id].state.state


@pytest.fixture
async def desk(nursery: trio.Nursery) -> AsyncIterator[Desk]:
    async with open_broker(users={}) as broker, open_emqp(await broker.emqp_connector()) as client:
        await broker.declare_queue("q", max_priority=9)
        made = Desk(broker, client, nursery)
        await made.rest()
        yield made
        nursery.cancel_scope.cancel()


async def take(worker: EMQPWorker, count: int = 1) -> list[EMQPJob]:
    """Return the jobs that a worker gets without waiting for time to pass."""
    jobs: list[EMQPJob] = []
    with trio.move_on_after(0.001):
        while len(jobs) < count:
            jobs.append(await worker.__anext__())
    return jobs


async def test_job_is_told_its_attempt_and_its_state_is_known(autojump_clock: object, desk: Desk) -> None:
    request = desk.send()
    await desk.rest()
    assert await desk.state(request) == "waiting"
    sent = (await desk.client.states([request.id]))[request.id].state.since
    assert sent == pytest.approx(desk.book.register.now() * 1000, abs=20)
    await trio.sleep(3)
    (job,) = await take(await desk.worker())
    assert (job.id, job.attempt, await desk.state(request)) == (request.id, 1, "running")
    job.reply(b"5")
    assert (await request.reply()).message == b"5"
    assert (await desk.state(request), desk.book.jobs) == ("ok", {})
    assert (await desk.client.states([request.id]))[request.id].state.since - sent == pytest.approx(3_000, abs=20)


async def test_job_that_is_sent_again_under_its_id_is_done_once(autojump_clock: object, desk: Desk) -> None:
    request = desk.send()
    await desk.rest()
    (endpoint_peer,) = [peer for peer in desk.endpoint.peers.values() if peer.worker is None]
    engine = desk.client._link.engine
    engine.request("q", b"1", REPLYING, msgid=request.id)
    desk.client.flush()
    await desk.rest()
    worker = await desk.worker(slots=5)
    (job,) = await take(worker, 2)
    job.reply(b"5")
    assert (await request.reply()).message == b"5"
    engine.request("q", b"1", REPLYING, msgid=request.id)
    desk.client.flush()
    assert await take(worker) == []
    assert endpoint_peer.troubles == {}


async def test_duplicate_of_a_unique_key_is_told_so(autojump_clock: object, desk: Desk) -> None:
    first = desk.send(unique="u")
    second = desk.send(unique="u")
    await desk.rest()
    assert (second.duplicate_of or b"") == first.id
    worker = await desk.worker(slots=5)
    (job,) = await take(worker, 2)
    job.reply()
    await first.reply()
    third = desk.send(unique="u")
    assert [job.id for job in await take(worker)] == [third.id]


async def test_failed_job_is_tried_again_after_pauses_and_then_is_a_dead_letter(
    autojump_clock: object, desk: Desk
) -> None:
    request = desk.send(b"[1]", retries=2, backoff=(60_000, 90_000))
    worker = await desk.worker()
    begun = trio.current_time()
    times = []
    for attempt in (1, 2, 3):
        job = await worker.__anext__()
        assert job.attempt == attempt
        times.append(trio.current_time() - begun)
        job.fail(ValueError("no"))
        await desk.rest()
        assert await desk.state(request) == ("delayed" if attempt < 3 else "failed")
    reply = await request.reply()
    assert (reply.extension.state, reply.extension.type, reply.extension.attempt) == ("failed", "ValueError", 3)
    assert times[0] == 0
    assert 30 <= times[1] <= 60
    assert 45 <= times[2] - times[1] <= 90
    dead = await desk.broker.queue(DEAD_JOBS).get()
    assert dead is not None
    assert dead.body == b"[1]"
    headers = dict(dead.properties.headers or {})
    assert "ValueError: no" in str(headers.pop("x-job-traceback"))
    assert headers.pop("x-job-time")
    assert headers.pop("x-job-id") == request.id.decode()
    assert headers == {
        "reply-requested": True,
        "x-job-queue": "q",
        "x-job-state": "failed",
        "x-job-type": "ValueError",
        "x-job-message": "no",
        "x-job-attempts": 3,
    }


async def test_failure_that_is_not_worth_it_ends_the_job(autojump_clock: object, desk: Desk) -> None:
    request = desk.send(retries=5)
    (job,) = await take(await desk.worker())
    job.fail(ValueError("no"), retry=False)
    assert (await request.reply()).extension.state == "failed"


async def test_job_of_which_processes_die_is_lost_after_the_third(autojump_clock: object, desk: Desk) -> None:
    request, worker = desk.send(), await desk.worker()
    for attempt in (1, 2, 3):
        (job,) = await take(worker)
        assert job.attempt == attempt
        job.end("lost", type="WorkerLost")
    reply = await request.reply()
    assert (reply.extension.state, reply.extension.type) == ("lost", "WorkerLost")
    assert (await desk.broker.queue(DEAD_JOBS).statistics()).ready == 1


async def test_stream_is_not_begun_again_when_items_have_gone_out(autojump_clock: object, desk: Desk) -> None:
    request, worker = desk.send(stream=True), await desk.worker()
    (job,) = await take(worker)
    await job.item(b"1")
    assert await anext(request.items()) == b"1"
    await desk.end(worker)
    assert (await request.reply()).extension.state == "lost"


async def test_job_that_runs_for_too_long_is_tried_again_and_its_worker_is_to_end_it(
    autojump_clock: object, desk: Desk
) -> None:
    request = desk.send(timeout=2_000, retries=1, backoff=(1, 1))
    worker = await desk.worker(slots=2)
    first = await worker.__anext__()
    second = await worker.__anext__()
    assert (first.is_cancelled, second.attempt) == (True, 2)
    first.reply(b"late")
    second.reply(b"in time")
    assert (await request.reply()).message == b"in time"


async def test_expired_job_is_dropped_unstarted(autojump_clock: object, desk: Desk) -> None:
    request = desk.send(deadline=5_000)
    kept = desk.send(deadline=60_000)
    await desk.rest()
    await trio.sleep(6)
    (job,) = await take(await desk.worker())
    assert (await request.reply()).extension.state == "expired"
    assert job.id == kept.id
    assert job.deadline - trio.current_time() == pytest.approx(54, abs=0.1)


async def test_deadline_of_a_retried_job_stays_where_it_was(autojump_clock: object, desk: Desk) -> None:
    desk.send(deadline=100_000, retries=1, backoff=(10_000, 10_000))
    worker = await desk.worker()
    ends = []
    for _ in range(2):
        job = await worker.__anext__()
        ends.append(job.deadline)
        job.fail(ValueError("no"))
    assert ends[0] == pytest.approx(ends[1], abs=0.01)


async def test_limit_is_held_over_workers_while_others_pass_by(autojump_clock: object, desk: Desk) -> None:
    requests = [desk.send(b"%d" % number, key="k", limit=2) for number in range(6)]
    other = desk.send(b"other")
    workers = [await desk.worker(slots=3), await desk.worker(slots=3)]
    jobs = [job for worker in workers for job in await take(worker, 9)]
    assert sorted(job.message for job in jobs) == [b"0", b"1", b"other"]
    assert [await desk.state(request) for request in requests] == ["running"] * 2 + ["parked"] * 4
    for request in requests:
        (job,) = [job for job in jobs if job.id == request.id]
        job.reply()
        await request.reply()
        jobs += [job for worker in workers for job in await take(worker, 9)]
    (job,) = [job for job in jobs if job.id == other.id]
    job.reply()
    await other.reply()


async def test_rate_is_held(autojump_clock: object, desk: Desk) -> None:
    for _ in range(5):
        desk.send(key="k", rate=0.5)
    worker = await desk.worker(slots=9)
    begun = trio.current_time()
    times = []
    for _ in range(5):
        await worker.__anext__()
        times.append(trio.current_time() - begun)
    assert times == [pytest.approx(2 * number, abs=0.1) for number in range(1, 6)]


async def test_limit_without_a_key_is_refused(autojump_clock: object, desk: Desk) -> None:
    with pytest.raises(Refused, match="needs a key"):
        await desk.send(limit=1).reply()


async def test_jobs_go_by_their_priority(autojump_clock: object, desk: Desk) -> None:
    worker = await desk.worker(slots=1)
    desk.send(b"first")
    (job,) = await take(worker)
    for number, priority in enumerate((None, 0, 9, 3, 9)):
        desk.send(b"%d" % number, priority=priority)
    await desk.rest()
    order = []
    for _ in range(5):
        job.reply()
        job = await worker.__anext__()
        order.append(job.message)
    assert order == [b"2", b"4", b"3", b"0", b"1"]


async def test_delayed_job_waits_and_may_be_cancelled(autojump_clock: object, desk: Desk) -> None:
    one, two = desk.send(b"1", delay=60_000), desk.send(b"2", delay=60_000)
    await desk.rest()
    assert await desk.state(one) == "delayed"
    worker = await desk.worker(slots=2)
    await desk.client.cancel(one.id)
    assert (await one.reply()).extension.state == "cancelled"
    begun = trio.current_time()
    job = await worker.__anext__()
    assert (job.id, trio.current_time() - begun) == (two.id, pytest.approx(60, abs=0.1))
    assert one.id not in desk.book.jobs


async def test_running_job_is_cancelled_by_its_worker_in_the_time_it_has(autojump_clock: object, desk: Desk) -> None:
    request = desk.send(retries=3)
    (job,) = await take(await desk.worker())
    await desk.client.cancel(request.id, grace=3.0)
    await desk.rest()
    assert (job.is_cancelled, job.grace, await desk.state(request)) == (True, 3.0, "running")
    job.end("cancelled")
    assert (await request.reply()).extension.state == "cancelled"


async def test_worker_that_does_not_end_a_cancelled_job_loses_it(autojump_clock: object, desk: Desk) -> None:
    request = desk.send(retries=3)
    (job,) = await take(await desk.worker())
    begun = trio.current_time()
    await desk.client.cancel(request.id, grace=3.0)
    assert (await request.reply()).extension.state == "cancelled"
    assert 8 <= trio.current_time() - begun <= 30
    job.reply()
    await desk.rest()
    assert desk.book.jobs == {}


async def test_cancelling_what_nobody_knows_or_what_has_ended_is_refused(autojump_clock: object, desk: Desk) -> None:
    with pytest.raises(NotFound, match="no job"):
        await desk.client.cancel(b"nothing")
    request = desk.send()
    (job,) = await take(await desk.worker())
    job.reply()
    await request.reply()
    with pytest.raises(NotFound, match="no job"):
        await desk.client.cancel(request.id)


async def test_tree_is_cancelled_with_its_root(autojump_clock: object, desk: Desk) -> None:
    root = desk.send(b"root")
    worker = await desk.worker(slots=2)
    (job,) = await take(worker)
    child = desk.send(b"child", parent=(root.id.decode(), 1))
    (child_job,) = await take(worker)
    grandchild = desk.send(b"grandchild", parent=(child.id.decode(), 1))
    await desk.client.cancel(root.id, tree=True)
    assert (await grandchild.reply()).extension.state == "cancelled"
    assert (job.is_cancelled, child_job.is_cancelled) == (True, True)


async def test_child_of_an_attempt_that_is_over_is_cancelled_at_once(autojump_clock: object, desk: Desk) -> None:
    parent = desk.send(b"parent", retries=1, backoff=(1000, 1000))
    worker = await desk.worker()
    (job,) = await take(worker)
    job.fail(ValueError("no"))
    await desk.rest()
    late = desk.send(b"late", parent=(parent.id.decode(), 1))
    assert (await late.reply()).extension.state == "cancelled"
    job = await worker.__anext__()
    assert job.message == b"parent"


async def test_tied_job_is_cancelled_when_its_requester_leaves(autojump_clock: object, desk: Desk) -> None:
    worker = await desk.worker(slots=2)
    async with open_emqp(await desk.broker.emqp_connector()) as other:
        await desk.rest()
        tied, free = desk.send(b"tied", client=other, tie=True), desk.send(b"free", client=other)
        jobs = {job.id: job for job in await take(worker, 2)}
    await desk.rest()
    assert (jobs[tied.id].is_cancelled, jobs[free.id].is_cancelled) == (True, False)


async def test_returned_job_goes_out_again_as_if_it_was_new(autojump_clock: object, desk: Desk) -> None:
    request = desk.send()
    first = await desk.worker()
    jobs = await take(first)
    first.slots = 0
    assert first.give_back(jobs)
    await desk.rest()
    assert await desk.state(request) == "waiting"
    (job,) = await take(await desk.worker())
    assert (job.id, job.attempt) == (request.id, 1)


async def test_follower_hears_of_changes_and_gets_the_answer(autojump_clock: object, desk: Desk) -> None:
    request = desk.send(retries=1, backoff=(1, 1))
    await desk.rest()
    async with open_emqp(await desk.broker.emqp_connector()) as other, trio.open_nursery() as nursery:
        heard: list[tuple[str, bytes | None]] = []

        async def follow() -> None:
            async with other.follow([request.id], results=True) as reports:
                async for report in reports:
                    heard.append((report.state.state, report.result))

        nursery.start_soon(follow)
        await desk.rest()
        worker = await desk.worker()
        (await worker.__anext__()).fail(ValueError("no"))
        (await worker.__anext__()).reply(b"5")
        await request.reply()
        await desk.rest()
        nursery.cancel_scope.cancel()
    words = [word for word, _ in heard]
    assert words == ["waiting", "running", "delayed", "running", "ok"]
    assert heard[-1] == ("ok", b"5")
    assert not desk.book.register.followers.by_job


async def test_send_returns_the_job_that_is_there_under_the_same_key(autojump_clock: object, desk: Desk) -> None:
    first = desk.send(unique="u")
    await desk.rest()
    assert await desk.client.send("q", b"{}", extension=Extension(unique="u")) == first.id
    assert await desk.client.send("q", b"{}", extension=Extension(unique="another")) == b""


async def test_answer_that_is_kept_is_there_later(autojump_clock: object, desk: Desk) -> None:
    request = desk.send(keep=60_000)
    (job,) = await take(await desk.worker())
    job.reply(b"5")
    await request.reply()
    async with open_emqp(await desk.broker.emqp_connector()) as other:
        found = (await other.states([request.id], results=True))[request.id]
        assert (found.state.state, found.result) == ("ok", b"5")
        await trio.sleep(300)
        found = (await other.states([request.id, b"nothing"], results=True))[request.id]
        assert (found.state.state, found.result) == ("ok", None)


async def test_progress_and_items_reach_the_requester(autojump_clock: object, desk: Desk) -> None:
    request = desk.send(stream=True)
    (job,) = await take(await desk.worker())
    async with trio.open_nursery() as nursery:
        items: list[bytes] = []

        async def read() -> None:
            async for item in request.items():
                items.append(item)

        nursery.start_soon(read)
        for number in range(100):
            await job.item(b"%d" % number)
        job.reply()
    assert items == [b"%d" % number for number in range(100)]


async def test_items_that_nobody_reads_cancel_their_job(autojump_clock: object, desk: Desk) -> None:
    worker = await desk.worker()
    async with open_emqp(await desk.broker.emqp_connector()) as other:
        await desk.rest()
        desk.send(client=other, stream=True)
        (job,) = await take(worker)
    await desk.rest()
    await job.item(b"1")
    await desk.rest()
    assert job.is_cancelled


async def test_message_of_a_job_is_read_over_another_wire(autojump_clock: object, desk: Desk) -> None:
    desk.send(b"[1]", "default", priority=4)
    await desk.rest()
    delivery = await desk.broker.queue("default").get()
    assert delivery is not None
    assert delivery.body == b"[1]"
    assert isinstance(delivery.properties, Properties)
    assert delivery.properties.priority == 4


async def test_queue_waits_at_its_gate_while_too_many_of_its_jobs_are_parked(
    autojump_clock: object, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parking, "MOST_PARKED", 5)
    requests = [desk.send(b"%d" % number, key="k", limit=1) for number in range(20)]
    worker = await desk.worker(slots=4)
    done = []
    for request in requests:
        (job,) = await take(worker, 4)
        assert len(desk.book.parking) <= 5
        job.reply()
        await request.reply()
        done.append(job.message)
    assert done == [b"%d" % number for number in range(20)]
    assert desk.book.register.counts["parked"] < 200  # it is no busy loop


async def test_job_whose_queue_lets_go_of_it_ends_and_frees_its_key(autojump_clock: object, desk: Desk) -> None:
    purged = desk.send(unique="u")
    await desk.rest()
    await desk.broker.queue("q").purge()
    assert (await purged.reply()).extension.state == "cancelled"
    second = desk.send(unique="u")
    await desk.rest()
    assert not second.duplicate_of
    await desk.broker.declare_queue("brief", max_length=1, overflow="drop-head")
    dropped, _ = desk.send(queue="brief"), desk.send(queue="brief")
    assert (await dropped.reply()).extension.state == "cancelled"
    await desk.broker.declare_queue("limited", delivery_limit=0)
    lost = desk.send(queue="limited")
    worker = await desk.worker("limited")
    assert await take(worker)
    await desk.end(worker)
    assert (await lost.reply()).extension.state == "lost"


async def test_job_that_no_worker_takes_in_time_has_expired_by_then(autojump_clock: object, desk: Desk) -> None:
    ahead, began = desk.send(), trio.current_time()
    request = desk.send(deadline=5_000, unique="u")
    assert (await request.reply()).extension.state == "expired"
    assert 5 <= trio.current_time() - began <= 6
    assert await desk.state(request) == "expired"
    again = desk.send(unique="u")
    assert [job.id for job in await take(await desk.worker(slots=5), 3)] == [ahead.id, again.id]
    assert await desk.state(request) == "expired"
