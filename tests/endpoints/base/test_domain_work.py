"""What a client may do in a domain, asked of one without a socket: rights, routes, receipts, and how all of it ends."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
import trio.testing

from endpoints.conftest import crash
from triomq.actors import ChildSpec, Request
from triomq.app import Broker, User, open_broker
from triomq.core import (
    Batch,
    Bind,
    DeclareQueue,
    DeclareSink,
    DeleteQueue,
    DeleteSink,
    Enlist,
    Forbidden,
    Get,
    Pressure,
    Properties,
    PublishingPaused,
    Purge,
    QueueOptions,
    Restarting,
    SinkKind,
    SinkOptions,
    Subscription,
    Target,
    Unbind,
    UserLimitReached,
    make_binding,
)
from triomq.endpoints import Client, ClientEnded, Endpoint
from triomq.errors import AccessRefused, LimitExceeded, NoSuchQueue, NotFound, Refused
from triomq.security import ALL, Permission, UserLimits

USERS = {
    "ada": User(password="ada", permissions={"*": ALL}),
    "eve": User(password="eve", permissions={"default": Permission("^mine", "^mine", "^mine")}),
    "bob": User(password="bob", permissions={"other": ALL}),
    "one": User(password="one", permissions={"*": ALL}, limits=UserLimits(connections=1)),
}


class Quiet(Client):
    """A client that remembers what comes."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.batches: list[Batch] = []
        self.over: list[str] = []

    def delivered(self, subscription: Subscription, batch: Batch) -> None:
        self.unsettled.enter(batch)
        self.batches.append(batch)

    def cancelled(self, subscription: Subscription, reason: str) -> None:
        self.over.append(reason)


@pytest.fixture
async def broker(virtual_time: None) -> AsyncIterator[Broker]:
    async with open_broker(users=USERS) as broker:
        await broker.endpoints.start_child(ChildSpec(lambda: Endpoint(broker.context), name="quiet"))
        yield broker


def client_of(broker: Broker, user: str = "") -> Quiet:
    endpoint = broker.endpoints.children["quiet"].actor
    assert isinstance(endpoint, Endpoint)
    client = Quiet(broker.context, "nowhere")
    endpoint.serve(client)
    if user:
        client.enter(user, "default")
    return client


def in_turn(client: Client, function: Any, *args: Any) -> Any:
    """Call something as a handler of the client's would, and return what it returns or raise what it raises."""
    return client.turn(function, *args)


# Into a domain


@pytest.mark.parametrize(
    ("user", "domain", "error"),
    [
        ("ada", "elsewhere", NotFound),
        ("bob", "default", AccessRefused),
        ("nobody", "default", AccessRefused),
        ("eve", "elsewhere", NotFound),
    ],
)
async def test_client_that_may_not_enter_is_refused_and_counts_nowhere(
    broker: Broker, user: str, domain: str, error: type[Refused]
) -> None:
    client = client_of(broker)
    with pytest.raises(error):
        client.enter(user, domain)
    assert (client.entered, client.statistics(), client.user) == (False, None, "")
    assert broker.context.quotas.count(user, "connections") == 0


async def test_client_above_the_limit_is_refused_until_another_one_leaves(broker: Broker) -> None:
    first, second = client_of(broker, "one"), client_of(broker)
    with pytest.raises(UserLimitReached):
        second.enter("one", "default")
    first.leave()
    first.leave()
    second.enter("one", "default")
    assert broker.context.quotas.count("one", "connections") == 1


async def test_clients_of_one_session_live_in_it_until_the_last_has_left(broker: Broker) -> None:
    first, second = client_of(broker, "ada"), client_of(broker)
    second.join(first.session, first.directory, "of the first")
    first.ask(first.domain, DeclareQueue("q", QueueOptions(durable=False, exclusive=True), first.session))
    await broker.declare_queue("shared", durable=False)
    in_turn(first, first.subscribe, "shared")
    first.leave()
    assert "q" in broker.directory.queues
    assert (await broker.queue("shared").statistics()).feeds == 0
    second.leave()
    await trio.testing.wait_all_tasks_blocked()
    assert "q" not in broker.directory.queues


# Rights

TRANSIENT = QueueOptions(durable=False)


def binding(source: str, destination: str) -> Any:
    return make_binding(source, Target.QUEUE, destination, "k", {})


REQUESTS = {
    "declare a queue": lambda session, name: DeclareQueue(name, TRANSIENT, session),
    "declare a queue with dead letters": lambda session, name: DeclareQueue(
        "mine2", QueueOptions(durable=False, dead_letter_sink=name), session
    ),
    "declare a sink": lambda session, name: DeclareSink(name, SinkOptions(kind=SinkKind.FANOUT), session),
    "declare a sink with an alternate": lambda session, name: DeclareSink(
        "mine3", SinkOptions(kind=SinkKind.FANOUT, alternate=name), session
    ),
    "delete a queue": lambda session, name: DeleteQueue(name, session),
    "delete a sink": lambda session, name: DeleteSink(name, session=session),
    "bind from a sink": lambda session, name: Bind(binding(name, "mine"), session),
    "bind a queue": lambda session, name: Bind(binding("mine", name), session),
    "unbind a queue": lambda session, name: Unbind(binding("mine", name), session),
}


