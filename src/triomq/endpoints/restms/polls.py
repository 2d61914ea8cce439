"""Requests that wait: records in a pipe, none of them a task. Each ends once, by an answer or with its client.

    AsyncletPoll   GET of an asynclet                until the message comes
    BatchPoll      GET of a pipe, ``?messages=N``    until there is one at least, if ``Prefer: wait`` says so
    ChangePoll     GET of a pipe, When-None-Match    until the document is another one
    PipeEventStream  GET of a pipe as events         never, but for the end of the client, the pipe or the broker

A poll that ends takes nothing with it: what it waited for is there for the next one.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from triomq.endpoints.restms.calls import version_of
from triomq.endpoints.restms.pipes import LARGEST_SHARE
from triomq.endpoints.restms.views import view_message, view_pipe
from triomq.protocols import restms

if TYPE_CHECKING:
    from triomq.endpoints.restms.calls import RestMSCall
    from triomq.endpoints.restms.pipes import PipeMessage, ServedPipe

_HEARTBEAT: Final = 15.0
"""Seconds between two signs of life in a stream of events: proxies cut what is silent for half a minute. A client may
prefer less (``Prefer: wait``)."""

_LEAST_HEARTBEAT: Final = 1.0
"""The least that it may prefer: a thousand idle clients are a thousand pieces a second then."""


class WaitingCall:
    """A request that waits.

    Args:
        call: The request.
        pipe: What it waits for.
    """

    __slots__ = ("call", "is_over", "pipe")

    def __init__(self, call: "RestMSCall", pipe: "ServedPipe") -> None:
        self.call = call
        self.pipe = pipe
        self.is_over = False

    def wait(self, seconds: float | None) -> None:
        """Wait from now on, for so many seconds, or as long as it takes."""
        connection = self.call.connection
        connection.wait_with(self)
        if seconds is not None:
            connection.call_after(self, seconds, self.waited)

    def waited(self) -> None:
        """Answer that nothing has come."""
        if self.end():
            self.call.answer(204)

    def gone(self, problem: restms.Problem) -> None:
        """Answer that nothing will come."""
        if self.end():
            self.call.refuse(problem)

    def end(self) -> bool:
        """Wait no longer; return False if that was so already."""
        if self.is_over:
            return False
        self.is_over = True
        self.call.connection.waits_no_longer(self)
        self.leave()
        return True

    def go_on(self) -> None:
        """Go on sending, where more than one answer is sent."""

    def leave(self) -> None:
        """Be forgotten by what it waits for."""
        raise NotImplementedError


class AsyncletPoll(WaitingCall):
    """A GET of an asynclet."""

    __slots__ = ("_asynclet",)

    def __init__(self, call: "RestMSCall", asynclet: "PipeMessage") -> None:
        super().__init__(call, asynclet.pipe)
        self._asynclet = asynclet

    def begin(self) -> None:
        """Wait."""
        self.wait(restms.Preferences.of(self.call.request.headers).wait)
        self._asynclet.wait(self)

    def arrived(self, message: "PipeMessage") -> None:
        """Answer by the message."""
        if self.end():
            view = view_message(message, self.call.links)
            self.call.show(restms.Document(messages=(view,)), message.modified)

    def leave(self) -> None:
        """Be forgotten by the asynclet."""
        self._asynclet.leave(self)


def light(messages: "Iterable[PipeMessage]") -> "Iterator[PipeMessage]":
    """Go through the first of some messages that together are not too much for a turn, one at least."""
    room = LARGEST_SHARE
    for message in messages:
        if room <= 0:
            break
        room -= message.weight
        yield message


class BatchPoll(WaitingCall):
    """A GET of some messages; of large ones it gets fewer than it wants."""

    __slots__ = ("_most",)

    def __init__(self, call: "RestMSCall", pipe: "ServedPipe", most: int) -> None:
        super().__init__(call, pipe)
        self._most = most

    def begin(self) -> None:
        """Answer, or wait."""
        seconds = restms.Preferences.of(self.call.request.headers).wait
        if self.pipe.messages or seconds is None:
            self._answer()
        else:
            self.wait(seconds)
            self.pipe.watch(self)

    def _answer(self) -> None:
        messages = list(light(islice(self.pipe.messages.values(), self._most)))
        views = tuple(view_message(message, self.call.links, listed=True) for message in messages)
        self.call.show(restms.Document(messages=views), self.pipe.modified)

    def changed(self) -> None:
        """Answer if there is a message now."""
        if self.pipe.messages and self.end():
            self._answer()

    def leave(self) -> None:
        """Be forgotten by the pipe."""
        self.pipe.ignore(self)


class ChangePoll(WaitingCall):
    """A GET of a pipe when its document is another one than its client knows."""

    __slots__ = ()

    def begin(self) -> None:
        """Answer, or wait."""
        if not self._look():
            self.wait(restms.Preferences.of(self.call.request.headers).wait)
            self.pipe.watch(self)

    def _look(self) -> bool:
        call = self.call
        document = restms.Document(pipes=(view_pipe(self.pipe, call.links),))
        conditions = restms.Conditions.of(call.request.headers)
        if conditions.must_wait(version_of(document, self.pipe.modified), call.media):
            return False
        call.show(document, self.pipe.modified)
        return True

    def changed(self) -> None:
        """Answer if the document is another one now."""
        if not self.is_over and self._look():
            self.end()

    def leave(self) -> None:
        """Be forgotten by the pipe."""
        self.pipe.ignore(self)


_UNBUFFERED = {"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}
"""What keeps proxies from holding events back: nginx buffers whole answers, others compress them."""


class PipeEventStream(WaitingCall):
    """A GET of a pipe's messages as events; it takes nothing, so a page deletes what it has done."""

    __slots__ = ("_goes_on", "_heartbeat", "sent")

    def __init__(self, call: "RestMSCall", pipe: "ServedPipe") -> None:
        super().__init__(call, pipe)
        self.sent = 0  # the number of the message that was sent last
        self._goes_on = False  # whether it will send more in a turn to come
        preferred = restms.Preferences.of(call.request.headers).wait
        self._heartbeat = _HEARTBEAT if preferred is None else min(_HEARTBEAT, max(_LEAST_HEARTBEAT, preferred))

    def begin(self) -> None:
        """Send what is there, behind the one that the client has seen last, if that is there; then what comes."""
        seen = self.pipe.messages.get(self.call.request.headers.get("last-event-id", ""))
        if seen is not None:
            self.sent = seen.number
        self.call.begin_answer(200, {"content-type": restms.EVENTS.name, **_UNBUFFERED})
        if self.call.request.method == "HEAD":
            self.call.end_answer()
            return
        self.call.send_piece(restms.EVENTS_BEGIN)
        self.wait(None)
        self._beat_later()
        self.pipe.watch(self)
        self.changed()

    def changed(self) -> None:
        """Send messages that were not sent yet, as long as the client reads them."""
        if self.is_over or not self.pipe.messages:
            return
        new = []
        for message in reversed(self.pipe.messages.values()):
            if message.number <= self.sent:
                break
            new.append(message)
        if not new or not self.call.connection.is_writable:
            return  # in the second case ``go_on`` follows
        for message in light(reversed(new)):
            view = view_message(message, self.call.links, listed=True)
            self.call.send_piece(restms.event_of(view, message.hash))
            self.sent = message.number
        if self.sent != new[0].number and not self._goes_on:
            # Whether the client reads is known when this has been written, at the end of the turn.
            self._goes_on = True
            self.call.connection.in_turn(self._go_on_later)

    def _go_on_later(self) -> None:
        self._goes_on = False
        self.changed()

    def go_on(self) -> None:
        """Send what has come while the client did not read."""
        self.changed()

    def _beat_later(self) -> None:
        self.call.connection.call_after(self, self._heartbeat, self._beat)

    def _beat(self) -> None:
        if not self.is_over:
            if self.call.connection.is_writable:
                self.call.send_piece(restms.HEARTBEAT)
            self._beat_later()

    def gone(self, problem: restms.Problem) -> None:
        """End the stream: what has begun has no other answer any more."""
        if self.end():
            self.call.end_answer()

    def leave(self) -> None:
        """Be forgotten by the pipe."""
        self.pipe.ignore(self)
