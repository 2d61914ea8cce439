"""What a peer wants to be published, REQUEST and PUBLISH, until each has its ACK.

    REQUESTs ──> request ──> runs of jobs that are alike ── the end of the turn ──> publish_runs ──> queues ─┐
    PUBLISH ──> publish ───────────────────────────────────────────────────────────────────────────> sink ──┤
    ACK, ERROR <── confirm <── Confirms, by numbers <── the queue has it, and the disk where it is durable ─┘

A message is ACKed when its queue has it, and what is durable is on disk. What is refused is answered by ERROR where
the peer knows that. Ids are the peers' own, and need not be unique; so numbers stand for them until they are answered.

A job costs a concatenation: all that is known of it beside its id is the same for all jobs of one shape (``_Shape``).
"""

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from triomq.core import CachedRoute, Confirms, DeclareQueue, Head, RoutedRun, traits_of
from triomq.endpoints.emqp.content import EMQP_CODEC, PREFIXES, TOPICS, RequestProperties, encode_request, split_request
from triomq.endpoints.emqp.jobs.acceptance import Acceptance, without_deadline
from triomq.endpoints.emqp.jobs.content import JOB_CODEC, JOB_PREFIXES, JobProperties, encode_deadline
from triomq.endpoints.emqp.queues import JOB_QUEUE, queue_for
from triomq.protocols.emqp import NO_EXTENSION, RequestRun, TopicPublished, encode_extension

if TYPE_CHECKING:
    from triomq.endpoints.emqp.peer import EMQPPeer

_SHAPES: Final = 64
"""Shapes of one peer's messages that are remembered: one for each queue, with each set of headers and extensions."""


class _Shape:
    """What messages have in common that differ in id and payload alone.

    Args:
        sink: Where they go.
        name: By which key.
        publisher: The number of the peer's session.
        properties: Of one of them.
        persistent: Whether they survive a restart.
    """

    __slots__ = ("_heads", "_name", "_sink", "_traits", "suffix")

    def __init__(self, sink: str, name: str, publisher: int, properties: RequestProperties, persistent: bool) -> None:
        self.suffix = split_request(encode_request(properties))[1]
        """Their properties, behind the id."""
        self._sink = sink
        self._name = name
        codec, has_priority = EMQP_CODEC, False
        if isinstance(properties, JobProperties):
            codec, has_priority = JOB_CODEC, properties.priority > 0
        self._traits = traits_of(codec=codec, publisher=publisher, has_priority=has_priority, persistent=persistent)
        self._heads: dict[int, Head] = {}  # by the length of the id

    def head(self, prefix: bytes, msgid: bytes) -> Head:
        """Return the head of a message, the same one for ids of the same length."""
        return self._heads.get(len(msgid)) or self._add(len(msgid), len(prefix) + len(msgid) + len(self.suffix))

    def _add(self, size: int, start: int) -> Head:
        head = self._heads[size] = Head(self._sink, self._name, 0, start, start, traits=self._traits)
        return head


class _JobRun:
    """Jobs in a row that are alike for the core."""

    __slots__ = ("contents", "head", "route")

    def __init__(self, route: CachedRoute, head: Head) -> None:
        self.route = route
        self.head = head
        self.contents: list[bytes] = []


