"""The way of an answer back to who has asked: an eMQP peer, or a queue that a message of another wire names.

After a restart of the broker workers and requesters come back one by one, and a worker may answer before its requester
is there. Then the answer waits for that one, in memory, as long as the broker holds what workers may still have.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from triomq.core import Properties, PublishingPaused
from triomq.endpoints.emqp.content import JSON, Origin
from triomq.errors import Refused
from triomq.protocols.emqp import NO_EXTENSION, Extension, reply_frames

if TYPE_CHECKING:
    from triomq.endpoints.emqp.dispatched import DispatchedJob
    from triomq.endpoints.emqp.peer import EMQPPeer


Answer: TypeAlias = tuple[bytes, bytes, Extension]
"""The request, the message, and what else is said of it."""

_MOST_WAITING: Final = 4 * 1024 * 1024
"""Octets of answers that wait for requesters; beyond that those of the one that has waited longest are dropped."""


class LateAnswers:
    """Answers that wait for requesters which have yet to come back; one for each endpoint."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[bytes, str], list[Answer]] = {}  # by requester and its user, in order of their first
        self._octets = 0

    def put(self, origin: Origin, answers: Sequence[Answer]) -> int:
        """Keep answers for a requester; return how many others were dropped, since there was no room for all."""
        self._waiting.setdefault((origin.identity, origin.user), []).extend(answers)
        self._octets += sum(len(message) for _, message, _ in answers)
        dropped = 0
        while self._octets > _MOST_WAITING:
            dropped += len(self._take(next(iter(self._waiting))))
        return dropped

    def take(self, identity: bytes, user: str) -> list[Answer]:
        """Return those for a requester that has come back."""
        return self._take((identity, user)) if (identity, user) in self._waiting else []

    def drop(self) -> int:
        """Drop all, since nobody has come for them; return how many they were."""
        return sum(len(self._take(requester)) for requester in list(self._waiting))

    def _take(self, requester: tuple[bytes, str]) -> list[Answer]:
        found = self._waiting.pop(requester)
        self._octets -= sum(len(message) for _, message, _ in found)
        return found


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


def answer_all(worker: "EMQPPeer", origin: Origin, answers: Sequence[Answer]) -> None:
    """Bring answers to jobs of one origin that wanted them: the request, the message and the extension of each."""
    hub = worker.hub
    requester = hub.peers.get(origin.identity)
    if requester is not None and requester.login == origin.user:
        requester.reply_all(answers)
        return
    if hub.awaits_requesters:
        if hub.late_answers.put(origin, answers):
            worker.count("unanswered", "too much waits for requesters that have yet to come back")
        return
    if hub.late_answers.drop():
        worker.count("unanswered", "requesters have not come back after a restart")
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
