"""Brokers that tell each other what they have, over real sockets: who owns what, who comes back, and no storms."""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
import pytest
import trio

from endpoints.patience import patient
from triomq.app import AMQP, Broker, Peer, Synchronise, User, open_broker
from triomq.clients import open_amqp
from triomq.core import Action, Changed, ChangeKind, Properties, QueueState
from triomq.core.dispatch.feed import Wake
from triomq.endpoints import AMQPEndpoint, BrokerContext
from triomq.endpoints.amqp.connection import AMQPServerConnection
from triomq.endpoints.amqp.handlers import HANDLERS
from triomq.errors import ActorStopped, ConfigError
from triomq.protocols.amqp import AMQP_METHODS, RestMSPipeCreate, Settings
from triomq.security import Permission

HERE = AMQP(host="127.0.0.1", port=0)


patience = patient(100.0)


def url_of(broker: Broker, user: str = "guest") -> str:
    return f"amqp://{user}:{user}@127.0.0.1:{broker.listening[0].port}"


async def tell(broker: Broker, other: Broker, origin: str, **options: object) -> Peer:
    """Let one broker tell another."""
    config = Synchronise(url_of(other), origin=origin, retry=0.01, **options)  # type: ignore[arg-type]
    return await broker.synchronise(config)


@asynccontextmanager
async def open_pair() -> AsyncIterator[tuple[Broker, Broker]]:
    async with open_broker(HERE, drain=0.1) as here, open_broker(HERE, drain=0.1) as there:
        yield here, there


@asynccontextmanager
async def open_announced() -> AsyncIterator[tuple[Broker, Broker, Peer]]:
    """Open two brokers, the first of which has told the second of a sink, a queue and a binding."""
    async with open_pair() as (here, there):
        await declare(here)
        peer = await tell(here, there, "here")
        await peer.wait_announced()
        yield here, there, peer


async def until(condition: Callable[[], object]) -> None:
    """Wait for what another task does in its own time."""
    while not condition():
        await trio.lowlevel.checkpoint()


def names(broker: Broker) -> tuple[dict[str, str], dict[str, str], set[tuple[str, str, str]]]:
    """Name sinks and queues with where they come from, and bindings."""
    directory = broker.directory
    sinks = {name: sink.origin for name, sink in directory.sinks.items() if not name.startswith("amq.")}
    bindings = {
        (binding.source, binding.key, binding.destination)
        for sink in directory.sinks.values()
        for binding in sink.bindings
    }
    return sinks, {name: queue.origin for name, queue in directory.queues.items()}, bindings


async def declare(broker: Broker, sink: str = "news", queue: str = "mine", key: str = "a.*") -> None:
    made = await broker.declare_sink(sink, "topic")
    await made.bind(await broker.declare_queue(queue), key)


async def take(broker: Broker, queue: str, count: int = 1) -> list[bytes]:
    """Wait for so many messages."""
    found: list[bytes] = []
    async with broker.queue(queue).open_feed() as feed:
        while len(found) < count:
            with await anext(feed) as delivery:
                found.append(delivery.body)
    return found


# What is announced


async def test_resources_here_and_those_to_come_are_at_the_peer_too() -> None:
    async with open_announced() as (here, there, peer):
        ours = "guest@here"
        assert names(there) == ({"news": ours}, {"mine": ours}, {("news", "a.*", "mine")})
        await declare(here, "more", "other", "b.*")
        await peer.wait_announced()
        assert names(there)[2] == {("news", "a.*", "mine"), ("more", "b.*", "other")}


async def test_resource_deleted_here_is_deleted_at_the_peer() -> None:
    async with open_announced() as (here, there, peer):
        await here.sink("news").unbind(here.queue("mine"), "a.*")
        await peer.wait_announced()
        assert names(there)[2] == set()
        await here.queue("mine").delete()
        await here.sink("news").delete()
        await peer.wait_announced()
        assert names(there) == ({}, {}, set())


# No storms


async def test_two_brokers_tell_each_other_only_of_their_own() -> None:
    async with open_pair() as (here, there):
        await declare(here, "news", "here")
        await declare(there, "notes", "there")
        peers = [await tell(here, there, "here"), await tell(there, here, "there")]
        for peer in peers:
            await peer.wait_announced()
        assert names(here)[2] == names(there)[2] == {("news", "a.*", "here"), ("notes", "a.*", "there")}
        for number in range(10):
            await here.declare_queue(f"q{number}")
            await there.declare_queue(f"r{number}")
        for peer in peers:
            await peer.wait_announced()
            assert peer.statistics().sent == 3 + 10


