"""The way of an answer back to who has asked: an eMQP peer, or a queue that a message of another wire names."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from triomq.core import Properties, PublishingPaused
from triomq.endpoints.emqp.content import JSON, Origin
from triomq.errors import Refused
from triomq.protocols.emqp import NO_EXTENSION, Extension, reply_frames

if TYPE_CHECKING:
    from triomq.endpoints.emqp.dispatched import DispatchedJob
    from triomq.endpoints.emqp.peer import EMQPPeer


def answer(worker: "EMQPPeer", job: "DispatchedJob", message: bytes, extension: Extension = NO_EXTENSION) -> None:
    """Bring the answer to a job to its requester, if it is there and wanted one.

    Args:
        worker: The peer that has, or had, the job.
        job: The job.
        message: The answer.
        extension: What else the worker, or the broker, says of it.
    """
    if job.origin is None:
        if job.reply_to:
            _answer_elsewhere(worker, job, message)
    elif job.headers.reply_requested:
        answer_all(worker, job.origin, [(job.request, message, extension)])


def answer_all(worker: "EMQPPeer", origin: Origin, answers: Sequence[tuple[bytes, bytes, Extension]]) -> None:
    """Bring answers to jobs of one origin that wanted them: the request, the message and the extension of each."""
    hub = worker.hub
    requester = hub.peers.get(origin.identity)
    if requester is not None and requester.login == origin.user:
        requester.reply_all(answers)
        return
    for request, message, _ in answers:
        frames = reply_frames(hub.new_id(), request, message)
        if not hub.send_to_stranger(origin.identity, frames):
            worker.count("unanswered", "the requester has gone", id=request[:40].decode("utf-8", "replace"))


def _answer_elsewhere(worker: "EMQPPeer", job: "DispatchedJob", message: bytes) -> None:
    """Publish the answer to where a job of another wire wants it, in that one's place; later if memory is short now."""
    properties = Properties(content_type=JSON, correlation_id=job.correlation_id, persistent=False)
    try:
        if not worker.publish("", job.reply_to, message, properties):
            worker.count("unanswered", "there is no such queue any more", reply_to=job.reply_to)
    except PublishingPaused as paused:
        # No more of them wait than jobs were out, for each of which the worker had room.
        worker.when_open(paused.pressure, partial(_answer_elsewhere, worker, job, message))
    except Refused as error:
        worker.count("unanswered", str(error), reply_to=job.reply_to)
