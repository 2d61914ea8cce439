"""STATE: where jobs are, whether somebody asks once or wants to hear of every change.

STATE ids ──> the book ─┬─ it has not ended: STATE, and again with each change if that is wanted
                        ├─ it has, and its answer is kept: STATE with that, when it is read
                        └─ unknown, forgotten, or another user's: STATE unknown
when all are answered: ACK
"""

from functools import partial
from typing import TYPE_CHECKING, Final

from triomq.endpoints.emqp.jobs.book import may_look_at
from triomq.endpoints.jobs import BookedJob, End, JobSummary, Result
from triomq.protocols.emqp import NO_EXTENSION, Extension, JobState, StatesAsked, decode_extension

if TYPE_CHECKING:
    from triomq.endpoints.emqp.peer import EMQPPeer

_COST: Final = 3
"""What telling where one job is counts against the turn's budget, in queue pushes."""

_WORDS: Final = {"queued": "waiting", "cancelling": "running"}
"""What is said of stages, where it is not the same word."""


def report_states(peer: "EMQPPeer", event: StatesAsked) -> None:
    """Tell where jobs are, and perhaps of each change that comes."""
    _Question(peer, event)


class _Question:
    """A STATE that is being answered; ends with its ACK."""

    def __init__(self, peer: "EMQPPeer", event: StatesAsked) -> None:
        self._peer = peer
        self._msgid = event.msgid
        self._wanted = event.extension
        self._left = len(event.requests)
        peer.system.turn.charge(len(event.requests) * _COST)
        for request in event.requests:
            self._report(request)

    def _report(self, request: bytes) -> None:
        book, results = self._peer.hub.jobs, self._peer.hub.results
        found = book.register.state_of(request)
        if found is not None and not found.has_ended:
            self._tell(request, found if may_look_at(self._peer, found.user) else None)
            self._follow(request, found)
            return
        owner = results.owner(request)
        if owner is not None and may_look_at(self._peer, owner):
            results.read(request, partial(self._read, request))
        elif found is not None and not may_look_at(self._peer, found.user):
            self._tell(request, None)
        else:
            self._tell(request, found)

    def _follow(self, request: bytes, found: JobSummary) -> None:
        """Have the peer hear of changes from now on, or not any more."""
        book, following = self._peer.hub.jobs, Following(self._peer, self._wanted.result)
        book.register.followers.remove(request, following)
        if self._wanted.follow and may_look_at(self._peer, found.user):
            book.register.follow(request, following)

    def _tell(self, request: bytes, found: JobSummary | None) -> None:
        state = JobState(state="unknown") if found is None else _state(found)
        self._answer(request, state, None)

    def _read(self, request: bytes, result: Result | None) -> None:
        """Go on with what was read, now or later."""
        self._peer.ref.run_in_turn(self._tell_result, request, result)

    def _tell_result(self, request: bytes, result: Result | None) -> None:
        if result is None:
            self._tell(request, self._peer.hub.jobs.register.state_of(request))
            return
        about = decode_extension(result.extension) if result.extension else NO_EXTENSION
        self._answer(request, _ended(result.end, about, result.at), result.message if self._wanted.result else None)

    def _answer(self, request: bytes, state: JobState, message: bytes | None) -> None:
        engine = self._peer.engine
        engine.report_state(request, state, message)
        self._left -= 1
        if not self._left:
            engine.acknowledge(self._msgid)
        self._peer.ref.touch()


class Following:
    """A peer that follows a job.

    Args:
        peer: The peer.
        result: Whether it wants the answer with the end.
    """

    def __init__(self, peer: "EMQPPeer", result: bool) -> None:
        self._peer = peer
        self._result = result

    def __eq__(self, other: object) -> bool:
        """Return whether it is the same peer: it follows a job once."""
        return isinstance(other, Following) and other._peer is self._peer

    def __hash__(self) -> int:
        """Return a hash of the peer."""
        return hash(self._peer)

    def changed(self, job: BookedJob, end: End | None, answer: object) -> None:
        """Tell the peer, if it is there."""
        peer = self._peer
        if peer.has_left:
            return
        if end is None:
            peer.engine.report_state(job.id, _state(peer.hub.jobs.register.summary(job)))
        else:
            message, about = answer if isinstance(answer, tuple) else (None, NO_EXTENSION)
            state = _ended(end, about, peer.hub.jobs.register.moment)
            peer.engine.report_state(job.id, state, message if self._result else None)
        peer.ref.touch()


def _state(found: JobSummary) -> JobState:
    word = _WORDS.get(found.state, found.state)
    return JobState(state=word, queue=found.queue, attempt=found.attempt, since=_milliseconds(found.since))


def _ended(end: str, about: Extension, at: float) -> JobState:
    return JobState(
        state=end,
        attempt=about.attempt,
        since=_milliseconds(at),
        type=about.type,
        message=about.message,
        traceback=about.traceback,
    )


def _milliseconds(time: float) -> int:
    return round(time * 1000)