async def test_three_brokers_in_a_ring_tell_each_other_no_more_than_that() -> None:
    async with AsyncExitStack() as stack:
        brokers = [await stack.enter_async_context(open_broker(HERE, drain=0.1)) for _ in range(3)]
        peers = [
            await tell(broker, other, f"broker{number}")
            for number, (broker, other) in enumerate(zip(brokers, (*brokers[1:], brokers[0]), strict=True))
        ]
        for number, broker in enumerate(brokers):
            await broker.declare_queue(f"q{number}")
        for peer in peers:
            await peer.wait_announced()
        assert [peer.statistics().sent for peer in peers] == [1, 1, 1]
        assert [set(broker.directory.queues) for broker in brokers] == [{"q0", "q2"}, {"q1", "q0"}, {"q2", "q1"}]


async def test_binding_of_ours_to_a_queue_of_theirs_is_announced_and_comes_back_to_no_broker() -> None:
    async with open_pair() as (here, there):
        await declare(here)
        peers = [await tell(here, there, "here"), await tell(there, here, "there")]
        await peers[0].wait_announced()
        await there.sink("news").bind(await there.declare_queue("theirs"), "#")
        await peers[1].wait_announced()
        assert ("news", "#", "theirs") in names(here)[2]
        await here.publish("news", "a.b", b"42")
        assert await take(there, "theirs") == [b"42"]
        assert await take(here, "mine") == [b"42"]
        assert [peer.statistics().sent for peer in peers] == [3, 2]


# Messages


async def test_message_published_at_the_peer_comes_into_the_queue_here() -> None:
    async with open_pair() as (here, there):
        await declare(here)
        peer = await tell(here, there, "here", prefetch=2)
        await peer.wait_announced()
        sent = Properties(content_type="text/plain", headers={"k": "v"}, correlation_id="7", priority=3)
        for number in range(10):
            await there.publish("news", "a.b", str(number).encode(), sent)
        async with here.queue("mine").open_feed() as feed:
            for number in range(10):
                with await anext(feed) as delivery:
                    assert delivery.body == str(number).encode()
                    assert (delivery.sink, delivery.key) == ("news", "a.b")
                    assert delivery.properties == sent
        await until(lambda: not there.directory.queues["mine"].backlog.unsettled)
        assert peer.statistics().received == 10


async def test_message_published_at_the_peer_becomes_a_record_of_a_stream_here() -> None:
    async with open_pair() as (here, there):
        stream = await here.declare_stream("mine")
        await (await here.declare_sink("news", "topic")).bind("mine", "a.*")
        peer = await tell(here, there, "here")
        await peer.wait_announced()
        for number in range(10):
            await there.publish("news", "a.b", str(number).encode())
        found: list[tuple[int, bytes]] = []
        async for record in stream.read():
            found.append((record.offset, record.body))
            if len(found) == 10:
                break
        assert found == [(number, str(number).encode()) for number in range(10)]
        await until(lambda: not there.directory.queues["mine"].backlog.unsettled)
        assert there.directory.queues["mine"].declared.stream is None


async def test_floods_pass_between_two_brokers_in_both_directions_at_once() -> None:
    async with open_pair() as (here, there), trio.open_nursery() as nursery:
        await declare(here, "news", "here")
        await declare(there, "notes", "there")
        for peer in [await tell(here, there, "here"), await tell(there, here, "there")]:
            await peer.wait_announced()
        nursery.start_soon(flood, there, "news")  # each waits where it publishes, for the pipe to the other broker
        nursery.start_soon(flood, here, "notes")
        nursery.start_soon(take, there, "there", 200)
        await take(here, "here", 200)


async def flood(broker: Broker, sink: str) -> None:
    """Publish 25 MiB, as fast as a broker reads them."""
    async with open_amqp(url_of(broker)) as connection, connection.open_channel(confirms=False) as channel:
        for _ in range(200):
            await channel.publish(sink, "a.b", bytes(128 * 1024))


