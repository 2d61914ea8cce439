"""Publishing: the one way for messages into the queues of a domain, with every guard on it.

    a protocol's adapter: (route, head, contents)
        │ Publisher.publish
        ├─ the first publish of a turn: is memory short, is the store behind?         the guards change here
        ├─ the route stands: one comparison with ``Directory.version``
        └─ it does not: permission, sink, bindings, guards ── raise, and nothing of the run is taken
        │
    each queue is told ``Publish``; receipt, turn's budget and memory account are updated

Rules:

- What is not taken is raised, never returned. A protocol that forgets a returned verdict confirms a message that is
  lost; an exception that it forgets ends its client.
- A run is taken whole, or nothing of it is; a mix of several routes as well. So a protocol that waits may publish the
  very same run again. Therefore all messages that are routed by their content are looked at before the first one is
  placed, and the guards change between turns alone: memory is summed up, and the store asked how far behind it is,
  before a turn's first publish.
- A route that was found stands until ``Directory.version`` moves. Whatever could make it wrong moves that: bindings,
  sinks, queues, and the begin and the end of each pressure. While a pressure lasts no route is remembered, so every
  publish passes the guards; at all other times the guards cost one comparison for a run of any length.
- Taken is not placed. ``publish`` returns to how many queues a run went. Whether they have it, or refused it as full,
  is in the receipt, as is the batch with which it is on disk.
- What to do about a pressure is up to the protocol: stop reading, let a request wait, refuse, or answer "not taken".
  Mandatory is the protocol's as well; when a message expires is the queue's.

Dead letters do not come this way: they were taken before, and refusing them would lose them.

Tried and dropped: a verdict as an enum (see the first rule); head and route in two tables, looked up at each change of
the key (1.6 % more bytecodes at fifty keys); summing up memory inside of a turn (an alarm between two parts of a run
would have had the first part published twice).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Protocol, TypeVarTuple

import trio

from triomq.actors import Ref
from triomq.core.access import Permissions
from triomq.core.memory import MESSAGE_OVERHEAD
from triomq.core.message import Stretch, properties_of
from triomq.core.persistence.persistence import MOST_UNWRITTEN
from triomq.core.publishing.fanout import AT_ONCE, FanOut
from triomq.core.publishing.mix import Mix, Portion, Taken
from triomq.core.publishing.pressure import Pressure, PublishingPaused
from triomq.core.publishing.publish import Offer, Publish, take_now
from triomq.core.publishing.routed import CachedRoute, RoutedHead, RoutedRun
from triomq.core.refusals import Forbidden
from triomq.core.topology.content_routes import ContentRoute

if TYPE_CHECKING:
    from triomq.actors import Source, Turn
    from triomq.core.message import Head
    from triomq.core.publishing.confirms import Receipt
    from triomq.core.publishing.transaction import Transaction
    from triomq.core.topology.directory import Directory, Finder


Ts = TypeVarTuple("Ts")

_APART = 64
"""Messages of a mix that are placed singly at once, while there is a pressure."""

_HEADS = 64
"""Heads of a mix that are looked up at once, where they are routed by their content."""

Unrouted = Callable[["Head", Sequence[bytes]], None]
"""Called with messages that no queue is bound for."""


class Expecting(Protocol):
    """Numbers runs and follows their fate: ``Confirms`` does it for a channel, ``SingleReceipt`` for one message."""

    def expect(self, count: int, copies: int) -> Receipt:
        """Return the receipt of a run of so many messages, of which queues will place so many copies."""


class _IntoQueue:
    """A user's rights, where the default sink stands for one queue."""

    def __init__(self, access: Permissions, queue: str) -> None:
        self._access = access
        self._queue = queue

    def may_write(self, name: str) -> bool:
        return self._access.may_write(name or self._queue)

    def may_read(self, name: str) -> bool:
        return self._access.may_read(name)


def _any_restarts(portions: Iterable[Portion]) -> bool:
    return any(queue.actor is None for queues, _ in portions for queue in queues)


