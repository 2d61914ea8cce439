"""What a peer wants to be published, REQUEST and PUBLISH, until each has its ACK.

    REQUEST ──> request ──> runs of jobs that are alike ── the end of the turn ──> publish_runs ──> queues ─┐
    PUBLISH ──> publish ──────────────────────────────────────────────────────────────────────────> sink ──┤
    ACK, ERROR <── confirm <── Confirms, by numbers <── the queue has it, and the disk where it is durable ─┘

A message is ACKed when its queue has it, and what is durable is on disk. What is refused is answered by ERROR where
the peer knows that. Ids are the peers' own, and need not be unique; so numbers stand for them until they are answered.
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from triomq.core import CachedRoute, Confirms, Head, RoutedRun, traits_of
from triomq.endpoints.emqp.content import EMQP_CODEC, TOPICS, RequestProperties, encode_request
from triomq.endpoints.emqp.queues import queue_for
from triomq.protocols.emqp import NO_EXTENSION, Extension, Headers, Requested, TopicPublished, encode_extension
from triomq.transports.zmq import Frames

if TYPE_CHECKING:
    from triomq.endpoints.emqp.peer import EMQPPeer

_HEADS: Final = 64
"""Heads of one peer: the lengths of what stands before the payload, for each of its queues."""


class _Run:
    """Jobs in a row that are alike."""

    __slots__ = ("contents", "head", "route", "size")

    def __init__(self, route: CachedRoute, head: Head) -> None:
        self.route = route
        self.head = head
        self.contents: list[bytes] = []
        self.size = 0


class Intake:
    """The way of a peer's messages into the core; made when the peer has entered a domain.

    Args:
        peer: The peer.
    """

    def __init__(self, peer: "EMQPPeer") -> None:
        self._peer = peer
        self._heads: dict[tuple[str, str, int, bool], Head] = {}
        self._runs: list[_Run] = []  # jobs that have come together
        self._ids: list[bytes] = []
        self._unconfirmed: deque[bytes] = deque()  # ids, by the numbers of ``_confirms``
        self._first = 1  # the number of the first of them
        self._answered: set[int] = set()  # numbers behind the first
        self._confirms = Confirms(peer.ref.touch, peer.directory.persistence, self._committed)

    # In

    def request(self, event: Requested, frames: Frames) -> None:
        """Take a job; it is published with others when all that has come is looked at (``publish_runs``)."""
        peer = self._peer
        queue = queue_for(event.queue, peer.directory, peer.domain)
        origin = self._origin(event.msgid, event.headers, event.extension)
        head, content = self._message("", event.queue or queue, origin, event.headers, event.message)
        route = peer.routes.find("", queue)
        if event.extension.delay:
            self._publish(route, head, content, event.msgid, event.extension.delay / 1000)
            return
        runs = self._runs
        if not runs or runs[-1].route is not route or runs[-1].head is not head:
            runs.append(_Run(route, head))
        runs[-1].contents.append(content)
        runs[-1].size += len(content)
        self._ids.append(event.msgid)
        peer.gathered.append(frames)

    def publish_runs(self) -> None:
        """Publish the jobs that have come together: all of them, or none, as ``RouterClient.work_off`` says."""
        runs, ids = self._runs, self._ids
        self._runs, self._ids = [], []
        self._peer.publisher.publish_all(
            [RoutedRun(run.route, run.head, run.contents, run.size) for run in runs], self._confirms
        )
        self._unconfirmed += ids

    def publish(self, event: TopicPublished) -> None:
        """Publish to a topic."""
        properties = RequestProperties(event.msgid, event.headers.frame, user=self._peer.user)
        head, content = self._message(TOPICS, event.topic, properties, event.headers, event.message)
        self._publish(self._peer.routes.find(TOPICS, event.topic), head, content, event.msgid)

    def _origin(self, msgid: bytes, headers: Headers, extension: Extension) -> RequestProperties:
        return RequestProperties(
            msgid,
            headers.frame,
            self._peer.identity if headers.reply_requested else b"",
            self._peer.user,
            b"" if extension is NO_EXTENSION else encode_extension(extension),
        )

    def _message(
        self, sink: str, name: str, properties: RequestProperties, headers: Headers, message: bytes
    ) -> tuple[Head, bytes]:
        """Return the head and the content of a message."""
        encoded = encode_request(properties)
        shape = (sink, name, len(encoded), headers.guarantee)
        return self._heads.get(shape) or self._head(*shape), encoded + message

    def _head(self, sink: str, name: str, start: int, persistent: bool) -> Head:
        if len(self._heads) >= _HEADS:
            self._heads.clear()
        traits = traits_of(codec=EMQP_CODEC, publisher=self._peer.session.number, persistent=persistent)
        head = self._heads[sink, name, start, persistent] = Head(sink, name, 0, start, start, traits=traits)
        return head

    def _publish(self, route: CachedRoute, head: Head, content: bytes, msgid: bytes, delay: float = 0.0) -> None:
        """Publish a message; ACK follows when it is safe."""
        self._peer.publisher.publish(route, head, [content], len(content), self._confirms, delay=delay)
        self._unconfirmed.append(msgid)

    # Out

    def _committed(self) -> None:
        self._peer.ref.touch()  # it ends in ``after_batch``, which calls ``confirm``

    def confirm(self) -> None:
        """ACK what is safe, and refuse what found no room."""
        if not self._unconfirmed:
            return
        peer, found = self._peer, self._confirms.take()
        for number in found.refused:
            peer.refuse(self._unconfirmed[number - self._first], "full", "a queue has no room for it")
        self._answered.update(found.refused)
        for number in found.single:
            peer.engine.acknowledge(self._unconfirmed[number - self._first])
        self._answered.update(found.single)
        while self._unconfirmed and (self._first <= found.up_to or self._first in self._answered):
            msgid = self._unconfirmed.popleft()
            if self._first in self._answered:
                self._answered.discard(self._first)
            else:
                peer.engine.acknowledge(msgid)
            self._first += 1
