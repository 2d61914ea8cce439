"""What a writer sends: from contents that are alike to runs in queues, and back to Confirm and Reject.

    ContentRun ──> the shape of its kind: target, route, head ──> Publisher ──> queues ─┐
    Confirm, Reject <── LeaseConfirms, by numbers <── placed, and on disk if durable ───┘

All contents of a kind have one head and one route (``_ContentShape``), so that one costs a concatenation. A shape
stands until the directory changes: then the profile is asked again, since what it leads to may be another thing.

What becomes of contents belongs to the lease and not to the flow (``LeaseConfirms``): a flow may end while the disk
still writes, and the next one of the lease is to tell.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from operator import add
from typing import TYPE_CHECKING, Final

from triomq.core import CachedRoute, Confirms, Directory, Head, Publisher, Receipt, traits_of
from triomq.endpoints.content import check_expiration
from triomq.endpoints.mtl.content import BROKERS_OWN, HAS_ADDRESS, MTL_CODEC, with_message_id, without_own
from triomq.endpoints.mtl.profile import ContentTarget
from triomq.errors import AccessRefused
from triomq.protocols.mtl import ContentKind, ContentRun, MTLDataServer

if TYPE_CHECKING:
    from triomq.endpoints.mtl.data_peer import MTLDataPeer
    from triomq.endpoints.mtl.leases import DataLease

_SHAPES: Final = 512
"""Shapes of one flow that are remembered: as many as its engine remembers kinds."""

_LARGEST_SHAPE: Final = 2048
"""Bytes of a table whose shape is remembered: larger ones are new each time, and a shape keeps one."""

_PERSISTENT: Final = 2  # delivery-mode

_OWN: Final = tuple(name.encode() for name in BROKERS_OWN)


class LeaseConfirms:
    """What becomes of the contents of a lease; made with it, and told by the flow that has it.

    Args:
        directory: Of the domain.
        wake: Called when there is something to tell.
    """

    __slots__ = ("_answered", "_confirms", "_first", "_sequences", "_unrouted")

    def __init__(self, directory: Directory, wake: Callable[[], None]) -> None:
        self._confirms = Confirms(wake, directory.persistence, wake)
        self._sequences: deque[int] = deque()  # by the numbers of ``_confirms``, which begin at ``_first``
        self._first = 1
        self._answered: set[int] = set()  # numbers behind the first
        self._unrouted: set[int] = set()  # numbers of what no queue was bound for

    @property
    def is_open(self) -> bool:
        """Whether contents wait for their answer."""
        return bool(self._sequences)

    def expect(self, count: int, copies: int) -> Receipt:
        """Follow the fate of a run, as ``Expecting`` has it."""
        return self._confirms.expect(count, copies)

    def taken(self, sequences: Sequence[int]) -> None:
        """Note the numbers of contents that were published."""
        self._sequences += sequences

    def refuse_unrouted(self, receipt: Receipt) -> None:
        """Have a run refused that no queue was bound for."""
        numbers = range(receipt.first, receipt.first + receipt.count)
        receipt.refusals = set(numbers)
        self._unrouted.update(numbers)

    def tell(self, engine: MTLDataServer) -> None:
        """Confirm what is safe, and reject what found no room."""
        sequences = self._sequences
        if not sequences:
            return
        found, first, answered = self._confirms.take(), self._first, self._answered
        for number in found.refused:
            is_unrouted = number in self._unrouted
            self._unrouted.discard(number)
            engine.reject_contents((sequences[number - first],), recycle=not is_unrouted)
        answered.update(found.refused)
        # Those that follow each other from the first on, as nearly all do, come in one go.
        count = max(0, found.up_to + 1 - first)
        safe = [sequences[number - first] for number in found.single]
        if count and not answered:
            safe += islice(sequences, count)
        elif count:
            numbered = zip(range(first, first + count), islice(sequences, count), strict=True)
            safe += [sequence for number, sequence in numbered if number not in answered]
        answered.update(found.single)
        if safe:
            engine.confirm_contents(safe)
        while first + count in answered:
            count += 1
        if count == len(sequences):
            sequences.clear()
        else:
            for _ in range(count):
                sequences.popleft()
        self._first += count
        if answered:
            answered.difference_update(range(first, self._first))


class _ExpectingRoute:
    """Follows runs which some queue has to be bound for."""

    __slots__ = ("_confirms",)

    def __init__(self, confirms: LeaseConfirms) -> None:
        self._confirms = confirms

    def expect(self, count: int, copies: int) -> Receipt:
        """Return the receipt of a run; one without copies is refused."""
        receipt = self._confirms.expect(count, copies)
        if not copies:
            self._confirms.refuse_unrouted(receipt)
        return receipt


class _ContentShape:
    """What contents of one kind have in common for the core."""

    __slots__ = ("change", "expecting", "head", "publisher", "route", "version")

    def __init__(
        self,
        version: int,
        publisher: Publisher,
        route: CachedRoute,
        head: Head,
        change: Callable[[bytes], bytes] | None,
        expecting: "_ExpectingRoute | LeaseConfirms | None",
    ) -> None:
        self.version = version
        self.publisher = publisher
        self.route = route
        self.head = head
        self.change = change
        """What is done to the table of each; nothing, mostly."""
        self.expecting = expecting


class ContentIntake:
    """The way of a flow's contents into the core; made when it has claimed the lease of a writer.

    Args:
        flow: The flow.
        lease: The lease.
    """

    __slots__ = ("_flow", "_lease", "_publishers", "_shapes")

    def __init__(self, flow: "MTLDataPeer", lease: "DataLease") -> None:
        self._flow = flow
        self._lease = lease
        self._shapes: dict[ContentKind, _ContentShape] = {}
        self._publishers: dict[str, Publisher] = {}  # by the queue that each leads into
        if lease.terms.confirms and lease.confirms is None:
            lease.confirms = LeaseConfirms(lease.directory, lease.wake)

    def take(self, run: ContentRun) -> None:
        """Publish contents, all of them or, if it raises, none."""
        flow, confirms = self._flow, self._lease.confirms
        shape = self._shapes.get(run.kind)
        if shape is None or shape.version != flow.directory.version:
            shape = self._find(run)
        tables = run.tables if shape.change is None else map(shape.change, run.tables)
        contents = list(map(add, tables, run.bodies))
        shape.publisher.publish(shape.route, shape.head, contents, sum(map(len, contents)), shape.expecting)
        if confirms is not None:
            flow.engine.accept(run.sequences)
            confirms.taken(run.sequences)

    def _find(self, run: ContentRun) -> _ContentShape:
        flow, properties = self._flow, run.kind.properties
        target = self._lease.terms.profile.target(flow, run.resource)
        basic = properties.basic
        if basic.user_id is not None and basic.user_id != flow.user:
            raise AccessRefused(f"user-id is {basic.user_id!r}, and you are {flow.user!r}; give your own name or none")
        check_expiration(basic.expiration)
        version = flow.directory.version
        key = properties.address if target.by_address and properties.address is not None else target.key
        change = self._change(run.kind, target)
        size = len(change(run.kind.table)) if change else run.kind.size
        traits = traits_of(
            codec=MTL_CODEC,
            publisher=flow.session.number,
            has_expiration=basic.expiration is not None,
            has_priority=basic.priority is not None,
            persistent=basic.delivery_mode == _PERSISTENT,
            expendable=self._lease.confirms is None,
        )
        flags = 0 if properties.address is None else HAS_ADDRESS
        head = Head(target.sink, key, 0, size, size, flags=flags, traits=traits)
        shape = _ContentShape(
            version, self._publisher(target), flow.routes.find(target.sink, key), head, change, self._expecting(target)
        )
        if run.kind.size <= _LARGEST_SHAPE:
            if len(self._shapes) >= _SHAPES:
                self._shapes.clear()
            self._shapes[run.kind] = shape
        return shape

    def _change(self, kind: ContentKind, target: ContentTarget) -> Callable[[bytes], bytes] | None:
        """Return what has to be done to the tables of a kind."""
        properties = kind.properties
        changes: list[Callable[[bytes], bytes]] = []
        if any(name in kind.table for name in _OWN):
            changes.append(without_own)
        address = properties.address
        if target.address_as_id and address and not properties.basic.message_id:
            changes.append(lambda table: with_message_id(table, address))
        if len(changes) == 2:
            return lambda table: changes[1](changes[0](table))
        return changes[0] if changes else None

    def _publisher(self, target: ContentTarget) -> Publisher:
        if not target.queue:
            return self._flow.publisher
        found = self._publishers.get(target.queue)
        if found is None:
            if len(self._publishers) >= _SHAPES:
                self._publishers.clear()
            found = self._publishers[target.queue] = self._flow.publisher.into_queue(target.queue)
        return found

    def _expecting(self, target: ContentTarget) -> "_ExpectingRoute | LeaseConfirms | None":
        confirms = self._lease.confirms
        return _ExpectingRoute(confirms) if confirms is not None and target.must_route else confirms
