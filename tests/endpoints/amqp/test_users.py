"""What becomes of connections when users change, expire, or have as much as they may."""

import logging
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
import trio
import trio.lowlevel

from endpoints.client import Client
from endpoints.conftest import dial, endpoint_of, open_client
from triomq.app import Broker, User, open_broker
from triomq.endpoints import AMQP
from triomq.protocols.amqp import (
    ChannelOpen,
    Closed,
    ConnectionUpdateSecret,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    ServerStarted,
    plain,
)
from triomq.security import ALL, Permission, UserLimits, make_verifier
from triomq.security.verifiers import LEAST_ITERATIONS

ADA = User("ada", permissions={"default": ALL})


@pytest.fixture
async def broker(virtual_time: None) -> AsyncIterator[Broker]:
    async with open_broker(AMQP(host="127.0.0.1", port=0), users={"ada": ADA, "boss": "boss"}) as broker:
        yield broker


async def enter(broker: Broker, name: str = "ada", password: str = "") -> Client:
    client = await open_client(endpoint_of(broker), login=plain(name, password or name))
    return client


async def refused(broker: Broker, name: str = "ada", password: str = "") -> tuple[int, str]:
    client = dial(endpoint_of(broker), login=plain(name, password or name))
    await client.flush()
    while not isinstance(event := await client.next(), Closed):
        assert isinstance(event, ServerStarted), event
    return event.code, event.text


def other(**changes: object) -> User:
    return User(**{"password": "ada", "permissions": {"default": ALL}, **changes})  # type: ignore[arg-type]


# Changes


async def test_user_that_is_removed_is_closed_with_rabbitmqs_words(broker: Broker) -> None:
    client, boss = await enter(broker), await enter(broker, "boss")
    broker.remove_user("ada")
    assert await client.closed() == (320, "CONNECTION_FORCED - user 'ada' was deleted")
    await boss.declare("q")
    assert (await refused(broker))[0] == 403


async def test_user_that_gets_another_password_has_to_log_in_again(broker: Broker) -> None:
    client = await enter(broker)
    broker.put_user("ada", other(password="new"))
    assert await client.closed() == (320, "CONNECTION_FORCED - password of user 'ada' was changed")
    await enter(broker, "ada", "new")


async def test_user_that_may_less_has_to_log_in_again(broker: Broker) -> None:
    client = await enter(broker)
    broker.put_user("ada", other(permissions={"default": Permission(".*", ".*", "^mine")}))
    assert await client.closed() == (320, "CONNECTION_FORCED - permissions of user 'ada' were changed")


async def test_user_that_may_more_goes_on_and_may_at_once(broker: Broker) -> None:
    broker.put_user("ada", other(permissions={"default": Permission("", "", "")}))
    client = await enter(broker)
    await client.say(1, QueueDeclare("q"))
    assert (await client.channel_closed())[0] == 403
    broker.put_user("ada", ADA)
    await client.open_channel()
    await client.declare("q")


# Expiry


async def test_user_whose_time_is_over_is_closed_then(broker: Broker) -> None:
    broker.put_user("ada", other(expires=_in(30)))
    client, boss = await enter(broker), await enter(broker, "boss")
    before = trio.current_time()
    assert await client.closed() == (320, "CONNECTION_FORCED - user 'ada' has expired")
    assert 29 <= trio.current_time() - before <= 31
    await boss.declare("q")


async def test_user_that_has_expired_does_not_log_in(broker: Broker) -> None:
    broker.put_user("ada", other(expires=_in(-1)))
    assert (await refused(broker))[0] == 403


async def test_more_time_is_given_and_taken_while_a_client_is_there(broker: Broker) -> None:
    broker.put_user("ada", other(expires=_in(30)))
    client = await enter(broker)
    broker.put_user("ada", other(expires=_in(100)))
    await trio.sleep(60)
    await client.declare("q")
    broker.put_user("ada", other(expires=_in(5)))
    before = trio.current_time()
    assert (await client.closed())[0] == 320
    assert trio.current_time() - before <= 6


async def test_without_expiry_any_new_secret_is_fine_as_with_rabbitmq(broker: Broker) -> None:
    client = await enter(broker)
    await client.call(0, ConnectionUpdateSecret(b"whatever", "why not"))


