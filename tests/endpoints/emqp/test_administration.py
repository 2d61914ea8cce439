"""What administrators are answered; DISCONNECT: who may stop the endpoint, and how it stops."""

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
    with trio.fail_after(60):
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


# Questions


@pytest.mark.parametrize("served", ["nothing"], indirect=True)
async def test_peer_that_may_not_look_into_the_broker_is_refused(served: Served) -> None:
    client = await served.client()
    answer = await client.answer_to(await client.send(b"STATUS"))
    assert (answer.command, answer.rest[1]) == (b"ERROR", b"forbidden")


@pytest.mark.parametrize("served", ["monitoring"], indirect=True)
async def test_administrators_see_workers_and_what_waits_for_them(served: Served) -> None:
    worker, client = await served.worker("email", weight=40, ready=2), await served.client()
    await client.request(CALL, "email")
    (request,) = await worker.hear(b"REQUEST")
    (found,) = (await client.ask(b"ROUTER_SHOW_WORKERS"))["connected_workers"].values()
    assert isinstance(found, dict)
    assert (found["queues"], found["available_slots"]) == ([[40, "email"]], 1)
    status = await client.ask()
    assert status["inflight_messages_by_queue"] == {"email": 1}
    assert status["latency_messages_by_queue"] == {}
    assert await client.ask(b"ROUTER_SHOW_SCHEDULERS") == {"connected_schedulers": {}}
    await worker.reply(request)
    await worker.answer_to(await worker.send(b"STATUS"))  # comes behind the REPLY
    status = await client.ask()
    (mean,), (longest,) = (status[f"{kind}latency_messages_by_queue"].values() for kind in ("", "max_"))
    assert 0 < mean == longest < 60_000


@pytest.mark.parametrize("served", ["monitoring"], indirect=True)
async def test_job_that_failed_and_went_back_is_not_counted_as_processed(served: Served) -> None:
    worker, client = await served.worker(ready=2, extended=True), await served.client()
    await client.request(CALL, "q", headers=b"retry-count:1")
    for attempt, processed in ((1, 0), (2, 1)):
        request = (await worker.hear(b"REQUEST", attempt))[-1]
        await worker.send(b"REPLY", b"{}", request.msgid, b'{"v": 1, "state": "failed"}')
        await worker.answer_to(await worker.send(b"STATUS"))  # comes behind the REPLY
        assert (await client.ask())["processed_messages_by_queue"] == {"q": processed}
