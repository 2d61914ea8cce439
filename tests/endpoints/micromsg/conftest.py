"""A broker in virtual time that listens for MicroMsg2, with a queue ``q`` and a topic ``t``."""

from collections.abc import AsyncIterator

import pytest

from endpoints.micromsg.client import open_micromsg_broker
from triomq.app import Broker, User
from triomq.security import ALL, Permission

USERS = {
    "guest": User(password="guest", permissions={"*": ALL}),
    "ann": User(password="ann", permissions={"*": ALL}),
    "reader": User(password="reader", permissions={"*": Permission("^$", "^$", "^(t|q)$")}),
    "writer": User(password="writer", permissions={"*": Permission("^$", "^(t|q)$", "^$")}),
}


@pytest.fixture
async def broker(virtual_time: None) -> AsyncIterator[Broker]:
    async with open_micromsg_broker(users=USERS) as broker:
        await broker.declare_queue("q", durable=False)
        await broker.declare_sink("t", "topic", durable=False)
        yield broker
