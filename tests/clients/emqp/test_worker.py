"""A worker and its jobs, with a broker that says what the test wants."""

from functools import partial

import pytest
import trio
import trio.testing

from clients.emqp.stub import StubBroker, stubbed_worker
from triomq.clients import EMQPJob, EMQPWorker
from triomq.clients.emqp.recent import RecentAnswers
from triomq.errors import LocalProtocolError
from triomq.protocols.emqp import (
    ITEM_WINDOW,
    MOST_RUNNING,
    NO_HEADERS,
    Extension,
    Informed,
    JobsReturned,
    PeerLeaving,
    Progressed,
    Replied,
    SlotsOffered,
    make_headers,
)

FIRST = Extension(attempt=1)


async def given(worker: EMQPWorker, broker: StubBroker, *ids: bytes, extension: Extension = FIRST) -> list[EMQPJob]:
    """Give a worker jobs, and take them there."""
    for job in ids:
        broker.engine.request(job, "q", NO_HEADERS, b"1", extension)
    await broker.spoken()
    jobs = await worker.receive()
    assert [job.id for job in jobs] == list(ids)
    return jobs


async def offered(broker: StubBroker) -> list[int]:
    return [event.count for event in await broker.heard(SlotsOffered)]


async def test_slots_are_offered_once_in_a_turn_however_many_jobs_were_answered(autojump_clock: object) -> None:
    async with stubbed_worker(slots=3) as (worker, broker):
        assert await offered(broker) == [3]
        jobs = await given(worker, broker, b"a", b"b", b"c")
        assert await offered(broker) == []
        for job in jobs[:2]:
            job.reply(b"1")
            job.reply(b"2")
        jobs[2].fail(ValueError("no"))
        assert await offered(broker) == [3]
        assert [(event.request, event.message) for event in await broker.heard(Replied)] == [
            (b"a", b"1"),
            (b"b", b"1"),
            (b"c", b'{"value":"no"}'),
        ]


async def test_number_of_slots_may_change(autojump_clock: object) -> None:
    async with stubbed_worker(slots=1) as (worker, broker):
        worker.slots = 4
        assert sum(await offered(broker)) == 4
        jobs = await given(worker, broker, b"a", b"b", b"c")
        worker.slots = 2
        for job in jobs[:2]:
            job.reply(b"1")
            assert await offered(broker) == []
        jobs[2].reply(b"1")
        assert await offered(broker) == [1]
        worker.slots = 0
        for wrong in (-1, MOST_RUNNING + 1):
            with pytest.raises(LocalProtocolError, match="a worker has from 0"):
                worker.slots = wrong


async def test_job_says_what_its_requester_wants(autojump_clock: object) -> None:
    async with stubbed_worker(slots=2) as (worker, broker):
        await broker.spoken()
        extension = Extension(attempt=2, deadline=2500, timeout=1500, trace="00-1", parent=("p", 3))
        broker.engine.request(b"a", "mail", make_headers(timeout=9, reply_requested=True), b"1", extension)
        broker.engine.request(b"b", "mail", make_headers(timeout=9), b"2")
        await broker.spoken()
        first, second = await worker.receive()
        assert (first.queue, first.message, first.attempt, first.timeout) == ("mail", b"1", 2, 1.5)
        assert (first.deadline, first.extension.parent) == (trio.current_time() + 2.5, ("p", 3))
        assert (second.timeout, second.deadline, second.headers.reply_requested) == (9.0, float("inf"), False)
        assert list(worker.jobs) == [first, second]


async def test_jobs_that_come_together_go_to_all_tasks_that_wait(autojump_clock: object) -> None:
    async with stubbed_worker(slots=9) as (worker, broker), trio.open_nursery() as nursery:
        got: list[list[bytes]] = []

        async def take(*, count: int) -> None:
            got.append([(await anext(worker)).id for _ in range(count)])
            await trio.sleep_forever()

        for count in (1, 2, 1):
            nursery.start_soon(partial(take, count=count))
        await broker.spoken()
        for job in (b"a", b"b", b"c", b"d"):
            broker.engine.request(job, "q", NO_HEADERS, b"1")
        await broker.spoken()
        assert sorted(job for jobs in got for job in jobs) == [b"a", b"b", b"c", b"d"]
        assert sorted(map(len, got)) == [1, 1, 2]
        nursery.cancel_scope.cancel()


