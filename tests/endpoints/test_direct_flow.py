"""Which feeds a direct sink waits for: the rule by numbers, and what it does to connections."""

from collections.abc import Sequence

import pytest
import trio
import trio.testing

from endpoints.client import Client
from endpoints.conftest import Connect
from endpoints.direct import Direct, lease_feed, open_sink
from triomq.actors import Ref
from triomq.app import Broker
from triomq.core import bytes_ready
from triomq.endpoints import AMQPEndpoint
from triomq.endpoints.base.delivery_writer import WINDOW_BYTES
from triomq.endpoints.direct.flow import MARK, STALL, SinkFlow
from triomq.protocols.amqp import (
    LOST_CAPABILITY,
    BasicConsume,
    ChannelFlow,
    DirectLost,
    QueueBind,
    QueueDelete,
    QueuePurge,
)

MEGABYTE = 1024 * 1024
STEP = 0.005  # seconds of a simulation


class Reader:
    """A feed whose client reads at an even pace.

    Args:
        pace: Octets in a second.
        part: The part of the sink's messages that is routed to it.
    """

    def __init__(self, pace: float, part: float = 1.0) -> None:
        self.name = "simulated"
        self.followers: set[SinkFlow] = set()
        self.waiting: set[SinkFlow] = set()
        self.pace, self.part = pace, part
        self.backlog = self.taken = self.progress = 0
        self.most = 0

    def come(self, octets: float) -> None:
        self.backlog += int(octets * self.part)
        self.most = max(self.most, self.backlog)

    def read(self, seconds: float) -> None:
        octets = min(self.backlog, int(self.pace * seconds))
        self.backlog -= octets
        self.taken += octets
        self.progress = self.taken


class Simulation:
    """A sink at full rate and some readers.

    Args:
        readers: Who reads.
        pace: Octets in a second that the sink's client sends when it is not held back.
    """

    def __init__(self, readers: Sequence[Reader], pace: float = 100 * MEGABYTE) -> None:
        self.readers, self.pace = readers, pace
        self.now = 0.0
        self.waits = False
        self.sent = 0.0
        refs = tuple(object() for _ in readers)
        self.flow = SinkFlow(dict(zip(refs, readers, strict=True)), lambda: self.now, self._go_on, self._note)  # type: ignore[arg-type]
        self._queues: tuple[Ref, ...] = refs  # type: ignore[assignment]
        self.events: list[str] = []

    def _go_on(self) -> None:
        self.waits = False

    def _note(self, level: int, event: str, **fields: object) -> None:
        self.events.append(event)

    def run(self, seconds: float) -> list[str]:
        """Let time pass; give what was noted."""
        until = self.now + seconds
        while self.now < until:
            self.now += STEP
            for reader in self.readers:
                reader.read(STEP)
            self.flow.look()
            if not self.waits:
                self.sent += self.pace * STEP
                for reader in self.readers:
                    reader.come(self.pace * STEP)
                self.flow.published.append(self._queues)
                self.waits = self.flow.must_wait()
        events, self.events = self.events, []
        return events


# The rule


@pytest.mark.parametrize("fast", [200, 50, 20])
@pytest.mark.parametrize("part", [0.15, 0.3, 0.9])
def test_sink_waits_for_a_feed_that_takes_more_than_a_tenth_of_the_fastest(fast: int, part: float) -> None:
    # Against a sink of 100: the fastest feed may be faster than that one, or slow itself.
    readers = [Reader(fast * MEGABYTE), Reader(min(fast, 100) * part * MEGABYTE)]
    assert Simulation(readers).run(100) == []
    assert max(reader.most for reader in readers) < 2 * MARK


@pytest.mark.parametrize("fast", [200, 50, 20])
@pytest.mark.parametrize("part", [0.07, 0.01])
def test_sink_leaves_a_feed_behind_that_takes_less_than_a_tenth_of_the_fastest(fast: int, part: float) -> None:
    readers = [Reader(fast * MEGABYTE), Reader(min(fast, 100) * part * MEGABYTE), Reader(fast * MEGABYTE)]
    simulation = Simulation(readers)
    assert simulation.run(100) == ["direct feed is left behind"]
    assert simulation.sent > min(fast, 100) * 50 * MEGABYTE


