"""A job as its requester has it: whether it is accepted, how far it has come, what it sends, and its answer.

    begin ──> given ──> accepted ──> values, items ──> reply
               │ ACK, or ERROR        PROGRESS           REPLY

Rules:

- Until it is accepted it is given again whenever the broker, or its successor, is back, under the same id: a broker
  with extensions acknowledges a job that it has already, and nothing else happens.
- Values of progress are for people. The last hundred wait for a slow reader, which loses those before them.
- Items of a stream are its result: none is lost, and none comes twice. The reader tells how many it has taken, and the
  worker is held back when it is ``ITEM_WINDOW`` ahead, in its ``item``; so that is what can wait here. After the broker
  was away the worker sends again what was not taken, and what came already is known by its number.
"""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from math import ceil, inf
from typing import TYPE_CHECKING, Final

import msgspec
import trio

from triomq.clients.emqp.pending import PendingCommand
from triomq.errors import Disconnected, LocalProtocolError, Refused
from triomq.protocols.emqp import (
    ITEM_WINDOW,
    NO_EXTENSION,
    Extension,
    Headers,
    PeerEngine,
    Progressed,
    StateReported,
)

if TYPE_CHECKING:
    from triomq.clients.emqp.outstanding import Outstanding

_VALUES: Final = 100
"""Values of progress that wait for their reader: more than anybody looks at, and they are small."""


class NotAnswered(Refused):
    """No answer will come: the broker is a released one, or another job of the same unique key is there already."""


class EMQPReply(msgspec.Struct, frozen=True, gc=False):
    """The answer to a request.

    Args:
        message: As the worker wrote it, mostly ``{"value": …}``.
        extension: What a worker with our extensions says beside it, such as ``state``.
    """

    message: bytes
    extension: Extension


