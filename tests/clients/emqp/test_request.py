"""Jobs as their requester has them, with a broker that says what the test wants."""

import pytest
import trio
import trio.testing

from clients.emqp.stub import StubBroker, stubbed_client
from triomq.clients import EMQPConnection, EMQPRequest, NotAnswered
from triomq.errors import Disconnected, LimitExceeded, LocalProtocolError, NotFound
from triomq.protocols.emqp import (
    ITEM_WINDOW,
    CancelAsked,
    Extension,
    Headers,
    JobState,
    Progressed,
    Requested,
    StatesAsked,
    make_headers,
)

ASKED = make_headers(reply_requested=True)
SURE = make_headers(reply_requested=True, guarantee=True)
STREAM = Extension(stream=True)


def item(number: int, attempt: int = 1) -> Extension:
    return Extension(number=number, item=True, attempt=attempt)


async def begun(emqp: EMQPConnection, broker: StubBroker, extension: Extension = STREAM) -> EMQPRequest:
    """Begin a job that wants an answer, and have it accepted."""
    request = emqp.begin("q", b"1", SURE, extension)
    assert len(await broker.heard(Requested)) == 1
    broker.engine.acknowledge(request.id)
    await broker.spoken()
    await request.accepted()
    return request


async def test_jobs_go_out_together_at_the_end_of_the_turn(autojump_clock: object) -> None:
    async with stubbed_client() as (emqp, broker):
        await trio.testing.wait_all_tasks_blocked()
        requests = [emqp.begin("q", b"%d" % number) for number in range(3)]
        assert not any(request.is_accepted for request in requests)
        heard = await broker.heard(Requested)
        assert [(event.msgid, event.message) for event in heard] == [
            (request.id, b"%d" % number) for number, request in enumerate(requests)
        ]
        for request in requests:
            broker.engine.acknowledge(request.id)
        await broker.spoken()
        assert all(request.is_accepted and request.is_over for request in requests)
        await requests[0].accepted()
        with pytest.raises(LocalProtocolError, match="without reply_requested"):
            await requests[0].reply()