def test_sink_waits_for_the_only_feed_that_takes_much_beside_one_that_gets_little_and_takes_that_at_once() -> None:
    assert Simulation([Reader(300 * 1024), Reader(100 * MEGABYTE, part=0.0001)]).run(100) == []


def test_feed_that_ends_costs_the_others_no_patience() -> None:
    fast, slow = Reader(100 * MEGABYTE), Reader(MEGABYTE)
    simulation = Simulation([fast, slow])
    simulation.run(1)
    assert simulation.waits
    simulation.flow.forget(fast)
    simulation.now += STALL  # nobody looks for so long
    slow.read(STEP)
    simulation.flow.look()
    assert simulation.events == []


def test_sink_alone_with_a_feed_waits_for_anything_at_all() -> None:
    reader = Reader(1000)
    assert Simulation([reader]).run(100) == []
    assert reader.most < 2 * MARK


def test_sink_alone_with_a_feed_goes_on_when_that_has_taken_nothing_for_five_seconds() -> None:
    simulation = Simulation([Reader(0)])
    assert simulation.run(STALL) == []
    assert simulation.run(1) == ["direct feed is left behind"]


def test_sink_waits_for_a_feed_that_stops_for_less_than_five_seconds_beside_a_fast_one() -> None:
    slow, fast = Reader(50 * MEGABYTE), Reader(50 * MEGABYTE)
    simulation = Simulation([slow, fast])
    simulation.run(10)
    for _ in range(5):
        slow.pace = 0
        assert simulation.run(STALL - 1) == []
        slow.pace = 50 * MEGABYTE
        assert simulation.run(10) == []


def test_feed_that_was_left_behind_is_waited_for_again_with_the_backlog_that_it_has_then() -> None:
    slow, fast = Reader(50 * MEGABYTE), Reader(50 * MEGABYTE)
    simulation = Simulation([slow, fast])
    simulation.run(10)
    slow.pace = 0
    assert simulation.run(STALL + 1) == ["direct feed is left behind"]
    slow.pace = 10 * MEGABYTE
    assert simulation.run(3) == ["direct feed is waited for again"]
    most, slow.most = slow.most, 0
    assert simulation.run(100) == []
    assert slow.most < most + MARK
    assert slow.backlog < 2 * MARK  # and it catches up


def test_feed_that_ends_holds_no_sink() -> None:
    slow = Reader(0)
    simulation = Simulation([slow, Reader(200 * MEGABYTE)])
    simulation.run(1)
    assert simulation.waits
    simulation.flow.forget(slow)
    assert not simulation.waits


# Connections


async def consuming(client: Client, endpoint: AMQPEndpoint, name: str) -> Direct:
    """A feed whose client reads only when the test does, of a queue that the fanout leads to."""
    await client.declare(name, exclusive=True)
    await client.call(1, QueueBind(name, "amq.fanout", ""))
    feed = await Direct(endpoint, await lease_feed(client, name), "feed", lockstep=True).ready()
    await client.call(1, BasicConsume(name, name))
    return feed


def ready_in(broker: Broker, name: str) -> int:
    return bytes_ready(broker.directory.queues[name])


BODIES = [b"%04d" % number + bytes(60_000) for number in range(400)]
"""24 MB: several times what may wait for a feed."""


async def flood(sink: Direct) -> None:
    for body in BODIES:
        await sink.publish("", body)


async def settled() -> None:
    await trio.testing.wait_all_tasks_blocked()