class EMQPRequest(PendingCommand):
    """A job that was given to a broker; made by ``EMQPConnection.begin``.

    It ends with its answer, or, if none was asked for, when the broker has it.

    Args:
        outstanding: What it is part of.
        id: By which all know it.
        queue: The queue's name.
        message: What the worker gets.
        headers: What was asked for.
        extension: What else.
        deadline: When it is of no use any more, on Trio's clock.
    """

    __slots__ = (
        "_deadline", "_extension", "_headers", "_items", "_message", "_outstanding", "_values", "answer",
        "duplicate_of", "queue",
    )  # fmt: skip

    def __init__(
        self,
        outstanding: "Outstanding",
        id: bytes,
        queue: str,
        message: bytes,
        headers: Headers,
        extension: Extension,
        deadline: float,
    ) -> None:
        self.id = id
        self.is_accepted = self.is_over = False
        self.error = None
        self._lot = self._watchers = None
        self.queue = queue
        self.duplicate_of = b""
        """The job that is there in place of this one, once it is accepted; empty if it is this one."""
        self._outstanding = outstanding
        self._message = message
        self._headers = headers
        self._extension = extension
        self._deadline = deadline
        self.answer: EMQPReply | None = None
        """The answer, once it is here."""
        self._values: deque[bytes] | None = None
        self._items: _Items | None = None

    @property
    def wants_reply(self) -> bool:
        """Whether an answer was asked for."""
        return self._headers.reply_requested

    @property
    def has_guarantee(self) -> bool:
        """Whether it survives the loss of its worker."""
        return self._headers.guarantee

    # For the connection

    def give(self, engine: PeerEngine) -> None:
        """Say it, under its id; what is left until its deadline is counted from now."""
        extension = self._extension
        if self._deadline != inf:
            left = max(0, ceil((self._deadline - trio.current_time()) * 1000))
            extension = msgspec.structs.replace(extension, deadline=left)
        engine.request(self.queue, self._message, self._headers, extension, msgid=self.id)

    def accept(self, extension: Extension) -> None:
        """Note that the broker has it, or one like it."""
        self._message = b""  # it will not be given again
        self.is_accepted = True
        self.is_over = not self._headers.reply_requested
        if extension is not NO_EXTENSION and extension.duplicate_of:
            self.duplicate_of = extension.duplicate_of.encode("utf-8", "replace")
            self.fail(NotAnswered(f"job {extension.duplicate_of!r} of the same unique key is there already"))
        self.wake()

    def replied(self, reply: EMQPReply) -> None:
        """Note the answer."""
        come = 0 if self._items is None else self._items.come
        if reply.extension.number > come and self._extension.stream:
            self.error = Disconnected("items of the stream were lost on the way")
        self.is_accepted = self.is_over = True
        self.answer = reply
        self.wake()

    def has_ended(self, report: StateReported) -> None:
        """End as the broker says that the job has ended, since its answer did not come."""
        state = report.state
        if report.result is None:
            self.fail(Disconnected(f"the job has ended ({state.state}), and its answer was lost on the way"))
        else:
            extension = Extension(
                state=state.state,
                attempt=state.attempt,
                type=state.type,
                message=state.message,
                traceback=state.traceback,
            )
            self.replied(EMQPReply(report.result, extension))

    def progressed(self, event: Progressed) -> None:
        """Note a value, or an item."""
        if event.extension.item:
            if self._items is None:
                self._items = _Items()
            is_next = event.extension.number == self._items.come + 1
            if not self._items.put(event):
                self.fail(Disconnected("items of the stream were lost on the way"))
            elif not is_next and (wish := self._items.wish(event.extension.number)) is not None:
                self._outstanding.tell_taken(self.id, wish)
        else:
            if self._values is None:
                self._values = deque(maxlen=_VALUES)
            self._values.append(event.message)
        self.wake()

    def tell_taken(self, engine: PeerEngine) -> None:
        """Tell the worker again how far its stream was read, and to send again what follows: both may be lost."""
        if self._extension.stream:
            self._items = self._items or _Items()
            engine.progress(self.id, b"", self._items.tell(again=True))

    # For its owner

    async def reply(self) -> EMQPReply:
        """Wait for the answer; any number of tasks may, at any time.

        Raises:
            NotAnswered: None will come.
            Disconnected: The broker was restarted, and has forgotten the job; or the connection was closed.
            LocalProtocolError: None was asked for, by ``reply_requested``.
            Refused: As ``accepted`` does.
        """
        if not self.wants_reply:
            raise LocalProtocolError(f"job {self.id!r} was sent without reply_requested")
        await trio.lowlevel.checkpoint()
        while not self.is_over:
            await self.changed()
        if self.answer is None:
            assert self.error is not None
            raise self.error
        return self.answer

    def values(self) -> AsyncIterator[bytes]:
        """Iterate over what the worker says of its progress, until the job has ended; a hundred at most wait here."""
        return _Steps(self._next_value)

    async def _next_value(self) -> bytes:
        await trio.lowlevel.checkpoint()
        while not self._values:
            if self.is_over:
                raise StopAsyncIteration
            await self.changed()
        return self._values.popleft()

    def items(self) -> AsyncIterator[bytes]:
        """Iterate over the items of the job's stream, all and in order, until it has ended; ``reply`` says how.

        The job needs ``stream`` in its extension frame. An iterator raises ``Disconnected`` if some were lost, or the
        connection was closed.
        """
        return _Steps(self._next_item)

    async def _next_item(self) -> bytes:
        await trio.lowlevel.checkpoint()
        while self._items is None or not self._items.waiting:
            if self.error is not None:
                raise self.error
            if self.is_over:
                raise StopAsyncIteration
            await self.changed()
        items = self._items
        items.taken += 1
        if items.taken - items.told >= ITEM_WINDOW // 2 and not self.is_over:
            self._outstanding.tell_taken(self.id, items.tell())
        return items.waiting.popleft()

    def abandon(self) -> None:
        """Forget it here; the job goes on."""
        self._outstanding.forget(self)


class _Steps(AsyncIterator[bytes]):
    """An iterator that may be left at any time: Trio warns of generators that were not closed then."""

    def __init__(self, step: Callable[[], Awaitable[bytes]]) -> None:
        self._step = step

    async def __anext__(self) -> bytes:
        return await self._step()


class _Items:
    """The items of a stream that have come."""

    __slots__ = ("_missed", "attempt", "come", "taken", "told", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[bytes] = deque()
        self.attempt = 0
        self.come = self.taken = self.told = 0
        self._missed = -1  # the number before the last hole

    def put(self, event: Progressed) -> bool:
        """Add an item, if it is the next; return whether the stream can still become whole."""
        attempt = event.extension.attempt
        if self.come and attempt != self.attempt:
            return False  # it was begun again
        if event.extension.number == self.come + 1:
            self.attempt = attempt
            self.come += 1
            self.waiting.append(event.message)
        return len(self.waiting) <= 2 * ITEM_WINDOW  # a worker that does not wait

    def wish(self, number: int) -> Extension | None:
        """Return what to tell the worker about an item that is not the next: it did not hear us, or we missed some.

        Having told it already does not count: a broker that has come back passes on what we say only when the worker
        has come back to it too, and a worker that has not heard us may wait for us for ever.
        """
        if number > self.come and self._missed != self.come:
            self._missed = self.come
            return self.tell(again=True)
        return self.tell() if number == self.come else None

    def tell(self, *, again: bool = False) -> Extension:
        """Return how far it was read, and perhaps that what follows is to be sent again."""
        self.told = self.taken
        return Extension(number=self.taken, item=True, follow=again)
