"""Credit: publishers that run ahead wait for consumers at work, whatever they speak, and nobody waits for ever.

In virtual time, which passes only where nothing else happens: so a pause that time ends shows, as 20 ms.
"""

from collections.abc import Callable

import pytest
import trio
import trio.testing

from endpoints.client import Client
from endpoints.conftest import Connect, endpoint_of, open_client, run_in_virtual_time, run_with_jumps
from endpoints.contract import Sent
from endpoints.direct import open_sink
from endpoints.parties import PUBLISHERS
from triomq.app import Broker, open_broker
from triomq.core.memory import MESSAGE_OVERHEAD
from triomq.core.publishing.credit import ALLOWANCE, LONGEST_PAUSE
from triomq.endpoints import AMQP, AMQPEndpoint, StreamClient
from triomq.protocols.amqp import BasicAck, BasicConsume, BasicNack, BasicQos, ConfirmSelect, Method, QueueBind

PIECE = b"x" * (64 * 1024 - MESSAGE_OVERHEAD)
FULL = ALLOWANCE // (64 * 1024)
"""How many of them a queue may hold before publishers pause."""

LARGE = b"y" * (512 * 1024)


def ready(broker: Broker, queue: str = "q") -> int:
    """How many messages wait in a queue."""
    return broker.directory.queues[queue].statistics().ready


async def take(
    broker: Broker, count: int, queue: str = "q", *, seconds: float = 0.0, into: list[bytes] | None = None
) -> list[bytes]:
    """Take so many messages, one by one, and need some time for each."""
    found = [] if into is None else into
    async with broker.queue(queue).open_feed(prefetch=1) as feed:
        for _ in range(count):
            with await anext(feed) as delivery:
                found.append(delivery.body)
                await trio.sleep(seconds)
    return found


def numbered(count: int, body: bytes = LARGE) -> list[bytes]:
    return [b"%06d" % number + body for number in range(count)]


def held_back(endpoint: AMQPEndpoint) -> list[str]:
    """List the connections that are not read since they run ahead."""
    return [
        name
        for name, ref in endpoint.ref.children.items()
        if isinstance(ref.actor, StreamClient) and "credit" in ref.actor.gates.closed
    ]


# Whoever publishes


@pytest.fixture
def time_of_kind(request: pytest.FixtureRequest, kind: str) -> None:
    """Let time be virtual, or at least jump."""
    run = run_with_jumps if PUBLISHERS[kind].has_threads else run_in_virtual_time
    request.node.add_marker(pytest.mark.trio(run=run), append=False)


@pytest.mark.usefixtures("time_of_kind")
@pytest.mark.parametrize("kind", PUBLISHERS)
async def test_publisher_that_runs_ahead_waits_for_consumers_at_work_if_it_is_read_from(kind: str) -> None:
    async with open_broker(AMQP(host="127.0.0.1", port=0)) as broker, trio.open_nursery() as nursery:
        await broker.declare_queue("q", durable=False)
        party = PUBLISHERS[kind](broker, nursery)
        await party.open()
        async with broker.queue("q").open_feed(prefetch=1) as feed:
            await party.publish(*[Sent(PIECE)] * (FULL + 2))
            first = await anext(feed)
            while ready(broker) < FULL + 1:
                await party.settled() if party.has_threads else await trio.testing.wait_all_tasks_blocked()
            first.accept()
            await party.publish(*[Sent(PIECE)] * 40)
            if party.is_read:
                await trio.testing.wait_all_tasks_blocked()  # and no time passes
                assert FULL < ready(broker) < FULL + 10
            else:
                await party.told(FULL + 42)
                assert ready(broker) == FULL + 40
        assert len(await take(broker, FULL + 41)) == FULL + 41
        assert ready(broker) == 0
        nursery.cancel_scope.cancel()


# Nobody waits for ever


async def test_connection_that_publishes_and_consumes_is_never_held_back(
    broker: Broker, client: Client, endpoint: AMQPEndpoint
) -> None:
    await client.declare("q")
    await client.call(1, BasicQos(prefetch_count=1))
    await client.call(1, BasicConsume("q"))
    began = trio.current_time()
    for number in range(40):
        await client.send(1, "", "q", LARGE, LARGE)
        [delivery] = await client.deliveries(1)
        await client.say(1, BasicAck(delivery.tag))
        await trio.testing.wait_all_tasks_blocked()
        assert not held_back(endpoint), number
    assert (ready(broker), trio.current_time() - began) == (39, 0.0)


async def test_connection_that_has_something_unsettled_is_never_held_back(
    broker: Broker, client: Client, endpoint: AMQPEndpoint
) -> None:
    await client.declare("q")
    await client.declare("other")
    await client.send(1, "", "other", b"x")
    await client.get("other")
    async with broker.queue("q").open_feed(prefetch=1) as feed:
        await client.send(1, "", "q", *[LARGE] * 20)
        for _ in range(8):
            with await anext(feed):
                await client.send(1, "", "q", LARGE)
                await trio.testing.wait_all_tasks_blocked()
            assert not held_back(endpoint)