async def test_new_secret_of_a_user_that_expires_must_be_right(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.put_user("ada", other(expires=_in(50)))
    client = await enter(broker)
    await client.call(0, ConnectionUpdateSecret(b"ada", "renewal"))
    await client.declare("q")
    await client.say(0, ConnectionUpdateSecret(b"hunter2", "renewal"))
    assert await client.closed() == (530, "NOT_ALLOWED - New secret was refused by one of the backends")
    assert "hunter2" not in caplog.text


# Limits


async def test_connections_are_limited_with_rabbitmqs_words(broker: Broker) -> None:
    broker.put_user("ada", other(limits=UserLimits(connections=1)))
    client = await enter(broker)
    reason = "connection refused for user 'ada': user connection limit (1) is reached"
    assert await refused(broker) == (530, f"NOT_ALLOWED - {reason}")
    await enter(broker, "boss")
    await client.leave()
    await enter(broker)


async def test_channels_are_limited_over_all_connections_with_rabbitmqs_words(broker: Broker) -> None:
    broker.put_user("ada", other(limits=UserLimits(channels=2)))
    first, second = await enter(broker), await enter(broker)
    await first.hang_up()
    await trio.sleep(3)
    await second.open_channel(2)
    await second.say(3, ChannelOpen())
    most = "the maximum allowed user limit of (2)"
    assert await second.closed() == (
        530,
        f"NOT_ALLOWED - number of channels opened for user 'ada' has reached {most}",
    )


async def test_queues_are_limited_as_long_as_they_exist(broker: Broker) -> None:
    broker.put_user("ada", other(limits=UserLimits(queues=1)))
    client = await enter(broker)
    await client.declare("one")
    await client.declare("one")
    await client.say(1, QueueDeclare("two"))
    text = "cannot declare queue 'two': queue limit of user 'ada' (1) is reached"
    assert await client.channel_closed() == (406, f"PRECONDITION_FAILED - {text}")
    await client.open_channel()
    await client.call(1, QueueDelete("one"))
    await client.declare("two", exclusive=True)
    await client.leave()
    again = await enter(broker)
    await again.declare("three")


async def test_bindings_are_limited_as_long_as_they_exist(broker: Broker) -> None:
    broker.put_user("ada", other(limits=UserLimits(bindings=1)))
    client = await enter(broker)
    await client.declare("q")
    await client.call(1, QueueBind("q", "amq.topic", "one"))
    await client.call(1, QueueBind("q", "amq.topic", "one"))
    await client.say(1, QueueBind("q", "amq.topic", "two"))
    text = "cannot bind 'q' to sink 'amq.topic': binding limit of user 'ada' (1) is reached"
    assert await client.channel_closed() == (406, f"PRECONDITION_FAILED - {text}")


async def test_unlimited_is_a_choice_and_a_user_has_limits_by_default(broker: Broker) -> None:
    quotas = broker.context.quotas
    assert (quotas.limit("ada", "queues"), quotas.limit("boss", "connections")) == (100_000, 10_000)
    broker.put_user("ada", other(limits=UserLimits(queues="unlimited", channels=7)))
    assert (quotas.limit("ada", "queues"), quotas.limit("ada", "channels")) == (None, 7)
    assert quotas.limit("ada", "connections") == 10_000
    assert quotas.limit("nobody", "queues") == 0


# Failed log-ins


async def test_user_that_fails_too_often_is_not_judged_for_a_while_and_that_is_logged_once(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(25):
        assert (await refused(broker, "ada", "wrong"))[0] == 403
    assert (await refused(broker))[0] == 403  # the right password
    ignored = [record for record in caplog.records if record.getMessage() == "too many failed logins"]
    assert [record.fields["ignored"] for record in ignored] == ["address memory"]  # type: ignore[attr-defined]
    assert len([record for record in caplog.records if record.getMessage() == "login refused"]) <= 22
    await trio.sleep(2)
    await enter(broker)


async def test_user_that_has_logged_in_from_there_is_let_in_while_a_neighbour_fails_all_the_time(
    broker: Broker,
) -> None:
    await (await enter(broker, "boss")).leave()
    for _ in range(14):
        for _ in range(3):
            assert (await refused(broker, "ada", "wrong"))[0] == 403
        await (await enter(broker, "boss")).leave()


async def test_refusals_without_a_judgement_are_logged_once_a_minute(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(20):
        await refused(broker, "ada", "wrong")
    for _ in range(5):
        assert (await refused(broker))[0] == 403
    unheard = [record for record in caplog.records if record.getMessage() == "login refused unheard"]
    assert [(record.levelno, record.fields["user"]) for record in unheard] == [(logging.WARNING, "ada")]  # type: ignore[attr-defined]


# Passwords that are worked out


async def test_password_with_a_verifier_is_worked_out_by_a_thread(caplog: pytest.LogCaptureFixture) -> None:
    verifier = str(make_verifier(b"secret", iterations=LEAST_ITERATIONS))
    caplog.set_level(logging.DEBUG)
    async with open_broker(AMQP(host="127.0.0.1", port=0), users={"eve": User(verifiers=(verifier,))}) as broker:
        for _ in range(2):
            await (await enter(broker, "eve", "secret")).declare("q")
        assert (await refused(broker, "eve", "wrong"))[0] == 403
        assert (await refused(broker, "nobody", "wrong"))[0] == 403


async def test_user_that_is_removed_while_the_password_is_worked_out_is_refused() -> None:
    verifier = str(make_verifier(b"secret", iterations=500_000))
    async with open_broker(AMQP(host="127.0.0.1", port=0), users={"eve": User(verifiers=(verifier,))}) as broker:
        client = dial(endpoint_of(broker), login=plain("eve", "secret"))
        await client.flush()
        await client.expect(ServerStarted)
        await client.flush()
        with trio.fail_after(60):
            while not broker.context.password_limiter.borrowed_tokens:
                await trio.lowlevel.checkpoint()
        broker.set_users({"ada": "ada"})
        assert (await client.closed())[0] == 403


async def test_user_that_leaves_meanwhile_is_no_trouble() -> None:
    verifier = str(make_verifier(b"secret", iterations=500_000))
    async with open_broker(AMQP(host="127.0.0.1", port=0), users={"eve": User(verifiers=(verifier,))}) as broker:
        hasty = [dial(endpoint_of(broker), login=plain("eve", "secret")) for _ in range(5)]
        for client in hasty:
            await client.flush()
            await client.expect(ServerStarted)
            await client.flush()
        for client in hasty:
            await client.hang_up()
        await (await enter(broker, "eve", "secret")).declare("q")


def _in(seconds: float) -> datetime:
    return datetime.fromtimestamp(time.time() + seconds, UTC)