async def test_job_beyond_the_slots_is_given_back(autojump_clock: object) -> None:
    async with stubbed_worker(slots=1) as (worker, broker):
        await given(worker, broker, b"a")
        broker.engine.request(b"b", "q", NO_HEADERS, b"1")
        await broker.spoken()
        assert await broker.heard(JobsReturned) == [JobsReturned((b"b",))]


async def test_jobs_that_were_not_begun_are_given_back_and_their_slots_offered(autojump_clock: object) -> None:
    async with stubbed_worker(slots=3) as (worker, broker):
        await offered(broker)
        jobs = await given(worker, broker, b"a", b"b", b"c")
        jobs[0].reply()
        assert worker.give_back(jobs)
        jobs[1].reply()
        assert await broker.heard(JobsReturned) == [JobsReturned((b"b", b"c"))]
        assert await offered(broker) == [3]
        assert len(await broker.heard(Replied)) == 1


async def test_broker_without_extensions_takes_no_job_back(autojump_clock: object) -> None:
    async with stubbed_worker(slots=1, capabilities=()) as (worker, broker):
        jobs = await given(worker, broker, b"a", extension=Extension())
        assert not worker.give_back(jobs)
        jobs[0].progress(b"1")
        with trio.fail_after(1):
            await jobs[0].item(b"1")
        jobs[0].reply(b"1")
        assert [event.message for event in await broker.heard(Replied)] == [b"1"]


# The end of a job


async def test_failure_names_its_class_and_the_end_of_a_long_traceback(autojump_clock: object) -> None:
    class Nasty(Exception):
        def __str__(self) -> str:
            return "\udc80" + "\x01" * 20_000

    async with stubbed_worker(slots=1) as (worker, broker):
        (job,) = await given(worker, broker, b"a")
        try:
            raise Nasty
        except Nasty as error:
            job.fail(error, retry=False)
        (event,) = await broker.heard(Replied)
        said = event.extension
        assert (said.state, said.type, said.retry, said.attempt) == ("failed", "Nasty", False, 1)
        assert said.message.startswith("?\x01\x01")
        assert said.traceback.endswith("\x01\n")
        assert len(said.traceback) == 9000


async def test_answer_that_is_too_large_may_be_failed(autojump_clock: object) -> None:
    async with stubbed_worker(slots=1) as (worker, broker):
        (job,) = await given(worker, broker, b"a")
        with pytest.raises(LocalProtocolError, match="10001 bytes"):
            job.reply(b"x" * 10_001)
        job.end("failed", type="TooLarge", text="the result has 10001 bytes")
        (event,) = await broker.heard(Replied)
        assert event.extension.type == "TooLarge"


@pytest.mark.parametrize("is_set_first", [True, False])
async def test_cancel_is_told_once_with_its_grace(autojump_clock: object, is_set_first: bool) -> None:
    async with stubbed_worker(slots=2) as (worker, broker):
        job, other = await given(worker, broker, b"a", b"b")
        calls = []
        if is_set_first:
            job.on_cancel = lambda: calls.append(job.grace)
        broker.engine.cancel(b"a", Extension(grace=1500))
        broker.engine.cancel(b"a", Extension(grace=1500))
        broker.engine.cancel(b"nothing")
        await broker.spoken()
        job.on_cancel = lambda: calls.append(job.grace)
        assert calls == [1.5] * (2 if is_set_first else 1)
        assert (job.is_cancelled, other.is_cancelled) == (True, False)
        job.end("cancelled")
        (event,) = await broker.heard(Replied)
        assert event.extension == Extension(state="cancelled", attempt=1)


# Progress and streams


async def test_progress_goes_out_ten_times_a_second_and_always_the_last(autojump_clock: object) -> None:
    async with stubbed_worker(slots=1) as (worker, broker):
        (job,) = await given(worker, broker, b"a")
        for number in range(50):
            job.progress(b"%d" % number)
            await trio.sleep(0.01)
        job.progress(b"end")
        job.reply(b"done")
        job.progress(b"late")
        await trio.sleep(1)
        values = [(event.message, event.extension.number) for event in await broker.heard(Progressed)]
        assert values[0] == (b"0", 1)
        assert values[-1] == (b"end", 51)
        assert 5 <= len(values) <= 8
        assert [number for _, number in values] == sorted(number for _, number in values)
        with pytest.raises(LocalProtocolError, match="10001 bytes"):
            (await given(worker, broker, b"b"))[0].progress(b"x" * 10_001)


