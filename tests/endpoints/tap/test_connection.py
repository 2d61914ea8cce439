"""Requests of tap and what the core makes of them, in virtual time and without a store."""

from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from endpoints.conftest import LINGERING
from endpoints.tap.client import TapParty, append, declare_stream, dial, open_tap_broker, tap_endpoint, values
from triomq.app import Broker, User
from triomq.core import DeleteQueue
from triomq.endpoints.base.stream_client import PATIENCE
from triomq.endpoints.tap import fetching
from triomq.protocols.tap import (
    BoundsAnswered,
    DoneAnswered,
    GroupPosition,
    LoginChallenged,
    RecordsAnswered,
    RequestRefused,
    ServerClosing,
    ServerGreeting,
    StreamsAnswered,
)
from triomq.security import ALL, Permission

USERS = {
    "guest": User(password="guest", permissions={"*": ALL}),
    "reader": User(password="reader", permissions={"*": Permission("^$", "^$", "^orders$")}),
    "stranger": User(password="stranger", permissions={}),
}


@pytest.fixture
async def broker(virtual_time: None) -> AsyncIterator[Broker]:
    async with open_tap_broker(users=USERS, domains=["default", "shop"], drain=1.0) as broker:
        yield broker


@pytest.fixture
async def tap(broker: Broker) -> TapParty:
    declare_stream(broker)
    return await dial(broker).open()


async def code_of(tap: TapParty, number: int) -> str:
    answer = await tap.ask(number)
    assert isinstance(answer, RequestRefused), answer
    return answer.code


async def settled() -> None:
    await trio.testing.wait_all_tasks_blocked()


# Logging in


async def test_wrong_password_is_denied_and_the_connection_ends(broker: Broker) -> None:
    tap = dial(broker, "guest", "wrong")
    await tap.expect(ServerGreeting)
    tap.engine.log_in("PLAIN", b"\0guest\0wrong")
    closing = await tap.expect(ServerClosing)
    assert (closing.code, "refused" in closing.text) == ("DENIED", True)
    await trio.sleep(LINGERING)
    assert not tap_endpoint(broker).children


async def test_mechanism_that_is_not_offered_is_denied(broker: Broker) -> None:
    tap = dial(broker)
    greeting = await tap.expect(ServerGreeting)
    assert greeting.mechanisms[-1] == "PLAIN"
    tap.engine.log_in("MAGIC", b"")
    assert (await tap.expect(ServerClosing)).code == "DENIED"


async def test_plain_without_a_response_is_asked_for_one(broker: Broker) -> None:
    tap = dial(broker)
    await tap.expect(ServerGreeting)
    tap.engine.log_in("PLAIN", b"")
    await tap.expect(LoginChallenged)
    tap.engine.respond(b"\0guest\0guest")
    assert (await tap.next()).max_frame == 16 * 1024 * 1024  # type: ignore[union-attr]


@pytest.mark.parametrize(("user", "domain"), [("stranger", ""), ("guest", "nowhere")])
async def test_domain_that_one_may_not_enter_is_denied(broker: Broker, user: str, domain: str) -> None:
    with pytest.raises(AssertionError, match="DENIED"):
        await dial(broker, user).open(domain)


async def test_client_works_in_the_domain_that_it_names(broker: Broker, tap: TapParty) -> None:
    other = await dial(broker).open("shop")
    assert await code_of(other, other.engine.offsets("orders")) == "UNKNOWN_STREAM"
    assert len(await tap.bounds()) == 1


async def test_client_that_never_logs_in_is_put_out(broker: Broker) -> None:
    tap = dial(broker)
    await tap.expect(ServerGreeting)
    assert (await tap.expect(ServerClosing)).code == "TOO_SLOW"


async def test_what_is_not_tap_is_told_so(broker: Broker) -> None:
    tap = dial(broker)
    await tap.stream.send_all(b"AMQP\0\0\x09\x01")
    assert b"MALFORMED" in bytes(await tap.stream.receive_some(1000))


# Offsets and positions


