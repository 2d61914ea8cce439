"""The broker's own schedules: set, sent, ended, and there again after a restart."""

from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from endpoints.emqp.conftest import CALL, USERS, Served
from endpoints.faults import journal_of, unwritable
from triomq.app import Broker, open_broker
from triomq.core import SCHEDULES, Directory
from triomq.endpoints import EMQP
from triomq.endpoints.emqp.schedules import LARGEST, ScheduleBook, Scheduler
from triomq.errors import ConfigError, LimitExceeded, NotAllWritten, Refused
from triomq.protocols.emqp import NO_HEADERS, make_headers
from triomq.store import MessagesAppended, RecordPut
from triomq.timetable import Timetable

OTHER = CALL.replace(b"add", b"subtract")
EVERY_MINUTE = Timetable(interval=60)


class Times:
    """The time of a book, which a test moves on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def book(served: Served, times: Times) -> ScheduleBook:
    """The book of a broker, with times that the test tells."""
    book = served.endpoint.book
    assert book is not None
    book.now = book.clock.now = times
    return book


def scheduler_of(broker: Broker) -> Scheduler:
    endpoints = [ref for ref in broker.endpoints.children.values() if ref.name.startswith("emqp")]
    (found,) = (child.actor for child in endpoints[0].children.values() if isinstance(child.actor, Scheduler))
    return found


async def tick(served: Served, times: Times, seconds: float) -> None:
    """Let time pass, and the scheduler look at it."""
    times.now += seconds
    scheduler_of(served.broker).ring(trio.current_time())
    await trio.testing.wait_all_tasks_blocked(0.01)


async def until(condition: Callable[[], object]) -> None:
    with trio.fail_after(60):
        while not condition():  # noqa: ASYNC110  # a thread of libzmq works
            await trio.sleep(0.01)


async def test_schedule_of_a_client_is_acknowledged_and_sends_jobs_in_time(
    served: Served, book: ScheduleBook, times: Times
) -> None:
    client, worker = await served.client(), await served.worker(ready=9)
    await client.answer_to(await client.send(b"SCHEDULE", b"q", b"guarantee,timeout:5", b"60", CALL, b""))
    (first,) = await worker.hear(b"REQUEST")
    assert first.rest == [b"q", b"reply-requested,guarantee,timeout:5", CALL]
    await tick(served, times, 59)
    assert len(worker.of(b"REQUEST")) == 1
    await tick(served, times, 1)
    _, second = await worker.hear(b"REQUEST", 2)
    assert first.msgid != second.msgid  # each names its tick


async def test_unschedule_ends_what_calls_the_same(served: Served, book: ScheduleBook, times: Times) -> None:
    client, worker = await served.client(), await served.worker(ready=9)
    for call in (CALL, OTHER):
        await client.answer_to(await client.send(b"SCHEDULE", b"q", b"nohaste", b"60", call, b""))
    await client.answer_to(await client.send(b"UNSCHEDULE", b"elsewhere", b"", b"-1", CALL, b""))
    await tick(served, times, 60)
    (request,) = await worker.hear(b"REQUEST")
    assert request.rest[2] == OTHER
    assert len(book.schedules) == 1


async def test_schedule_that_is_set_again_is_replaced(served: Served, book: ScheduleBook) -> None:
    client = await served.client()
    for interval in (b"60", b"90"):
        await client.answer_to(await client.send(b"SCHEDULE", b"q", b"nohaste", interval, CALL, b""))
    (schedule,) = book.schedules.values()
    assert schedule.timetable.interval == 90


async def test_cron_text_is_meant_in_the_zone_that_is_named(served: Served, book: ScheduleBook) -> None:
    client = await served.client()
    zone = b'{"v": 1, "timezone": "Europe/Oslo", "missed": "skip"}'
    await client.answer_to(await client.send(b"SCHEDULE", b"q", b"nohaste", b"-1", CALL, b"0 6 * * *", zone))
    (schedule,) = book.schedules.values()
    assert (schedule.timetable.timezone, schedule.timetable.missed) == ("Europe/Oslo", "skip")
    assert schedule.progress.due == 5 * 3600.0


@pytest.mark.parametrize(
    ("interval", "cron", "message", "reason"),
    [
        (b"0.5", b"", CALL, b"it takes 1.0 at least"),
        (b"-1", b"every day", CALL, b"five fields"),
        (b"-1", b"0 0 30 2 *", CALL, b"Bad day-of-month"),
        (b"60", b"", b"x" * (LARGEST + 1), b"at most 65536"),
    ],
)
async def test_schedule_that_cannot_be_is_refused(
    served: Served, interval: bytes, cron: bytes, message: bytes, reason: bytes
) -> None:
    client = await served.client()
    answer = await client.answer_to(await client.send(b"SCHEDULE", b"q", b"", interval, message, cron))
    assert answer.command == b"ERROR"
    assert reason in answer.rest[2]


async def test_schedule_runs_so_often_as_it_says(served: Served, book: ScheduleBook, times: Times) -> None:
    client, worker = await served.client(), await served.worker(ready=9)
    await client.answer_to(await client.send(b"SCHEDULE", b"q", b"nohaste,run_count:2", b"60", CALL, b""))
    for _ in range(4):
        await tick(served, times, 60)
    await worker.hear(b"REQUEST", 2)
    assert not book.schedules
    assert len(worker.of(b"REQUEST")) == 2


async def test_tick_waits_until_the_disk_can_be_written(nursery: trio.Nursery, tmp_path: Path) -> None:
    async with open_broker(EMQP(port=0), users=USERS, data_dir=tmp_path) as broker:
        served, times = Served(broker, nursery, EMQP()), Times()
        book = served.endpoint.book
        assert book is not None
        book.now = book.clock.now = times
        client, worker = await served.client(), await served.worker(ready=9)
        await client.answer_to(await client.send(b"SCHEDULE", b"q", b"nohaste,guarantee", b"60", CALL, b""))
        with unwritable(broker):
            await tick(served, times, 60)
            assert not worker.of(b"REQUEST")
        await worker.hear(b"REQUEST")
        await worker.close()
        await client.close()


async def test_tick_is_noted_in_the_batch_that_has_its_job(nursery: trio.Nursery, tmp_path: Path) -> None:
    with pytest.raises(NotAllWritten, match="1 x message"):  # the batch that is looked at is sent by nobody
        await _look_at_batch_of_tick(nursery, tmp_path)


async def _look_at_batch_of_tick(nursery: trio.Nursery, tmp_path: Path) -> None:
    async with open_broker(EMQP(port=0), users=USERS, data_dir=tmp_path) as broker:
        served, times = Served(broker, nursery, EMQP()), Times()
        book = served.endpoint.book
        assert book is not None
        book.now = book.clock.now = times
        client, worker = await served.client(), await served.worker()  # without a slot
        await client.answer_to(await client.send(b"SCHEDULE", b"q", b"nohaste,guarantee", b"60", CALL, b""))
        with unwritable(broker):  # nothing is answered, so that what is sent can be looked at
            times.now += 60
            journal = journal_of(broker)
            journal.fault = None
            scheduler_of(broker).ring(trio.current_time())
            number = journal.open_batch
            batch = journal.take()
            assert batch is not None
            assert batch.number == number
            kinds = {type(operation) for operation in batch.operations}
            assert {MessagesAppended, RecordPut} <= kinds
        await worker.close()
        await client.close()


async def test_schedules_are_there_after_a_restart_and_missed_ticks_come_to_one(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    async with open_broker(EMQP(port=0), users=USERS, data_dir=tmp_path) as broker:
        served = Served(broker, nursery, EMQP())
        client = await served.client()
        for headers, call in ((b"nohaste,guarantee", CALL), (b"nohaste", OTHER)):
            await client.answer_to(await client.send(b"SCHEDULE", b"q", headers, b"1", call, b""))
        await client.answer_to(await client.send(b"UNSCHEDULE", b"", b"", b"-1", OTHER, b""))
        await client.close()
    await trio.sleep(1.1)  # the clock on the wall: a tick is missed
    async with open_broker(EMQP(port=0), users=USERS, data_dir=tmp_path) as broker:
        served = Served(broker, nursery, EMQP())
        worker = await served.worker("default", ready=9)
        (request, *_) = await worker.hear(b"REQUEST")
        assert request.rest[2] == CALL
        book = served.endpoint.book
        assert book is not None
        assert len(book.schedules) == 1
        await worker.close()


async def test_crash_over_a_tick_skips_it_and_the_others_go_on(
    served: Served, book: ScheduleBook, times: Times, caplog: pytest.LogCaptureFixture
) -> None:
    client, worker = await served.client(), await served.worker(ready=9)
    await client.answer_to(await client.send(b"SCHEDULE", b"q", b"nohaste", b"60", CALL, b""))
    (key,) = book.schedules
    broken = book.schedules[key]
    book.schedules[key] = type(broken)(
        "q", b"timeout:x", CALL, "guest", broken.timetable, broken.progress
    )  # no headers
    before = scheduler_of(served.broker)
    await tick(served, times, 60)
    await before.gone.wait()
    book.schedules[key] = broken.__class__("q", b"", CALL, "guest", broken.timetable, book.schedules[key].progress)
    await until(lambda: book.is_served)
    await tick(served, times, 60)
    await worker.hear(b"REQUEST")
    assert "crashed" in caplog.text


async def test_job_of_a_user_who_may_not_publish_any_more_is_refused_and_logged(
    served: Served, book: ScheduleBook, times: Times, caplog: pytest.LogCaptureFixture
) -> None:
    book.set("k", "q", NO_HEADERS, CALL, "reader", Timetable(interval=60, haste=False))
    await tick(served, times, 60)
    assert "scheduled job refused" in caplog.text
    (schedule,) = book.schedules.values()
    assert schedule.progress.due == 1120.0


async def test_schedules_are_bounded(served: Served, book: ScheduleBook) -> None:
    never = Timetable(interval=1e6, haste=False)
    for number in range(SCHEDULES.share()):
        book.set(str(number), "q", NO_HEADERS, b"", "guest", never)
    book.set("0", "q", make_headers(guarantee=True), b"", "guest", never)  # in place of one
    with pytest.raises(LimitExceeded, match="end some of them first"):
        book.set("more", "q", NO_HEADERS, b"", "guest", never)


def test_time_zone_of_the_configuration_has_to_exist() -> None:
    with pytest.raises(ConfigError, match="timezone"):
        EMQP(timezone="Mars/Olympus")


async def test_book_of_a_domain_without_a_store_is_empty(served: Served) -> None:
    directory: Directory = served.broker.directory
    book = ScheduleBook(directory)
    book.set("k", "q", NO_HEADERS, b"", "guest", EVERY_MINUTE)
    with pytest.raises(Refused):
        book.set("k", "q", NO_HEADERS, b"", "guest", Timetable())
    book.remove("k")
    book.remove("k")
    assert not book.schedules


async def test_schedules_can_be_left_to_peers(nursery: trio.Nursery) -> None:
    async with open_broker(EMQP(port=0, schedules="peers"), users=USERS) as broker:
        served = Served(broker, nursery, EMQP())
        client, scheduler = await served.client(), served.connect()
        answer = await client.answer_to(await client.send(b"SCHEDULE", b"q", b"", b"60", CALL, b""))
        assert answer.command == b"ERROR"  # there is none
        await scheduler.answer_to(await scheduler.send(b"INFORM", b"", b"scheduler"))
        await client.answer_to(await client.send(b"SCHEDULE", b"q", b"", b"60", CALL, b""))
        (handed,) = await scheduler.hear(b"SCHEDULE")
        assert (handed.rest[2], handed.rest[4]) == (b"60", b"")
        await client.close()
        await scheduler.close()
