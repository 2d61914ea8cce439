"""What any endpoint is to a broker, shown by one for a protocol that is in no book: it sends back in capitals."""

from collections.abc import AsyncIterator

import msgspec
import pytest
import trio
import trio.testing

from triomq.actors import ChildSpec
from triomq.app import open_broker
from triomq.endpoints import BrokerContext, Client, CloseClient, Endpoint, EndpointConfig, StopListening, StreamListener
from triomq.endpoints.base.endpoint import EndUsers
from triomq.endpoints.base.wheel import SLOT
from triomq.transports import Transport


class Shouter(Client):
    """Sends everything back in capitals; hangs up after a second, and when asked to."""

    def __init__(self, transport: Transport, context: BrokerContext) -> None:
        super().__init__(context, transport.peer)
        self.transport = transport

    def started(self) -> None:
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
        return self.since + 1

    def due(self, now: float) -> None:
        self.leave()

    def released(self) -> None:
        self.transport.close()


class ShoutingEndpoint(Endpoint):
    def __init__(self, config: "Shouting", context: BrokerContext) -> None:
        self.listener = StreamListener(lambda transport: Shouter(transport, context), config.host, config.port)
        super().__init__(context, self.listener)


class Shouting(msgspec.Struct, EndpointConfig, frozen=True):
    host: str = "127.0.0.1"
    port: int = 0
    name: str = "shouting"

    @property
    def hosts(self) -> tuple[str, ...]:
        return (self.host,)

    def bound_to(self, port: int) -> EndpointConfig:
        return msgspec.structs.replace(self, port=port)

    def make(self, broker: BrokerContext) -> Endpoint:
        return ShoutingEndpoint(self, broker)


@pytest.fixture
async def endpoint(virtual_time: None) -> AsyncIterator[ShoutingEndpoint]:
    async with open_broker() as broker:
        config = Shouting()
        ref = await broker.endpoints.start_child(ChildSpec(lambda: config.make(broker.context), name=config.name))
        assert isinstance(ref.actor, ShoutingEndpoint)
        yield ref.actor


def dial(endpoint: ShoutingEndpoint) -> trio.abc.Stream:
    ours, theirs = trio.testing.memory_stream_pair()
    endpoint.listener.connect_stream(theirs, "memory")
    return ours


def only_client(endpoint: Endpoint) -> Shouter:
    (ref,) = endpoint.children.values()
    assert isinstance(ref.actor, Shouter)
    return ref.actor


async def test_client_is_served_over_any_stream(endpoint: ShoutingEndpoint) -> None:
    stream = dial(endpoint)
    await stream.send_all(b"hello")
    assert await stream.receive_some() == b"HELLO"
    assert list(endpoint.children) == ["client-1"]


async def test_client_is_woken_when_its_timer_is_due(endpoint: ShoutingEndpoint) -> None:
    stream, before = dial(endpoint), trio.current_time()
    assert await stream.receive_some() == b""
    assert 1 <= trio.current_time() - before <= 1 + SLOT
    assert not endpoint.children


