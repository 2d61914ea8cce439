"""Batches that are published whole or not at all, over tap."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
import trio.testing

from endpoints.conftest import LINGERING
from endpoints.faults import frozen
from endpoints.tap.client import TapParty, declare_stream, dial, open_tap_broker, tap_endpoint, values
from triomq.app import Broker, User
from triomq.chunks import Columns, RecordRun, encode_chunk, split_chunks
from triomq.properties import Properties, encode_core
from triomq.protocols.tap import DoneAnswered, RecordsAnswered, RequestRefused
from triomq.security import ALL, Permission

USERS = {"guest": User(password="guest", permissions={"*": ALL})}


@pytest.fixture
async def broker(virtual_time: None) -> AsyncIterator[Broker]:
    async with open_tap_broker(users=USERS, drain=1.0) as broker:
        declare_stream(broker, partitions=2)
        yield broker


@pytest.fixture
async def tap(broker: Broker) -> TapParty:
    return await dial(broker).open()


def chunk(*values: bytes, key: bytes = b"k") -> bytes:
    return encode_chunk(0, 1, [RecordRun(0, b"", key, b"", values)])


async def code_of(tap: TapParty, number: int) -> str:
    """Return why a request is refused; nothing if it is not."""
    answer = await tap.ask(number)
    assert isinstance(answer, RequestRefused | DoneAnswered)
    return answer.code if isinstance(answer, RequestRefused) else ""


async def everything(tap: TapParty) -> list[bytes]:
    """Return what stands in both partitions."""
    return [value for part in range(2) for value in values(await tap.ask(tap.fetch(0, partition=part)))]


async def test_batch_is_published_by_its_commit_and_once(tap: TapParty) -> None:
    engine = tap.engine
    for part, value in enumerate((b"a", b"b")):
        assert await code_of(tap, engine.stage("orders", "w", 1, part, 0, chunk(value))) == ""
        assert await code_of(tap, engine.stage("orders", "w", 1, part, 0, chunk(value + b"2"))) == ""
    await tap.ask(engine.stage("orders", "w", 1, 1, 7, chunk(b"another attempt")))
    assert await everything(tap) == []
    for _ in range(2):  # a repetition is answered, and publishes nothing
        assert await code_of(tap, engine.commit("orders", "w", 1, {0: 0, 1: 0})) == ""
        assert await everything(tap) == [b"a", b"a2", b"b", b"b2"]


async def test_writer_without_a_name_is_not_remembered(tap: TapParty) -> None:
    engine = tap.engine
    for batch in (9, 4):  # numbers need not grow
        await tap.ask(engine.stage("orders", "", batch, 0, 0, chunk(b"%d" % batch)))
        assert await code_of(tap, engine.commit("orders", "", batch, {0: 0})) == ""
        assert await code_of(tap, engine.commit("orders", "", batch, {0: 0})) == "UNKNOWN_STAGE"
    assert sorted(await everything(tap)) == [b"4", b"9"]


async def test_records_claim_no_other_user(tap: TapParty) -> None:
    for user, code in (("guest", ""), ("ada", "REFUSED")):
        properties = encode_core(Properties(user_id=user))
        data = encode_chunk(0, 1, [RecordRun(0, b"", b"k", properties, [b"0"])])
        assert await code_of(tap, tap.engine.stage("orders", "w", 1, 0, 0, data)) == code


async def test_requests_behind_a_commit_are_done_after_it(tap: TapParty) -> None:
    engine = tap.engine
    numbers = [
        engine.stage("orders", "w", 1, 0, 0, chunk(*[b"x"] * 5000)),
        engine.commit("orders", "w", 1, {0: 0}),
        tap.fetch(0, partition=0),
        tap.fetch(0, partition=1),
    ]
    answers = [await tap.ask(number) for number in numbers]
    assert len(values(answers[2])) + len(values(answers[3])) == 5000


async def test_what_is_not_staged_cannot_be_committed(tap: TapParty) -> None:
    engine = tap.engine
    await tap.ask(engine.stage("orders", "w", 1, 0, 0, chunk(b"a")))
    assert await code_of(tap, engine.commit("orders", "w", 1, {0: 1})) == "UNKNOWN_STAGE"
    await tap.ask(engine.abort("orders", "w", 1, 0, 0))
    assert await code_of(tap, engine.commit("orders", "w", 1, {0: 0})) == "UNKNOWN_STAGE"
    await tap.ask(engine.stage("orders", "w", 2, 0, 0, chunk(b"a")))
    await tap.ask(engine.abort("orders", "w", 2))
    assert await code_of(tap, engine.commit("orders", "w", 2, {0: 0})) == "UNKNOWN_STAGE"


async def test_target_is_a_stream_or_queue_unless_it_is_said_to_be_a_sink(broker: Broker, tap: TapParty) -> None:
    await broker.declare_queue("jobs", durable=False)
    declare_stream(broker, "log")
    for target in ("jobs", "log"):
        assert await code_of(tap, tap.engine.stage(target, "w", 1, 0, 0, chunk(b"a", key=b"own key"))) == ""
        assert await code_of(tap, tap.engine.commit(target, "w", 1, {0: 0})) == ""
        answer = await tap.ask(tap.engine.stage(target, "w", 1, 0, 0, chunk(b"a"), is_sink=True))
        assert isinstance(answer, RequestRefused)
        assert (answer.code, f"'{target}'" in answer.text) == ("UNKNOWN_STREAM", True)
    assert (await broker.queue("jobs").statistics()).ready == 1
    record = await tap.ask(tap.fetch(0, stream="log"))
    assert isinstance(record, RecordsAnswered)
    (run,) = [run for each in split_chunks(record.chunks) for _, run in Columns(each).runs()]
    assert (run.key, run.sink, values(record)) == ([b"own key"], b"", [b"a"])
    # A writer into the sink of a stream is another one than into the stream.
    for is_sink in (True, False):
        await tap.ask(tap.engine.stage("orders", "w", 1, 0, 0, chunk(b"a"), is_sink=is_sink))
        assert await code_of(tap, tap.engine.commit("orders", "w", 1, {0: 0}, is_sink=is_sink)) == ""
    assert await everything(tap) == [b"a", b"a"]


async def test_right_to_a_target_is_asked_by_its_name(broker: Broker, tap: TapParty) -> None:
    await broker.declare_queue("jobs", durable=False)
    (ref,) = tap_endpoint(broker).children.values()
    ref.actor.access.change(Permission(".*", "^jobs$", ".*"))  # type: ignore[attr-defined]
    assert await code_of(tap, tap.engine.stage("orders", "w", 1, 0, 0, chunk(b"a"))) == "FORBIDDEN"
    assert await code_of(tap, tap.engine.stage("", "w", 1, 0, 0, chunk(b"a"), is_sink=True)) == "FORBIDDEN"
    assert await code_of(tap, tap.engine.stage("jobs", "w", 1, 0, 0, chunk(b"a"))) == ""
    assert await code_of(tap, tap.engine.commit("jobs", "w", 1, {0: 0})) == ""


@pytest.mark.parametrize(
    ("target", "data", "code"),
    [
        ("", chunk(b"a"), "UNKNOWN_STREAM"),
        ("nowhere", chunk(b"a"), "UNKNOWN_STREAM"),
        ("orders", b"no chunk", "REFUSED"),
        ("orders", encode_chunk(0, 1, [RecordRun(1, b"", b"k", b"", [b"a"])]), "REFUSED"),
    ],
)
async def test_what_cannot_be_staged_is_refused(tap: TapParty, target: str, data: bytes, code: str) -> None:
    assert await code_of(tap, tap.engine.stage(target, "w", 1, 0, 0, data)) == code


async def test_full_queue_refuses_all_of_a_batch(broker: Broker, tap: TapParty) -> None:
    await broker.declare_queue("full", durable=False, max_length=1, overflow="reject-publish")
    await broker.declare_queue("empty", durable=False)
    await broker.publish("", "full", b"x")
    engine = tap.engine
    await tap.ask(engine.stage("", "w", 1, 0, 0, chunk(b"a", key=b"empty"), is_sink=True))
    await tap.ask(engine.stage("", "w", 1, 1, 0, chunk(b"b", key=b"full"), is_sink=True))
    answer = await tap.ask(engine.commit("", "w", 1, {0: 0, 1: 0}, is_sink=True))
    assert isinstance(answer, RequestRefused)
    assert (answer.code, "'full'" in answer.text) == ("REFUSED", True)
    assert (await broker.queue("empty").statistics()).ready == 0


async def test_right_that_is_lost_meanwhile_is_missing_at_the_commit(broker: Broker, tap: TapParty) -> None:
    await tap.ask(tap.engine.stage("orders", "w", 1, 0, 0, chunk(b"a")))
    tap_endpoint(broker)
    (ref,) = tap_endpoint(broker).children.values()
    ref.actor.access.change(Permission(".*", "^$", ".*"))  # type: ignore[attr-defined]  # before it is put out for that
    assert await code_of(tap, tap.engine.commit("orders", "w", 1, {0: 0})) == "FORBIDDEN"


async def test_client_that_goes_in_the_middle_of_a_commit_leaves_nothing(broker: Broker, tap: TapParty) -> None:
    await tap.ask(tap.engine.stage("orders", "w", 1, 0, 0, chunk(*[b"x"] * 20_000)))
    tap.engine.commit("orders", "w", 1, {0: 0})
    await tap.flush()
    await tap.stream.aclose()
    await trio.sleep(LINGERING)
    assert not tap_endpoint(broker).children


async def test_commit_is_answered_when_it_is_on_disk_and_known_after_a_restart(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with open_tap_broker(data_dir=tmp_path, store_host="process") as broker:
            declare_stream(broker, partitions=2, durable=True)
            tap = await dial(broker).open()
            await tap.ask(tap.engine.stage("orders", "w", 1, 0, 0, chunk(b"a")))
            with frozen(broker):
                number = tap.engine.commit("orders", "w", 1, {0: 0})
                with trio.move_on_after(0.2) as waited:
                    await tap.ask(number)
                assert waited.cancelled_caught
            assert await code_of(tap, number) == ""
        async with open_tap_broker(data_dir=tmp_path) as broker:
            tap = await dial(broker).open()
            assert await everything(tap) == [b"a"]
            assert await code_of(tap, tap.engine.commit("orders", "w", 1, {0: 0})) == ""
            assert await code_of(tap, tap.engine.commit("orders", "w", 2, {0: 0})) == "UNKNOWN_STAGE"
            assert await everything(tap) == [b"a"]
