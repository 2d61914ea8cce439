"""What a reader gets: the resources that it has summoned, their queues, and what is unconfirmed.

    Summon ──> profile.source ──> queues ──> give ──> Content 1, 2, 3 …
    Confirm, Reject ──> the ledger of the flow, by the same numbers ──> queues

The numbers of contents are those of the ledger, since both begin with 1 and leave none out. A resource may have several
queues, which come and go (``SourceQueues``). One whose queue crashes goes on when that runs again. When its last queue
is deleted the client is told by a Response 404 with the number of its Summon, for which the specification has no word.
"""

from functools import partial
from typing import TYPE_CHECKING, Final

from triomq.core import Batch, Outcome, Restarting, Subscription, Window, body_of, settle
from triomq.endpoints.mtl.content import MTL_CODEC
from triomq.endpoints.mtl.profile import ContentSource, ResourceProfile
from triomq.errors import ActorError, Refused
from triomq.protocols.mtl import EMPTY_TABLE, ConfirmRun, ContentsRejected, Dismissed, Summoned, content_suffix

if TYPE_CHECKING:
    from triomq.endpoints.mtl.data_peer import MTLDataPeer
    from triomq.endpoints.mtl.leases import DataLease

_GONE: Final = 404


class SummonedResource:
    """A resource that a flow has summoned; made by its reader, ends when it is dismissed.

    Args:
        reader: The flow's.
        name: The resource.
        summon: The number of the Summon.
        source: Where its content comes from.
    """

    __slots__ = ("_reader", "_source", "_window", "is_over", "name", "prefix", "subscriptions", "summon")

    def __init__(self, reader: "ContentReader", name: str, summon: int, source: ContentSource) -> None:
        self._reader = reader
        self._source = source
        self._window = Window(source.most) if source.most else None
        self.name = name
        self.summon = summon
        self.prefix = content_suffix(name, b"")
        """What stands before the table in the header of each content, behind its number."""
        self.subscriptions: dict[str, Subscription] = {}
        """By queue."""
        self.is_over = False

    def begin(self) -> None:
        """Let content come; raises as ``DomainWork.subscribe`` does."""
        queues = self._source.queues
        for queue in [self._source.queue] if queues is None else queues.attach(self):
            self.take_from(queue)

    def take_from(self, queue: str) -> None:
        """Let content of one more queue come; raises as ``DomainWork.subscribe`` does."""
        if queue in self.subscriptions or self.is_over:
            return
        reader, source = self._reader, self._source
        shared = tuple(window for window in (self._window, reader.window) if window is not None)
        self.subscriptions[queue] = subscription = reader.flow.subscribe(
            queue, no_ack=not reader.confirms, exclusive=source.exclusive, no_local=source.no_local, shared=shared
        )
        reader.of_subscription[subscription] = self

    def leave(self, queue: str) -> None:
        """Let nothing more come from a queue; what is unconfirmed stays so."""
        subscription = self.subscriptions.pop(queue, None)
        if subscription is not None:
            self._reader.of_subscription.pop(subscription, None)
            if subscription.open:
                self._reader.flow.unsubscribe(subscription)

    def lost(self, subscription: Subscription, reason: str) -> None:
        """Take from a queue again that has crashed, when it runs; pass over one that is gone, if there are others."""
        for queue in [queue for queue, its in self.subscriptions.items() if its is subscription]:
            del self.subscriptions[queue]
            self._try_again(queue, reason)

    def _try_again(self, queue: str, reason: str) -> None:
        try:
            self.take_from(queue)
        except Restarting as restarting:
            self._reader.flow.when_restarted(restarting, partial(self._try_again, queue, reason))
        except (Refused, ActorError):
            if not self._is_still_there():
                self.source_ended(reason)

    def _is_still_there(self) -> bool:
        """Return whether there is a resource without the queue that has gone."""
        if self._source.queues is None:
            return bool(self.subscriptions)
        try:
            self._reader.profile.require_reader(self._reader.flow, self.name)
        except (Refused, ActorError):
            return False
        return True

    def source_ended(self, reason: str) -> None:
        """Let nothing more come at all, and tell the client."""
        if not self.is_over:
            self.end()
            self._reader.resource_ended(self)

    def end(self) -> None:
        """Let nothing more come."""
        self.is_over = True
        if self._source.queues is not None:
            self._source.queues.detach(self)
        for queue in list(self.subscriptions):
            self.leave(queue)