async def test_message_published_without_a_connection_comes_when_the_peer_is_back() -> None:
    async with open_announced() as (here, there, peer):
        await peer.aclose()
        await there.publish("news", "a.b", b"42")
        assert there.directory.queues["mine"].backlog.ready == 1
        peer = await tell(here, there, "here")
        assert await take(here, "mine") == [b"42"]


async def test_message_that_a_queue_here_refuses_is_dropped_at_the_peer() -> None:
    async with open_pair() as (here, there):
        await here.declare_queue("small", max_length=1, overflow="reject-publish")
        peer = await tell(here, there, "here")
        await peer.wait_announced()
        for body in (b"1", b"2", b"3"):
            await there.publish("", "small", body)
        await until(lambda: peer.statistics().received == 3 and _is_empty(there.directory.queues["small"]))
        assert await take(here, "small") == [b"1"]


async def test_no_other_queue_of_ours_gets_anything() -> None:
    async with open_pair() as (here, there):
        await here.declare_queue("private", exclusive=True)
        await here.declare_queue("q")
        peer = await tell(here, there, "here")
        await peer.wait_announced()
        # As a hostile peer would: it delivers from a pipe that was never announced to it.
        await there.declare_queue("private")
        queue = there.directory.queues["private"]
        queue.origin = "guest@here"
        (endpoint,) = there.endpoints.children.values()
        (connection,) = [ref.actor for ref in endpoint.children.values()]
        assert isinstance(connection, AMQPServerConnection)
        connection.ref.run_in_turn(
            HANDLERS[RestMSPipeCreate], connection.open_channels[1], RestMSPipeCreate("pipe", "private")
        )
        await there.publish("", "private", b"42")
        await until(lambda: peer.statistics().received == 1 and _is_empty(queue))
        assert _is_empty(here.directory.queues["private"])


def _is_empty(queue: QueueState) -> bool:
    return not queue.backlog.ready and not queue.backlog.unsettled


async def test_messages_wait_there_while_memory_is_short_here() -> None:
    async with open_pair() as (here, there):
        await here.declare_queue("q")
        peer = await tell(here, there, "here")
        await peer.wait_announced()
        here.directory.memory.set_mark(1)
        await here.publish("", "q", b"held")
        here.directory.memory.measure()
        assert here.directory.memory.on
        for body in (b"1", b"2"):
            await there.publish("", "q", body)
        await until(lambda: there.directory.queues["q"].backlog.unsettled == 2)
        assert here.directory.queues["q"].backlog.ready == 1
        here.directory.memory.set_mark(0)
        assert await take(here, "q", 3) == [b"held", b"1", b"2"]


# Protection


async def test_resource_of_both_stays_when_one_of_them_deletes_it() -> None:
    async with open_pair() as (here, there):
        for broker in (here, there):
            await broker.declare_queue("both")
        peers = [await tell(here, there, "here"), await tell(there, here, "there")]
        for peer in peers:
            await peer.wait_announced()
        await here.queue("both").delete()
        await peers[0].wait_announced()
        assert names(there)[1] == {"both": ""}


async def test_the_peer_s_user_may_do_there_what_its_permissions_say() -> None:
    permissions = {"default": Permission("^may", "^may", "^may")}
    users = {"guest": User("guest"), "some": User("some", permissions=permissions)}
    async with open_broker(HERE) as here, open_broker(HERE, users=users, drain=0.1) as there:
        await here.declare_queue("may")
        await here.declare_queue("no")
        peer = await here.synchronise(Synchronise(url_of(there, "some"), origin="here"))
        await peer.wait_announced()
        assert names(there)[1] == {"may": "some@here"}


# Coming and going


@asynccontextmanager
async def kept_open(port: int, others: Sequence[Synchronise] = ()) -> AsyncIterator[Broker]:
    """Open a broker at a port where one was before."""
    async with open_broker(AMQP(host="127.0.0.1", port=port), peers=others, drain=0.1) as broker:
        yield broker


async def test_peer_that_begins_again_gets_everything() -> None:
    async with open_broker(HERE) as here:
        await declare(here)
        async with open_broker(HERE, drain=0.1) as there:
            port = there.listening[0].port
            peer = await tell(here, there, "here")
            await peer.wait_announced()
        async with kept_open(port) as there:
            await until(lambda: peer.statistics().replays == 2)
            await peer.wait_announced()
            assert names(there) == ({"news": "guest@here"}, {"mine": "guest@here"}, {("news", "a.*", "mine")})
            await there.publish("news", "a.b", b"42")
            assert await take(here, "mine") == [b"42"]


