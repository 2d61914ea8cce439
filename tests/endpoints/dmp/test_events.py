"""What may change between a lease and its use."""

from collections.abc import AsyncIterator

import pytest

from endpoints.client import Client
from endpoints.conftest import endpoint_of, open_client
from endpoints.direct import Direct, lease_feed, lease_sink
from triomq.app import Broker, User, open_broker
from triomq.core import SinkKind
from triomq.endpoints import AMQP
from triomq.protocols.amqp import ExchangeDelete, plain
from triomq.protocols.dmp import Target
from triomq.security import Permission

ALL = Permission(".*", ".*", ".*")


@pytest.fixture
async def broker(virtual_time: None) -> AsyncIterator[Broker]:
    users = {"anna": User(password="anna", permissions={"default": ALL})}
    async with open_broker(AMQP(host="127.0.0.1", port=0), users=users) as broker:
        yield broker


@pytest.fixture
async def anna(broker: Broker) -> Client:
    client = await open_client(endpoint_of(broker), login=plain("anna", "anna"))
    return client


@pytest.mark.parametrize("target", ["sink", "feed"])
async def test_right_that_was_lost_since_is_asked_for_again(broker: Broker, anna: Client, target: Target) -> None:
    await anna.declare("mine", exclusive=True)
    lease = await (lease_sink(anna, "amq.topic") if target == "sink" else lease_feed(anna, "mine"))
    broker.set_users({"anna": User(password="anna", permissions={"default": Permission(".*", "", "")})})
    code, text = await Direct(endpoint_of(broker), lease, target).refused()
    assert code == 403
    assert "may not" in text


@pytest.mark.parametrize("target", ["sink", "feed"])
async def test_right_that_is_lost_later_ends_the_connection(broker: Broker, anna: Client, target: Target) -> None:
    await anna.declare("mine", exclusive=True)
    lease = await (lease_sink(anna, "amq.topic") if target == "sink" else lease_feed(anna, "mine"))
    direct = await Direct(endpoint_of(broker), lease, target).ready()
    broker.set_users({"anna": User(password="anna", permissions={"default": Permission(".*", "", "")})})
    if target == "sink":
        assert (await direct.refused())[0] == 530
    else:
        await direct.ended()


async def test_sink_that_has_become_internal_is_no_access(broker: Broker, anna: Client) -> None:
    await broker.declare_sink("s", SinkKind.DIRECT)
    lease = await lease_sink(anna, "s")
    await anna.call(1, ExchangeDelete("s"))
    await broker.declare_sink("s", SinkKind.DIRECT, internal=True)
    assert (await Direct(endpoint_of(broker), lease, "sink").refused())[0] == 403