async def test_offsets_tell_what_can_be_read_and_where_a_group_is(broker: Broker, tap: TapParty) -> None:
    (empty,) = await tap.bounds()
    assert (empty.first, empty.next, empty.position) == (0, 0, None)
    await append(broker, b"a", b"b")
    assert isinstance(await tap.ask(tap.engine.ack("orders", "g", {0: GroupPosition(empty.identity, 1)})), DoneAnswered)
    (found,) = await tap.bounds(group="g")
    assert (found.identity, found.first, found.next, found.position) == (empty.identity, 0, 2, 1)
    await tap.ask(tap.engine.ack("orders", "g", {0: GroupPosition(None, 0)}))  # it may go back
    assert (await tap.bounds(group="g"))[0].position == 0
    assert (await tap.bounds(group="other"))[0].position is None


async def test_offsets_tell_where_a_time_is(broker: Broker, tap: TapParty) -> None:
    for second in (1, 2, 2, 4):
        await append(broker, b"x", at=second)
    found = [(await tap.bounds(since=time))[0].position for time in (0, 1_000_000, 1_000_001, 2_000_000, 3_000_000)]
    assert found == [0, 0, 1, 1, 3]
    assert (await tap.bounds(since=4_000_001))[0].position == 4
    number, ping = tap.engine.offsets("orders", "", 0), tap.engine.ping()
    await tap.ask(number)
    await tap.ask(ping)


async def test_group_with_a_position_is_not_asked_for_a_time(broker: Broker, tap: TapParty) -> None:
    declare_stream(broker, "parts", partitions=2)
    for second in (1, 2):
        await append(broker, b"x", name="parts-0", at=second)
        await append(broker, b"x", name="parts-1", at=second)
    await tap.ask(tap.engine.ack("parts", "g", {1: GroupPosition(None, 2)}))
    assert [each.position for each in await tap.bounds("parts", "g", since=1_500_000)] == [1, 2]


async def test_partitions_are_numbered_from_zero(broker: Broker, tap: TapParty) -> None:
    declare_stream(broker, "parts", partitions=3)
    await append(broker, b"x", name="parts-1")
    found = await tap.bounds("parts")
    assert [each.next for each in found] == [0, 1, 0]
    assert len({each.identity for each in found}) == 3
    answer = await tap.ask(tap.fetch(0, stream="parts", partition=1))
    assert values(answer) == [b"x"]
    assert await code_of(tap, tap.fetch(0, stream="parts", partition=3)) == "UNKNOWN_STREAM"


async def test_positions_are_set_all_or_none(broker: Broker, tap: TapParty) -> None:
    declare_stream(broker, "parts", partitions=2)
    first, second = await tap.bounds("parts")
    wrong = {0: GroupPosition(first.identity, 5), 1: GroupPosition(second.identity + 1, 5)}
    answer = await tap.ask(tap.engine.ack("parts", "g", wrong))
    assert isinstance(answer, RequestRefused)
    assert (answer.code, answer.bounds) == ("OTHER_STREAM", second)
    assert await code_of(tap, tap.engine.ack("parts", "g", {0: wrong[0], 9: wrong[0]})) == "UNKNOWN_STREAM"
    assert [each.position for each in await tap.bounds("parts", "g")] == [None, None]


# Fetching


async def test_fetch_gives_whole_chunks_from_an_offset_on(broker: Broker, tap: TapParty) -> None:
    await append(broker, *[b"%d" % number for number in range(10)])
    answer = await tap.ask(tap.fetch(3, 5))
    assert isinstance(answer, RecordsAnswered)
    assert set(values(answer)) >= {b"3", b"4"}
    assert (answer.bounds.first, answer.bounds.next) == (0, 10)
    assert values(await tap.ask(tap.fetch(5, 5))) == []


async def test_answers_keep_the_order_of_requests(broker: Broker, tap: TapParty) -> None:
    await append(broker, b"x")
    numbers = [tap.engine.ping(), tap.fetch(0), tap.engine.offsets("orders"), tap.fetch(7), tap.engine.ping()]
    kinds = [type(await tap.ask(number)) for number in numbers]
    assert kinds == [DoneAnswered, RecordsAnswered, BoundsAnswered, RecordsAnswered, DoneAnswered]


