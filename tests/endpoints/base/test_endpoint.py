"""What any endpoint is to a broker, shown by one for a protocol that nobody has heard of: it shouts back."""

from collections.abc import AsyncIterator

import msgspec
import pytest
import trio
import trio.testing

from triomq.actors import ChildSpec, DynamicSupervisor
from triomq.app import open_broker
from triomq.endpoints import BrokerContext, EndpointConfig, StopListening
from triomq.endpoints.base.endpoint import CloseConnection, Connection, Endpoint, Tick
from triomq.endpoints.base.wheel import SLOT
from triomq.transports import Transport


class Shouter(Connection):
    """Sends everything back in capitals; hangs up after a second, and when asked to."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.started = trio.current_time()

    def on_start(self) -> None:
        self.transport.start(self)

    def received(self, data: bytes) -> None:
        self.ref.run_in_turn(self.shout, data)

    def shout(self, data: bytes) -> None:
        if data == b"crash":
            raise RuntimeError("nobody shouts that")
        if data:
            self.transport.send_nowait([data.upper()])
        else:
            self.leave()

    def drained(self) -> None:
        pass

    def due_at(self) -> float:
        return self.started + 1

    def tick(self, message: Tick) -> None:
        self.leave()

    def note_user(self) -> None:
        raise AssertionError("no user here")

    def close_connection(self, message: CloseConnection) -> None:
        self.leave()

    def leave(self) -> None:
        assert self.ref.parent is not None
        assert isinstance(self.ref.parent.actor, DynamicSupervisor)
        self.ref.parent.actor.stop_child_nowait(self.ref)

    def on_stop(self) -> None:
        self.abandon()

    def abandon(self) -> None:
        self.transport.close()


class ShoutingEndpoint(Endpoint):
    def make_connection(self, transport: Transport) -> Shouter:
        return Shouter(transport)


class Shouting(msgspec.Struct, EndpointConfig, frozen=True):
    host: str = "127.0.0.1"
    port: int = 0
    name: str = "shouting"

    @property
    def hosts(self) -> tuple[str, ...]:
        return (self.host,)

    def bound_to(self, port: int) -> EndpointConfig:
        return msgspec.structs.replace(self, port=port)

    def make(self, harness: BrokerContext) -> Endpoint:
        return ShoutingEndpoint(self.host, self.port)


@pytest.fixture
async def endpoint(virtual_time: None) -> AsyncIterator[Endpoint]:
    async with open_broker() as broker:
        config = Shouting()
        ref = await broker.endpoints.start_child(ChildSpec(lambda: config.make(broker.context), name=config.name))
        assert isinstance(ref.actor, Endpoint)
        yield ref.actor


def dial(endpoint: Endpoint) -> trio.abc.Stream:
    ours, theirs = trio.testing.memory_stream_pair()
    endpoint.connect_stream(theirs, "memory")
    return ours


async def test_a_connection_is_served_over_any_stream(endpoint: Endpoint) -> None:
    stream = dial(endpoint)
    await stream.send_all(b"hello")
    assert await stream.receive_some() == b"HELLO"
    assert list(endpoint.children) == ["connection-1"]


async def test_a_connection_is_woken_when_its_timer_is_due(endpoint: Endpoint) -> None:
    stream, before = dial(endpoint), trio.current_time()
    assert await stream.receive_some() == b""
    assert 1 <= trio.current_time() - before <= 1 + SLOT
    assert not endpoint.children


async def test_a_connection_that_crashes_is_abandoned_alone(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    crashing, quiet = dial(endpoint), dial(endpoint)
    await crashing.send_all(b"crash")
    assert await crashing.receive_some() == b""
    assert list(endpoint.children) == ["connection-2"]
    assert "connection-1 crashed" in caplog.text
    await quiet.send_all(b"still there")
    assert await quiet.receive_some() == b"STILL THERE"


async def test_all_connections_are_asked_to_go_when_it_stops_to_listen(endpoint: Endpoint) -> None:
    streams = [dial(endpoint), dial(endpoint)]
    await endpoint.ref.tell(StopListening())
    with trio.fail_after(0.1):
        await endpoint.wait_empty()
    assert [await stream.receive_some() for stream in streams] == [b"", b""]


async def test_a_thousand_connections_are_asked_to_go_in_steps(endpoint: Endpoint) -> None:
    streams = [dial(endpoint) for _ in range(1_000)]
    endpoint.stop_listening(StopListening())
    assert {ref.state for ref in endpoint.children.values()} == {"draining", "running"}
    with trio.fail_after(0.1):
        await endpoint.wait_empty()
    assert [await stream.receive_some() for stream in streams] == [b""] * 1_000


async def test_an_endpoint_that_says_nothing_of_connections_cannot_accept_any() -> None:
    with pytest.raises(NotImplementedError):
        Endpoint("localhost", 0).make_connection(None)  # type: ignore[arg-type]


async def test_it_listens_where_it_says_and_nowhere_when_it_has_stopped() -> None:
    async with open_broker() as broker:
        config = Shouting()
        ref = await broker.endpoints.start_child(ChildSpec(lambda: config.make(broker.context), name=config.name))
        assert isinstance(ref.actor, Endpoint)
        ((host, port),) = ref.actor.addresses
        async with await trio.open_tcp_stream(host, port) as stream:
            await stream.send_all(b"hello")
            assert await stream.receive_some() == b"HELLO"
            await ref.tell(StopListening())
            assert await stream.receive_some() == b""
        with pytest.raises(OSError):
            await trio.open_tcp_stream(host, port)
