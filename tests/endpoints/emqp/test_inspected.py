"""What one who looks into a broker sees of eMQP: workers, the others, schedules, the tree."""

from collections.abc import Iterable
from typing import TypeVar

import pytest
import trio

from endpoints.emqp.conftest import CALL, Served
from triomq.core import Session
from triomq.endpoints.management.inspector import BrokerInspector, DomainInspector
from triomq.endpoints.management.paging import Paged
from triomq.protocols.control import ListConnections, ListSchedules, ListWorkers, ServedQueue, ShowTree

T = TypeVar("T")
NAMED = b'{"v": 1, "capabilities": ["jobs"], "name": "left hand"}'


@pytest.fixture
async def domain(served: Served) -> DomainInspector:
    """Look from a client's place."""
    broker = served.broker
    peer = served.connect(b"looking")
    await peer.join()
    looking = served.endpoint.peers[b"looking"]
    session = Session(looking.domain, broker.directory)
    return DomainInspector(
        broker.context,
        broker.directory,
        session,
        looking.ref,
        browse=looking.ask,
        properties=lambda message: b"",
        room=10_000,
    )


def peer_named(served: Served, identity: bytes) -> str:
    """Return what a peer is called; its identity is nobody's business."""
    shown = served.endpoint.peers[identity].peer
    assert identity.decode() not in shown
    assert identity.hex() not in shown
    return shown


def records(entries: Iterable[Paged[T]]) -> list[T]:
    return [entry.record for entry in entries]


async def test_worker_is_listed_with_its_queues_slots_and_jobs(served: Served, domain: DomainInspector) -> None:
    worker = served.connect(b"hand")
    await worker.answer_to(await worker.send(b"INFORM", b'[[40, "mail"], [10, "q"]]', b"worker", NAMED))
    await worker.send(b"READY", b"3")
    client = await served.client()
    for _ in range(2):
        await client.request(CALL)
    first, _ = await worker.hear(b"REQUEST", 2)
    await worker.reply(first)
    await worker.answer_to(await worker.send(b"STATUS"))  # comes behind everything else
    (found,) = records(domain.list_workers(ListWorkers()))
    assert (found.peer, found.name, found.user) == (peer_named(served, b"hand"), "left hand", "guest")
    assert found.queues == [ServedQueue("mail", 40), ServedQueue("q", 10)]
    assert (found.free, found.out, found.done) == (1, 1, 1)
    assert 0 <= found.silent <= found.age < 10


async def test_peers_are_listed_with_their_roles(served: Served, domain: DomainInspector) -> None:
    await served.worker()
    scheduler = served.connect()
    await scheduler.answer_to(await scheduler.send(b"INFORM", b"", b"scheduler"))
    looking, worker, other = records(domain.list_connections(ListConnections()))
    assert [found.role for found in (looking, worker, other)] == ["client", "worker", "scheduler"]
    assert looking.peer == peer_named(served, b"looking")
    assert looking.silent is not None
    assert len(records(domain.list_workers(ListWorkers()))) == 1


async def test_schedules_are_listed_by_key_or_by_time(served: Served, domain: DomainInspector) -> None:
    client = await served.client()
    for name, interval in ((b"add", b"600"), (b"subtract", b"60")):
        call = CALL.replace(b"add", name)
        await client.answer_to(await client.send(b"SCHEDULE", b"q", b"nohaste,run_count:3", interval, call, b""))
    found = records(domain.list_schedules(ListSchedules(order="due")))
    assert [(one.call, one.queue, one.user) for one in found] == [
        ("jobs.subtract", "q", "guest"),
        ("jobs.add", "q", "guest"),
    ]
    assert (found[0].interval, found[0].cron, found[0].runs, found[0].run_count) == (60.0, "", 0, 3)
    assert found[0].due is not None
    assert 50 < found[0].due <= 60
    keys = [one.key for one in records(domain.list_schedules(ListSchedules()))]
    assert keys == sorted(one.key for one in found)
    assert records(domain.list_schedules(ListSchedules(after=keys[0])))[0].key == keys[1]
    assert len(records(domain.list_schedules(ListSchedules(order="due", limit=1)))) == 1


async def test_domain_that_nobody_schedules_in_has_no_schedules(served: Served, domain: DomainInspector) -> None:
    served.broker.context.schedules.clear()
    assert records(domain.list_schedules(ListSchedules())) == []


async def test_tree_says_what_each_peer_is(served: Served, domain: DomainInspector) -> None:
    await served.worker("q", ready=2)
    tree = BrokerInspector(served.broker.context, served.endpoint.peers[b"looking"].ref)
    found = records(tree.show_tree(ShowTree()))
    about = [record.about for record in found if record.kind == "EMQPPeer"]
    assert about[0] == f"client {peer_named(served, b'looking')}"
    assert about[1].startswith("worker ")
    assert about[1].endswith(", q:10, 2 free, 0 out, 0 done")
    assert [record.about for record in found if record.kind == "Scheduler"] == ["0 schedules"]
    assert {record.about for record in found if record.kind == "Queue"} == {""}
    await trio.lowlevel.checkpoint()