async def test_items_are_held_back_until_they_are_read(autojump_clock: object) -> None:
    async with stubbed_worker(slots=1) as (worker, broker), trio.open_nursery() as nursery:
        (job,) = await given(worker, broker, b"a", extension=Extension(attempt=1, stream=True))

        async def work() -> None:
            for number in range(1, 3 * ITEM_WINDOW):
                await job.item(b"%d" % number)
            job.reply(b"done")

        nursery.start_soon(work)
        items = await broker.heard(Progressed)
        assert [event.extension for event in items] == [
            Extension(attempt=1, number=number, item=True) for number in range(1, ITEM_WINDOW + 1)
        ]
        broker.engine.progress(b"a", b"", Extension(number=50, item=True))
        assert [event.extension.number for event in await broker.heard(Progressed)] == list(range(101, 151))
        await broker.go()
        await broker.come()  # which hears all that was not read
        assert [event.extension.number for event in await broker.heard(Progressed)] == list(range(51, 151))
        broker.engine.progress(b"a", b"", Extension(number=150, item=True))
        broker.engine.progress(b"a", b"", Extension(number=250, item=True))
        assert [event.message for event in await broker.heard(Progressed)] == [b"%d" % n for n in range(151, 251)]
        broker.engine.progress(b"a", b"", Extension(number=251, item=True))
        assert len(await broker.heard(Progressed)) == 49
        assert len(await broker.heard(Replied)) == 1


async def test_large_items_are_held_back_by_their_bytes(autojump_clock: object) -> None:
    async with stubbed_worker(slots=1, max_message_size=1 << 20) as (worker, broker), trio.open_nursery() as nursery:
        (job,) = await given(worker, broker, b"a", extension=Extension(attempt=1, stream=True))

        async def work() -> None:
            for _ in range(5):
                await job.item(b"x" * 400_000)
            job.reply(b"done")

        nursery.start_soon(work)
        assert len(await broker.heard(Progressed)) == 3
        broker.engine.progress(b"a", b"", Extension(number=1, item=True))
        assert len(await broker.heard(Progressed)) == 1
        broker.engine.progress(b"a", b"", Extension(number=4, item=True))
        assert len(await broker.heard(Progressed)) == 1


async def test_items_that_nobody_reads_are_not_sent(autojump_clock: object) -> None:
    async with stubbed_worker(slots=1) as (worker, broker):
        (job,) = await given(worker, broker, b"a")
        with trio.fail_after(1):
            for _ in range(2 * ITEM_WINDOW):
                await job.item(b"1")
        assert await broker.heard(Progressed) == []


# Coming back, and going


async def test_jobs_stay_the_workers_own_while_the_broker_is_away(autojump_clock: object) -> None:
    async with stubbed_worker(slots=4) as (worker, broker):
        going, done, failed, waiting = await given(
            worker, broker, b"a", b"b", b"c", b"d", extension=Extension(attempt=3)
        )
        await broker.go()
        done.reply(b"5")
        failed.fail(ValueError("no"))
        assert worker.give_back([waiting])
        waiting.reply(b"not any more")
        await broker.come()
        (informed,) = await broker.heard(Informed)
        assert informed.extension.running == (("a", 3), ("b", 3), ("c", 3), ("d", 3))
        assert informed.extension.name == "stubborn"
        answers = await broker.heard(Replied)
        assert [(event.request, event.extension.state) for event in answers] == [(b"b", "ok"), (b"c", "failed")]
        assert await broker.heard(JobsReturned) == [JobsReturned((b"d",))]
        assert (await offered(broker))[-1] == 3
        going.reply(b"6")
        assert len(await broker.heard(Replied)) == 1