@pytest.mark.parametrize("no_ack", [False, True], ids=["full prefetch", "unread socket"])
async def test_consumer_that_never_settles_or_reads_costs_its_publisher_no_time(
    broker: Broker, client: Client, endpoint: AMQPEndpoint, *, no_ack: bool
) -> None:
    ours, theirs = trio.testing.lockstep_stream_pair()  # which holds nothing that is not read
    endpoint.listener.connect_stream(theirs, "lockstep")
    consumer = Client(ours)
    await consumer.connect()
    await consumer.open_channel()
    await consumer.declare("q")
    await consumer.call(1, BasicQos(prefetch_count=10))
    await consumer.call(1, BasicConsume("q", no_ack=no_ack))
    began = trio.current_time()
    for _ in range(10):
        await client.send(1, "", "q", *[LARGE] * 10)
        await trio.testing.wait_all_tasks_blocked()
    assert trio.current_time() == began
    assert ready(broker) >= 80


async def test_slow_workers_do_not_set_the_pace_of_their_publisher(broker: Broker, client: Client) -> None:
    await client.declare("q")
    await client.call(1, ConfirmSelect())
    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(lambda: take(broker, 400, seconds=0.005))
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        await client.send(1, "", "q", *[LARGE] * 400)  # 200 MiB; the workers take 400 MiB/s at most
        assert await answers(client, 400) == (400, 0)
        assert trio.current_time() - began <= 6.5 * LONGEST_PAUSE
        nursery.cancel_scope.cancel()


async def answers(client: Client, count: int) -> tuple[int, int]:
    """Wait until so many messages are confirmed or refused, and count both."""
    taken: set[int] = set()
    refused: set[int] = set()
    while len(taken) + len(refused) < count:
        answer = await client.read(Method)
        assert isinstance(answer, BasicAck | BasicNack)
        numbers = set(range(1 if answer.multiple else answer.delivery_tag, answer.delivery_tag + 1))
        (taken if isinstance(answer, BasicAck) else refused).update(numbers - taken - refused)
    return len(taken), len(refused)


async def test_many_slow_queues_cost_their_publisher_half_of_its_time(broker: Broker, client: Client) -> None:
    names = [f"q{number}" for number in range(10)]
    await client.call(1, ConfirmSelect())
    async with trio.open_nursery() as nursery:
        for name in names:
            await client.declare(name)
            nursery.start_soon(lambda name: take(broker, 100, name, seconds=0.015), name)
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        for _ in range(24):  # 12 MiB for each, so each has a pause of its own, and another one
            for name in names:
                client.publish(1, "", name, LARGE)
            await client.flush()
            await trio.sleep(0.001)
        assert await answers(client, 240) == (240, 0)
        assert LONGEST_PAUSE <= trio.current_time() - began <= 4 * LONGEST_PAUSE
        nursery.cancel_scope.cancel()


async def test_slow_publisher_beside_a_flood_is_held_back_for_moments_only(
    broker: Broker, client: Client, connect: Connect
) -> None:
    flood, worst = await connect(), 0.0
    await client.declare("q")
    await client.call(1, ConfirmSelect())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: take(broker, 10_000, seconds=0.002))
        await flood.send(1, "", "q", *[LARGE] * 600)
        for _ in range(20):
            began = trio.current_time()
            await client.send(1, "", "q", b"little")
            await client.read(BasicAck)
            worst = max(worst, trio.current_time() - began)
            await trio.sleep(0.03)
        nursery.cancel_scope.cancel()
    assert worst <= LONGEST_PAUSE


async def test_fast_queue_of_a_fanout_gets_all_while_the_slow_one_grows(broker: Broker, client: Client) -> None:
    for name in ("fast", "slow"):
        await client.declare(name)
        await client.call(1, QueueBind(name, "amq.fanout"))
    bodies, slow = numbered(64), list[bytes]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: take(broker, 64, "slow", seconds=0.1, into=slow))
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        await client.send(1, "amq.fanout", "", *bodies)  # 32 MiB
        assert await take(broker, 64, "fast") == bodies
        assert trio.current_time() - began <= 4 * LONGEST_PAUSE
        assert len(slow) < 3
    assert slow == bodies


async def forward(source: Client, target: Client, came: Callable[[], None]) -> None:
    """Take messages from a queue ``q`` and publish them into that of another broker, then ack them."""
    await source.call(1, BasicQos(prefetch_count=5))
    await source.call(1, BasicConsume("q"))
    while True:
        for delivery in await source.deliveries(1):
            await target.send(1, "", "q", delivery.body)
            await source.say(1, BasicAck(delivery.tag))
            came()
        await trio.sleep(0.005)


