"""Every strategy in its queue: round robin, levels with the least recently used first, no-local, single active."""

from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant

from core.machine.model import MessageKind, OpenedFeed, WindowModel
from core.machine.queue_rules import QueueRules
from triomq.core import Batch, Feed, Head, QueueOptions, traits_of

pytestmark = pytest.mark.usefixtures("quiet_crashes")

ALIKE = st.just((0, 0, 0))
DIFFERENT = st.tuples(st.sampled_from([0, 0, 1]), st.sampled_from([0, 1]), st.sampled_from([0, 0, 0, 1, 2]))


def level_of(feed: Feed) -> tuple[int, int]:
    return feed.priority, feed.weight


class DispatchMachine(QueueRules):
    """A queue whose feeds are alike, or differ in priority, weight, and the session whose messages they do not want.

    The model knows which feeds may get a message, and which of them go first; between equals it checks that none gets
    two while another that has room for it waits.
    """

    kinds: ClassVar[list[MessageKind]] = [
        MessageKind(Head(traits=traits_of(publisher=publisher))) for publisher in (0, 1, 2)
    ]
    choice = (
        QueueOptions(),
        QueueOptions(),
        QueueOptions(max_priority=2),
        QueueOptions(single_active=True),
        QueueOptions(single_active=True, max_priority=2),
    )

    def __init__(self) -> None:
        super().__init__()
        self.active: Feed | None = None
        self.former: Feed | None = None  # closed, with unsettled messages

    def draw_feed_options(self, data: st.DataObject) -> tuple[int, int, int]:
        if not self.feeds:  # from then on all are alike, or not
            self.feed_options = data.draw(st.sampled_from([ALIKE, DIFFERENT, DIFFERENT]))
        return super().draw_feed_options(data)

    # One active feed at a time

    def choose_active(self) -> None:
        """Follow the succession, if no feed is active and the former active feed has nothing unsettled."""
        if self.active not in self.feeds:
            if self.active is not None:
                self.active, self.former = None, self.active
            if self.former is None or not any(sent.batch.feed is self.former for sent in self.out.values()):
                self.active = max(self.feeds, key=lambda feed: feed.priority, default=None)

    def may_take(self, opened: OpenedFeed, publisher: int) -> bool:
        """Return whether a feed may get messages of a publisher, whether it has room or not."""
        active = not self.options.single_active or opened.feed is self.active
        return active and not (publisher and publisher == opened.feed.no_local)

    def after(self) -> None:
        self.choose_active()
        deliveries = list(self.deliveries)
        super().after()
        self.check_that_no_feed_was_passed_by(deliveries)

    def put_all_back(self) -> None:
        super().put_all_back()
        self.active = self.former = None

    # Which feed gets which message

    def would_take(self, opened: OpenedFeed, publisher: int) -> bool:
        return self.may_take(opened, publisher) and opened.has_room

    def follow(self, batch: Batch, opened: OpenedFeed) -> None:
        assert self.may_take(opened, batch.head.traits.publisher), "a feed got a message that it may not have"
        super().follow(batch, opened)

    def drop_reason(self, number: int) -> str | None:
        """Return that a message is dropped which is first and which no feed wants."""
        publisher = self.ready[number].kind.head.traits.publisher
        seen = [feed for feed in self.feeds if not self.options.single_active or feed is self.active]
        if seen and publisher and all(feed.no_local == publisher for feed in seen):
            return "unwanted"
        return super().drop_reason(number)

    def check_that_no_feed_with_room_waits(self) -> None:
        if self.ready:
            publisher = self.ready[self.order()[0]].kind.head.traits.publisher
            for opened in self.feeds.values():
                assert not self.would_take(opened, publisher), "a feed has room for a message that is ready"

    def check_that_no_feed_was_passed_by(self, deliveries: list[Batch]) -> None:
        """Check that feeds which still have room had their share of this turn, before any less important ones."""
        dealt = {number: batch for batch in deliveries for number in batch.ids}
        for opened in self.feeds.values():
            if opened.has_room:
                self.check_share(opened, [dealt[number] for number in sorted(dealt)])

    def check_share(self, waiting: OpenedFeed, dealt: list[Batch]) -> None:
        since: dict[Feed | None, int] = {}  # how many messages that it may have others got since it got one itself
        for batch in dealt:
            if not self.may_take(waiting, batch.head.traits.publisher):
                continue
            feed = batch.feed
            assert feed is not None
            assert level_of(feed) >= level_of(waiting.feed), "a lower feed got what a higher one has room for"
            if feed is waiting.feed:
                since.clear()
            elif level_of(feed) == level_of(waiting.feed) and len(waiting.counts) == 1:  # shares no window
                since[feed] = since.get(feed, 0) + 1
                assert since[feed] <= 1, "a feed got two while another waited"

    @invariant()
    def windows_without_feeds_have_no_line(self) -> None:
        if not self.feeds:
            counts: list[WindowModel] = [*self.channels]
            assert not any(count.window.waiting for count in counts)


TestDispatchMachine = DispatchMachine.TestCase
TestDispatchMachine.settings = settings(stateful_step_count=40, max_examples=max(250, settings().max_examples))
