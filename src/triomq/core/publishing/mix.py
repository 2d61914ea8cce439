"""A mix: neighbours that a publisher sent at once, of several heads and routes.

    heads and routes   a b a c b a c      (a and b lead to q and r, c leads to q)
    q, all of them     a b a c b a c      one Publish, with the head of each
    r, positions       0 1 2   4 5        another one

- Order is sacred in each queue, and means nothing between queues. So each queue gets one ``Publish`` with its messages
  in their order, instead of one for each change of the key; queues that get the same messages get the same ``Publish``.
- A ``Publish`` holds messages of the same traits alone. Where these change, and they seldom do, it is cut.
- All is found by identity, and what routes have to say is asked once for each of them, not for each message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, repeat
from operator import is_
from typing import TYPE_CHECKING, NamedTuple

from triomq.core.publishing.publish import Publish
from triomq.core.publishing.routed import RoutedHead, RoutedRun

if TYPE_CHECKING:
    from triomq.actors import Ref
    from triomq.core.message import Head
    from triomq.core.publishing.confirms import Receipt
    from triomq.core.publishing.routed import CachedRoute

Portion = tuple[Sequence["Ref"], Sequence[int]]
"""Queues, and the positions of the messages that each of them gets."""


class Taken(NamedTuple):
    """What became of a mix.

    Args:
        messages: How many of its messages were taken, the first ones.
        queues: The queues that they went to, one or several times each.
    """

    messages: int
    queues: list[Sequence[Ref]]


class Mix:
    """Sorts messages by the queues that they go to; made by the publisher for one call.

    Args:
        routed: Route and head of each message.
        contents: Their bytes.
        size: Total of the bytes.
    """

    __slots__ = ("_contents", "_routed", "_same_traits", "members", "size")

    def __init__(self, routed: Sequence[RoutedHead], contents: Sequence[bytes], size: int) -> None:
        self._routed = routed
        self._contents = contents
        self.size = size
        self._same_traits: bool | None = None  # not looked at yet
        self.members = dict(zip(routed, range(len(routed)), strict=True))
        """Each route and head once, with the position of a message that has it."""

    @classmethod
    def of(cls, runs: Iterable[RoutedRun]) -> Mix:
        """Make a mix of neighbouring runs."""
        known: dict[tuple[CachedRoute, Head], RoutedHead] = {}
        routed: list[RoutedHead] = []
        contents: list[bytes] = []
        for run in runs:
            alike = (run.route, run.head)
            one = known.get(alike) or known.setdefault(alike, RoutedHead(*alike))
            routed += [one] * len(run.contents)
            contents += run.contents
        return cls(routed, contents, sum(map(len, contents)))

    def __len__(self) -> int:
        return len(self._routed)

    @property
    def is_one_way(self) -> bool:
        """Whether all messages go to the same queues."""
        queues = self._routed[0].route.queues
        return all(one.route.queues == queues for one in self.members)

    def first(self, count: int) -> Mix:
        """Return so many of the first messages, or all."""
        if count >= len(self):
            return self
        contents = self._contents[:count]
        return Mix(self._routed[:count], contents, sum(map(len, contents)))

    def by(self, routed: Sequence[RoutedHead]) -> Mix:
        """Return the same messages with other routes."""
        return Mix(routed, self._contents, self.size)

    def messages(self) -> Iterator[tuple[RoutedHead, bytes]]:
        """Go through the messages, each with its route and head."""
        return zip(self._routed, self._contents, strict=True)

    def up_to(self, copies: int) -> Mix:
        """Return the first messages, about so many copies to sort; all of them where there is nothing to sort."""
        most = max([len(one.route.queues) for one in self.members])
        if most * len(self) <= copies or self.is_one_way:
            return self
        return self.first(max(1, copies // most))

    def runs(self) -> Iterator[RoutedRun]:
        """Cut it where route or head changes."""
        start = 0
        for one, group in groupby(self._routed):
            stop = start + len(list(group))
            contents = self._contents[start:stop]
            yield RoutedRun(one.route, one.head, contents, sum(map(len, contents)))
            start = stop

    def portions(self) -> list[Portion]:
        """Return which queues get which messages; those that no queue gets are a portion too."""
        if self.is_one_way:
            return [(self._routed[0].route.queues, range(len(self)))]
        places: dict[RoutedHead, list[int]] = {one: [] for one in self.members}
        for position, one in enumerate(self._routed):
            places[one].append(position)
        found: dict[Ref | None, list[RoutedHead]] = {}
        for one in places:
            for queue in one.route.queues or (None,):
                found.setdefault(queue, []).append(one)
        together: dict[tuple[RoutedHead, ...], list[Ref]] = {}
        for queue, those in found.items():
            some = together.setdefault(tuple(those), [])
            if queue is not None:
                some.append(queue)
        return [
            (some, places[those[0]] if len(those) == 1 else sorted(chain.from_iterable([places[one] for one in those])))
            for those, some in together.items()
        ]

    def publishes(self, positions: Sequence[int], receipt: Receipt | None) -> Iterator[Publish]:
        """Return what to tell queues of the messages at some positions."""
        if self._same_traits is None:
            self._same_traits = len({id(one.head.traits) for one in self.members}) == 1
        if self._same_traits:
            yield self._publish(positions, receipt)
            return
        for _, group in groupby(positions, key=lambda position: id(self._routed[position].head.traits)):
            yield self._publish(list(group), receipt)

    def _publish(self, positions: Sequence[int], receipt: Receipt | None) -> Publish:
        if len(positions) == len(self._routed):
            contents, size, places = self._contents, self.size, None
            heads = [one.head for one in self._routed]
        else:
            contents = [self._contents[position] for position in positions]
            size, places = sum(map(len, contents)), positions
            heads = [self._routed[position].head for position in positions]
        head = heads[0]
        is_one = all(map(is_, heads, repeat(head)))
        return Publish(head, contents, size, receipt, places, 0.0, None if is_one else heads)