@pytest.mark.usefixtures("virtual_time")
@pytest.mark.parametrize("several", [False, True], ids=["itself", "another broker"])
async def test_messages_go_round_in_a_ring_whatever_waits(*, several: bool) -> None:
    config, hops, round_often = AMQP(host="127.0.0.1", port=0), 0, trio.Event()
    waited = False

    def came() -> None:
        nonlocal hops, waited
        hops += 1
        waited = waited or bool(held_back(endpoint_of(here)))
        if hops == 400:
            round_often.set()

    async with open_broker(config) as here, open_broker(config) as there, trio.open_nursery() as nursery:
        ring = [here, there] if several else [here]
        for broker in ring:
            await broker.declare_queue("q", durable=False)
        began = trio.current_time()
        for broker, following in zip(ring, [*ring[1:], here], strict=True):
            source, target = await open_client(endpoint_of(broker)), await open_client(endpoint_of(following))
            nursery.start_soon(forward, source, target, came)
            await target.send(1, "", "q", *[LARGE] * 40)  # 20 MiB
        await round_often.wait()
        assert waited
        assert trio.current_time() - began < 400 * 0.005 / len(ring) + 4 * LONGEST_PAUSE
        nursery.cancel_scope.cancel()


# Beside other reasons to wait


async def test_direct_sink_is_held_back_for_a_queue_that_others_consume(
    broker: Broker, client: Client, endpoint: AMQPEndpoint
) -> None:
    await client.declare("q")
    sink = await open_sink(endpoint, client, "")
    async with broker.queue("q").open_feed(prefetch=1) as feed:
        await sink.publish("q", *[LARGE] * 10)
        with await anext(feed):
            await trio.testing.wait_all_tasks_blocked()
        await sink.publish("q", *[LARGE] * 10)
        await trio.testing.wait_all_tasks_blocked()
        [name] = held_back(endpoint)
        assert name.startswith("direct-")
    assert len(await take(broker, 19)) == 19


async def test_client_that_two_queues_hold_back_waits_for_both(
    broker: Broker, client: Client, endpoint: AMQPEndpoint
) -> None:
    for name in ("a", "b"):
        await client.declare(name)
        await client.call(1, QueueBind(name, "amq.fanout"))
    async with broker.queue("a").open_feed(prefetch=1) as a, broker.queue("b").open_feed(prefetch=1) as b:
        await client.send(1, "amq.fanout", "", *[LARGE] * 10)
        with await anext(a), await anext(b):
            await trio.testing.wait_all_tasks_blocked()
        await client.send(1, "amq.fanout", "", LARGE)
        for feed in (a, b):
            await trio.testing.wait_all_tasks_blocked()
            assert held_back(endpoint)
            for _ in range(6):
                with await anext(feed):
                    pass
        await trio.testing.wait_all_tasks_blocked()
        assert not held_back(endpoint)


async def test_alarm_holds_on_to_a_publisher_that_credit_lets_go(
    broker: Broker, client: Client, endpoint: AMQPEndpoint
) -> None:
    await client.declare("q")
    bodies = numbered(20)
    async with broker.queue("q").open_feed(prefetch=1) as feed:
        await client.send(1, "", "q", *bodies[:10])
        with await anext(feed):
            await trio.testing.wait_all_tasks_blocked()
        await client.send(1, "", "q", *bodies[10:])
        await trio.testing.wait_all_tasks_blocked()
        assert held_back(endpoint)
        broker.set_memory_high_watermark(1_000_000)
        placed = ready(broker)
        await trio.sleep(1)
        assert not held_back(endpoint)
        assert ready(broker) == placed < 18
        broker.set_memory_high_watermark(0)
        await trio.sleep(1)
        assert ready(broker) == 18
    assert await take(broker, 19) == bodies[1:]


async def test_limit_of_a_queue_refuses_as_before(broker: Broker, client: Client) -> None:
    await broker.declare_queue("q", durable=False, max_bytes=6 * 1024 * 1024, overflow="reject-publish")
    await client.call(1, ConfirmSelect())
    async with broker.queue("q").open_feed(prefetch=1) as feed:
        await client.send(1, "", "q", *[LARGE] * 10)
        with await anext(feed):
            await trio.testing.wait_all_tasks_blocked()
        await client.send(1, "", "q", *[LARGE] * 10)
        await trio.sleep(1)
        taken, refused = await answers(client, 20)
        assert (taken, refused, ready(broker)) == (14, 6, 12)


async def test_publisher_that_hangs_up_while_it_is_held_back_is_gone_and_its_messages_stay(
    broker: Broker, client: Client, endpoint: AMQPEndpoint
) -> None:
    await client.declare("q")
    async with broker.queue("q").open_feed(prefetch=1) as feed:
        await client.send(1, "", "q", *[LARGE] * 10)
        with await anext(feed):
            await trio.testing.wait_all_tasks_blocked()
        await client.send(1, "", "q", *[LARGE] * 10)
        await trio.testing.wait_all_tasks_blocked()
        assert held_back(endpoint)
        await client.hang_up()
        await trio.sleep(2)
        assert not endpoint.ref.children
        assert ready(broker) == 18