async def test_sink_is_not_read_while_its_feed_has_much_to_take(
    client: Client, endpoint: AMQPEndpoint, broker: Broker
) -> None:
    feed = await consuming(client, endpoint, "q")
    sink = await open_sink(endpoint, client, "amq.fanout")
    await flood(sink)
    most = 0
    found: list[bytes] = []
    while len(found) < len(BODIES):
        await settled()
        most = max(most, ready_in(broker, "q"))
        found += await feed.bodies(1)
    assert found == BODIES
    assert MARK < most < 1.5 * MARK


async def test_sink_goes_on_when_the_only_feed_has_taken_nothing_for_five_seconds(
    client: Client, endpoint: AMQPEndpoint, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    await consuming(client, endpoint, "q")
    sink = await open_sink(endpoint, client, "amq.fanout")
    await flood(sink)
    await trio.sleep(STALL - 1)
    assert ready_in(broker, "q") < 1.5 * MARK
    await trio.sleep(2)
    assert ready_in(broker, "q") > 20 * MEGABYTE
    assert "direct feed is left behind" in caplog.messages


@pytest.mark.parametrize("knows", [True, False])
async def test_client_of_a_feed_that_was_left_behind_learns_how_many_messages_it_has_lost(
    connect: Connect, endpoint: AMQPEndpoint, broker: Broker, caplog: pytest.LogCaptureFixture, knows: bool
) -> None:
    client = await connect(client_properties={"capabilities": {LOST_CAPABILITY: knows}})
    await consuming(client, endpoint, "q")
    broker.directory.queues["q"].set_ceiling(10 * MEGABYTE)
    sink = await open_sink(endpoint, client, "amq.fanout")
    await flood(sink)
    await trio.sleep(STALL + 1)
    ready = broker.directory.queues["q"].statistics().ready
    assert 100 < ready < 200
    await sink.publish("", BODIES[0])
    if knows:
        lost = (await client.read(DirectLost)).messages
        assert len(BODIES) - ready - WINDOW_BYTES // 60_000 - 5 < lost < len(BODIES) - ready
    else:
        await client.silence()
    assert "messages lost" in caplog.messages


async def test_sink_waits_for_no_feed_without_consumers(client: Client, endpoint: AMQPEndpoint, broker: Broker) -> None:
    await client.declare("q", exclusive=True)
    await client.call(1, QueueBind("q", "amq.fanout", ""))
    await Direct(endpoint, await lease_feed(client, "q"), "feed").ready()
    sink = await open_sink(endpoint, client, "amq.fanout")
    await flood(sink)
    await settled()
    assert broker.directory.queues["q"].statistics().ready == len(BODIES)


@pytest.mark.parametrize("how", ["feed ends", "purge", "delete", "other feed follows"])
async def test_sink_goes_on_when_there_is_nothing_to_wait_for_any_more(
    client: Client, connect: Connect, endpoint: AMQPEndpoint, how: str
) -> None:
    other = await connect()
    quick = await consuming(other, endpoint, "quick")
    slow = await consuming(client, endpoint, "slow")
    sink = await open_sink(endpoint, client, "amq.fanout")
    await flood(sink)
    await settled()
    if how == "feed ends":
        await slow.hang_up()
    elif how == "purge":
        await client.call(1, QueuePurge("slow"))
        await trio.sleep(0.6)
    elif how == "delete":
        await client.say(1, QueueDelete("slow"))
        await trio.sleep(0.6)
    if how == "purge":
        await slow.bodies(1)
    found = await quick.bodies(200)
    if how == "other feed follows":
        await slow.bodies(200)
    found += await quick.bodies(200)
    assert found == BODIES


async def test_feed_that_channel_flow_holds_is_waited_for_as_long_as_one_that_reads_nothing(
    client: Client, endpoint: AMQPEndpoint, broker: Broker
) -> None:
    await consuming(client, endpoint, "q")
    await client.call(1, ChannelFlow(active=False))
    sink = await open_sink(endpoint, client, "amq.fanout")
    await flood(sink)
    await trio.sleep(STALL - 1)
    assert ready_in(broker, "q") < 1.5 * MARK
    await trio.sleep(2)
    assert broker.directory.queues["q"].statistics().ready == len(BODIES)