async def test_who_gives_many_jobs_waits_until_half_of_them_are_accepted(autojump_clock: object) -> None:
    async with stubbed_client() as (emqp, broker):
        requests = []

        async def give() -> None:
            while len(requests) < 3000:
                await emqp.wait_room()
                requests.append(emqp.begin("q", b"1"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(give)
            assert len(await broker.heard(Requested)) == 2000
            for request in requests[:999]:
                broker.engine.acknowledge(request.id)
            assert await broker.heard(Requested) == []
            broker.engine.acknowledge(requests[999].id)
            assert len(await broker.heard(Requested)) == 1000


async def test_refused_job_says_why(autojump_clock: object) -> None:
    async with stubbed_client() as (emqp, broker):
        request = emqp.begin("q", b"1", ASKED)
        await broker.spoken()
        broker.engine.refuse(request.id, "full", "no room")
        await broker.spoken()
        for wait in (request.accepted, request.reply):
            with pytest.raises(LimitExceeded, match="no room"):
                await wait()
        with pytest.raises(LocalProtocolError, match="10001 bytes"):
            emqp.begin("q", b"x" * 10_001)


async def test_answer_may_be_waited_for_by_many_and_at_any_time(autojump_clock: object) -> None:
    async with stubbed_client() as (emqp, broker):
        request = await begun(emqp, broker)
        got = []

        async def wait() -> None:
            got.append((await request.reply()).message)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            nursery.start_soon(wait)
            broker.engine.reply(request.id, b"5")
            await broker.spoken()
        assert got == [b"5", b"5"]
        assert (await request.reply()).message == b"5"
        broker.engine.reply(request.id, b"6")
        await broker.spoken()
        assert (await request.reply()).message == b"5"


async def test_answer_that_comes_before_the_acknowledgement_accepts_a_job(autojump_clock: object) -> None:
    async with stubbed_client() as (emqp, broker):
        request = emqp.begin("q", b"1", ASKED)
        await broker.spoken()
        broker.engine.reply(request.id, b"5")
        broker.engine.acknowledge(request.id)
        await broker.spoken()
        await request.accepted()
        assert (await request.reply()).message == b"5"


async def test_job_that_is_there_already_is_named_and_is_answered_elsewhere(autojump_clock: object) -> None:
    async with stubbed_client() as (emqp, broker):
        request = emqp.begin("q", b"1", ASKED, Extension(unique="u"))
        await broker.spoken()
        broker.engine.acknowledge(request.id, duplicate_of=b"first")
        await broker.spoken()
        await request.accepted()
        assert request.duplicate_of == b"first"
        with pytest.raises(NotAnswered, match="first"):
            await request.reply()


async def test_jobs_that_are_not_accepted_are_given_again_under_their_ids(autojump_clock: object) -> None:
    async with stubbed_client() as (emqp, broker):
        first, second, third = (emqp.begin("q", name, headers) for name, headers in WANTED)
        await broker.spoken()
        for request in (first, second):
            broker.engine.acknowledge(request.id)
        await broker.spoken()
        await broker.go()
        late = emqp.begin("q", b"late", SURE)
        await broker.come()
        again = await broker.heard(Requested)
        assert [(event.msgid, event.message) for event in again] == [(third.id, b"third"), (late.id, b"late")]
        for request in (first, third, late):
            broker.engine.acknowledge(request.id)
            broker.engine.reply(request.id, b"5")
            await broker.spoken()
            assert (await request.reply()).message == b"5"


WANTED = ((b"first", SURE), (b"second", make_headers()), (b"third", SURE))


@pytest.mark.parametrize(
    ("capabilities", "headers", "is_lost"),
    [
        (("jobs",), ASKED, True),
        (("jobs",), SURE, True),
        (("jobs", "durable"), ASKED, True),
        (("jobs", "durable"), SURE, False),
    ],
)
async def test_job_that_the_next_broker_does_not_know_is_lost_unless_it_may_be_on_disk(
    autojump_clock: object, capabilities: tuple[str, ...], headers: Headers, is_lost: bool
) -> None:
    async with stubbed_client(capabilities=capabilities) as (emqp, broker):
        request = emqp.begin("q", b"1", headers)
        await broker.spoken()
        broker.engine.acknowledge(request.id)
        await broker.spoken()
        await broker.go()
        await broker.come()
        (asked,) = await broker.heard(StatesAsked)
        broker.engine.report_state(request.id, JobState(state="unknown"))
        broker.engine.acknowledge(asked.msgid)
        await broker.spoken()
        assert request.is_over is is_lost
        if is_lost:
            with pytest.raises(Disconnected, match="knows nothing of the job"):
                await request.reply()


async def test_what_is_left_until_the_deadline_is_said_at_each_sending(autojump_clock: object) -> None:
    async with stubbed_client() as (emqp, broker):
        request = emqp.begin("q", b"1", SURE, Extension(key="k"), deadline=trio.current_time() + 2.5)
        (first,) = await broker.heard(Requested)
        await broker.go()
        await trio.sleep(2)
        await broker.come()
        (second,) = await broker.heard(Requested)
        assert first.extension == Extension(key="k", deadline=2500)
        assert second.extension.deadline == 500
        await broker.go()
        await trio.sleep(2)
        await broker.come()
        (third,) = await broker.heard(Requested)
        assert third.extension.deadline == 0
        request.abandon()


async def test_connection_that_ends_fails_what_waits(autojump_clock: object) -> None:
    errors = []
    async with trio.open_nursery() as nursery, stubbed_client() as (emqp, broker):
        request = await begun(emqp, broker)

        async def wait() -> None:
            with pytest.raises(Disconnected) as caught:
                await request.reply()
            errors.append(caught.value)

        nursery.start_soon(wait)
        nursery.start_soon(wait)
        await broker.spoken()
    assert len(errors) == 2


async def test_answer_that_was_lost_while_we_were_away_is_asked_for(autojump_clock: object) -> None:
    async with stubbed_client() as (emqp, broker):
        kept, lost, running, waiting = [await begun(emqp, broker) for _ in range(4)]
        await broker.go()
        await broker.come()
        (asked,) = await broker.heard(StatesAsked)
        assert (asked.requests, asked.extension.follow) == ((kept.id, lost.id, running.id, waiting.id), False)
        broker.engine.report_state(kept.id, JobState(state="failed", attempt=2, type="E", message="no"), b"5")
        broker.engine.report_state(lost.id, JobState(state="ok"))
        broker.engine.report_state(running.id, JobState(state="running"))
        broker.engine.report_state(waiting.id, JobState(state="waiting"))
        broker.engine.acknowledge(asked.msgid)
        await broker.spoken()
        reply = await kept.reply()
        assert (reply.message, reply.extension) == (b"5", Extension(state="failed", attempt=2, type="E", message="no"))
        with pytest.raises(Disconnected, match="its answer was lost"):
            await lost.reply()
        for request in (running, waiting):
            broker.engine.report_state(request.id, JobState(state="ok"))  # as another follower may have it
            broker.engine.reply(request.id, b"6")
            await broker.spoken()
            assert (await request.reply()).message == b"6"


# Progress and streams


async def test_slow_reader_of_progress_gets_the_last_hundred_values(autojump_clock: object) -> None:
    async with stubbed_client() as (emqp, broker):
        request = await begun(emqp, broker, Extension())
        for number in range(150):
            broker.engine.progress(request.id, b"%d" % number, Extension(number=number + 1))
        await broker.spoken()
        broker.engine.reply(request.id, b"done")
        await broker.spoken()
        got = [value async for value in request.values()]
        assert got == [b"%d" % number for number in range(50, 150)]


async def test_items_come_in_order_and_their_worker_hears_how_far_they_are_read(autojump_clock: object) -> None:
    async with stubbed_client() as (emqp, broker):
        request = await begun(emqp, broker)
        got: list[bytes] = []

        async def read() -> None:
            async for value in request.items():
                got.append(value)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            for number in range(1, ITEM_WINDOW + 10):
                broker.engine.progress(request.id, b"%d" % number, item(number))
            half, whole = await broker.heard(Progressed)
            assert half == Progressed(request.id, b"", Extension(number=ITEM_WINDOW // 2, item=True))
            assert whole.extension.number == ITEM_WINDOW
            broker.engine.reply(request.id, b"done")
            await broker.spoken()
        assert got == [b"%d" % number for number in range(1, ITEM_WINDOW + 10)]


async def test_items_that_come_again_after_the_broker_was_away_come_once(autojump_clock: object) -> None:
    async with stubbed_client() as (emqp, broker):
        request = await begun(emqp, broker)
        for number in range(1, 4):
            broker.engine.progress(request.id, b"%d" % number, item(number))
        await broker.spoken()
        items = request.items()
        assert [await anext(items), await anext(items)] == [b"1", b"2"]
        await broker.go()
        await broker.come()
        assert await broker.heard(Progressed) == [
            Progressed(request.id, b"", Extension(number=2, item=True, follow=True))
        ]
        for number in range(2, 5):
            broker.engine.progress(request.id, b"%d" % number, item(number))
        broker.engine.reply(request.id, b"done")
        await broker.spoken()
        assert [value async for value in items] == [b"3", b"4"]


async def test_worker_that_sends_the_last_item_again_is_told_how_far_it_was_read(autojump_clock: object) -> None:
    async with stubbed_client() as (emqp, broker):
        request = await begun(emqp, broker)
        items = request.items()
        broker.engine.progress(request.id, b"1", item(1))
        await broker.spoken()
        assert await anext(items) == b"1"
        await broker.go()
        await broker.come()
        assert len(await broker.heard(Progressed)) == 1, "the worker is not there yet, and does not get it"
        broker.engine.progress(request.id, b"1", item(1))
        assert await broker.heard(Progressed) == [Progressed(request.id, b"", Extension(number=1, item=True))]


async def test_items_that_were_missed_are_asked_for_once(autojump_clock: object) -> None:
    async with stubbed_client() as (emqp, broker):
        request = await begun(emqp, broker)
        for number in (1, 4, 5, 6):
            broker.engine.progress(request.id, b"%d" % number, item(number))
        assert await broker.heard(Progressed) == [Progressed(request.id, b"", Extension(item=True, follow=True))]
        for number in range(1, 8):
            broker.engine.progress(request.id, b"%d" % number, item(number))
        broker.engine.reply(request.id, b"done", Extension(number=7))
        await broker.spoken()
        assert [value async for value in request.items()] == [b"%d" % number for number in range(1, 8)]


async def test_answer_says_how_many_items_there_were(autojump_clock: object) -> None:
    async with stubbed_client() as (emqp, broker):
        request = await begun(emqp, broker)
        broker.engine.progress(request.id, b"1", item(1))
        broker.engine.reply(request.id, b"done", Extension(number=2))
        await broker.spoken()
        items = request.items()
        assert await anext(items) == b"1"
        with pytest.raises(Disconnected, match="lost on the way"):
            await anext(items)
        assert (await request.reply()).message == b"done"


@pytest.mark.parametrize("wrong", [item(2, attempt=2), item(1, attempt=2)])
async def test_stream_that_was_begun_again_ends(autojump_clock: object, wrong: Extension) -> None:
    async with stubbed_client() as (emqp, broker):
        request = await begun(emqp, broker)
        broker.engine.progress(request.id, b"1", item(1))
        broker.engine.progress(request.id, b"2", wrong)
        await broker.spoken()
        items = request.items()
        assert await anext(items) == b"1"
        with pytest.raises(Disconnected, match="lost on the way"):
            await anext(items)


async def test_stream_whose_worker_does_not_wait_ends(autojump_clock: object) -> None:
    async with stubbed_client() as (emqp, broker):
        request = await begun(emqp, broker)
        for number in range(1, 2 * ITEM_WINDOW + 2):
            broker.engine.progress(request.id, b"x", item(number))
        await broker.spoken()
        with pytest.raises(Disconnected):
            await request.reply()


# Cancelling


async def test_cancel_is_acknowledged_or_nothing_is_there(autojump_clock: object) -> None:
    async with stubbed_client() as (emqp, broker), trio.open_nursery() as nursery:
        nursery.start_soon(lambda: emqp.cancel(b"job", grace=1.5, tree=True))
        (asked,) = await broker.heard(CancelAsked)
        assert (asked.request, asked.extension) == (b"job", Extension(grace=1500, tree=True))
        broker.engine.acknowledge(asked.msgid)
        await broker.spoken()

        async def in_vain() -> None:
            with pytest.raises(NotFound):
                await emqp.cancel(b"job")

        nursery.start_soon(in_vain)
        (asked,) = await broker.heard(CancelAsked)
        broker.engine.refuse(asked.msgid, "unknown", "there is none")
        await broker.spoken()


async def test_requester_that_is_cancelled_cancels_a_job_that_is_tied_to_it(autojump_clock: object) -> None:
    async with stubbed_client() as (emqp, broker):
        with trio.move_on_after(1):
            await emqp.request("q", b"1", extension=Extension(tie=True))
        with trio.move_on_after(1):
            await emqp.request("q", b"2")
        tied, _ = await broker.heard(Requested)
        (asked,) = await broker.heard(CancelAsked)
        assert asked.request == tied.msgid


async def test_cancel_is_said_when_the_broker_is_back(autojump_clock: object) -> None:
    async with stubbed_client() as (emqp, broker):
        await broker.go()
        emqp.cancel_nowait(b"job")
        await broker.come()
        assert [asked.request for asked in await broker.heard(CancelAsked)] == [b"job"]


# States


async def test_states_are_those_of_all_jobs(autojump_clock: object) -> None:
    ids = [b"job%d" % number for number in range(1500)]
    async with stubbed_client() as (emqp, broker), trio.open_nursery() as nursery:
        found = {}

        async def ask() -> None:
            found.update(await emqp.states(ids, results=True))

        nursery.start_soon(ask)
        for count in (1000, 500):
            (asked,) = await broker.heard(StatesAsked)
            assert len(asked.requests) == count
            assert asked.extension == Extension(result=True)
            for job in asked.requests:
                broker.engine.report_state(job, JobState(state="ok"), b'{"value": 5}')
            broker.engine.acknowledge(asked.msgid)
        await broker.spoken()
        assert list(found) == ids
        assert found[b"job7"].result == b'{"value": 5}'


async def test_followed_jobs_are_reported_until_all_have_ended(autojump_clock: object) -> None:
    async with stubbed_client() as (emqp, broker), trio.open_nursery() as nursery:
        seen = []

        async def follow() -> None:
            async with emqp.follow([b"a", b"b", b"a"]) as reports:
                seen.extend([(report.request, report.state.state) async for report in reports])

        nursery.start_soon(follow)
        (asked,) = await broker.heard(StatesAsked)
        assert asked.requests == (b"a", b"b")
        broker.engine.report_state(b"a", JobState(state="running"))
        broker.engine.report_state(b"b", JobState(state="unknown"))
        broker.engine.acknowledge(asked.msgid)
        await broker.spoken()
        await broker.go()
        await broker.come()
        (asked,) = await broker.heard(StatesAsked)
        assert (asked.requests, asked.extension.follow) == ((b"a",), True)
        broker.engine.report_state(b"a", JobState(state="failed", type="E"))
        await broker.spoken()
        assert seen == [(b"a", "running"), (b"b", "unknown"), (b"a", "failed")]
        assert await broker.heard(StatesAsked) == []


async def test_follower_that_leaves_is_reported_to_no_more(autojump_clock: object) -> None:
    async with stubbed_client() as (emqp, broker), trio.open_nursery() as nursery:

        async def follow() -> None:
            async with emqp.follow([b"a"]) as reports:
                await anext(reports)

        nursery.start_soon(follow)
        (asked,) = await broker.heard(StatesAsked)
        for state in ("waiting", "running"):
            broker.engine.report_state(b"a", JobState(state=state))
        broker.engine.acknowledge(asked.msgid)
        (asked,) = await broker.heard(StatesAsked)
        assert (asked.requests, asked.extension.follow) == ((b"a",), False)
        broker.engine.report_state(b"a", JobState(state="running"))
        await broker.spoken()


# Brokers without extensions


async def test_broker_without_extensions_has_what_was_sent(autojump_clock: object) -> None:
    async with stubbed_client(capabilities=()) as (emqp, broker):
        request = emqp.begin("q", b"1", ASKED)
        assert request.is_accepted
        await request.accepted()
        await broker.spoken()
        broker.engine.reply(request.id, b"5")
        await broker.spoken()
        assert (await request.reply()).message == b"5"
        for ask in (emqp.cancel(b"job"), emqp.states([b"job"])):
            with pytest.raises(LocalProtocolError, match="capability jobs"):
                await ask