class ContentReader:
    """The reader's side of a flow; made when it has claimed the lease of a reader.

    Args:
        flow: The flow.
        lease: The lease.
    """

    __slots__ = ("_lease", "_summoned", "confirms", "flow", "of_subscription", "window")

    def __init__(self, flow: "MTLDataPeer", lease: "DataLease") -> None:
        self.flow = flow
        self.confirms = lease.terms.confirms
        self.window = Window(lease.terms.prefetch) if self.confirms else None
        """What counts unconfirmed contents of all resources."""
        self.of_subscription: dict[Subscription, SummonedResource] = {}
        self._lease = lease
        self._summoned: dict[str, SummonedResource] = {}

    @property
    def profile(self) -> ResourceProfile:
        """By which its resources mean something."""
        return self._lease.terms.profile

    def summon(self, event: Summoned) -> None:
        """Let content of a resource come; raises what the profile does, and changes nothing then."""
        source = self.profile.source(self.flow, event.resource)
        summoned = SummonedResource(self, event.resource, event.sequence, source)
        try:
            summoned.begin()
        except BaseException:
            summoned.end()
            raise
        self._summoned[event.resource] = summoned
        self.flow.engine.answer(event)  # goes before any content, which is encoded when the turn ends

    def dismiss(self, event: Dismissed) -> None:
        """Let no more content of a resource come."""
        summoned = self._summoned.pop(event.resource, None)
        if summoned is not None:  # else the broker ends, and has dismissed all
            summoned.end()
        self.flow.engine.answer(event)

    def resource_ended(self, summoned: SummonedResource) -> None:
        """Tell the client that a resource has gone."""
        if self._summoned.pop(summoned.name, None) is not None:
            self.flow.engine.end_resource(summoned.name)
            self.flow.engine.respond(summoned.summon, _GONE)
            self.flow.ref.touch()

    def queue_lost(self, subscription: Subscription, reason: str) -> None:
        """Go on behind a queue that has crashed or has gone."""
        summoned = self.of_subscription.pop(subscription, None)
        if summoned is not None:
            summoned.lost(subscription, reason)

    def stop(self) -> None:
        """Let no more content come at all."""
        for summoned in list(self._summoned.values()):
            summoned.end()
        self._summoned.clear()

    # Contents

    def give(self, batch: Batch) -> None:
        """Send the contents of a batch."""
        feed = batch.feed
        assert feed is not None
        assert isinstance(feed.key, Subscription)
        summoned = self.of_subscription.get(feed.key)
        if summoned is None:
            self.flow.give_back(batch)
            return
        suffixes, bodies = self._suffixes(batch, summoned.prefix)
        first = self.flow.engine.send_each(suffixes, bodies)
        if self.confirms:
            entered = self.flow.unsettled.enter(batch)
            assert entered == first, "contents and deliveries have the same numbers"
        else:
            settle(batch, Outcome.ACCEPT)

    def _suffixes(self, batch: Batch, prefix: bytes) -> tuple[list[bytes], list[bytes]]:
        """Return what stands behind the number in the header of each content, and the bodies."""
        head, tables = batch.head, self.flow.hub.tables
        if batch.heads is None and head.traits.codec == MTL_CODEC:
            size, added = head.body_start, tables.added(head, redelivered=batch.redelivered)
            contents = [content for content in batch.contents if content is not None]
            bodies = [content[size:] for content in contents]
            if not added:
                return [prefix + content[:size] for content in contents], bodies
            start, before = len(EMPTY_TABLE), prefix + (size - len(EMPTY_TABLE) + len(added)).to_bytes(4, "big")
            return [before + content[start:size] + added for content in contents], bodies
        suffixes: list[bytes] = []
        bodies = []
        for position, content in enumerate(batch.contents):
            if content is not None:
                suffixes.append(prefix + tables.whole(batch.message(position), redelivered=batch.redelivered))
                bodies.append(body_of(batch.head_at(position), content))
        return suffixes, bodies

    def confirm(self, run: ConfirmRun) -> None:
        """Settle contents that the client has."""
        ledger = self.flow.unsettled
        if run.up_to:
            ledger.settle_through(run.up_to, Outcome.ACCEPT)
        known = [number for number in dict.fromkeys(run.sequences) if ledger.find(number) is not None]
        if known:
            ledger.settle_each(known, Outcome.ACCEPT)

    def reject(self, event: ContentsRejected) -> None:
        """Put contents back that the client does not take, or let them become dead letters."""
        ledger, outcome = self.flow.unsettled, Outcome.REQUEUE if event.recycle else Outcome.REJECT
        if event.multiple:
            ledger.settle_through(event.sequence, outcome)
        elif ledger.find(event.sequence) is not None:
            ledger.settle_each((event.sequence,), outcome)