class MessageIntake:
    """The way of a peer's messages into the core; made when the peer has entered a domain.

    Args:
        peer: The peer.
    """

    __slots__ = (
        "_acceptance",
        "_answered",
        "_booked",
        "_confirms",
        "_first",
        "_ids",
        "_peer",
        "_runs",
        "_shapes",
        "_unconfirmed",
    )

    def __init__(self, peer: "EMQPPeer") -> None:
        self._peer = peer
        self._shapes: dict[tuple[object, ...], _Shape] = {}
        self._runs: list[_JobRun] = []  # jobs that have come together
        self._ids: list[bytes] = []
        self._booked: list[bytes] = []  # those of them that are in the book
        self._acceptance = Acceptance(peer)
        self._unconfirmed: deque[bytes] = deque()  # ids, by the numbers of ``_confirms``
        self._first = 1  # the number of the first of them
        self._answered: set[int] = set()  # numbers behind the first
        self._confirms = Confirms(peer.ref.touch, peer.directory.persistence, self._committed)

    def rename(self) -> None:
        """Forget what was made while the peer was known by another identity."""
        self._shapes.clear()
        self._acceptance = Acceptance(self._peer)

    # In

    def request(self, run: RequestRun) -> bool:
        """Take jobs, all of them or, if it raises, none.

        Returns:
            Whether they are still to be published, by ``publish_runs``; those that come later are published now.
        """
        peer = self._peer
        if peer.engine.is_extended:
            return self._request_booked(run)
        queue = queue_for(run.queue, peer.directory, peer.domain)
        shape = self._job_shape(run, run.queue or queue)
        self._gather(_cut(peer.routes.find("", queue), shape, run.msgids, run.messages))
        self._ids += run.msgids
        return True

    def _request_booked(self, run: RequestRun) -> bool:
        """Take those of some jobs that the book does not know yet."""
        peer = self._peer
        if run.queue and run.queue not in peer.directory.queues:
            # Its workers may come later: in the default queue no worker of its own would find it.
            peer.ask(peer.domain, DeclareQueue(run.queue, JOB_QUEUE, peer.session))
        queue = queue_for(run.queue, peer.directory, peer.domain, JOB_QUEUE)
        route, name = peer.routes.find("", queue), run.queue or queue
        alike = without_deadline(run)
        accepted = self._acceptance.accept(run, alike, queue)
        shape = self._booked_shape(alike, name)
        runs = [
            part
            for jobs in accepted
            for part in _cut(route, shape, jobs.ids, jobs.messages, JOB_PREFIXES, encode_deadline(jobs.deadline))
        ]
        ids = [job for jobs in accepted for job in jobs.ids]
        if run.extension.delay:
            try:
                for part in runs:
                    self._publish(part, delay=run.extension.delay / 1000)
            except BaseException:
                self._acceptance.withdraw(ids)
                raise
            self._unconfirmed += ids
            return False
        self._gather(runs)
        self._ids += ids
        self._booked += ids
        return bool(ids)

    def _gather(self, runs: list[_JobRun]) -> None:
        """Publish jobs with others, when all that has come is looked at."""
        mine = self._runs
        if mine and runs and mine[-1].head is runs[0].head and mine[-1].route is runs[0].route:
            mine[-1].contents += runs[0].contents
            del runs[0]
        mine += runs

    def publish_runs(self) -> None:
        """Publish the jobs that have come together: all of them, or none, as ``RouterClient.work_off`` says."""
        runs, ids, booked = self._runs, self._ids, self._booked
        self._runs, self._ids, self._booked = [], [], []
        routed = [RoutedRun(run.route, run.head, run.contents, sum(map(len, run.contents))) for run in runs]
        try:
            self._peer.publisher.publish_all(routed, self._confirms)
        except BaseException:
            self._acceptance.withdraw(booked)
            raise
        self._unconfirmed += ids

    def publish(self, event: TopicPublished) -> None:
        """Publish to a topic."""
        peer, headers = self._peer, event.headers
        key = (event.topic, headers.frame)
        shape = self._shapes.get(key)
        if shape is None:
            properties = RequestProperties(b"", headers.frame, user=peer.user)
            shape = self._remember(key, TOPICS, event.topic, properties, headers.guarantee)
        (run,) = _cut(peer.routes.find(TOPICS, event.topic), shape, (event.msgid,), (event.message,))
        self._publish(run)
        self._unconfirmed.append(event.msgid)

    def _job_shape(self, run: RequestRun, name: str) -> _Shape:
        headers, extension = run.headers, run.extension
        key = (name, headers.frame, None if extension is NO_EXTENSION else extension)
        return self._shapes.get(key) or self._remember(
            key,
            "",
            name,
            RequestProperties(
                b"",
                headers.frame,
                self._peer.known_as if headers.reply_requested else b"",
                self._peer.user,
                b"" if extension is NO_EXTENSION else encode_extension(extension),
            ),
            headers.guarantee,
        )

    def _booked_shape(self, run: RequestRun, name: str) -> _Shape:
        """Return the shape of jobs of the book, which have deadlines of their own."""
        key = (name, run.headers.frame, run.extension, JOB_CODEC)
        shape = self._shapes.get(key)
        if shape is None:
            properties = self._acceptance.properties(run)
            shape = _Shape("", name, self._peer.session.number, properties, run.headers.guarantee)
            self._note(key, shape)
        return shape

    def _remember(
        self, key: tuple[object, ...], sink: str, name: str, properties: RequestProperties, persistent: bool
    ) -> _Shape:
        shape = _Shape(sink, name, self._peer.session.number, properties, persistent)
        self._note(key, shape)
        return shape

    def _note(self, key: tuple[object, ...], shape: _Shape) -> None:
        if len(self._shapes) >= _SHAPES:
            self._shapes.clear()
        self._shapes[key] = shape

    def _publish(self, run: _JobRun, delay: float = 0.0) -> None:
        contents = run.contents
        self._peer.publisher.publish(
            run.route, run.head, contents, sum(map(len, contents)), self._confirms, delay=delay
        )

    # Out

    def _committed(self) -> None:
        self._peer.ref.touch()  # it ends in ``after_batch``, which calls ``confirm``

    def confirm(self) -> None:
        """ACK what is safe, and refuse what found no room."""
        unconfirmed = self._unconfirmed
        if not unconfirmed:
            return
        peer, found = self._peer, self._confirms.take()
        first, answered = self._first, self._answered
        for number in found.refused:
            peer.refuse(unconfirmed[number - first], "full", "a queue has no room for it")
            if peer.engine.is_extended:
                self._acceptance.withdraw((unconfirmed[number - first],))
        answered.update(found.refused)
        # Those that follow each other from the first on, as nearly all do, come in one go.
        if found.single:
            peer.engine.acknowledge_all([unconfirmed[number - first] for number in found.single])
            answered.update(found.single)
        count = max(0, found.up_to + 1 - first)
        if count:
            numbered = zip(range(first, first + count), islice(unconfirmed, count), strict=True)
            peer.engine.acknowledge_all([msgid for number, msgid in numbered if number not in answered])
        while first + count in answered:
            count += 1
        if count == len(unconfirmed):
            unconfirmed.clear()
        else:
            for _ in range(count):
                unconfirmed.popleft()
        self._first += count
        if answered:
            answered.difference_update(range(first, self._first))


def _cut(
    route: CachedRoute,
    shape: _Shape,
    msgids: Sequence[bytes],
    messages: Sequence[bytes],
    prefixes: Sequence[bytes] = PREFIXES,
    end: bytes = b"",
) -> list[_JobRun]:
    """Make runs of messages of one shape; where the length of their ids changes another one begins."""
    runs: list[_JobRun] = []
    suffix, size = shape.suffix, -1
    if end:  # in place of that of the shape, which has none
        suffix = suffix[: -len(end)] + end
    prefix, contents = b"", []
    for msgid, message in zip(msgids, messages, strict=True):
        if len(msgid) != size:
            size = len(msgid)
            prefix = prefixes[size]
            runs.append(_JobRun(route, shape.head(prefix, msgid)))
            contents = runs[-1].contents
        contents.append(prefix + msgid + suffix + message)
    return runs
