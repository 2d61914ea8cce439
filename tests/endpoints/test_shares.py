"""Of each pool of a domain one user takes all that it can, and another one is refused nothing for that.

A row for each pool of ``core``'s table of shares: a pool that is new there needs one here.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Protocol

import msgspec
import pytest
import trio
import trio.testing

from core.harness import Harness, open_harness
from core.streams.test_staging import chunk
from endpoints.mtl.raw import RawControl
from triomq.app import User, open_broker
from triomq.core import (
    EVERYTHING,
    PARKED,
    POOLS,
    RESULTS,
    UNIQUE_KEYS,
    DeclareQueue,
    KeyedRecords,
    LeaseMessages,
    Publisher,
    QueueOptions,
    RecordKind,
    Session,
    SetPosition,
    ShareReached,
    Shares,
    StageKey,
    StageTarget,
    StreamOptions,
    ledgers_of,
    stages_of,
)
from triomq.core.topology.shares import PUBLISHERS
from triomq.endpoints import MTL
from triomq.endpoints.emqp.schedules import ScheduleBook
from triomq.endpoints.jobs import BookedJob, JobBook, JobSender, Terms
from triomq.endpoints.jobs.results import Result, ResultBook
from triomq.protocols.emqp import make_headers
from triomq.security import ALL
from triomq.timetable import Timetable

MOST = 40
"""Of each pool in these tests."""


class Taker(Protocol):
    """Takes one thing of a pool for a user, or raises ``ShareReached``."""

    async def __call__(self, user: str, /) -> None: ...


def session(harness: Harness, user: str) -> Session:
    return Session(harness.domain, harness.directory, user=user)


def staged_bytes(harness: Harness) -> Taker:
    numbers = count()

    async def take(user: str) -> None:
        key = StageKey(StageTarget("", is_sink=True), f"w{next(numbers)}", 1, user)
        stages_of(harness.directory).stage(key, 0, 0, chunk(b"x"), most=MOST * 512)

    return take


def writers(harness: Harness) -> Taker:
    numbers = count()
    harness.domain.ask_nowait(DeclareQueue("s", QueueOptions(durable=False, stream=StreamOptions()), harness.session))

    async def take(user: str) -> None:
        key = StageKey(StageTarget("s"), f"w{next(numbers)}", 1, user)
        stages = stages_of(harness.directory)
        stages.stage(key, 0, 0, chunk(b"x"))
        await stages.commit(Publisher(harness.directory, EVERYTHING, harness.system.turn), key, {0: 0})

    return take


def ledgers(harness: Harness) -> Taker:
    numbers = count()
    queue = harness.queue("q")

    async def take(user: str) -> None:
        from core.harness import publish

        publish(queue, b"x")
        harness.domain.ask_nowait(LeaseMessages("q", f"g{next(numbers)}", session(harness, user), 1, 1000))

    return take


def groups(harness: Harness) -> Taker:
    numbers = count()
    options = QueueOptions(durable=False, stream=StreamOptions())
    state = harness.domain.ask_nowait(DeclareQueue("s", options, harness.session))

    async def take(user: str) -> None:
        state.ref.ask_nowait(SetPosition(f"g{next(numbers)}", 0, user))

    return take


def schedules(harness: Harness) -> Taker:
    numbers, book = count(), ScheduleBook(harness.directory)

    async def take(user: str) -> None:
        headers = make_headers(guarantee=True)
        book.set(f"{next(numbers)}-{user}", "q", headers, b"{}", user, Timetable(interval=60.0))

    return take


def unique_keys(harness: Harness) -> Taker:
    numbers, book = count(), JobBook(shares=harness.directory.shares, is_empty=lambda queue: False)

    async def take(user: str) -> None:
        number = b"%s-%d" % (user.encode(), next(numbers))
        assert book.accept(BookedJob(number, "q", JobSender(user), Terms(unique=number.decode()))) is None

    return take


TAKERS: Mapping[str, Callable[[Harness], Taker]] = {
    "STAGED": staged_bytes,
    "WRITERS": writers,
    "LEDGERS": ledgers,
    "GROUPS": groups,
    "SCHEDULES": schedules,
    "UNIQUE_KEYS": unique_keys,
}
"""Those that refuse, by their names in the table."""

OTHERS = {"RESULTS", "PARKED", "SESSIONS", "PUBLISHERS"}
"""Those that have a test of their own below."""


@contextmanager
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let each pool be small, by a ``Shares`` that knows no larger ones."""
    with monkeypatch.context() as patched:
        has_room, require = Shares.has_room, Shares.require

        def has_room_in_small(self: Shares, pool, user, more=1, *, most=None):  # type: ignore[no-untyped-def]
            return has_room(self, pool, user, more, most=MOST if most is None else most)

        def require_in_small(self: Shares, pool, user, more=1, *, most=None):  # type: ignore[no-untyped-def]
            require(self, pool, user, more, most=MOST if most is None else most)

        patched.setattr(Shares, "has_room", has_room_in_small)
        patched.setattr(Shares, "require", require_in_small)
        for pool in POOLS:
            assert pool.part >= 2
        yield


