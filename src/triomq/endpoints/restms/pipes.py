"""A pipe: messages with URIs, oldest first, and one asynclet, the URI that the next message gets.

    client ── a delivery ──▶ take       the asynclet becomes the message, its polls are answered, another one stands
    reader ── DELETE ──────▶ accept     this message and all older ones are settled: their queues deliver the next ones
              the end ─────▶ sleep      what is left goes back to its queues, marked; the URIs mean nothing any more

Rules:

- There is exactly one asynclet at any time, and no checkpoint between the end of one and the beginning of the next.
- A pipe takes deliveries while it has a client, its user's actor in the domain; else it *sleeps*: after a restart of
  the broker, or a crash of that actor, until it is asked for something. A worker that never comes again takes nothing.
- Its own queue and the shared ones that it is joined to have one window, so ``window`` messages have URIs, whatever
  came from where. The window of an ondemand pipe holds one message, and is held but for the time that a poll waits.
- All of this happens in turns, and nothing waits.
"""

from collections.abc import Iterable
from itertools import groupby, islice
from typing import TYPE_CHECKING, Final, Protocol

import trio

from triomq.actors import Turn
from triomq.core import Batch, Outcome, QueueMessage, Subscription, Window, settle
from triomq.endpoints.feeds import PipeState, new_hash
from triomq.protocols import restms

if TYPE_CHECKING:
    from triomq.endpoints.restms.client import RestMSClient
    from triomq.endpoints.restms.resources import RestMSDomain

_AT_ONCE = 200
"""Polls of one message that are answered in a row, if it is small: some 20 ms of work."""

LARGEST_SHARE: Final = 1024 * 1024
"""Weight of what is shown in one turn: some 10 ms of work."""

_LEAST_WEIGHT, _PROPERTIES = 1_000, 30

_TOLD_AT_ONCE = 8
"""Watchers that look at a pipe in a row: each may render all that it has, which takes a millisecond or more."""


class Poll(Protocol):
    """A request that waits for one message."""

    def arrived(self, message: "PipeMessage") -> None:
        """Answer it; nothing if it is over."""

    def gone(self, problem: restms.Problem) -> None:
        """Answer that it will not come."""


class PipeWatcher(Protocol):
    """A request that waits for any change of a pipe."""

    def changed(self) -> None:
        """Look whether it can be answered now."""

    def gone(self, problem: restms.Problem) -> None:
        """Answer that nothing will come."""


class PipeMessage:
    """A message of a pipe, or its asynclet; known by its hash until it is deleted.

    Args:
        pipe: The pipe.
    """

    __slots__ = ("batch", "has_content", "hash", "modified", "number", "pipe", "polls", "position")

    def __init__(self, pipe: "ServedPipe") -> None:
        self.pipe = pipe
        self.hash = new_hash()
        self.batch: Batch | None = None
        self.position = 0
        self.number = 0  # in the order in which messages came into the pipe, from 1
        self.modified = 0.0
        self.has_content = True  # until that alone is deleted
        self.polls: dict[Poll, None] | None = None

    @property
    def is_asynclet(self) -> bool:
        """Whether it stands for a message that has not come."""
        return self.batch is None

    @property
    def is_there(self) -> bool:
        """Whether there is a message that its queue has not taken back."""
        contents = () if self.batch is None else self.batch.contents  # none is left of a batch that went back whole
        return self.position < len(contents) and contents[self.position] is not None

    @property
    def is_persistent(self) -> bool:
        """Whether a durable queue has it on disk."""
        return self.batch is not None and self.batch.head_at(self.position).traits.persistent

    @property
    def weight(self) -> int:
        """About how much work it is to show it, in bytes of a body: an octet of properties, decoded, takes 30 of them.

        So the time that a page of messages takes can be bounded before any of them is decoded. A header costs 2 µs, and
        a message may have 10,000.
        """
        assert self.batch is not None
        head = self.batch.head_at(self.position)
        content = self.batch.contents[self.position] if self.is_there else None
        return _LEAST_WEIGHT + _PROPERTIES * head.body_start + (0 if content is None else len(content))

    @property
    def message(self) -> QueueMessage:
        """The message; not to be asked of an asynclet."""
        assert self.batch is not None
        return self.batch.message(self.position)

    def wait(self, poll: Poll) -> None:
        """Have a poll answered when the message comes."""
        if self.polls is None:
            self.polls = {}
        self.polls[poll] = None
        self.pipe.look_for_polls()

    def leave(self, poll: Poll) -> None:
        """Forget a poll whose client has gone; nothing else changes."""
        if self.polls is not None:
            self.polls.pop(poll, None)
            if not self.polls:
                self.polls = None
                self.pipe.look_for_polls()


