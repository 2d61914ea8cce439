"""What of a channel's deliveries is not settled yet, by delivery tag.

A tag leads to the batch that the message came in, for many messages come in one batch; the place in it is the tag less
the first one of those that were given together.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TypeAlias

import msgspec

from triomq.core import Batch, Outcome, settle
from triomq.endpoints.amqp_answers import AnswerError

__all__ = ["Settler", "Tagged", "Unsettled", "settle_now"]


class Tagged(msgspec.Struct, eq=False):
    """Messages of a batch that went out together under consecutive tags.

    Args:
        batch: The batch.
        first: The first message's tag.
        positions: The messages' positions in the batch; None says that they are all that it had.
    """

    batch: Batch
    first: int
    positions: Sequence[int] | None = None

    def at(self, offsets: Sequence[int]) -> Sequence[int]:
        """Tell which positions of the batch some offsets from the first tag mean."""
        positions = self.positions
        return offsets if positions is None else [positions[offset] for offset in offsets]

    @property
    def contents(self) -> list[bytes]:
        """The messages' octets, without those that are settled."""
        contents = self.batch.contents
        found = contents if self.positions is None else [contents[position] for position in self.positions]
        return [content for content in found if content is not None]


Settler: TypeAlias = Callable[[Tagged, Outcome, Sequence[int]], None]
"""What settles the deliveries at some offsets from the first tag."""


def settle_now(tagged: Tagged, outcome: Outcome, offsets: Sequence[int]) -> None:
    """Tell the queue at once."""
    batch = tagged.batch
    settle(batch, outcome, None if len(offsets) == batch.left else tagged.at(offsets))


class Unsettled:
    """The delivery tags of one channel; made with the channel, ends with it.

    ``settler`` is what becomes of settlements: told at once, or kept by a transaction.
    """

    __slots__ = ("_entries", "_oldest", "next_tag", "settler")

    def __init__(self) -> None:
        """Start with tag 1 (AMQP 0-9-1 section 1.1, delivery-tag: zero is reserved)."""
        self.next_tag = 1
        self.settler: Settler = settle_now
        self._entries: dict[int, Tagged] = {}
        self._oldest = 1  # no tag below this one is unsettled

    def skip(self, count: int) -> int:
        """Number messages that nobody settles; give the first tag."""
        first = self.next_tag
        self.next_tag = first + count
        return first

    def number(self, batch: Batch) -> int:
        """Number all messages of a batch, and remember where the tags lead; give the first one."""
        first = self.next_tag
        self.next_tag = following = first + batch.left
        tagged = Tagged(batch, first)
        if following - first == 1:
            self._entries[first] = tagged
        else:
            self._entries.update(dict.fromkeys(range(first, following), tagged))
        return first

    def settle_each(self, tags: Sequence[int], outcome: Outcome) -> None:
        """Settle deliveries one by one; neighbours of one batch are settled together.

        Raises:
            AnswerError: A tag is unknown; those before it are settled.
        """
        if len(tags) == 1:  # a consumer that acks each by itself: no grouping to do
            found = self._entries.pop(tags[0], None)
            if found is None:
                raise AnswerError(406, f"unknown delivery tag {tags[0]}")
            self.settler(found, outcome, (tags[0] - found.first,))
        else:
            self._settle(tags, outcome, self.settler)

    def _settle(self, tags: Sequence[int], outcome: Outcome, settler: Settler) -> None:
        tagged: Tagged | None = None
        offsets: list[int] = []
        for tag in tags:
            found = self._entries.pop(tag, None)
            if found is not tagged:
                if tagged is not None:
                    settler(tagged, outcome, offsets)
                tagged, offsets = found, []
            if found is None:
                raise AnswerError(406, f"unknown delivery tag {tag}")
            offsets.append(tag - found.first)
        if tagged is not None:
            settler(tagged, outcome, offsets)

    def settle_up_to(self, tag: int, outcome: Outcome) -> None:
        """Settle all deliveries up to a tag, 0 meaning all (section 1.8.3.13, multiple).

        Raises:
            AnswerError: The tag is unknown.
        """
        if tag and tag not in self._entries:
            raise AnswerError(406, f"unknown delivery tag {tag}")
        last = tag or self.next_tag - 1
        present = self._up_to(last)
        self._oldest = last + 1
        self._settle(present, outcome, self.settler)

    def _up_to(self, last: int) -> list[int]:
        entries, span = self._entries, range(self._oldest, last + 1)
        if len(span) <= len(entries):
            return [tag for tag in span if tag in entries]
        return [tag for tag in entries if tag <= last]  # most were settled singly: the span may be milliards

    def requeue(self, tags: Sequence[int]) -> None:
        """Put messages back at once, marked, whatever transaction is going on."""
        self._settle(tags, Outcome.REQUEUE, settle_now)

    def requeue_all(self) -> None:
        """Put all messages back at once, in the order in which they went out."""
        self.requeue(list(self._entries))

    def groups(self) -> Iterator[tuple[Tagged, list[int]]]:
        """Go through all tags, those together that were given together."""
        for _, group in groupby(self._entries.items(), key=lambda entry: id(entry[1])):
            entries = list(group)
            yield entries[0][1], [tag for tag, _ in entries]

    def still(self, tagged: Tagged, tags: Sequence[int]) -> list[int]:
        """Tell which of some tags are not settled yet."""
        return [tag for tag in tags if self._entries.get(tag) is tagged]

    def renumber(self, tagged: Tagged, tags: Sequence[int]) -> Tagged:
        """Give messages new tags, for they go out again; the old ones lead nowhere any more."""
        for tag in tags:
            del self._entries[tag]
        first = self.skip(len(tags))
        again = Tagged(tagged.batch, first, tagged.at([tag - tagged.first for tag in tags]))
        self._entries.update(dict.fromkeys(range(first, self.next_tag), again))
        return again

    def restore(self, settled: Sequence[tuple[Tagged, Sequence[int]]]) -> None:
        """Let deliveries be unsettled again that a transaction had settled and does not."""
        for tagged, offsets in settled:
            self._entries.update(dict.fromkeys([tagged.first + offset for offset in offsets], tagged))
        if settled:
            self._entries = dict(sorted(self._entries.items(), key=lambda entry: entry[0]))
            self._oldest = next(iter(self._entries))