async def take_all(take: Taker, user: str) -> int:
    """Take until there is no more."""
    for taken in count():
        try:
            await take(user)
        except ShareReached:
            return taken
    raise AssertionError


def test_every_pool_is_looked_at() -> None:
    import triomq.core.topology.shares as table

    names = {name for name, value in vars(table).items() if isinstance(value, table.Pool)}
    assert {id(getattr(table, name)) for name in names} == {id(pool) for pool in POOLS}
    assert names == set(TAKERS) | OTHERS


@pytest.mark.parametrize("pool", TAKERS)
async def test_user_that_takes_all_it_can_costs_another_no_refusal(pool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_harness() as harness:
        take_alone = TAKERS[pool](harness)
        with small(monkeypatch):
            taken = await take_all(take_alone, "eve")
            assert taken
            assert await take_all(take_alone, "bob") == taken
            assert await take_all(take_alone, "eve") == 0


def test_results_of_a_user_go_for_its_own_and_no_other_users() -> None:
    async def run() -> None:
        async with open_harness() as harness:
            book = ResultBook(KeyedRecords(harness.directory, RecordKind.RESULT), lambda: 1e9, most=64 * 1024)
            book.keep(b"bob", "bob", 3600.0, Result("ok", b"of bob"))
            for number in range(1000):
                book.keep(b"%d" % number, "eve", 1e7, Result("ok", bytes(1000)))
            found: list[Result | None] = []
            book.read(b"bob", found.append)
            assert found[0] is not None
            assert found[0].message == b"of bob"
            assert book.statistics().size <= 64 * 1024

    trio.run(run)


def test_table_counts_results_and_parked_jobs_as_what_gives_way() -> None:
    assert {pool.name for pool in POOLS if pool.gives_way} == {RESULTS.name, PARKED.name, PUBLISHERS.name}


async def test_sessions_of_one_user_leave_room_for_another() -> None:
    users = {name: User(password=name, permissions={"*": ALL}) for name in ("eve", "bob")}
    async with open_broker(MTL(port=0, most_sessions=8), users=users) as broker:
        (ref,) = broker.endpoints.children.values()
        port = ref.actor.control.port  # type: ignore[union-attr]
        peers = [RawControl(port) for _ in range(4)]
        codes = []
        for peer in peers[:3]:
            await peer.open()
            codes.append((await peer.authorize("eve")).code)
        await peers[3].log_in("bob")
        assert codes[:2] == [201, 201]
        assert codes[2] != 201
        for peer in peers:
            await peer.close()


# Keys


def job(number: int, user: str, **terms: object) -> BookedJob:
    return BookedJob(b"%s-%d" % (user.encode(), number), "q", JobSender(user), Terms(**terms))  # type: ignore[arg-type]


def test_unique_key_is_its_users_unless_the_job_says_otherwise() -> None:
    book = JobBook(is_empty=lambda queue: False)
    assert book.accept(job(1, "eve", unique="shop:42")) is None
    assert book.accept(job(1, "bob", unique="shop:42")) is None
    assert book.accept(job(2, "bob", unique="shop:42")) is not None
    assert book.accept(job(3, "eve", unique="all:1", shared=True)) is None
    assert book.accept(job(4, "bob", unique="all:1", shared=True)) is not None
    assert book.accept(job(5, "bob", unique="all:1")) is None


def test_unique_keys_end_with_their_jobs() -> None:
    shares = Shares()
    book = JobBook(shares=shares, is_empty=lambda queue: False)
    for number in range(10):
        book.accept(job(number, "eve", unique=f"{number}"))
    assert shares.count(UNIQUE_KEYS, "eve") == 10
    for number in range(10):
        book.withdraw(b"eve-%d" % number)
    assert (shares.count(UNIQUE_KEYS, "eve"), shares.total(UNIQUE_KEYS)) == (0, 0)


def test_pools_are_frozen() -> None:
    with pytest.raises(AttributeError):
        POOLS[0].most = 1  # type: ignore[misc]
    assert msgspec.structs.replace(POOLS[0], most=4).share() == 2


async def test_ledgers_are_counted_down_with_their_queue() -> None:
    async with open_harness() as harness:
        take = ledgers(harness)
        await take("eve")
        assert len(ledgers_of(harness.directory)) == 1
        from triomq.core import DeleteQueue
        from triomq.core.topology.shares import LEDGERS

        harness.domain.ask_nowait(DeleteQueue("q", harness.session))
        assert harness.directory.shares.total(LEDGERS) == 0
