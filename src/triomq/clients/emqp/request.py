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

from triomq.clients.emqp.pending import Pending
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
    from triomq.clients.emqp.connection import EMQPConnection

_VALUES: Final = 100
"""Values of progress that wait for their reader: more than anybody looks at, and they are small."""


class NotAnswered(Refused):
    """No answer will come: the broker is a released one, or another job of the same unique key is there already."""


class EMQPReply(msgspec.Struct, frozen=True):
    """The answer to a request.

    Args:
        message: As the worker wrote it, mostly ``{"value": …}``.
        extension: What a worker with our extensions says beside it, such as ``state``.
    """

    message: bytes
    extension: Extension


class EMQPRequest(Pending):
    """A job that was given to a broker; made by ``EMQPConnection.begin``.

    It ends with its answer, or, if none was asked for, when the broker has it.

    Args:
        connection: Whose it is.
        id: By which all know it.
        queue: The queue's name.
        message: What the worker gets.
        headers: What was asked for.
        extension: What else.
        deadline: When it is of no use any more, on Trio's clock.
    """

    __slots__ = (
        "_answer", "_connection", "_deadline", "_extension", "_headers", "_items", "_message", "_values",
        "duplicate_of", "queue",
    )  # fmt: skip

    def __init__(
        self,
        connection: "EMQPConnection",
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
        self._connection = connection
        self._message = message
        self._headers = headers
        self._extension = extension
        self._deadline = deadline
        self._answer: EMQPReply | None = None
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
        self.is_accepted = self.is_over = True
        self._answer = reply
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
            if not self._items.put(event):
                self.fail(Disconnected("items of the stream were lost on the way"))
        else:
            if self._values is None:
                self._values = deque(maxlen=_VALUES)
            self._values.append(event.message)
        self.wake()

    def tell_taken(self, engine: PeerEngine) -> None:
        """Tell the worker again how far its stream was read: the broker may not have heard it."""
        if self._items is not None and self._items.taken:
            engine.progress(self.id, b"", self._items.tell())

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
        if self._answer is None:
            assert self.error is not None
            raise self.error
        return self._answer

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
            self._connection.tell_taken(self.id, items.tell())
        return items.waiting.popleft()

    def abandon(self) -> None:
        """Forget it here; the job goes on."""
        self._connection.forget(self)


class _Steps(AsyncIterator[bytes]):
    """An iterator that may be left at any time: Trio warns of generators that were not closed then."""

    def __init__(self, step: Callable[[], Awaitable[bytes]]) -> None:
        self._step = step

    async def __anext__(self) -> bytes:
        return await self._step()


class _Items:
    """The items of a stream that have come."""

    __slots__ = ("attempt", "come", "taken", "told", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[bytes] = deque()
        self.attempt = 0
        self.come = self.taken = self.told = 0

    def put(self, event: Progressed) -> bool:
        """Add an item, unless it has come before; return whether none is missing."""
        number, attempt = event.extension.number, event.extension.attempt
        if number != self.come + 1 or (self.come and attempt != self.attempt):
            return 0 < number <= self.come and attempt == self.attempt
        self.attempt = attempt
        self.come = number
        self.waiting.append(event.message)
        return len(self.waiting) <= 2 * ITEM_WINDOW  # a worker that does not wait

    def tell(self) -> Extension:
        """Return how far it was read."""
        self.told = self.taken
        return Extension(number=self.taken, item=True)