async def test_last_answers_are_said_again_to_a_broker_that_may_not_have_heard_them(autojump_clock: object) -> None:
    async with stubbed_worker(slots=4) as (worker, broker):
        old, new, other = await given(worker, broker, b"old", b"new", b"other")
        old.reply(b"1")
        await trio.sleep(11)
        broker.engine.cancel(b"nothing")  # any word of the broker's shows that it has read what came before
        assert len(await broker.heard(Replied)) == 1
        new.fail(ValueError("no"))
        assert len(await broker.heard(Replied)) == 1
        broker.engine.leave()
        await broker.spoken()
        other.reply(b"2")  # while the broker is going
        assert len(await broker.heard(Replied)) == 1
        await broker.go()
        await trio.sleep(100)
        await broker.come()
        (informed,) = await broker.heard(Informed)
        assert informed.extension.running == (("new", 1), ("other", 1))
        again = await broker.heard(Replied)
        assert [(event.request, event.extension.state) for event in again] == [(b"new", "failed"), (b"other", "ok")]
        assert (await offered(broker))[-1] == 4
        await broker.go()
        await broker.come()
        assert len(await broker.heard(Replied)) == 2, "the one before may have gone as soon"
        await trio.sleep(11)
        broker.engine.cancel(b"nothing")
        await broker.spoken()
        await broker.go()
        await broker.come()
        assert await broker.heard(Replied) == []


async def test_answers_that_are_kept_are_bounded(autojump_clock: object) -> None:
    answers = RecentAnswers()
    for _ in range(3000):
        answers.add(b"job", 1, b"x", FIRST)
    assert len(answers.take()) == 2000
    for _ in range(100):
        answers.add(b"job", 1, b"x" * (1 << 20), FIRST)
    assert len(answers.take()) == 16
    assert answers.take() == []


async def test_answer_that_the_next_broker_cannot_take_fails_the_job(autojump_clock: object) -> None:
    async with stubbed_worker(slots=1) as (worker, broker):
        (job,) = await given(worker, broker, b"a")
        await broker.go()
        job.reply(b"\xff")
        broker.capabilities = ()
        await broker.come()
        (event,) = await broker.heard(Replied)
        assert event.message == b'{"value": "the answer cannot be sent"}'


async def test_worker_that_leaves_gives_back_what_nobody_took_and_answers_the_rest(autojump_clock: object) -> None:
    async with stubbed_worker(slots=3) as (worker, broker), trio.open_nursery() as nursery:
        (job,) = await given(worker, broker, b"a")
        broker.engine.request(b"b", "q", NO_HEADERS, b"1")
        await broker.spoken()
        left = trio.Event()

        async def leave() -> None:
            await worker.leave()
            left.set()

        nursery.start_soon(leave)
        assert await broker.heard(PeerLeaving) == [PeerLeaving()]
        assert await broker.heard(JobsReturned) == [JobsReturned((b"b",))]
        assert await worker.receive() == []
        assert [job async for job in worker] == []
        assert not left.is_set()
        job.reply(b"5")
        assert len(await broker.heard(Replied)) == 1
        assert left.is_set()
        await offered(broker)
        await worker.leave()
        assert await broker.heard(PeerLeaving) == []


async def test_worker_that_leaves_says_so_to_the_next_broker(autojump_clock: object) -> None:
    async with stubbed_worker(slots=2) as (worker, broker), trio.open_nursery() as nursery:
        (job,) = await given(worker, broker, b"a")
        nursery.start_soon(worker.leave)
        assert len(await broker.heard(PeerLeaving)) == 1
        await broker.go()
        await broker.come()
        (informed,) = await broker.heard(Informed)
        assert informed.extension.running == (("a", 1),)
        assert len(await broker.heard(PeerLeaving)) == 1
        assert await offered(broker) == []
        job.reply(b"5")
        assert len(await broker.heard(Replied)) == 1


async def test_worker_that_leaves_and_is_not_known_begins_again_with_its_jobs(autojump_clock: object) -> None:
    async with stubbed_worker(slots=1) as (worker, broker), trio.open_nursery() as nursery:
        (job,) = await given(worker, broker, b"a")
        nursery.start_soon(worker.leave)
        await broker.heard(PeerLeaving)
        broker.engine.refuse(b"", "inform", "begin with INFORM")
        broker.socket.incoming.append((b"", b"eMQP/1.0", b"ERROR", b"e", b"x", b"inform", b"begin with INFORM"))
        broker.new_engine()
        assert len(await broker.heard(Informed)) == 1
        assert len(await broker.heard(PeerLeaving)) == 1
        job.reply(b"5")
        assert len(await broker.heard(Replied)) == 1