class ServedPipe:
    """A pipe as it is served over HTTP; made when it is first asked for, ends when it is deleted.

    Args:
        state: What it is.
        domain: Where it is.
    """

    __slots__ = (
        "_count",
        "_tells_later",
        "_untold",
        "asynclet",
        "client",
        "domain",
        "has_orphans",
        "messages",
        "sources",
        "state",
        "watchers",
        "window",
    )

    def __init__(self, state: PipeState, domain: "RestMSDomain") -> None:
        self.state = state
        self.domain = domain
        self.messages: dict[str, PipeMessage] = {}
        self.client: RestMSClient | None = None
        self.sources: dict[str, Subscription] = {}  # by the queues that they come from
        self.has_orphans = False  # whether there are messages of a queue that says nothing any more: their join is gone
        self.watchers: dict[PipeWatcher, None] | None = None
        self._untold: dict[PipeWatcher, None] = {}  # those who do not know of the last change
        self._tells_later = False
        self._count = 0
        self.window = domain.make_window(ondemand=state.is_ondemand)
        self.asynclet = self._new_asynclet()
        state.observers[self] = None

    @property
    def name(self) -> str:
        """Its hash."""
        return self.state.name

    @property
    def modified(self) -> float:
        """When it, its joins or its messages changed last, in Unix time."""
        return self.state.modified

    @property
    def size(self) -> int:
        """How many messages it has, those without a URI too."""
        return len(self.messages) + self.state.waiting

    def _new_asynclet(self) -> PipeMessage:
        asynclet = PipeMessage(self)
        self.domain.resources.found[asynclet.hash] = asynclet
        return asynclet

    # What comes and goes

    def take(self, batch: Batch, now: float) -> None:
        """Give messages that were delivered their URIs, and answer the polls that wait for the first of them."""
        if self.has_orphans:
            self.forget_lost()
        filled = self.asynclet
        for position in range(len(batch.contents)):
            message = self.asynclet
            message.batch, message.position, message.modified = batch, position, now
            self._count += 1
            message.number = self._count
            self.messages[message.hash] = message
            self.asynclet = self._new_asynclet()
        self.state.modified = now
        if self.state.is_ondemand:
            self.window.hold()  # until a poll waits for the next one
        polls, filled.polls = filled.polls, None
        if polls and self.client is not None:
            self._answer(filled, list(polls), self.client.system.turn)
        self.tell_changed()

    def _answer(self, message: PipeMessage, polls: list[Poll], turn: Turn) -> None:
        """Answer polls, some in this turn and the others when all else has had one."""
        count = min(_AT_ONCE, LARGEST_SHARE // message.weight + 1)
        for poll in polls[:count]:
            if message.is_there:
                poll.arrived(message)
            else:
                poll.gone(restms.no_resource(f"/restms/resource/{message.hash}"))
        if len(polls) > count:
            later = trio.lowlevel.current_trio_token()
            later.run_sync_soon(turn.run, self._answer, message, polls[count:], turn)

    def look_for_polls(self) -> None:
        """Let an ondemand pipe take part in its shared queues while a poll waits and nothing is held."""
        if self.state.is_ondemand:
            wanted = self.asynclet.polls is not None and not self.messages
            if wanted and self.window.held:
                self.window.release()
            elif not wanted:
                self.window.hold()

    def up_to(self, message: PipeMessage) -> list[PipeMessage]:
        """List a message and all older ones."""
        found = []
        for each in self.messages.values():
            found.append(each)
            if each is message:
                break
        return found

    def accept(self, messages: Iterable[PipeMessage], now: float) -> None:
        """Settle messages as done; their queues may deliver others for them."""
        self._drop(messages, Outcome.ACCEPT)
        self.state.modified = now
        self.look_for_polls()
        self.tell_changed()

    def _drop(self, messages: Iterable[PipeMessage], outcome: Outcome) -> None:
        going = list(messages)
        for message in going:
            del self.messages[message.hash], self.domain.resources.found[message.hash]
        for _, group in groupby(going, key=lambda message: id(message.batch)):
            same = list(group)
            batch = same[0].batch
            assert batch is not None
            settle(batch, outcome, [message.position for message in same])

    def lose(self, queue: str) -> None:
        """Drop what came from a queue that has taken it back: its URIs mean nothing any more."""
        self.sources.pop(queue, None)
        self.forget_lost()

    def forget_lost(self) -> None:
        """Drop what its queue has taken back."""
        lost = [message for message in self.messages.values() if not message.is_there]
        for message in lost:
            del self.messages[message.hash], self.domain.resources.found[message.hash]
        self.has_orphans = self.has_orphans and bool(self.messages)
        if lost:
            self.look_for_polls()
            self.tell_changed()

    def sleep(self) -> None:
        """Put back what it has, marked, since it may have been seen; its subscriptions are closed, polls go on."""
        self.client = None
        self.state.takers.pop(self, None)
        self._tells_later = False
        self.sources.clear()
        self._drop(list(self.messages.values()), Outcome.REQUEUE)
        if self.state.is_ondemand:
            self.window.hold()

    @property
    def is_waited_for(self) -> bool:
        """Whether requests wait for something to come or to change."""
        return self.asynclet.polls is not None or self.watchers is not None

    # What is told of it

    def take_from(self, queue: str) -> None:
        """Take from one more queue.

        Raises:
            Refused: As ``DomainWork.subscribe`` does.
        """
        if self.client is not None:
            self.client.open_source(self, queue)

    def leave(self, queue: str) -> None:
        """Take nothing more from a queue."""
        if self.client is not None:
            self.client.close_source(self, queue)

    def source_ended(self, reason: str) -> None:
        """Take nothing more at all, since it is being deleted."""
        if self.client is not None:
            self.client.drop(self)
        self.end_waiting(restms.no_resource(f"/restms/resource/{self.name}"))
        self.sleep()

    def pipe_changed(self) -> None:
        """Tell those who watch that its title or its joins are others."""
        self.tell_changed()

    def pipe_ended(self) -> None:
        """Answer all that wait, and forget every URI; it has been deleted."""
        found = self.domain.resources.found
        for hash_ in (*self.messages, self.asynclet.hash):
            found.pop(hash_, None)
        self.domain.pipes.pop(self.name, None)
        self.messages.clear()
        self.end_waiting(restms.no_resource(f"/restms/resource/{self.name}"))

    def end_waiting(self, problem: restms.Problem) -> None:
        """Answer all requests that wait that nothing comes."""
        polls, self.asynclet.polls = self.asynclet.polls, None
        watchers, self.watchers = self.watchers, None
        self._untold.clear()
        for waiting in (*(polls or ()), *(watchers or ())):
            waiting.gone(problem)

    # What wait for any change

    def watch(self, watcher: PipeWatcher) -> None:
        """Tell somebody of each change."""
        if self.watchers is None:
            self.watchers = {}
        self.watchers[watcher] = None

    def ignore(self, watcher: PipeWatcher) -> None:
        """Tell it no longer."""
        if self.watchers is not None:
            self.watchers.pop(watcher, None)
            self._untold.pop(watcher, None)
            if not self.watchers:
                self.watchers = None

    def tell_changed(self) -> None:
        """Tell those who watch, some in this turn and the others when all else has had one."""
        if self.watchers is not None:
            self._untold.update(self.watchers)
            if not self._tells_later:
                self._tell()

    def _tell(self) -> None:
        self._tells_later = False
        for watcher in list(islice(self._untold, _TOLD_AT_ONCE)):
            if self._untold.pop(watcher, self) is None:
                watcher.changed()
        if self._untold and self.client is not None and not self._tells_later:  # one that sleeps is told when it wakes
            self._tells_later = True
            trio.lowlevel.current_trio_token().run_sync_soon(self.client.ref.run_in_turn, self._tell)


def make_pipe_window(messages: int, size: int, *, ondemand: bool) -> Window:
    """Return the window of a pipe; an ondemand one begins closed."""
    window = Window(1) if ondemand else Window(messages, bytes=size)
    if ondemand:
        window.hold()
    return window