async def test_other_identity_is_refused_with_the_bounds(broker: Broker, tap: TapParty) -> None:
    (known,) = await tap.bounds()
    broker.domain_ref.ask_nowait(DeleteQueue("orders", broker.session))
    await settled()
    declare_stream(broker)
    answer = await tap.ask(tap.fetch(0, identity=known.identity))
    assert isinstance(answer, RequestRefused)
    assert answer.code == "OTHER_STREAM"
    assert answer.bounds == (await tap.bounds())[0]
    assert answer.bounds.identity != known.identity


async def test_lost_records_are_refused_with_the_bounds(broker: Broker, tap: TapParty) -> None:
    state = broker.directory.queues["orders"]
    await append(broker, b"x")
    state.backlog.base = 5  # type: ignore[attr-defined]  # as retention would
    state.backlog.next_id = 9
    answer = await tap.ask(tap.fetch(3))
    assert isinstance(answer, RequestRefused)
    assert answer.code == "OUT_OF_RANGE"
    assert answer.bounds is not None
    assert (answer.bounds.first, answer.bounds.next) == (5, 9)


async def test_fetch_waits_at_the_end_for_records(broker: Broker, tap: TapParty) -> None:
    number = tap.fetch(0, wait=60_000)
    await tap.flush()
    await trio.sleep(50)
    await append(broker, b"late")
    assert values(await tap.ask(number)) == [b"late"]


async def test_fetch_waits_no_longer_than_it_says(broker: Broker, tap: TapParty) -> None:
    began = trio.current_time()
    answer = await tap.ask(tap.fetch(0, wait=5_000))
    assert values(answer) == []
    assert 5 <= trio.current_time() - began < 6


async def test_wait_is_bounded(broker: Broker, tap: TapParty) -> None:
    began = trio.current_time()
    await tap.ask(tap.fetch(0, wait=1_000_000))
    assert fetching.LONGEST_WAIT <= trio.current_time() - began < fetching.LONGEST_WAIT + 1


async def test_further_request_ends_a_wait(broker: Broker, tap: TapParty) -> None:
    began = trio.current_time()
    waiting = tap.fetch(0, wait=60_000)
    await tap.flush()
    await trio.sleep(1)
    ping = tap.engine.ping()
    assert values(await tap.ask(waiting)) == []
    await tap.ask(ping)
    assert trio.current_time() - began < 2
    await append(broker, b"x")  # nobody waits for it any more
    await tap.bounds()


async def test_fetch_beyond_the_end_waits_for_its_offset(broker: Broker, tap: TapParty) -> None:
    number = tap.fetch(2, wait=60_000)
    await tap.flush()
    await append(broker, b"0", b"1")
    await settled()
    await append(broker, b"2")
    assert b"2" in values(await tap.ask(number))


async def test_waiting_client_learns_that_the_stream_is_deleted(broker: Broker, tap: TapParty) -> None:
    number = tap.fetch(0, wait=60_000)
    await tap.flush()
    await settled()
    broker.domain_ref.ask_nowait(DeleteQueue("orders", broker.session))
    assert await code_of(tap, number) == "UNKNOWN_STREAM"


async def test_clients_that_wait_and_go_leave_one_entry(broker: Broker, tap: TapParty) -> None:
    state = broker.directory.queues["orders"]
    for _ in range(5):
        other = await dial(broker).open()
        for _ in range(5):
            await other.ask(other.fetch(0, wait=10))
        other.fetch(0, wait=1000)
        await other.flush()
        await other.stream.aclose()
    await trio.sleep(LINGERING)
    assert state.arrived_wanted is not None
    assert len(state.arrived_wanted) == 1
    assert [len(waiting) for waiting in tap_endpoint(broker)._arrivals._waiting.values()] == [0]


