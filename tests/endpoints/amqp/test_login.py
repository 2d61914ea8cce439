"""Logging in by mechanisms that take one step, two, or as many as they like."""

import logging
from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing
from scramp import ScramClient

from endpoints.client import Client
from endpoints.conftest import dial, endpoint_of
from triomq.actors import ChildSpec
from triomq.app import Broker, User, open_broker
from triomq.endpoints import AMQP, AMQPEndpoint, BrokerContext
from triomq.protocols.amqp import (
    ChallengeReceived,
    Connected,
    ConnectionUpdateSecret,
    EndOfStream,
    Login,
    ServerStarted,
)
from triomq.security import Accepted, Challenge, Denied, Step, Users, make_verifier
from triomq.security.verifiers import LEAST_ITERATIONS


class CountingDown:
    """A mechanism of as many steps as the client says: it is asked for one number less each time, down to nought."""

    def __init__(self, users: Users) -> None:
        self.expected = 0

    def first(self, response: bytes) -> Step:
        self.expected = int(response)
        return self.ask()

    def next(self, response: bytes) -> Step:
        return self.ask() if response == b"%d" % self.expected else Denied("counter")

    def ask(self) -> Step:
        if not self.expected:
            return Accepted("counter")
        self.expected -= 1
        return Challenge(b"what is below %d?" % (self.expected + 1))


class CountingAMQP(AMQP, frozen=True):
    """A listener with that mechanism alone."""

    def make(self, harness: BrokerContext) -> AMQPEndpoint:
        return AMQPEndpoint(self, harness, mechanisms={"COUNTDOWN": CountingDown})


@pytest.fixture
async def counting(virtual_time: None) -> AsyncIterator[AMQPEndpoint]:
    async with open_broker() as broker:
        broker.context.users.add("counter", "counts")
        config = CountingAMQP(host="127.0.0.1", port=0)
        ref = await broker.endpoints.start_child(ChildSpec(lambda: config.make(broker.context), name="counting"))
        assert isinstance(ref.actor, AMQPEndpoint)
        yield ref.actor


async def start(endpoint: AMQPEndpoint, login: Login, **wishes: object) -> Client:
    client = dial(endpoint, login=login, **wishes)
    await client.flush()
    await client.expect(ServerStarted)
    return client


@pytest.mark.parametrize("rounds", [0, 1, 2, 7])
async def test_mechanism_may_ask_any_number_of_times(counting: AMQPEndpoint, rounds: int) -> None:
    client = await start(counting, Login("COUNTDOWN", b"%d" % rounds))
    for below in range(rounds, 0, -1):
        assert await client.expect(ChallengeReceived) == ChallengeReceived(b"what is below %d?" % below)
        client.engine.answer_challenge(b"%d" % (below - 1))
        await client.flush()
    await client.expect(Connected)
    await client.open_channel()