async def test_client_that_crashes_is_abandoned_alone(
    endpoint: ShoutingEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    crashing, quiet = dial(endpoint), dial(endpoint)
    await crashing.send_all(b"crash")
    assert await crashing.receive_some() == b""
    assert list(endpoint.children) == ["client-2"]
    assert "client-1 crashed" in caplog.text
    await quiet.send_all(b"still there")
    assert await quiet.receive_some() == b"STILL THERE"


@pytest.mark.parametrize("hook", ["due_at", "due", "closing", "started", "released", "left"])
async def test_hook_that_fails_ends_its_own_client_alone(
    endpoint: ShoutingEndpoint, hook: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    quiet = dial(endpoint)
    only_client(endpoint).since += 10  # so that it is not due in this test
    only_client(endpoint).reschedule()

    def fail(self: Shouter, *args: object) -> None:
        if self.peer == "bad":
            raise RuntimeError(f"{hook} has a bug")
        return original(self, *args)

    original = getattr(Shouter, hook)
    monkeypatch.setattr(Shouter, hook, fail)
    _, theirs = trio.testing.memory_stream_pair()
    endpoint.listener.connect_stream(theirs, "bad")
    ref = list(endpoint.children.values())[-1]
    if hook == "due":
        await trio.sleep(1 + 2 * SLOT)
    elif hook != "started":
        ref.tell_nowait(CloseClient("to see what happens"))
    await quiet.send_all(b"still there")
    assert await quiet.receive_some() == b"STILL THERE"
    assert list(endpoint.children) == ["client-1"]
    assert endpoint.ref.epoch == 1
    assert f"{hook} has a bug" in caplog.text


async def test_task_that_fails_ends_its_own_client_alone(
    endpoint: ShoutingEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> None:
        raise RuntimeError("a task has a bug")

    stream = dial(endpoint)
    only_client(endpoint).start_task(fail)
    assert await stream.receive_some() == b""
    assert endpoint.ref.epoch == 1
    assert "a task has a bug" in caplog.text


async def test_clients_are_asked_to_go_when_it_stops_to_listen(endpoint: ShoutingEndpoint) -> None:
    streams = [dial(endpoint), dial(endpoint)]
    await endpoint.ref.tell(StopListening())
    with trio.fail_after(0.1):
        await endpoint.wait_empty()
    assert [await stream.receive_some() for stream in streams] == [b"", b""]


async def test_thousand_clients_are_asked_to_go_in_steps(endpoint: ShoutingEndpoint) -> None:
    streams = [dial(endpoint) for _ in range(1_000)]
    endpoint.stop_listening(StopListening())
    assert {ref.state for ref in endpoint.children.values()} == {"draining", "running"}
    with trio.fail_after(0.1):
        await endpoint.wait_empty()
    assert [await stream.receive_some() for stream in streams] == [b""] * 1_000


async def test_client_of_a_user_that_is_gone_is_asked_to_go(endpoint: ShoutingEndpoint) -> None:
    stays, goes = dial(endpoint), dial(endpoint)
    clients = [ref.actor for ref in endpoint.children.values()]
    for client, user in zip(clients, ("bob", "ada"), strict=True):
        assert isinstance(client, Shouter)
        client.identify(user)
    await endpoint.ref.tell(EndUsers({"ada": "she is gone"}))
    assert await goes.receive_some() == b""
    await stays.send_all(b"me")
    assert await stays.receive_some() == b"ME"


async def test_endpoint_listens_where_it_is_configured_and_nowhere_when_it_has_stopped() -> None:
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


async def test_crash_of_an_endpoint_closes_its_sockets_and_the_next_incarnation_listens_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_broker() as broker:
        made: list[Endpoint] = []

        def make() -> Endpoint:  # with the port that was found, as the broker does it
            config = Shouting(port=made[0].addresses[0][1]) if made else Shouting()  # type: ignore[arg-type]
            made.append(config.make(broker.context))
            return made[-1]

        ref = await broker.endpoints.start_child(ChildSpec(make, name="shouting"))
        assert isinstance(ref.actor, Endpoint)
        ((host, port),) = ref.actor.addresses

        async def fail() -> None:
            raise RuntimeError("the endpoint has a bug")

        async with await trio.open_tcp_stream(host, port) as stream:
            await stream.send_all(b"hello")
            assert await stream.receive_some() == b"HELLO"
            ref.actor.start_task(fail)
            with trio.fail_after(60):
                assert await stream.receive_some() == b""
        with trio.fail_after(60):
            await ref.wait_running()
            async with await trio.open_tcp_stream(host, port) as stream:
                await stream.send_all(b"hello")
                assert await stream.receive_some() == b"HELLO"


def make(base: type, **members: object) -> type:
    return type("Mine", (base,), members)


@pytest.mark.parametrize("name", ["deliver", "feed_closed", "close_client", "user_changed", "leave", "on_stop"])
def test_client_that_hides_a_handler_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=f"Mine defines '{name}', which is final in Client.*may define is started"):
        make(Client, **{name: lambda self, message: None})


@pytest.mark.parametrize("name", ["run", "ref", "turn", "system", "epoch"])
@pytest.mark.parametrize("base", [Client, Shouter, Endpoint])
def test_subclass_that_hides_a_name_of_the_actor_is_refused(name: str, base: type) -> None:
    with pytest.raises(TypeError, match=f"Mine defines '{name}', which is"):
        make(base, **{name: None})


@pytest.mark.parametrize("name", ["stop_listening", "end_users", "renew_certificates", "child_exited", "serve"])
def test_endpoint_that_hides_a_handler_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=f"Mine defines '{name}', which is final in Endpoint"):
        make(Endpoint, **{name: lambda self, message: None})


def test_subclass_that_hides_a_private_method_is_refused() -> None:
    with pytest.raises(TypeError, match="Mine defines '_placed', which Client has for itself"):
        make(Client, _placed=lambda self: None)


def test_subclass_that_defines_hooks_is_accepted() -> None:
    hooks = [
        "started",
        "delivered",
        "cancelled",
        "closing",
        "due_at",
        "due",
        "put_back",
        "left",
        "released",
        "after_batch",
    ]
    make(Client, **dict.fromkeys(hooks, lambda self, *args: None))
    make(Endpoint, on_start=None, on_stop=None)
