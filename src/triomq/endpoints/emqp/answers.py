"""The way of an answer back to who has asked: an eMQP peer, or a queue that a message of another wire names."""

from typing import TYPE_CHECKING

from triomq.core import Properties, PublishingPaused
from triomq.endpoints.emqp.content import JSON
from triomq.errors import Refused
from triomq.protocols.emqp import NO_EXTENSION, Extension, reply_frames

if TYPE_CHECKING:
    from triomq.endpoints.emqp.peer import EMQPPeer
    from triomq.endpoints.emqp.worker import Job


def answer(worker: "EMQPPeer", job: "Job", message: bytes, extension: Extension = NO_EXTENSION) -> None:
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
        return
    if not job.headers.reply_requested:
        return
    hub = worker.hub
    requester = hub.peers.get(job.origin.identity)
    if requester is not None and requester.login == job.origin.user:
        requester.reply(job.request, message, extension)
    elif not hub.answers_strangers or not worker.send_to(
        job.origin.identity, reply_frames(hub.new_id(), job.request, message)
    ):
        worker.count("unanswered", "the requester has gone", id=job.request[:40].decode("utf-8", "replace"))


def _answer_elsewhere(worker: "EMQPPeer", job: "Job", message: bytes) -> None:
    """Publish the answer to where a job of another wire wants it, in that one's place."""
    properties = Properties(content_type=JSON, correlation_id=job.correlation_id, persistent=False)
    try:
        if not worker.publish("", job.reply_to, message, properties):
            worker.count("unanswered", "there is no such queue any more", reply_to=job.reply_to)
    except (Refused, PublishingPaused) as error:
        worker.count("unanswered", str(error), reply_to=job.reply_to)