async def test_wrong_answer_in_a_later_step_is_refused_like_one_in_the_first(
    counting: AMQPEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    client = await start(counting, Login("COUNTDOWN", b"2"))
    await client.expect(ChallengeReceived)
    client.engine.answer_challenge(b"5")
    await client.flush()
    code, text = await client.closed()
    assert (code, text.split(" - ")[0]) == (403, "ACCESS_REFUSED")
    assert "using authentication mechanism COUNTDOWN" in text
    (refused,) = [record for record in caplog.records if record.getMessage() == "login refused"]
    assert refused.levelname == "WARNING"
    assert refused.fields["user"] == "counter"
    assert refused.fields["peer"] == "memory"


async def test_only_the_mechanisms_that_there_are_are_offered(counting: AMQPEndpoint) -> None:
    client = dial(counting, login=Login("PLAIN", b"\0guest\0guest"))
    await client.flush()
    assert (await client.expect(ServerStarted)).mechanisms == ("COUNTDOWN",)
    assert (await client.closed())[0] == 403


async def test_client_that_waits_to_be_asked_for_plain_is_asked(endpoint: AMQPEndpoint) -> None:
    client = await start(endpoint, Login("PLAIN", b""))
    assert await client.expect(ChallengeReceived) == ChallengeReceived(b"")
    client.engine.answer_challenge(b"\0guest\0guest")
    await client.flush()
    await client.expect(Connected)


@pytest.mark.parametrize("answer", [b"\0guest\0wrong", b""])
async def test_client_that_answers_wrongly_then_is_refused(endpoint: AMQPEndpoint, answer: bytes) -> None:
    client = await start(endpoint, Login("PLAIN", b""))
    await client.expect(ChallengeReceived)
    client.engine.answer_challenge(answer)
    await client.flush()
    assert (await client.closed())[0] == 403


async def test_client_that_never_answers_has_ten_seconds_in_all(endpoint: AMQPEndpoint) -> None:
    before = trio.current_time()
    client = await start(endpoint, Login("PLAIN", b""), client_properties={})
    await client.expect(ChallengeReceived)
    while not isinstance(await client.next(), EndOfStream):
        pass
    assert 10 <= trio.current_time() - before < 18


async def test_new_secret_is_logged_and_changes_nothing(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "triomq.amqp"):
        await client.call(0, ConnectionUpdateSecret(b"hunter2", "expired"))
    (renewed,) = [record for record in caplog.records if record.getMessage() == "secret renewed"]
    assert (renewed.fields["user"], renewed.fields["reason"]) == ("guest", "expired")
    assert "hunter2" not in str(renewed.__dict__)
    await client.open_channel(2)


# SCRAM and what is offered

VERIFIER = str(make_verifier(b"secret", iterations=LEAST_ITERATIONS))


@pytest.mark.parametrize(("password", "right"), [("secret", True), ("wrong", False)])
async def test_scram_proves_both_sides_to_each_other(broker: Broker, password: str, right: bool) -> None:
    broker.set_users({"eve": User(verifiers=(VERIFIER,))})
    scram = ScramClient(["SCRAM-SHA-256"], "eve", password)
    client = await start(endpoint_of(broker), Login("SCRAM-SHA-256", scram.get_client_first().encode()))
    scram.set_server_first((await client.expect(ChallengeReceived)).challenge.decode())
    client.engine.answer_challenge(scram.get_client_final().encode())
    await client.flush()
    if not right:
        assert (await client.closed())[0] == 403
        return
    scram.set_server_final((await client.expect(ChallengeReceived)).challenge.decode())
    client.engine.answer_challenge(b"")
    await client.flush()
    await client.expect(Connected)
    await client.open_channel()


async def test_secret_mechanisms_are_offered_before_plain_ones(endpoint: AMQPEndpoint) -> None:
    client = dial(endpoint)
    await client.flush()
    started = await client.expect(ServerStarted)
    assert started.mechanisms == ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "AMQPLAIN")


@pytest.mark.parametrize(
    ("peer", "allowed", "offered"),
    [
        ("10.0.0.1:99", True, True),
        ("10.0.0.1:99", False, False),
        ("127.0.0.1:99", False, True),
        ("[::1]:99", False, True),
        ("[2001:db8::1]:99", False, False),
        ("local", False, True),
    ],
)
async def test_plain_may_be_disallowed_where_others_can_listen(
    virtual_time: None, peer: str, allowed: bool, offered: bool
) -> None:
    async with open_broker(AMQP(host="127.0.0.1", port=0, allow_plain_insecure=allowed)) as broker:
        ours, theirs = trio.testing.memory_stream_pair()
        endpoint_of(broker).listener.connect_stream(theirs, peer)
        client = Client(ours)
        await client.flush()
        mechanisms = (await client.expect(ServerStarted)).mechanisms
        assert ("PLAIN" in mechanisms, "AMQPLAIN" in mechanisms) == (offered, offered)
        assert "SCRAM-SHA-256" in mechanisms
