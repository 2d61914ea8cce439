"""Who gets what: feeds with priorities and weights, feeds that do not want their own, one active feed at a time."""

from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import invariant

from triomq.core import Batch, Feed, Head

from .model import Count, Kind, Taking
from .queue_machine import QueueMachine

PRIORITIES = st.sampled_from([0, 0, 1])
WEIGHTS = st.sampled_from([0, 1])
SESSIONS = st.sampled_from([0, 0, 0, 1, 2])


def level_of(feed: Feed) -> tuple[int, int]:
    return feed.priority, feed.weight


class ChoosingMachine(QueueMachine):
    """A queue whose feeds differ.

    The books know who may get a message, and which feeds would have gone before; between equals they check that none
    gets two while another that has room for it waits.
    """

    kinds: ClassVar[list[Kind]] = [Kind(Head(publisher=publisher)) for publisher in (0, 1, 2)]
    feed_options = st.tuples(PRIORITIES, WEIGHTS, SESSIONS)

    def __init__(self) -> None:
        super().__init__()
        self.active: Feed | None = None
        self.former: Feed | None = None  # closed, with messages out

    # one active feed at a time

    def choose_active(self) -> None:
        """Enter who follows, if nobody is active and the former active feed has nothing out."""
        if self.active not in self.feeds:
            if self.active is not None:
                self.active, self.former = None, self.active
            if self.former is None or not any(sent.batch.feed is self.former for sent in self.out.values()):
                self.active = max(self.feeds, key=lambda feed: feed.priority, default=None)

    def may_take(self, taking: Taking, publisher: int) -> bool:
        """Tell whether a feed may get messages of a publisher, whether it has room or not."""
        active = not self.options.single_active or taking.feed is self.active
        return active and not (publisher and publisher == taking.feed.no_local)

    def after(self) -> None:
        self.choose_active()
        deliveries = list(self.deliveries)
        super().after()
        self.check_that_nobody_was_passed_by(deliveries)

    def put_all_back(self) -> None:
        super().put_all_back()
        self.active = self.former = None

    # what goes to whom

    def would_take(self, taking: Taking, publisher: int) -> bool:
        return self.may_take(taking, publisher) and taking.has_room

    def follow(self, batch: Batch, taking: Taking) -> None:
        assert self.may_take(taking, batch.head.publisher), "a feed got what it may not have"
        super().follow(batch, taking)

    def why_gone(self, number: int) -> str | None:
        """Say that a message is dropped which stands first and which no feed wants."""
        publisher = self.ready[number].kind.head.publisher
        seen = [feed for feed in self.feeds if not self.options.single_active or feed is self.active]
        if seen and publisher and all(feed.no_local == publisher for feed in seen):
            return "unwanted"
        return super().why_gone(number)

    def check_that_nobody_waits_in_vain(self) -> None:
        if self.ready:
            publisher = self.ready[self.order()[0]].kind.head.publisher
            for taking in self.feeds.values():
                assert not self.would_take(taking, publisher), "a feed has room for what is ready"

    def check_that_nobody_was_passed_by(self, deliveries: list[Batch]) -> None:
        """See that who has room still had its share of what went in this turn, before anyone less important."""
        dealt = {number: batch for batch in deliveries for number in batch.ids}
        for waiting in self.feeds.values():
            if waiting.has_room:
                self.check_share(waiting, [dealt[number] for number in sorted(dealt)])

    def check_share(self, waiting: Taking, dealt: list[Batch]) -> None:
        since: dict[Feed | None, int] = {}  # how many messages that it may have others got since it got one itself
        for batch in dealt:
            if not self.may_take(waiting, batch.head.publisher):
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
    def windows_that_nobody_waits_for_have_no_line(self) -> None:
        if not self.feeds:
            counts: list[Count] = [*self.channels]
            assert not any(count.window.waiting for count in counts)
