"""What administrators ask over eMQP, as the released ``emq-cli`` does, and DISCONNECT, which stops the endpoint."""

import logging
from typing import TYPE_CHECKING

import msgspec

from triomq.endpoints.base.endpoint import StopListening
from triomq.endpoints.emqp.queues import DEFAULT_QUEUE
from triomq.errors import AccessRefused
from triomq.protocols.emqp import AdminAsked, DisconnectAsked

if TYPE_CHECKING:
    from triomq.endpoints.emqp.endpoint import EMQPEndpoint
    from triomq.endpoints.emqp.peer import EMQPPeer
    from triomq.endpoints.emqp.worker import WorkerSide


def stop_endpoint(peer: "EMQPPeer", event: DisconnectAsked) -> None:
    """Stop the endpoint, if an administrator asks for that where administrators come in: all peers hear KBAI."""
    user = peer.context.users.get(peer.user)
    if not peer.is_at_admin_port or user is None or not user.is_administrator:
        peer.refuse(event.msgid, "forbidden", "only an administrator may stop the endpoint, over its admin_port")
        return
    peer.note(logging.WARNING, "endpoint stopped", reason="DISCONNECT")
    peer.acknowledge_now(event.msgid)
    peer.hub.ref.tell_nowait(StopListening())


def answer_question(peer: "EMQPPeer", event: AdminAsked) -> None:
    """Answer a question, in JSON; HELLO is none."""
    if event.command == "HELLO":
        return
    user = peer.context.users.get(peer.user)
    if user is None or not user.may_monitor:
        raise AccessRefused(f"user {peer.user!r} may not look into the broker; it needs the tag monitoring")
    if event.command == "ROUTER_SHOW_SCHEDULERS":
        answer = _schedulers(peer.hub)
    elif event.command == "ROUTER_SHOW_WORKERS":
        answer = _workers(peer.hub)
    else:
        answer = _status(peer.hub)
    peer.engine.reply(event.msgid, msgspec.json.encode(answer))


def _schedulers(hub: "EMQPEndpoint") -> dict[str, object]:
    return {"connected_schedulers": {peer.peer: {"hb": peer.last_message} for peer in hub.schedulers}}


def _workers(hub: "EMQPEndpoint") -> dict[str, object]:
    workers = {peer.peer: (peer, peer.worker) for peer in hub.peers.values() if peer.worker is not None}
    queues: dict[str, list[tuple[int, str]]] = {}
    for name, (_, worker) in workers.items():
        for weight, queue in worker.queues:
            queues.setdefault(queue, []).append((weight, name))
    return {
        "connected_workers": {
            name: {"queues": worker.queues, "hb": peer.last_message, "available_slots": worker.slots.free}
            for name, (peer, worker) in workers.items()
        },
        "connected_queues": queues,
    }


def _status(hub: "EMQPEndpoint") -> dict[str, object]:
    directory = hub.context.domains[hub.domain_name].directory
    workers: dict[str, WorkerSide] = {peer.peer: peer.worker for peer in hub.peers.values() if peer.worker is not None}
    names = sorted({queue.name for worker in workers.values() for queue in worker.queues} | {DEFAULT_QUEUE})
    queues = {name: directory.queues[name].statistics() for name in names if name in directory.queues}
    tallies = {name: hub.tallies[name] for name in names if name in hub.tallies}
    times = {name: tally.times for name, tally in tallies.items() if tally.times}
    return {
        "inflight_messages_by_queue": {name: queue.unsettled for name, queue in queues.items()},
        "waiting_messages_by_queue": {name: queue.ready for name, queue in queues.items()},
        "processed_messages_by_queue": {name: tallies[name].done if name in tallies else 0 for name in queues},
        "processed_messages_by_worker": {name: worker.done for name, worker in workers.items()},
        "latency_messages_by_queue": {name: sum(found) / len(found) for name, found in times.items()},
        "max_latency_messages_by_queue": {name: max(found) for name, found in times.items()},
    }
