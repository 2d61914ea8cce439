"""What a peer is: a worker or a scheduler, by its INFORM; a client else. A client may subscribe to topics too."""

import logging
from typing import TYPE_CHECKING, Final

from triomq.endpoints.base.statistics import Role
from triomq.endpoints.emqp.jobs.held import claim_running
from triomq.endpoints.emqp.subscriber import SubscriberSide
from triomq.endpoints.emqp.worker import WorkerSide
from triomq.errors import TriomqError
from triomq.protocols.emqp import Informed, Subscribed, Unsubscribed

if TYPE_CHECKING:
    from triomq.endpoints.emqp.peer import EMQPPeer

_LONGEST_NAME: Final = 100
"""Letters of a peer's name that are shown; an extension frame has room for 64 KiB of them."""


def take_role(peer: "EMQPPeer", event: Informed) -> None:
    """Begin as what a peer says that it is; nothing is left of what it was.

    A peer that has heard nothing of us for too long comes on a new connection, and so under a new identity: a ROUTER
    would pass over what comes under one that it has. It says which it had before, which nobody else knows. So jobs that
    are with it stay with it, and answers to what it has sent find it; its last connection may seem alive for long.
    """
    worker = WorkerSide(peer, event.queues) if event.role == "worker" else None
    before = peer.succeed(event.extension.identity.encode()) if event.extension.identity else None
    for side in (peer.worker, None if before is None else before.worker):
        if worker is not None and side is not None:
            side.hand_over(event.extension.running, worker)
    if before is not None:
        before.make_way()
    _forget_role(peer)
    peer.called = event.extension.name[:_LONGEST_NAME]
    if worker is not None:
        peer.worker = worker
        try:
            worker.begin()
        except TriomqError:
            _forget_role(peer)
            raise
    elif event.role == "scheduler":
        peer.hub.schedulers[peer] = None
    peer.engine.acknowledge(event.msgid)
    if late := peer.hub.late_answers.take(peer.known_as, peer.login):
        peer.reply_all(late)
    if event.extension.running and worker is not None:
        claim_running(peer, event)
    peer.note(logging.INFO, f"{event.role} informed", queues=[queue.name for queue in event.queues])
    peer.reschedule()


def _forget_role(peer: "EMQPPeer") -> None:
    peer.hub.schedulers.pop(peer, None)
    if peer.worker is not None:
        peer.worker.stop()
        peer.worker.lost()
        peer.worker = None
    if peer.subscriber is not None:
        peer.subscriber.stop()
        peer.subscriber = None


def subscribe(peer: "EMQPPeer", event: Subscribed) -> None:
    """Let come what is published to a topic."""
    if peer.subscriber is None:
        peer.subscriber = SubscriberSide(peer)
    peer.subscriber.subscribe(event.topic)
    peer.engine.acknowledge(event.msgid)


def unsubscribe(peer: "EMQPPeer", event: Unsubscribed) -> None:
    """Let no more come of a topic."""
    if peer.subscriber is not None:
        peer.subscriber.unsubscribe(event.topic)
    peer.engine.acknowledge(event.msgid)


def role_of(peer: "EMQPPeer") -> Role:
    """Return what a peer is, for those who look into the broker."""
    worker = peer.worker
    kind = "worker" if worker is not None else "scheduler" if peer in peer.hub.schedulers else "client"
    return Role(kind, peer.last_message, peer.called, None if worker is None else worker.work())


def describe(peer: "EMQPPeer") -> str:
    """Return what a peer is, in a few words."""
    role = role_of(peer)
    words = f"{role.kind} {role.name or peer.peer}"
    if (work := role.work) is None:
        return words
    queues = ", ".join(f"{name}:{weight}" for weight, name in work.queues)
    return f"{words}, {queues}, {work.free} free, {work.out} out, {work.done} done"