@pytest.mark.parametrize("what", REQUESTS)
async def test_request_needs_the_rights_that_rabbitmq_asks_for(broker: Broker, what: str) -> None:
    client = client_of(broker, "eve")
    with pytest.raises(AccessRefused, match=r"user 'eve' has no right to (configure|read|write) 'other'"):
        client.ask(client.domain, REQUESTS[what](client.session, "other"))
    try:
        client.ask(client.domain, REQUESTS[what](client.session, "mine"))
    except NotFound:  # which is no matter of rights
        pass


@pytest.mark.parametrize("request_", [Get(), Purge()])
async def test_messages_of_a_queue_are_read_with_the_right_to_read_it(broker: Broker, request_: Request[Any]) -> None:
    client = client_of(broker, "eve")
    for name in ("mine", "other"):
        await broker.declare_queue(name, durable=False)
    client.ask(broker.directory.queues["mine"].ref, request_)
    with pytest.raises(AccessRefused, match="no right to read 'other'"):
        client.ask(broker.directory.queues["other"].ref, request_)


async def test_request_whose_rights_are_unknown_is_not_sent(broker: Broker) -> None:
    client = client_of(broker, "ada")
    await broker.declare_queue("q")
    with pytest.raises(TypeError, match="no row for Enlist"):
        client.ask(broker.directory.queues["q"].ref, Enlist())


async def test_queue_that_is_being_restarted_is_asked_again_later(broker: Broker) -> None:
    await broker.declare_queue("q", durable=False)
    client, queue = client_of(broker, "ada"), broker.directory.queues["q"]
    crash(broker, "q")
    if queue.ref.state == "running":
        await trio.testing.wait_all_tasks_blocked()
        crash(broker, "q")
    with pytest.raises(Restarting) as refused:
        client.ask(queue.ref, Get())
    with pytest.raises(Restarting):
        client.subscribe("q")
    await refused.value.wait_over()
    assert client.ask(queue.ref, Get()) is None


# Publishing


async def test_publish_returns_to_how_many_queues_it_went_and_follows_bindings(broker: Broker) -> None:
    client = client_of(broker, "ada")
    sink = await broker.declare_sink("s", "fanout", durable=False)
    counts = [in_turn(client, client.publish, "s", "", b"x")]
    for name in ("a", "b"):
        await sink.bind(await broker.declare_queue(name, durable=False))
        counts.append(in_turn(client, client.publish, "s", "", b"x"))
    await broker.queue("a").delete()
    counts.append(in_turn(client, client.publish, "s", "", b"x"))
    assert counts == [0, 1, 2, 1]
    message = await broker.queue("b").get()
    assert message is not None
    assert message.body == b"x"


async def test_publish_needs_the_right_to_write(broker: Broker) -> None:
    client = client_of(broker, "eve")
    with pytest.raises(Forbidden):
        in_turn(client, client.publish, "", "q", b"x")


async def test_publish_refuses_a_key_that_other_protocols_cannot_carry(broker: Broker) -> None:
    client = client_of(broker, "ada")
    with pytest.raises(LimitExceeded, match="takes 256 bytes"):
        in_turn(client, client.publish, "", "é" * 128, b"x")
    assert in_turn(client, client.publish, "", "é" * 127, b"x") == 0


async def test_result_of_a_message_comes_once(broker: Broker) -> None:
    await broker.declare_queue("q", durable=False, max_length=1, overflow="reject-publish")
    client, results = client_of(broker, "ada"), []
    for _ in range(2):
        assert in_turn(client, client.publish, "", "q", b"x", Properties(), results.append) == 1
    assert in_turn(client, client.publish, "", "nowhere", b"x", Properties(), results.append) == 0
    assert results == [True, False]


async def test_error_where_a_result_comes_ends_the_client_and_not_the_queue(broker: Broker) -> None:
    await broker.declare_queue("q", durable=False)
    client = client_of(broker, "ada")

    def fail(placed: bool) -> None:
        raise RuntimeError("a bug")

    in_turn(client, client.publish, "", "q", b"x", Properties(), fail)
    await trio.testing.wait_all_tasks_blocked()
    assert (client.ref.state, broker.directory.queues["q"].ref.epoch) == ("stopped", 1)
    assert broker.context.quotas.count("ada", "connections") == 0