async def test_resources_of_ours_stay_at_the_peer_while_we_begin_again() -> None:
    async with open_broker(HERE, drain=0.1) as there:
        async with open_broker(drain=0.1) as here:
            await declare(here)
            await (await tell(here, there, "here")).wait_announced()
        await there.publish("news", "a.b", b"42")
        assert names(there)[1] == {"mine": "guest@here"}
        async with open_broker(drain=0.1) as here:
            await declare(here)
            await tell(here, there, "here")
            assert await take(here, "mine") == [b"42"]
            peer = await tell(here, there, "here")
            await here.queue("mine").delete()
            await peer.wait_announced()
            await until(lambda: not names(there)[1])


async def test_both_brokers_keep_each_other_s_resources_through_restarts() -> None:
    async with open_broker(HERE, drain=0.1) as here:
        async with open_broker(HERE, drain=0.1) as there:
            port = there.listening[0].port
            await declare(here, "news", "here")
            await declare(there, "notes", "there")
            peer, back = await tell(here, there, "here"), await tell(there, here, "there")
            await peer.wait_announced()
            await back.wait_announced()
            everything = names(here)[2]
            assert everything == names(there)[2] == {("news", "a.*", "here"), ("notes", "a.*", "there")}
        assert names(here)[2] == everything  # without a peer
        others = (Synchronise(url_of(here), origin="there", retry=0.01),)
        async with kept_open(port, others) as there:
            await until(lambda: peer.statistics().replays == 2)
            await peer.wait_announced()
            assert names(there)[2] == {("news", "a.*", "here")}  # its own were in memory
            await declare(there, "notes", "there")
            await there.peers[0].wait_announced()
            assert names(there)[2] == names(here)[2] == everything


async def test_resource_deleted_without_a_connection_is_deleted_when_the_peer_is_back() -> None:
    async with open_pair() as (here, there):
        await declare(here)
        await here.declare_queue("stays")
        peer = await tell(here, there, "here")
        await peer.wait_announced()
        for listening in there.listening[:]:
            config = listening.config.bound_to(listening.port)
            await listening.aclose()
        await here.queue("mine").delete()
        await here.sink("news").delete()
        assert names(there)[0] == {"news": "guest@here"}
        await there.listen(config)
        await until(lambda: peer.statistics().replays == 2)
        await peer.wait_announced()
        assert names(there) == ({}, {"stays": "guest@here"}, set())


async def test_pipe_that_crashed_at_the_peer_is_announced_again() -> None:
    async with open_announced() as (here, there, _):
        queue = there.directory.queues["mine"]
        crash(queue)
        await queue.ref.wait_running()
        await there.publish("news", "a.b", b"42")
        assert await take(here, "mine") == [b"42"]


def crash(queue: QueueState) -> None:
    """Crash a queue, by a wake-up that cannot come otherwise."""
    queue.ref.tell_nowait(Wake(None, None))  # type: ignore[arg-type]


async def test_actor_that_crashes_begins_again_and_knows_what_it_announced() -> None:
    async with open_announced() as (here, there, peer):
        no_binding = Changed(Action.CREATED, ChangeKind.BINDING, "news", "nothing")  # type: ignore[arg-type]
        here.peer_refs[peer.name].tell_nowait(no_binding)
        await here.queue("mine").delete()
        await peer.wait_announced()
        assert peer.statistics().replays >= 2
        assert names(there)[1] == {}


async def test_peer_can_be_left_alone() -> None:
    async with open_announced() as (here, there, peer):
        await peer.aclose()
        assert here.peers == []
        assert names(there)[1] == {"mine": "guest@here"}
        with pytest.raises(ActorStopped, match="was closed, or has failed"):
            peer.statistics()
        with pytest.raises(ActorStopped):
            await peer.wait_announced()


# Peers that are none


class Unannounced(AMQP, frozen=True, tag="unannounced"):
    """A broker that knows the class, and does not say so."""

    def settings(self, mechanisms: tuple[str, ...]) -> Settings:
        return msgspec.structs.replace(super().settings(mechanisms), server_properties={"product": "other"})


