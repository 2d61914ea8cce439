"""The blocking client against the engine's other side over real sockets."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.tap.server import StubServer, chunk, serving
from triomq.chunks import Columns
from triomq.clients import GroupPosition, TapConnection, open_tap
from triomq.errors import (
    AccessRefused,
    ChunkDamaged,
    ConfigError,
    Disconnected,
    LimitExceeded,
    NotFound,
    OtherStream,
    OutOfRange,
    Refused,
    RemoteProtocolError,
    UnknownStage,
)
from triomq.protocols.tap import (
    AbortAsked,
    AckAsked,
    CommitAsked,
    FetchAsked,
    LoginRequested,
    PartitionBounds,
    PingAsked,
    ServerEvent,
    StageAsked,
    TapServerEngine,
)


@pytest.fixture
def served() -> Iterator[tuple[StubServer, str]]:
    with serving() as found:
        yield found


@pytest.fixture
def server(served: tuple[StubServer, str]) -> StubServer:
    return served[0]


@pytest.fixture
def tap(served: tuple[StubServer, str]) -> Iterator[TapConnection]:
    with open_tap(served[1]) as connection:
        yield connection


def values(columns: Iterator[Columns]) -> list[int]:
    return [int(value) for each in columns for value in each.values.each()]


# Coming in


def test_client_logs_in_and_asks(tap: TapConnection) -> None:
    tap.ping()
    assert tap.streams() == ("orders",)
    assert tap.lease("jobs", "g", most_records=5) == (PartitionBounds(7, 10, 20, 12), 3)
    assert tap.offsets("orders", "g") == (PartitionBounds(7, 10, 20, 12),)


def test_unix_sockets_are_spoken_to(tmp_path: Path) -> None:
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(tmp_path / "tap.sock"))
    sock.listen()
    with serving(sock), open_tap(f"tap+unix://guest:guest@{tmp_path}/tap.sock") as tap:
        tap.ping()


def test_wrong_password_is_refused(served: tuple[StubServer, str]) -> None:
    with pytest.raises(AccessRefused, match="DENIED"):
        open_tap(served[1].replace("//", "//guest:wrong@"))


def test_mechanism_that_is_not_offered_is_said_so() -> None:
    with serving(mechanisms=("SCRAM-SHA-256",)) as (_, url), pytest.raises(AccessRefused, match="but by SCRAM-SHA-256"):
        open_tap(url)


def test_nobody_there_is_said_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    with pytest.raises(Disconnected, match=f"cannot connect to 127.0.0.1:{port}"):
        open_tap(f"tap://127.0.0.1:{port}")


def test_broker_that_says_nothing_is_given_up() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as sock,
        pytest.raises(Disconnected, match=r"says nothing for 0.05 s; .* \?timeout="),
    ):
        open_tap(f"tap://127.0.0.1:{sock.getsockname()[1]}?timeout=0.05")


def test_what_speaks_something_else_is_said_so(server: StubServer, served: tuple[StubServer, str]) -> None:
    def act(engine: TapServerEngine, event: ServerEvent) -> bool:
        engine.outbox.put(b"HTTP/1.1 400 Bad Request\r\n")
        return True

    server.act = act
    with pytest.raises(RemoteProtocolError, match="does not speak tap"):
        open_tap(served[1])


def test_url_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError):
        open_tap("amqp://localhost")


# Fetching


def test_fetch_yields_the_records_of_a_range(tap: TapConnection) -> None:
    assert values(tap.fetch("orders", 0, 12, 18)) == list(range(12, 18))
    assert values(tap.fetch("orders", 0, 10)) == list(range(10, 20))
    assert values(tap.fetch("orders", 0, 18, 18)) == []
    assert values(tap.fetch("orders", 0, 20)) == []


def test_fetch_of_a_ledger_says_whose(server: StubServer, tap: TapConnection) -> None:
    assert values(tap.fetch("jobs", 0, 10, 16, group="g")) == list(range(10, 16))
    assert [each.group for each in server.asked if isinstance(each, FetchAsked)] == ["g", "g"]


def test_fetch_asks_one_ahead(server: StubServer, tap: TapConnection) -> None:
    chunks = tap.fetch("orders", 0, 10, 20, identity=7)
    next(chunks)
    tap.ping()
    assert [type(each) for each in server.asked] == [FetchAsked, FetchAsked, PingAsked]
    assert [each.first for each in server.asked if isinstance(each, FetchAsked)] == [10, 15]
    assert values(chunks) == list(range(15, 20))


def test_fetch_that_is_broken_off_leaves_nothing_behind(tap: TapConnection) -> None:
    for _ in range(3):
        next(tap.fetch("orders", 0, 10))
    tap.ping()
    assert tap._aside == {}
    assert tap._wanted == set()
    assert tap._unread == set()


def test_fetches_may_take_turns(tap: TapConnection) -> None:
    first, second = tap.fetch("orders", 0, 10), tap.fetch("orders", 0, 15)
    assert [next(first).head.first, next(second).head.first, next(first).head.first] == [10, 15, 15]
    assert values(second) == list(range(16, 20))
    assert values(first) == list(range(16, 20))


def test_fetch_waits_at_the_end_for_as_long_as_it_is_told(server: StubServer, tap: TapConnection) -> None:
    chunks = tap.fetch("orders", 0, 20, wait=30)

    def act(engine: TapServerEngine, event: ServerEvent) -> bool:
        if isinstance(event, FetchAsked) and event.first == 20 and len(server.asked) == 3:
            server.chunks.append(chunk(20, 2))
        return False

    server.act = act
    assert next(chunks).head.first == 20
    assert [29_000 < each.wait <= 30_000 for each in server.asked[:3] if isinstance(each, FetchAsked)] == [True] * 3
    assert values(tap.fetch("orders", 0, 22, wait=0.001)) == []


def test_lost_records_are_an_error_with_the_bounds(tap: TapConnection) -> None:
    with pytest.raises(OutOfRange) as caught:
        next(tap.fetch("orders", 0, 3))
    assert (caught.value.name, caught.value.offset, caught.value.first, caught.value.stop) == ("orders", 3, 10, 20)


def test_stream_that_was_declared_anew_is_an_error(tap: TapConnection) -> None:
    with pytest.raises(OtherStream):
        next(tap.fetch("orders", 0, 10, identity=8))
    tap.ping()


def test_damaged_chunk_is_an_error(server: StubServer, tap: TapConnection) -> None:
    server.chunks[0] = server.chunks[0][:-8] + b"damaged!"
    with pytest.raises(ChunkDamaged):
        next(tap.fetch("orders", 0, 10))


# Everything else


def test_commands_say_what_they_are_given(server: StubServer, tap: TapConnection) -> None:
    tap.ack("orders", "g", {0: GroupPosition(7, 15)})
    tap.stage("orders", "q/orders", batch=1, part=2, attempt=3, chunk=b"chunk")
    tap.commit("orders", "q/orders", batch=1, attempts={2: 3})
    tap.abort("orders", "q/orders", batch=2)
    tap.commit("", "q", batch=1, attempts={}, is_sink=True)
    assert server.asked == [
        AckAsked(1, "orders", "g", {0: GroupPosition(7, 15)}),
        StageAsked(2, "orders", False, "q/orders", 1, 2, 3, b"chunk"),
        CommitAsked(3, "orders", False, "q/orders", 1, {2: 3}),
        AbortAsked(4, "orders", False, "q/orders", 2),
        CommitAsked(5, "", True, "q", 1, {}),
    ]


def test_large_request_waits_until_answers_are_read(server: StubServer, tap: TapConnection) -> None:
    chunks = tap.fetch("orders", 0, 10)
    next(chunks)
    tap.stage("orders", "w", batch=1, part=0, attempt=0, chunk=bytes(500_000))
    kinds = [type(each) for each in server.asked]
    assert kinds == [FetchAsked, FetchAsked, PingAsked, StageAsked]
    assert values(chunks) == list(range(15, 20))


def test_chunk_that_is_too_large_to_stage_is_refused_here() -> None:
    with serving(max_frame=65536) as (_, url), open_tap(url) as tap:
        with pytest.raises(LimitExceeded, match="make smaller ones"):
            tap.stage("orders", "w", batch=1, part=0, attempt=0, chunk=bytes(65536))
        tap.stage("x" * 255, "w" * 255, batch=1, part=0, attempt=0, chunk=bytes(tap.largest_chunk))


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("UNKNOWN_STAGE", UnknownStage),
        ("UNKNOWN_STREAM", NotFound),
        ("FORBIDDEN", AccessRefused),
        ("REFUSED", Refused),
        ("SOMETHING_NEW", Refused),
    ],
)
def test_refusals_are_errors_and_the_connection_goes_on(
    server: StubServer, tap: TapConnection, code: str, error: type[Exception]
) -> None:
    def act(engine: TapServerEngine, event: ServerEvent) -> bool:
        if isinstance(event, CommitAsked):
            engine.refuse(event.number, code, "so it is")  # type: ignore[arg-type]
        return isinstance(event, CommitAsked)

    server.act = act
    with pytest.raises(error, match="so it is") as caught:
        tap.commit("orders", "w", batch=1, attempts={})
    assert type(caught.value) is error
    tap.ping()


def test_broker_that_ends_the_connection_says_why(server: StubServer, tap: TapConnection) -> None:
    def act(engine: TapServerEngine, event: ServerEvent) -> bool:
        if not isinstance(event, LoginRequested):
            engine.close("CLOSED", "the broker stops")
        return True

    server.act = act
    with pytest.raises(Disconnected, match="the broker stops"):
        tap.ping()
    with pytest.raises(Disconnected, match=r"has ended: .*the broker stops.*; open a new one"):
        tap.ping()


def test_lost_connection_is_an_error(server: StubServer, tap: TapConnection) -> None:
    def act(engine: TapServerEngine, event: ServerEvent) -> bool:
        engine.outbox.finished = True
        return True

    server.act = act
    with pytest.raises(Disconnected):
        tap.ping()


def test_silence_is_an_error(served: tuple[StubServer, str]) -> None:
    with open_tap(served[1] + "?timeout=0.05") as tap:
        served[0].act = lambda engine, event: True
        with pytest.raises(Disconnected, match="says nothing"):
            tap.ping()


def test_closed_connection_is_closed(tap: TapConnection) -> None:
    tap.close()
    tap.close()
    with pytest.raises(Disconnected, match="it was closed here"):
        tap.ping()
