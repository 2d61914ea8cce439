"""Resources of a RestMS server: made, found, deleted, and never answered."""

import pytest
import trio.testing

from endpoints.client import Client
from endpoints.conftest import Connect, dial, endpoint_of
from triomq.app import Broker, User, open_broker
from triomq.core import SinkKind
from triomq.endpoints import AMQP
from triomq.protocols.amqp import (
    Method,
    QueueDeclare,
    RestMSFeedCreate,
    RestMSFeedDelete,
    RestMSJoinCreate,
    RestMSJoinDelete,
    RestMSPipeCreate,
    RestMSPipeDelete,
    plain,
)
from triomq.security import Permission

EVERYTHING: list[Method] = [
    RestMSFeedCreate("topic", "prices"),
    RestMSFeedCreate("rotator", "work"),
    RestMSPipeCreate("pipe", "mine"),
    RestMSJoinCreate("mine", "prices", "stock.*"),
]


async def say(client: Client, *methods: Method) -> None:
    """Send methods, and see that the channel is still there behind them."""
    await client.say(1, *methods)
    await client.declare("behind", exclusive=True)


def resources(broker: Broker) -> tuple[set[str], set[str], int]:
    """Name sinks and queues of ours, and count bindings."""
    directory = broker.directory
    sinks = {name for name in directory.sinks if not name.startswith("amq.")}
    bindings = sum(len(sink.bindings) for sink in directory.sinks.values())
    return sinks, set(directory.queues) - {"behind"}, bindings


async def test_feeds_pipes_and_joins_become_sinks_queues_and_bindings(client: Client, broker: Broker) -> None:
    await say(client, *EVERYTHING)
    assert resources(broker) == ({"prices"}, {"work", "mine"}, 1)
    client.publish(1, "prices", "stock.ACME", b"42")
    await client.flush()
    await trio.testing.wait_all_tasks_blocked()
    assert broker.directory.queues["mine"].index.ready == 1


async def test_all_of_it_may_be_said_again(client: Client, connect: Connect, broker: Broker) -> None:
    await say(client, *EVERYTHING)
    before = resources(broker), broker.directory.version
    await say(client, *EVERYTHING)
    other = await connect()
    await other.open_channel()
    await other.say(1, *EVERYTHING)
    await other.declare("also", exclusive=True)
    after = resources(broker)
    assert (after[0], after[1] - {"also"}, after[2]) == before[0]


async def test_what_it_made_outlives_its_connection(client: Client, broker: Broker) -> None:
    await say(client, *EVERYTHING)
    await client.leave()
    await trio.testing.wait_all_tasks_blocked()
    assert resources(broker) == ({"prices"}, {"work", "mine"}, 1)


async def test_all_of_it_may_go_again_and_more_than_once(client: Client, broker: Broker) -> None:
    gone: list[Method] = [
        RestMSJoinDelete("mine", "prices", "stock.*"),
        RestMSPipeDelete("mine"),
        RestMSFeedDelete("prices"),
        RestMSFeedDelete("work"),
    ]
    await say(client, *EVERYTHING, *gone, *gone)
    assert resources(broker) == (set(), set(), 0)


@pytest.mark.parametrize("kind", ["fanout", "direct", "topic", "headers"])
async def test_each_type_of_feed_is_a_kind_of_sink(client: Client, broker: Broker, kind: str) -> None:
    await say(client, RestMSFeedCreate(kind, "f"))
    assert broker.directory.sinks["f"].options.kind is SinkKind(kind)


@pytest.mark.parametrize("kind", ["pipe", "fifo", ""])
async def test_a_pipe_is_called_by_three_names(client: Client, broker: Broker, kind: str) -> None:
    await say(client, RestMSPipeCreate(kind, "p"))
    assert "p" in broker.directory.queues


WRONG: list[Method] = [
    RestMSPipeCreate("stream", "p"),
    RestMSPipeCreate("pipe", ""),
    RestMSPipeCreate("pipe", "amq.p"),
    RestMSPipeCreate("pipe", "locked"),
    RestMSPipeDelete("locked"),
    RestMSPipeDelete("amq.p"),
    RestMSFeedCreate("system", "f"),
    RestMSFeedCreate("topic", "amq.f"),
    RestMSFeedCreate("topic", "amq.direct"),
    RestMSFeedDelete("amq.direct"),
    RestMSFeedDelete(""),
    RestMSFeedDelete("locked"),
    RestMSJoinCreate("missing", "amq.direct", "k"),
    RestMSJoinCreate("missing", "missing", "k"),
    RestMSJoinCreate("locked", "amq.direct", "k"),
    RestMSJoinCreate("missing", "", "missing"),
    RestMSJoinCreate("missing", "locked", "k"),
    RestMSJoinDelete("locked", "", "k"),
]


@pytest.mark.parametrize("method", WRONG, ids=str)
async def test_what_cannot_be_is_noted_and_nobody_is_told(
    client: Client, connect: Connect, broker: Broker, method: Method, caplog: pytest.LogCaptureFixture
) -> None:
    other = await connect()
    await other.open_channel()
    await other.declare("locked", exclusive=True)
    before = resources(broker)
    await say(client, method)
    assert resources(broker) == before
    assert [record.getMessage() for record in caplog.records if "refused" in record.getMessage()] == [
        "resource refused"
    ]


@pytest.mark.parametrize("method", [*EVERYTHING, RestMSPipeDelete("there"), RestMSFeedDelete("there")], ids=str)
async def test_who_may_nothing_makes_and_deletes_nothing(virtual_time: None, method: Method) -> None:
    users = {"null": User(password="null", permissions={"default": Permission("^behind$", "", "")})}
    async with open_broker(AMQP(host="127.0.0.1", port=0), users=users) as broker:
        for name in ("mine", "there"):
            await broker.declare_queue(name)
        if isinstance(method, RestMSJoinCreate):
            await broker.declare_sink("prices", SinkKind.TOPIC)
        before = resources(broker)
        client = dial(endpoint_of(broker), login=plain("null", "null"))
        await client.connect()
        await client.open_channel()
        await client.say(1, method)
        await client.say(1, QueueDeclare("behind", exclusive=True))
        await client.next()
        assert resources(broker) == before