async def test_client_that_reads_nothing_has_one_answer_made(broker: Broker) -> None:
    declare_stream(broker)
    await append(broker, *[bytes(100_000)] * 100)
    tap = await dial(broker, pair=trio.testing.lockstep_stream_pair).open()
    for _ in range(40):
        tap.fetch(0, most_bytes=1 << 30)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tap.flush)
        await trio.sleep(1)
        (ref,) = tap_endpoint(broker).children.values()
        assert len(ref.actor._line) == 39  # type: ignore[attr-defined]
        await trio.sleep(PATIENCE + LINGERING)
        assert not tap_endpoint(broker).children
        nursery.cancel_scope.cancel()


async def test_many_requests_in_line_stop_the_reading_and_are_all_answered(broker: Broker, tap: TapParty) -> None:
    await append(broker, *[bytes(100_000)] * 10)
    numbers = [tap.fetch(0) for _ in range(200)]
    for number in numbers:
        assert len(values(await tap.ask(number))) == 10


# Rights


async def test_rights_are_asked_by_the_name_of_the_stream(broker: Broker) -> None:
    declare_stream(broker)
    declare_stream(broker, "secrets")
    tap = await dial(broker, "reader").open()
    assert len(await tap.bounds()) == 1
    engine = tap.engine
    assert await code_of(tap, engine.offsets("secrets")) == "FORBIDDEN"
    assert await code_of(tap, tap.fetch(0, stream="secrets")) == "FORBIDDEN"
    assert await code_of(tap, engine.ack("secrets", "g", {0: GroupPosition(None, 1)})) == "FORBIDDEN"
    assert await code_of(tap, engine.stage("orders", "w", 1, 0, 0, b"")) == "FORBIDDEN"
    assert await code_of(tap, engine.commit("orders", "w", 1, {})) == "FORBIDDEN"
    assert await code_of(tap, engine.abort("orders", "w", 1)) == "FORBIDDEN"


async def test_queue_that_is_no_stream_is_unknown(broker: Broker, tap: TapParty) -> None:
    await broker.declare_queue("plain", durable=False)
    assert await code_of(tap, tap.engine.offsets("plain")) == "UNKNOWN_STREAM"
    assert await code_of(tap, tap.fetch(0, stream="nothing")) == "UNKNOWN_STREAM"


async def test_streams_that_one_may_read_are_listed(broker: Broker, tap: TapParty) -> None:
    for name in ("orders", "secrets"):
        declare_stream(broker, name)
    declare_stream(broker, "clicks", partitions=3)
    await broker.declare_queue("plain", durable=False)
    assert await tap.ask(tap.engine.streams()) == StreamsAnswered(1, ("clicks", "orders", "secrets"))
    reader = await dial(broker, "reader").open()
    assert await reader.ask(reader.engine.streams()) == StreamsAnswered(1, ("orders",))


# The end


async def test_removed_user_is_put_out_while_it_waits(broker: Broker, tap: TapParty) -> None:
    number = tap.fetch(0, wait=60_000)
    await tap.flush()
    await settled()
    assert number
    broker.set_users({"reader": USERS["reader"]})
    closing = await tap.expect(ServerClosing)
    assert closing.code == "CLOSED"
    await trio.sleep(LINGERING)
    assert not tap_endpoint(broker).children


async def test_broker_that_stops_says_so(broker: Broker, tap: TapParty) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(broker.drain)
        assert (await tap.expect(ServerClosing)).code == "CLOSED"
        await tap.stream.aclose()


async def test_client_that_goes_is_gone(broker: Broker, tap: TapParty) -> None:
    tap.fetch(0, wait=60_000)
    await tap.flush()
    await tap.stream.aclose()
    await trio.sleep(LINGERING)
    assert not tap_endpoint(broker).children


async def test_broken_rule_ends_the_connection(broker: Broker, tap: TapParty) -> None:
    await tap.stream.send_all(b"\0\0\0\x01\xc1")
    assert (await tap.expect(ServerClosing)).code == "MALFORMED"
    await trio.sleep(LINGERING)
    assert not tap_endpoint(broker).children