class Publisher:
    """The way into one domain for one client; made when the client enters the domain, ends with it.

    Args:
        directory: The domain's.
        access: What the client may do; ``EVERYTHING`` is for this program itself.
        turn: The one in which its publishes happen.
    """

    __slots__ = ("_access", "_directory", "_fanout", "_memory", "_persistence", "_turn", "source")

    def __init__(self, directory: Directory, access: Permissions, turn: Turn) -> None:
        self._directory = directory
        self._access = access
        self._turn = turn
        self.source: Source | None = None
        """The client, if it can be held back for a while when it runs ahead of consumers (see ``credit``)."""
        self._fanout: FanOut | None = None  # what very many queues have not been told yet
        self._memory = directory.memory
        self._persistence = directory.persistence

    def into_queue(self, queue: str) -> Publisher:
        """Return the client's way into one queue: its right is asked by that name, not by the default sink's."""
        publisher = Publisher(self._directory, _IntoQueue(self._access, queue), self._turn)
        publisher.source = self.source
        return publisher

    def publish(
        self,
        route: CachedRoute,
        head: Head,
        contents: Sequence[bytes],
        size: int,
        confirms: Expecting | None = None,
        unrouted: Unrouted | None = None,
        delay: float = 0.0,
    ) -> int:
        """Hand a run of messages to its queues, in a turn.

        Args:
            route: Where it goes; remembers what is found.
            head: What the messages share.
            contents: Their bytes; the sequence must not change any more.
            size: Total of the bytes.
            confirms: Follows what becomes of the run; None without a confirm.
            unrouted: Called with the head, and the messages that no queue is bound for: what mandatory means is the
                protocol's.
            delay: Seconds until the messages become ready.

        Returns:
            How many queues the run went to; if it is routed by content, how many one of its messages went to at most.

        Raises:
            Forbidden: The user may not.
            NoSuchSink: There is none of that name.
            SinkInternal: Only other sinks may publish into it.
            PublishingPaused: Not now.
        """
        turn = self._turn
        if not turn.spent:
            self._look()
        directory = self._directory
        if route.version != directory.version:
            return self._publish_admitted([RoutedRun(route, head, contents, size)], confirms, unrouted, delay)
        queues = route.queues
        pushes = len(contents) * len(queues)
        receipt = None if confirms is None else confirms.expect(len(contents), pushes)
        if directory.run_observers is not None:
            directory.run_observers.published(Stretch(head, contents), queues)
        if queues:
            turn.spent = spent = turn.spent + pushes
            self._memory.fresh += size + pushes * MESSAGE_OVERHEAD
            message = Publish(head, contents, size, receipt, None, delay)
            if spent > AT_ONCE or self._fanout is not None:
                self._spread(message, queues, spent - pushes)
            else:
                for queue in queues:
                    queue.tell_nowait(message)
        elif unrouted is not None:
            unrouted(head, contents)
        return len(queues)

    def publish_part(
        self,
        routed: RoutedHead,
        contents: Sequence[bytes],
        size: int,
        confirms: Expecting | None = None,
        unrouted: Unrouted | None = None,
    ) -> int:
        """Hand the first messages of a run to their queues: all, unless it takes too long to look into them.

        Returns:
            How many were taken; otherwise as ``publish``, with the same arguments.
        """
        route, head = routed.route, routed.head
        if len(contents) > 1 and route.version != self._directory.version:
            if not self._turn.spent:
                self._look()
            found = self._look_up(route, head, contents[0]) if self._is_open else None
            if isinstance(found, ContentRoute):
                ways = found.find_all(head, contents, self._turn)
                run = RoutedRun(route, head, contents[: len(ways)], size)
                self._publish_runs(self._divide(run, ways), confirms, unrouted)
                return len(ways)
        self.publish(route, head, contents, size, confirms, unrouted)
        return len(contents)

    def publish_mix(
        self,
        routed: Sequence[RoutedHead],
        contents: Sequence[bytes],
        size: int,
        confirms: Expecting | None = None,
        unrouted: Unrouted | None = None,
    ) -> Taken:
        """Hand messages of several heads and routes to their queues, none of them if one may not go.

        Args:
            routed: The route and the head of each message.
            contents: Their bytes, in the same order; neither sequence must change any more.
            size: Total of the bytes.
            confirms: Follows what becomes of them, as of one run; None without a confirm.
            unrouted: As for ``publish``.

        Returns:
            How many messages were taken, and where they went. The first ones are taken; all, unless that is too much
            for one turn.

        Raises:
            Forbidden: The user may not publish one of them, not necessarily the first.
            NoSuchSink: There is no sink for one of them.
            SinkInternal: Only other sinks may publish into one.
            PublishingPaused: Not now.
        """
        turn, directory = self._turn, self._directory
        if not turn.spent:
            self._look()
        mix = Mix(routed, contents, size)
        version = directory.version
        stale = [one for one in mix.members if one.route.version != version]
        if stale:
            by_content = self._find_all(stale, mix, contents, version)
            if not self._is_open:  # no route is remembered
                return self._publish_apart(mix.first(_APART), confirms, unrouted)
            if by_content:
                mix = self._follow(mix, by_content, version)
        mix = mix.up_to(AT_ONCE)
        portions = mix.portions()
        if confirms is not None and _any_restarts(portions):
            return self._publish_apart(mix, confirms, unrouted)  # a restart holds up its own messages alone
        self._publish_sorted(mix, portions, confirms, unrouted)
        return Taken(len(mix), [queues for queues, _ in portions])

    def _publish_sorted(
        self, mix: Mix, portions: Sequence[Portion], confirms: Expecting | None, unrouted: Unrouted | None
    ) -> None:
        """Publish a mix whose routes stand."""
        pushes = sum([len(queues) * len(positions) for queues, positions in portions])
        receipt = None if confirms is None else confirms.expect(len(mix), pushes)
        self._turn.spent += pushes
        self._memory.fresh += mix.size + pushes * MESSAGE_OVERHEAD
        for queues, positions in portions:
            for message in mix.publishes(positions, receipt):
                self._place(message, queues, unrouted)

    def _find_all(
        self, stale: Iterable[RoutedHead], mix: Mix, contents: Sequence[bytes], version: int
    ) -> dict[RoutedHead, ContentRoute]:
        """Find the routes of a mix that do not stand, as far as they may be remembered; raises what ``admit`` does.

        Returns:
            How to find the way of messages that are routed by their content; of the first few heads.
        """
        finders: dict[str, Finder | None] = {}
        by_content: dict[RoutedHead, ContentRoute] = {}
        for one in stale:
            route = one.route
            if route.sink not in finders:
                finders[route.sink] = self.finder(route.sink)
            find = finders[route.sink]
            queues = None if find is None or route.keys else find(route.key)
            if queues is None:
                found = self._look_up(route, one.head, contents[mix.members[one]])
                if isinstance(found, ContentRoute):
                    by_content[one] = found
                    if len(by_content) == _HEADS:
                        break
                    continue
                self._require_open(one.head, found)
                if not self._is_open:
                    break
                queues = found
            route.queues, route.version = queues, version
        return by_content

    def _follow(self, mix: Mix, by_content: Mapping[RoutedHead, ContentRoute], version: int) -> Mix:
        """Find the way of each message of a mix that is routed by its content; as many as one turn should look into."""
        turn = self._turn
        routed: list[RoutedHead] = []
        standing: dict[tuple[RoutedHead, tuple[Ref, ...]], RoutedHead] = {}
        for one, content in mix.messages():
            if one.route.version != version:
                if one not in by_content or (turn.exhausted and routed):
                    break
                queues = by_content[one].find(one.head, content)
                found = standing.get((one, queues))
                if found is None:
                    found = standing[one, queues] = RoutedHead(one.route.found(queues, version), one.head)
                one = found
            routed.append(one)
        return mix.first(len(routed)).by(routed)

    def finder(self, sink: str) -> Finder | None:
        """Return how to find the queues of very many keys; None if guards or contents have to be looked at for each.

        Raises:
            Forbidden: The user may not.
            NoSuchSink: There is none of that name.
            SinkInternal: Only other sinks may publish into it.
        """
        if not self._access.may_write(sink):
            raise Forbidden("sink", sink)
        return self._directory.finder(sink) if self._is_open else None

    def _publish_apart(self, mix: Mix, confirms: Expecting | None, unrouted: Unrouted | None) -> Taken:
        """Publish a mix as runs, as many as one turn should do."""
        taken = pushes = 0
        went: list[Sequence[Ref]] = []
        for run in self.admit(mix.runs()):
            if pushes > AT_ONCE:
                break
            self.publish(*run, confirms, unrouted)
            taken += len(run.contents)
            pushes += len(run.contents) * len(run.route.queues)
            went.append(run.route.queues)
        return Taken(taken, went)

    def _place(self, message: Publish, queues: Sequence[Ref], unrouted: Unrouted | None) -> None:
        """Tell queues of a part of a mix."""
        if self._directory.run_observers is not None:
            self._directory.run_observers.published(message.stretch, queues)
        if not queues:
            if unrouted is not None:
                for part in message.stretch.alike():
                    unrouted(part.head, part.contents)
        elif self._fanout is not None or len(message.contents) * len(queues) > AT_ONCE:
            self._spread(message, queues, 0)
        else:
            for queue in queues:
                queue.tell_nowait(message)

    def _spread(self, message: Publish, queues: Sequence[Ref], spent: int) -> None:
        """Publish to very many queues, to the first ones now unless this turn has pushed as much before."""
        if self._fanout is not None:
            self._fanout.add(message, queues)
            return
        now = AT_ONCE if spent < AT_ONCE else 0
        for queue in queues[:now]:
            queue.tell_nowait(message)
        if len(queues) > now:
            self._fanout = FanOut(self._directory, self._spread_out)
            self._fanout.add(message, queues[now:])
            self._directory.chores.add(self._fanout)

    def _spread_out(self) -> None:
        self._fanout = None

    def publish_all(
        self,
        runs: Sequence[RoutedRun],
        confirms: Expecting | None = None,
        unrouted: Unrouted | None = None,
    ) -> int:
        """Hand several runs to their queues, all of them or none; otherwise as ``publish``."""
        if len(runs) == 1:
            return self.publish(*runs[0], confirms, unrouted)
        return self._publish_admitted(runs, confirms, unrouted)

    def _publish_admitted(
        self,
        runs: Iterable[RoutedRun],
        confirms: Expecting | None,
        unrouted: Unrouted | None,
        delay: float = 0.0,
    ) -> int:
        return self._publish_runs(self.admit(runs), confirms, unrouted, delay)

    def _publish_runs(
        self,
        admitted: Sequence[RoutedRun],
        confirms: Expecting | None,
        unrouted: Unrouted | None,
        delay: float = 0.0,
    ) -> int:
        """Publish runs whose routes stand."""
        most = max([len(run.route.queues) for run in admitted], default=0)
        if len(admitted) > 1 and not delay and most * sum([len(run.contents) for run in admitted]) <= AT_ONCE:
            mix = Mix.of(admitted)
            portions = mix.portions()
            if confirms is None or not _any_restarts(portions):
                self._publish_sorted(mix, portions, confirms, unrouted)
                return most
        for run in admitted:
            self.publish(*run, confirms, unrouted, delay)
        return most

    def offer(self, run: RoutedRun, confirms: Expecting | None = None) -> Sequence[bytes]:
        """Hand each message of an admitted run to consumers that are there now (AMQP 0-9-1's immediate).

        Returns:
            The messages that no consumer takes.
        """
        route, head, contents, size = run
        queues = route.queues
        receipt = None if confirms is None else confirms.expect(len(contents), 0)  # no queue will report
        self.count(len(contents) * len(queues), size)
        missed = [content for content in contents if not self._offer(head, content, queues)]
        if self._directory.run_observers is not None:
            self._directory.run_observers.published(Stretch(head, contents), queues)
        if receipt is not None and queues and head.traits.persistent and self._persistence is not None:
            receipt.number = self._persistence.journal.require_commit()  # consumers may have got what is recorded
        return missed

    def _offer(self, head: Head, content: bytes, queues: Sequence[Ref]) -> bool:
        taken = [take_now(queue, Offer(head, content)) for queue in queues]  # each of them is asked
        return any(taken)

    def run(self, function: Callable[[*Ts], None], *args: *Ts) -> None:
        """Call a function in a turn, for work that publishes and comes from a task."""
        self._turn.run(function, *args)

    def commit(self, transaction: Transaction) -> None:
        """Do what a transaction has gathered, whose runs were admitted; raises what ``Transaction.commit`` does."""
        total_size = transaction.total_size
        self.count(transaction.commit(), total_size)

    def count(self, pushes: int, total_size: int) -> None:
        """Count what went to queues against the turn's budget and the broker's memory."""
        self._turn.spent += pushes
        self._memory.fresh += total_size + pushes * MESSAGE_OVERHEAD

    # The guards

    def _look(self) -> None:
        """Check what publishers may have to wait for: before a turn's first publish, and at no other time."""
        self._turn.source = self.source
        if self._fanout is not None:
            self._directory.changed()  # no route stands, so the guards see it
        memory = self._memory
        if memory.fresh > memory.room:
            memory.measure()
        if self._persistence is not None and self._persistence.journal.pending_bytes > MOST_UNWRITTEN:
            self._persistence.look()

    def admit(self, runs: Iterable[RoutedRun]) -> list[RoutedRun]:
        """Pass the guards alone, and find where the messages go; for ``offer`` and ``Transaction``.

        Returns:
            The same messages in the same order, in runs whose routes stand for the rest of this turn. Messages that
            are routed by their content may need several runs.

        Raises:
            Forbidden: The user may not.
            NoSuchSink: There is none of that name.
            SinkInternal: Only other sinks may publish into it.
            PublishingPaused: Not now.
        """
        if not self._turn.spent:
            self._look()
        version = self._directory.version
        admitted: list[RoutedRun] = []
        for run in runs:
            if run.route.version == version:
                admitted.append(run)
            else:
                admitted += self._admit(run, version)
        return admitted

    def _admit(self, run: RoutedRun, version: int) -> list[RoutedRun]:
        """Admit one run whose route does not stand."""
        route, head, contents, _ = run
        found = self._look_up(route, head, contents[0])
        if isinstance(found, ContentRoute):
            return self._divide(run, found.find_all(head, contents))
        self._require_open(head, found)
        if self._is_open:
            route.queues, route.version = found, version
            return [run]
        return [run._replace(route=route.found(found, version))]

    def _divide(self, run: RoutedRun, ways: Sequence[tuple[Ref, ...]]) -> list[RoutedRun]:
        """Admit a run whose messages go different ways; neighbours with the same way stay together."""
        route, head, contents, _ = run
        version = self._directory.version
        standing = {queues: route.found(queues, version) for queues in dict.fromkeys(ways)}
        for queues in standing:
            self._require_open(head, queues)
        if len(standing) == 1:
            return [RoutedRun(standing[ways[0]], head, contents, sum(map(len, contents)))]
        admitted: list[RoutedRun] = []
        start = 0
        for queues, group in groupby(ways):
            members = contents[start : start + len(list(group))]
            start += len(members)
            admitted.append(RoutedRun(standing[queues], head, members, sum(map(len, members))))
        return admitted

    def _look_up(self, route: CachedRoute, head: Head, content: bytes) -> tuple[Ref, ...] | ContentRoute:
        """Return the queues of a route that does not stand, or how to find those of each message.

        Raises:
            Forbidden: The user may not.
            NoSuchSink: There is none of that name.
            SinkInternal: Only other sinks may publish into it.
        """
        if not self._access.may_write(route.sink):
            raise Forbidden("sink", route.sink)
        routes, way = self._directory.content_routes, (route.sink, (route.key, *route.keys))
        known = routes.get(way)
        if known is not None:
            return known
        found = routes.route(way, head.traits.codec, properties_of(head, content))
        return routes.add(way) if found.by_headers else found.queues

    @property
    def _is_open(self) -> bool:
        """Whether there is no pressure at all, so that routes may be remembered."""
        persistence = self._persistence
        if self._memory.on or self._fanout is not None:
            return False
        return persistence is None or (persistence.journal.fault is None and not persistence.behind)

    def _require_open(self, head: Head, queues: Sequence[Ref]) -> None:
        """Raise if some queues are not to get messages now.

        Memory comes first: a client that waits for it loses nothing, but a full disk may end a client.

        Raises:
            PublishingPaused: That is so.
        """
        if not queues or self._is_open:
            return
        if self._memory.on:
            raise PublishingPaused(Pressure.MEMORY, queues)
        if head.traits.persistent and self._directory.fault_of(queues) is not None:
            raise PublishingPaused(Pressure.DISK, queues)
        if self._fanout is not None or (self._persistence is not None and self._persistence.behind):
            raise PublishingPaused(Pressure.BEHIND, queues)

    def when_open(self, pressure: Pressure, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, when a pressure is over.

        To be called in the turn that met the pressure. The callback may come within another actor's turn, so it should
        not publish at once.
        """
        if pressure is Pressure.BEHIND and self._fanout is not None:
            self._fanout.when_done(callback)
        elif pressure is Pressure.MEMORY or self._persistence is None:
            self._memory.when_over(callback)
        elif pressure is Pressure.DISK:
            self._persistence.when_writable(callback)
        else:
            self._persistence.when_caught_up(callback)

    async def wait_open(self, pressure: Pressure) -> None:
        """Wait until a pressure is over that was met just now."""
        over = trio.Event()
        self.when_open(pressure, over.set)
        try:
            await over.wait()
        finally:
            self.forget(over.set)

    def forget(self, callback: Callable[[], None]) -> None:
        """Withdraw a callback that was not called yet."""
        self._memory.forget(callback)
        if self._fanout is not None:
            self._fanout.forget(callback)
        if self._persistence is not None:
            self._persistence.forget_writable(callback)
            self._persistence.forget_caught_up(callback)
