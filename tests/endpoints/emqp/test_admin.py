"""DISCONNECT: who may stop the endpoint, and how it stops."""

from collections.abc import AsyncIterator

import pytest
import trio

from endpoints.emqp.conftest import CALL, Served
from endpoints.emqp.raw import RawPeer
from triomq.app import User, open_broker
from triomq.endpoints import EMQP
from triomq.security import ALL


async def open_admin(served: Served) -> RawPeer:
    admin = served.endpoint.admin
    assert admin is not None
    peer = RawPeer(admin.port)
    served.nursery.start_soon(peer.run)
    return peer


@pytest.fixture(params=["administrator", "monitoring"])
async def served(request: pytest.FixtureRequest, nursery: trio.Nursery) -> AsyncIterator[Served]:
    users = {"guest": User(password="guest", permissions={"*": ALL}, tags=(request.param,))}
    config = EMQP(port=0, admin_port=0)
    async with open_broker(config, users=users, drain=0.2) as broker:
        yield Served(broker, nursery, config)


@pytest.mark.parametrize("served", ["administrator"], indirect=True)
async def test_disconnect_lets_jobs_complete_and_tells_all_peers_goodbye(served: Served) -> None:
    worker, client, admin = await served.worker(ready=1), await served.client(), await open_admin(served)
    msgid = await client.request(CALL, headers=b"reply-requested")
    (request,) = await worker.hear(b"REQUEST")
    asked = await admin.send(b"DISCONNECT")
    assert (await admin.answer_to(asked)).command == b"ACK"
    await worker.hear(b"KBAI")
    await client.hear(b"KBAI")
    await worker.reply(request)
    (reply,) = await client.hear(b"REPLY")
    assert reply.rest[1] == msgid
    with trio.fail_after(5):
        await served.endpoint.wait_empty()


@pytest.mark.parametrize("served", ["administrator"], indirect=True)
async def test_disconnect_of_a_client_stops_nothing(served: Served) -> None:
    client = await served.client()
    answer = await client.answer_to(await client.send(b"DISCONNECT"))
    assert (answer.command, answer.rest[1]) == (b"ERROR", b"forbidden")
    assert not served.endpoint.is_stopping


@pytest.mark.parametrize("served", ["monitoring"], indirect=True)
async def test_disconnect_of_a_user_who_is_no_administrator_stops_nothing(served: Served) -> None:
    admin = await open_admin(served)
    await admin.join()
    answer = await admin.answer_to(await admin.send(b"DISCONNECT"))
    assert (answer.command, answer.rest[1]) == (b"ERROR", b"forbidden")
    assert (await admin.answer_to(await admin.send(b"STATUS"))).command == b"REPLY"
