"""From one configuration to the next."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from endpoints.client import Client
from triomq import AMQP, Broker, Config, Log, User, open_broker
from triomq.app.policies import PolicyConfig
from triomq.app.reload import change_to, with_fixed_settings
from triomq.core import Policy, PolicyOptions
from triomq.errors import ConfigError

HERE = AMQP(host="127.0.0.1", port=0)


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    root, handlers, ours = logging.getLogger(), logging.getLogger().handlers[:], logging.getLogger("triomq")
    caplog.set_level(logging.INFO, logger="triomq")
    yield caplog
    root.handlers[:] = handlers
    ours.setLevel(logging.NOTSET)


def logged(log: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, object]]]:
    """Give the events since the last look."""
    events = [
        (record.getMessage(), getattr(record, "fields", {}))
        for record in log.records
        if record.name in ("triomq.serve", "triomq.app")
    ]
    log.clear()
    return events


async def knows(broker: Broker, user: str, password: str) -> bool:
    return broker.context.users.check(user, password.encode())


async def test_users_come_change_and_go(log: pytest.LogCaptureFixture, virtual_time: None) -> None:
    old = Config(endpoints=(), users={"ada": User("1"), "bob": User("2")})
    async with open_broker(users=old.all_users()) as broker:
        new = Config(endpoints=(), users={"bob": User("3"), "cleo": User("4")})
        await change_to(broker, old, new)
        assert logged(log) == [
            ("user added", {"user": "cleo"}),
            ("password changed", {"user": "bob"}),
            ("user removed", {"user": "ada"}),
        ]
        assert await knows(broker, "bob", "3")
        await change_to(broker, new, Config(endpoints=()))
        assert await knows(broker, "guest", "guest")


async def test_domains_come_and_stay(log: pytest.LogCaptureFixture, virtual_time: None) -> None:
    old, new = Config(endpoints=()), Config(endpoints=(), domains=("default", "shop"))
    async with open_broker() as broker:
        await change_to(broker, old, new)
        assert logged(log) == [("domain added", {"domain": "shop"})]
        await broker.domain("shop").declare_queue("q")
        await change_to(broker, new, old)
        assert logged(log) == [("domain stays until a restart", {"domain": "shop"})]
        broker.domain("shop").queue("q")


async def test_endpoints_come_and_go_and_others_are_not_touched(log: pytest.LogCaptureFixture) -> None:
    old = Config(endpoints=(HERE,))
    async with open_broker(HERE) as broker:
        logged(log)
        client = Client(await trio.open_tcp_stream(*broker.listening[0].address))
        await client.connect()
        new = Config(endpoints=(HERE, HERE, AMQP(host="127.0.0.1", port=0, heartbeat=5)))
        await change_to(broker, old, new)
        assert [event for event, _ in logged(log)] == ["listening", "listening"]
        assert [listening.config for listening in broker.listening] == list(new.endpoints)
        gone = broker.listening[2].address
        await change_to(broker, new, old)
        assert [event for event, _ in logged(log)] == ["drained", "endpoint closed"] * 2
        with pytest.raises(OSError):
            await trio.open_tcp_stream(*gone)
        await client.open_channel(1)
        await client.leave()


async def test_endpoint_that_differs_is_closed_and_opened_again(log: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    path = str(tmp_path / "broker.sock")
    old, new = Config(endpoints=(AMQP(path=path),)), Config(endpoints=(AMQP(path=path, heartbeat=5),))
    async with open_broker(*old.endpoints) as broker:
        logged(log)
        await change_to(broker, old, new)
        assert [event for event, _ in logged(log)] == ["drained", "endpoint closed", "listening"]
        assert [listening.config.heartbeat for listening in broker.listening] == [5]


async def test_endpoint_that_cannot_be_opened_is_an_error_and_is_tried_again(log: pytest.LogCaptureFixture) -> None:
    async with open_broker(HERE) as other, open_broker() as broker:
        taken = AMQP(host="127.0.0.1", port=other.listening[0].port)
        old, new = Config(endpoints=()), Config(endpoints=(taken, HERE))
        logged(log)
        await change_to(broker, old, new)
        (event, fields), (second, _) = logged(log)
        assert (event, second) == ("endpoint not opened", "listening")
        assert "is in use by another program" in str(fields["trouble"])
        await other.listening[0].aclose()
        await change_to(broker, new, new)
        assert [listening.config for listening in broker.listening] == [HERE, taken]


async def test_default_user_is_refused_on_exposed_endpoints(virtual_time: None) -> None:
    """Users come before endpoints that are open to others, and such endpoints go before users."""
    wide = AMQP(host="0.0.0.0", port=0)
    old, new = Config(endpoints=()), Config(endpoints=(wide,), users={"ada": User("1")})
    async with open_broker() as broker:
        await change_to(broker, old, new)
        assert not await knows(broker, "guest", "guest")
        await change_to(broker, new, old)
        assert broker.listening == []
        assert await knows(broker, "guest", "guest")


async def test_log_and_the_drain_change_at_once(log: pytest.LogCaptureFixture, virtual_time: None) -> None:
    async with open_broker() as broker:
        await change_to(broker, Config(endpoints=()), Config(endpoints=(), log=Log("debug", "json"), drain=9.0))
        assert logged(log) == [
            ("log changed", {"level": "debug", "format": "json"}),
            ("drain changed", {"seconds": 9.0}),
        ]
        assert broker.drain_seconds == 9.0
        assert logging.getLogger("triomq").level == logging.DEBUG


async def test_secret_that_went_away_changes_nothing(log: pytest.LogCaptureFixture, virtual_time: None) -> None:
    old = Config(endpoints=(), users={"ada": User("1")})
    new = Config(endpoints=(), users={"ada": User(password_file="/missing")}, domains=("default", "shop"), drain=9.0)
    async with open_broker(users=old.all_users()) as broker:
        with pytest.raises(ConfigError, match="cannot read /missing"):
            await change_to(broker, old, new)
        assert (logged(log), broker.domains, broker.drain_seconds) == ([], ["default"], 3.0)


async def test_memory_mark_changes_at_once(log: pytest.LogCaptureFixture, virtual_time: None) -> None:
    async with open_broker() as broker:
        old, new = Config(endpoints=()), Config(endpoints=(), memory_high_watermark=5000)
        await broker.declare_queue("q")
        await broker.publish("", "q", b"x" * 10_000)
        await change_to(broker, old, new)
        assert logged(log) == [("memory_high_watermark changed", {"watermark": 5000})]
        assert broker.directory.memory.on
        await change_to(broker, new, old)
        assert not broker.directory.memory.on


async def test_policies_come_change_and_go_and_others_stay(log: pytest.LogCaptureFixture, virtual_time: None) -> None:
    def config(*policies: PolicyConfig) -> Config:
        return Config(endpoints=(), policies=policies)

    first = PolicyConfig("limit", "^q", {"max-length": 5})
    second = PolicyConfig("limit", "^q", {"max-length": 1})
    async with open_broker() as broker:
        queue = await broker.declare_queue("q")
        await broker.set_policies([Policy("others", "^other", PolicyOptions(max_length=9))])
        for number in range(7):
            await broker.publish("", "q", b"%d" % number)
        logged(log)
        for old, new, left in ((config(), config(first), 5), (config(first), config(second), 1)):
            await change_to(broker, old, new)
            assert logged(log) == [("policies changed", {"domain": "default", "policies": 2, "affected": 1})]
            assert (await queue.statistics()).ready == left
        await change_to(broker, config(second), config(second))
        assert logged(log) == []
        await change_to(broker, config(second), config())
        assert [policy.name for policy in broker.policies] == ["others"]
        assert broker.directory.queues["q"].policy is None


def test_settings_of_the_store_stay_until_a_restart(log: pytest.LogCaptureFixture) -> None:
    old = Config(data_dir="/here")
    new = Config(data_dir="/there", queue_memory=100_000, drain=5.0)
    assert with_fixed_settings(old, new) == Config(data_dir="/here", drain=5.0)
    assert logged(log) == [
        ("setting stays until a restart", {"setting": "data_dir", "value": "/here"}),
        ("setting stays until a restart", {"setting": "queue_memory", "value": old.queue_memory}),
    ]
    assert with_fixed_settings(old, old) == old
    assert logged(log) == []
