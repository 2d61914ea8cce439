"""What every endpoint owes the user whom something belongs to: no other user gets at it, whichever door it comes by.

Ada has a pipe of RestMS, an exclusive queue, a queue for direct replies, and a subscription of MicroMsg2 that is kept.
Eve has all rights, and knows the names. She may send there; for the rest she is told what she would be told of a name
that is none, or that somebody else has for itself.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import pytest
import trio
import trio.testing

from endpoints.conftest import endpoint_of, open_client, run_in_virtual_time, run_with_jumps
from endpoints.contract import Party, Sent
from endpoints.micromsg.client import MicroMsgPeer, listening, logging_in, micromsg_endpoint
from endpoints.mtl.raw import RawControl
from endpoints.parties import CONSUMERS, PUBLISHERS
from endpoints.restms.caller import DOMAIN, Caller, path_of
from endpoints.tap.client import TapParty, tap_endpoint
from triomq.actors import ChildSpec
from triomq.app import Broker, User, open_broker
from triomq.core import Bind, DeclareQueue, QueueOptions, Session, Target, make_binding
from triomq.endpoints import AMQP, MTL, Tap
from triomq.endpoints.mtl.endpoint import MTLEndpoint
from triomq.endpoints.restms.config import RestMS
from triomq.protocols.amqp import (
    BasicConsume,
    BasicGet,
    ChannelClosed,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    Received,
    plain,
)
from triomq.protocols.tap import GroupPosition, RequestRefused
from triomq.security import ALL

USERS = {name: User(password=name, permissions={"*": ALL}) for name in ("ada", "eve", "guest")}
REPLY_TO: Final = "amq.rabbitmq.reply-to"

Owned = Callable[[Broker, trio.Nursery], Awaitable[str]]
"""Makes something for Ada, and returns the name of its queue."""


async def start(broker: Broker, config: RestMS | MTL | Tap, name: str) -> None:
    if name not in broker.endpoints.children:
        await broker.endpoints.start_child(ChildSpec(lambda: config.make(broker.context), name=name))


async def own_pipe(broker: Broker, nursery: trio.Nursery) -> str:
    await start(broker, RestMS(host="127.0.0.1", port=0), "restms")
    reply = await Caller(broker, "ada").post(DOMAIN, "<pipe/>")
    return path_of(reply.headers["location"]).rpartition("/")[2]


async def own_exclusive(broker: Broker, nursery: trio.Nursery) -> str:
    client = await open_client(endpoint_of(broker), login=plain("ada", "ada"))
    await client.call(1, QueueDeclare("its-own", exclusive=True))
    return "its-own"


async def own_replies(broker: Broker, nursery: trio.Nursery) -> str:
    client = await open_client(endpoint_of(broker), login=plain("ada", "ada"))
    await client.call(1, BasicConsume(REPLY_TO, no_ack=True))
    return next(name for name in broker.directory.queues if name.startswith(REPLY_TO))


async def own_subscription(broker: Broker, nursery: trio.Nursery) -> str:
    config = listening(user="", dynamic_topics=True)
    await broker.endpoints.start_child(ChildSpec(lambda: config.make(broker.context), name="kept"))
    ours, theirs = trio.testing.memory_stream_pair()
    micromsg_endpoint(broker).listener.connect_stream(theirs, "memory")
    peer = await MicroMsgPeer(ours, logging_in("ada-1")).open("ada")
    assert await peer.subscribe("topic/news") == 200
    name = next(name for name in broker.directory.queues if name.startswith("micromsg.subscription"))
    await peer.hang_up()  # from now on it is kept
    return name


OWNED: Mapping[str, Owned] = {
    "pipe": own_pipe,
    "exclusive queue": own_exclusive,
    "reply queue": own_replies,
    "kept subscription": own_subscription,
}


def held(broker: Broker, name: str) -> int:
    """Count the messages of a queue, with those that its user has and has not settled."""
    backlog = broker.directory.queues[name].backlog
    return backlog.ready + backlog.unsettled


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[Broker, trio.Nursery]]:
    config = AMQP(host="127.0.0.1", port=0)
    async with open_broker(config, users=USERS, drain=0.1) as broker, trio.open_nursery() as nursery:
        yield broker, nursery
        nursery.cancel_scope.cancel()


@pytest.fixture
def time_of_door(request: pytest.FixtureRequest, door: str) -> None:
    """Let time be virtual, or at least jump."""
    parties: dict[str, type[Party]] = {**CONSUMERS, **PUBLISHERS}
    run = run_with_jumps if parties[door].has_threads else run_in_virtual_time
    request.node.add_marker(pytest.mark.trio(run=run), append=False)


@pytest.mark.usefixtures("time_of_door")
@pytest.mark.parametrize("owned", OWNED)
@pytest.mark.parametrize("door", [door for door, kind in CONSUMERS.items() if kind.has_users])
async def test_other_user_reads_nothing(door: str, owned: str) -> None:
    async with opened() as (broker, nursery):
        name = await OWNED[owned](broker, nursery)
        party = CONSUMERS[door](broker, nursery, "eve")
        try:
            await party.open(name)
        except AssertionError:  # it was told that it may not
            party.ended = True
        queue = broker.directory.queues[name]
        before = len(queue.feeds or ())
        await broker.publish("", name, b"for ada")
        await party.settled()
        assert party.got == []
        assert party.ended or party.cancelled
        assert broker.directory.queues[name] is queue
        assert len(queue.feeds or ()) == before
        if not before:
            assert held(broker, name) == 1


@pytest.mark.usefixtures("time_of_door")
@pytest.mark.parametrize(
    "door", [door for door, kind in PUBLISHERS.items() if kind.has_users and kind.names_sinks and kind.persists]
)
async def test_other_user_may_send_to_a_pipe(door: str) -> None:
    async with opened() as (broker, nursery):
        name = await own_pipe(broker, nursery)
        party = PUBLISHERS[door](broker, nursery, "eve")
        if door == "mtl":
            pytest.skip("this party writes to one queue")
        await party.open()
        await party.publish(Sent(b"x"), key=name)
        await party.settled()
        await party.told(1)
        await party.settled()
        assert held(broker, name) == 1


# All other requests that name a queue. A pipe is answered like what is not there, the others like what is locked.

AMQP_REQUESTS: Mapping[str, Callable[[str], Method]] = {
    "declare passively": lambda name: QueueDeclare(name, passive=True),
    "consume": BasicConsume,
    "get": BasicGet,
    "bind": lambda name: QueueBind(name, "amq.fanout"),
    "unbind": lambda name: QueueUnbind(name, "amq.fanout"),
    "purge": QueuePurge,
    "delete": QueueDelete,
}


async def amqp_answer(broker: Broker, method: Method) -> tuple[object, ...]:
    client = await open_client(endpoint_of(broker), login=plain("eve", "eve"))
    await client.say(1, method)
    event = await client.next()
    if isinstance(event, ChannelClosed):
        return event.code, event.text
    assert isinstance(event, Received)
    return type(event.method), getattr(event.method, "message_count", 0)


@pytest.mark.usefixtures("virtual_time")
@pytest.mark.parametrize("request_", AMQP_REQUESTS)
async def test_pipe_of_another_user_is_answered_over_amqp_like_no_queue(request_: str) -> None:
    async with opened() as (broker, nursery):
        name = await own_pipe(broker, nursery)
        binding = make_binding("amq.fanout", Target.QUEUE, name, "")
        owner = Session(broker.domain_ref, broker.directory, user="ada")
        broker.domain_ref.ask_nowait(Bind(binding, owner))
        await broker.publish("", name, b"for ada")
        make = AMQP_REQUESTS[request_]
        answer, other = await amqp_answer(broker, make(name)), await amqp_answer(broker, make("x" * len(name)))
        assert repr(answer) == repr(other).replace("x" * len(name), name)
        queue = broker.directory.queues[name]
        assert (held(broker, name), len(queue.bound or ())) == (1, 1)


@pytest.mark.usefixtures("virtual_time")
@pytest.mark.parametrize("request_", [name for name in AMQP_REQUESTS if name != "unbind"])
@pytest.mark.parametrize("owned", ["exclusive queue", "kept subscription"])
async def test_queue_of_another_session_is_locked_over_amqp(owned: str, request_: str) -> None:
    async with opened() as (broker, nursery):
        name = await OWNED[owned](broker, nursery)
        code, _ = await amqp_answer(broker, AMQP_REQUESTS[request_](name))
        assert code == 405
        assert name in broker.directory.queues


@pytest.mark.usefixtures("virtual_time")
async def test_name_of_a_pipe_cannot_be_declared_by_another_user() -> None:
    async with opened() as (broker, nursery):
        name = await own_pipe(broker, nursery)
        code, _ = await amqp_answer(broker, QueueDeclare(name))
        assert code == 405


async def _control(broker: Broker, profile: str) -> RawControl:
    await start(broker, MTL(port=0), "mtl")
    endpoint = broker.endpoints.children["mtl"].actor
    assert isinstance(endpoint, MTLEndpoint)
    return await RawControl(endpoint.control.port).work_with(profile, "eve")


@pytest.mark.usefixtures("jumping_time")
async def test_pipe_of_another_user_is_answered_over_mtl_like_no_queue() -> None:
    async with opened() as (broker, nursery):
        name = await own_pipe(broker, nursery)
        await broker.publish("", name, b"for ada")
        control = await _control(broker, "queue")
        for command in ("Queue.Stats", "Queue.Purge", "Queue.Delete"):
            reply, other = await control.ask(command, name=name), await control.ask(command, name="none")
            assert repr(reply) == repr(other).replace("none", name), command
        reply = await control.ask("Connection.Reader", resources=[name])
        other = await control.ask("Connection.Reader", resources=["none"])
        assert reply.code == other.code
        assert (await control.done("Queue.List"))["queues"] == []
        assert held(broker, name) == 1
        await control.close()


@pytest.mark.usefixtures("jumping_time")
async def test_lease_of_another_session_is_none_over_mtl() -> None:
    async with opened() as (broker, nursery):
        name = await own_exclusive(broker, nursery)
        control = await _control(broker, "queue")
        for command in ("Queue.Stats", "Queue.Purge", "Queue.Delete"):
            assert (await control.ask(command, name=name)).code in (403, 409), command
        assert name in broker.directory.queues
        await control.close()


async def _tap(broker: Broker, user: str) -> TapParty:
    await start(broker, Tap(host="127.0.0.1", port=0), "tap")
    ours, theirs = trio.testing.memory_stream_pair()
    tap_endpoint(broker).listener.connect_stream(theirs, "memory")
    return await TapParty(ours, user).open()


@pytest.mark.usefixtures("virtual_time")
async def test_pipe_of_another_user_is_answered_over_tap_like_no_queue() -> None:
    async with opened() as (broker, nursery):
        name = await own_pipe(broker, nursery)
        await broker.publish("", name, b"for ada")
        eve = await _tap(broker, "eve")
        answers = []
        for queue in (name, "none"):
            for number in (
                eve.engine.lease(queue, "g", 10, 1000),
                eve.engine.offsets(queue, "g"),
                eve.engine.offsets(queue, ""),
                eve.engine.fetch(queue, 0, None, 0, most_bytes=1000, group="g"),
                eve.engine.ack(queue, "g", {0: GroupPosition(None, 0)}),
            ):
                answer = await eve.ask(number)
                assert isinstance(answer, RequestRefused)
                answers.append((answer.code, answer.text.replace(queue, "none")))
        assert answers[:5] == answers[5:]
        assert held(broker, name) == 1


@pytest.mark.usefixtures("virtual_time")
async def test_what_a_user_has_leased_over_tap_is_nothing_for_another_user() -> None:
    async with opened() as (broker, _):
        await broker.declare_queue("shared", durable=False)
        await broker.publish("", "shared", b"x")
        ada, eve = await _tap(broker, "ada"), await _tap(broker, "eve")
        leased = await ada.ask(ada.engine.lease("shared", "g", 10, 1000))
        assert leased.bounds.next == 1
        for number in (
            eve.engine.offsets("shared", "g"),
            eve.engine.fetch("shared", 0, None, 0, most_bytes=1000, group="g"),
            eve.engine.ack("shared", "g", {0: GroupPosition(None, 1)}),
        ):
            assert isinstance(await eve.ask(number), RequestRefused)
        empty = await eve.ask(eve.engine.lease("shared", "g", 10, 1000))
        assert empty.bounds.next == 0
        (bounds,) = await ada.bounds("shared", "g")
        assert (bounds.first, bounds.next) == (0, 1)


@pytest.mark.usefixtures("virtual_time")
async def test_program_and_its_user_get_at_a_private_queue() -> None:
    async with opened() as (broker, _):
        owner = Session(broker.domain_ref, broker.directory, user="ada")
        broker.domain_ref.ask_nowait(DeclareQueue("hers", QueueOptions(private=True), owner))
        await broker.publish("", "hers", b"1")
        client = await open_client(endpoint_of(broker), login=plain("ada", "ada"))
        assert (await client.get("hers", no_ack=True)).body == b"1"
        await broker.publish("", "hers", b"2")
        delivery = await broker.queue("hers").get()
        assert delivery is not None