class Ignorant(Unannounced, frozen=True, tag="ignorant"):
    """A broker that does not know the class."""

    def make(self, harness: BrokerContext) -> AMQPEndpoint:
        endpoint = super().make(harness)
        endpoint._methods = AMQP_METHODS
        return endpoint


def logged(log: pytest.LogCaptureFixture, event: str) -> list[str]:
    """Give the reasons of an event."""
    return [record.fields["reason"] for record in log.records if record.getMessage() == event]  # type: ignore[attr-defined]


async def test_peer_that_does_not_announce_the_class_is_sent_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with open_broker() as here, open_broker(Unannounced(host="127.0.0.1", port=0), drain=0.1) as there:
        await declare(here)
        peer = await tell(here, there, "here")
        await until(lambda: logged(caplog, "peer cannot be told of resources"))
        assert not peer.statistics().is_connected
        assert names(there) == ({}, {}, set())


async def test_force_without_a_pipe_type_is_refused_and_the_error_says_which_ones_there_are() -> None:
    async with open_pair() as (here, there):
        with pytest.raises(
            ConfigError, match=r'pipe_type: not set, and with force .* "fifo" for OpenAMQ, else to "pipe"'
        ):
            await tell(here, there, "here", force=True)


async def test_two_brokers_of_one_origin_are_not_there_together(caplog: pytest.LogCaptureFixture) -> None:
    async with open_pair() as (here, there), open_broker(HERE, drain=0.1) as other:
        await declare(here)
        await declare(other, "more", "another")
        first = await tell(here, there, "same")
        await first.wait_announced()
        second = await tell(other, there, "same")
        await until(lambda: logged(caplog, "peer is away"))
        reason = logged(caplog, "peer is away")[0]
        assert "origin 'same' of user 'guest' is here already, and is another broker; give each" in reason
        assert names(there)[1] == {"mine": "guest@same"}
        await first.aclose()
        await second.wait_announced()
        assert names(there)[1] == {"mine": "guest@same", "another": "guest@same"}


async def test_unless_it_is_to_be_told_all_the_same() -> None:
    async with open_broker() as here, open_broker(Unannounced(host="127.0.0.1", port=0), drain=0.1) as there:
        await declare(here)
        peer = await tell(here, there, "here", force=True, pipe_type="fifo")
        await peer.wait_announced()
        assert names(there)[1] == {"mine": "guest@here"}


async def test_peer_that_does_not_know_the_class_closes_and_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async with open_broker() as here, open_broker(Ignorant(host="127.0.0.1", port=0), drain=0.1) as there:
        await declare(here)
        peer = await tell(here, there, "here", force=True, pipe_type="pipe")
        await until(lambda: peer.statistics().replays >= 3)
        assert len({*logged(caplog, "peer is away")}) == 1
        assert names(there) == ({}, {}, set())


async def test_peer_that_is_not_there_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with open_broker(HERE) as gone:
        port = gone.listening[0].port
    async with open_broker() as here:
        peer = await here.synchronise(Synchronise(f"amqp://127.0.0.1:{port}", retry=0.001))
        await until(lambda: logged(caplog, "peer is away"))
        assert not peer.statistics().is_connected
    assert len(logged(caplog, "peer is away")) == 1


@pytest.mark.parametrize(
    ("config", "trouble"),
    [
        (Synchronise("amqp://x", domain="nowhere"), "domain: there is no 'nowhere'"),
        (Synchronise("http://guest:secret@x"), "no AMQP"),
        (Synchronise("amqp://x", ca="file"), "amqps:// alone"),
        (Synchronise("amqps://x", ca="missing.pem"), "cannot read the certificates in missing.pem"),
        (Synchronise("amqp://x", password_file="missing"), "password_file: cannot read missing"),
    ],
)
async def test_configuration_that_cannot_be_is_refused_at_once(config: Synchronise, trouble: str) -> None:
    async with open_broker() as here:
        with pytest.raises(ConfigError, match=trouble) as caught:
            await here.synchronise(config)
        assert "secret" not in str(caught.value)


async def test_password_is_not_shown() -> None:
    assert "secret" not in repr(Synchronise("amqp://guest:secret@there:5673"))