async def test_callback_comes_when_a_pressure_is_over_unless_the_client_has_left(broker: Broker) -> None:
    queue = await broker.declare_queue("q", durable=False)
    await broker.publish("", "q", bytes(1000))
    broker.set_memory_high_watermark(500)
    stays, forgets, leaves = (client_of(broker, "ada") for _ in range(3))
    called: list[Client] = []

    def wait(client: Quiet) -> None:
        with pytest.raises(PublishingPaused) as paused:
            client.publish("", "q", b"x")
        assert paused.value.pressure is Pressure.MEMORY
        client.when_open(paused.value.pressure, callbacks[client])
        client.when_open(paused.value.pressure, callbacks[client])

    callbacks = {client: (lambda client=client: called.append(client)) for client in (stays, forgets, leaves)}
    for client in callbacks:
        in_turn(client, wait, client)
    in_turn(forgets, forgets.forget, callbacks[forgets])
    leaves.leave()
    await queue.purge()
    await trio.sleep(5)
    assert called == [stays]


# Consuming


async def test_messages_that_are_not_settled_go_back_when_the_client_leaves(broker: Broker) -> None:
    queue = await broker.declare_queue("q", durable=False)
    client = client_of(broker, "ada")
    in_turn(client, lambda: client.subscribe("q", messages=2))
    for _ in range(3):
        await broker.publish("", "q", b"x")
    assert sum(batch.left for batch in client.batches) == 2
    client.leave()
    await trio.testing.wait_all_tasks_blocked()
    found = await queue.statistics()
    assert (found.ready, found.unsettled, found.feeds) == (3, 0, 0)
    assert not client.subscriptions


async def test_subscription_that_is_closed_gets_nothing_more_and_leaves_what_is_unsettled(broker: Broker) -> None:
    queue = await broker.declare_queue("q", durable=False)
    client = client_of(broker, "ada")
    subscription = in_turn(client, client.subscribe, "q")
    await broker.publish("", "q", b"1")
    in_turn(client, client.unsubscribe, subscription)
    await broker.publish("", "q", b"2")
    found = await queue.statistics()
    assert (found.ready, found.unsettled) == (1, 1)


async def test_client_learns_that_a_queue_of_its_is_gone(broker: Broker) -> None:
    queue = await broker.declare_queue("q", durable=False)
    client = client_of(broker, "ada")
    in_turn(client, client.subscribe, "q")
    await queue.delete()
    await trio.testing.wait_all_tasks_blocked()
    assert len(client.over) == 1
    assert not client.subscriptions
    with pytest.raises(NoSuchQueue):
        client.subscribe("q")


async def test_consuming_needs_the_right_to_read(broker: Broker) -> None:
    await broker.declare_queue("q", durable=False)
    with pytest.raises(Forbidden):
        client_of(broker, "eve").subscribe("q")


# Tasks that borrow a client


async def test_task_gets_results_and_errors_of_what_it_has_performed_and_ends_nothing(broker: Broker) -> None:
    client = client_of(broker, "ada")
    await broker.declare_queue("q", durable=False)
    assert client.perform(client.publish, "", "q", b"x") == 1
    with pytest.raises(NoSuchQueue):
        client.perform(client.subscribe, "none")
    with pytest.raises(ZeroDivisionError):
        client.perform(divmod, 1, 0)
    assert not client.has_left


async def test_task_performs_nothing_with_a_client_that_has_left(broker: Broker) -> None:
    client = client_of(broker, "ada")
    await broker.declare_queue("q", durable=False)
    client.ending = "enough"
    client.leave()
    with pytest.raises(ClientEnded, match="enough"):
        await client.publish_and_wait("", "q", b"x")
    assert (await broker.queue("q").statistics()).ready == 0


async def test_task_is_told_to_how_many_queues_its_message_went_or_that_one_is_full(broker: Broker) -> None:
    client = client_of(broker, "ada")
    await broker.declare_queue("small", durable=False, max_length=1, overflow="reject-publish")
    assert await client.publish_and_wait("", "none", b"x") == 0
    assert await client.publish_and_wait("", "small", b"x") == 1
    with pytest.raises(LimitExceeded):
        await client.publish_and_wait("", "small", b"x")


async def test_task_waits_for_the_end_of_a_pressure_and_publishes_once_or_gives_up_and_publishes_nothing(
    broker: Broker,
) -> None:
    client = client_of(broker, "ada")
    await broker.declare_queue("q", durable=False)
    await broker.publish("", "q", bytes(20_000))
    broker.set_memory_high_watermark(10_000)
    with pytest.raises(PublishingPaused):
        await client.publish_and_wait("", "q", b"x", patience=5.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.publish_and_wait, "", "q", b"y")
        await trio.testing.wait_all_tasks_blocked()
        assert (await broker.queue("q").statistics()).ready == 1
        broker.set_memory_high_watermark(0)
    assert (await broker.queue("q").statistics()).ready == 2
