"""What users have, counted against what they may have, wherever it comes from and however it goes."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
import trio.testing

from core.harness import Harness, close, open_harness
from core.simulated_disk import SimulatedDisk
from memory_store import MemoryStore
from triomq.core import (
    Bind,
    DeclareQueue,
    DeclareSink,
    DeleteQueue,
    DeleteSink,
    Directory,
    Persistence,
    QueueOptions,
    Quotas,
    Session,
    SinkKind,
    SinkOptions,
    Target,
    Unbind,
    UserLimitReached,
    make_binding,
    recover,
)
from triomq.errors import PreconditionFailed


def limited(**limits: int) -> Quotas:
    return Quotas(lambda user, resource: limits.get(resource))


def house_with(**limits: int) -> AbstractAsyncContextManager[Harness]:
    return open_harness(Directory("domain", quotas=limited(**limits)))


def session_of(harness: Harness, user: str = "ada") -> Session:
    session = Session(harness.domain, harness.directory, user=user)
    session.attach()
    return session


def counts(harness: Harness, user: str = "ada") -> tuple[int, int, int]:
    quotas = harness.directory.quotas
    return quotas.count(user, "queues"), quotas.count(user, "sinks"), quotas.count(user, "bindings")


def test_as_many_as_the_limit_says_and_no_more() -> None:
    quotas = limited(queues=2)
    for _ in range(2):
        quotas.require("declare", "ada", "queues")
        quotas.take("ada", "queues")
    with pytest.raises(UserLimitReached, match=r"cannot declare: queue limit of user 'ada' \(2\) is reached"):
        quotas.require("declare", "ada", "queues")
    assert quotas.has_room("bob", "queues")
    assert quotas.has_room("ada", "sinks")
    quotas.give("ada", "queues")
    assert quotas.has_room("ada", "queues")


def test_program_itself_is_neither_counted_nor_limited() -> None:
    quotas = limited(queues=0)
    quotas.require("declare", "", "queues")
    quotas.take("", "queues")
    assert quotas.count("", "queues") == 0


async def test_things_of_a_user_count_until_they_are_gone() -> None:
    async with house_with() as harness:
        ada = session_of(harness)
        harness.domain.ask_nowait(DeclareSink("s", SinkOptions(), ada))
        harness.domain.ask_nowait(DeclareQueue("q", QueueOptions(), ada))
        for key in "ab":
            assert harness.domain.ask_nowait(Bind(make_binding("s", Target.QUEUE, "q", key), ada))
            assert not harness.domain.ask_nowait(Bind(make_binding("s", Target.QUEUE, "q", key), ada))
        harness.queue("of the program")
        assert counts(harness) == (1, 1, 2)
        harness.domain.ask_nowait(Unbind(make_binding("s", Target.QUEUE, "q", "a"), ada))
        assert counts(harness) == (1, 1, 1)
        harness.domain.ask_nowait(DeleteQueue("q", harness.session))
        assert counts(harness) == (0, 1, 0)
        harness.domain.ask_nowait(DeleteSink("s"))
        assert counts(harness) == (0, 0, 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda ada: DeclareQueue("more", QueueOptions(), ada),
        lambda ada: DeclareSink("more", SinkOptions(), ada),
        lambda ada: Bind(make_binding("s", Target.QUEUE, "q", "more"), ada),
    ],
    ids=["queues", "sinks", "bindings"],
)
async def test_over_the_limit_nothing_is_made_and_what_is_there_may_be_made_again(
    make: Callable[[Session], DeclareQueue | DeclareSink | Bind],
) -> None:
    async with house_with(queues=1, sinks=1, bindings=1) as harness:
        ada = session_of(harness)
        for _ in range(2):
            harness.domain.ask_nowait(DeclareSink("s", SinkOptions(), ada))
            harness.domain.ask_nowait(DeclareQueue("q", QueueOptions(), ada))
            harness.domain.ask_nowait(Bind(make_binding("s", Target.QUEUE, "q"), ada))
        with pytest.raises(UserLimitReached):
            harness.domain.ask_nowait(make(ada))  # type: ignore[arg-type]
        assert counts(harness) == (1, 1, 1)
        harness.domain.ask_nowait(make(harness.session))  # type: ignore[arg-type]  # the program may


async def test_queues_that_go_by_themselves_count_no_longer() -> None:
    async with house_with(queues=1) as harness:
        ada = session_of(harness)
        leaving = session_of(harness)
        harness.queue("exclusive", QueueOptions(exclusive=True), leaving)
        leaving.detach()
        assert counts(harness)[0] == 0
        queue = harness.queue("auto-delete", QueueOptions(auto_delete=True), ada)
        close(harness.feed(queue, harness.consumer()))
        assert counts(harness)[0] == 0
        harness.queue("last", session=ada)


async def test_auto_delete_sink_counts_until_its_last_binding_goes() -> None:
    async with house_with() as harness:
        ada = session_of(harness)
        harness.domain.ask_nowait(DeclareSink("s", SinkOptions(auto_delete=True), ada))
        harness.queue("q", session=ada)
        harness.domain.ask_nowait(Bind(make_binding("s", Target.QUEUE, "q"), ada))
        harness.delete("q")
        assert counts(harness) == (0, 0, 0)


async def test_things_after_a_restart_are_counted_and_never_refused() -> None:
    store, disk = MemoryStore(), None
    disk = SimulatedDisk(store)
    async with open_harness(Directory("domain", persistence=Persistence(disk.journal))) as harness:
        ada = session_of(harness)
        harness.domain.ask_nowait(DeclareSink("s", SinkOptions(durable=True, kind=SinkKind.TOPIC), ada))
        harness.domain.ask_nowait(DeclareQueue("q", QueueOptions(durable=True), ada))
        for key in ("a.*.b", "a"):
            harness.domain.ask_nowait(Bind(make_binding("s", Target.QUEUE, "q", key), ada))
        disk.work()
    directory = Directory(
        "domain", persistence=Persistence(SimulatedDisk(store).journal), quotas=limited(queues=0, sinks=0, bindings=0)
    )
    recover(directory)
    async with open_harness(directory) as harness:
        assert counts(harness) == (1, 1, 2)
        assert harness.directory.quotas.count("ada", "steps") == 2
        with pytest.raises(UserLimitReached):
            harness.queue("more", session=session_of(harness))
        harness.domain.ask_nowait(DeleteSink("s"))
        assert counts(harness) == (1, 0, 0)
        assert harness.directory.quotas.count("ada", "steps") == 0


async def test_patterns_with_wildcards_are_limited_in_all_sinks_together() -> None:
    async with house_with(bindings=1_000_000) as harness:
        ada = session_of(harness)
        harness.queue("q")
        for sink in range(5):
            harness.sink(f"s{sink}", SinkKind.TOPIC)
        patterns = [(f"s{number % 5}", f"*.{number}" + ".*" * 123) for number in range(90_000 // 125 + 1)]
        *requests, one_more = (Bind(make_binding(sink, Target.QUEUE, "q", key), ada) for sink, key in patterns)
        for request in requests:
            harness.domain.ask_nowait(request)
        with pytest.raises(UserLimitReached, match=r"routing step limit of user 'ada' \(90000\) is reached"):
            harness.domain.ask_nowait(one_more)


async def test_sink_has_so_many_words_behind_wildcards_and_the_program_may_have_more() -> None:
    async with house_with() as harness:
        ada = session_of(harness)
        harness.queue("q")
        harness.sink("s", SinkKind.TOPIC)
        for number in range(20):
            harness.domain.ask_nowait(Bind(make_binding("s", Target.QUEUE, "q", f"#.{number}" + ".*" * 99), ada))
        one_more = Bind(make_binding("s", Target.QUEUE, "q", "#.more"), ada)
        with pytest.raises(PreconditionFailed, match="have 2000 words behind '#' already"):
            harness.domain.ask_nowait(one_more)
        harness.domain.ask_nowait(Bind(make_binding("s", Target.QUEUE, "q", "more.#"), ada))
        harness.bind("s", "q", "#.more")
        assert not harness.domain.ask_nowait(one_more)  # it is there
        await trio.testing.wait_all_tasks_blocked()
