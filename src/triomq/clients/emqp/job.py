"""A job as its worker has it: what is to be done, and how to say what became of it."""

from collections.abc import Callable
from math import inf
from traceback import format_exception
from typing import TYPE_CHECKING, Final

import msgspec
import trio

from triomq.clients.emqp.stream import ItemStream
from triomq.protocols.emqp import Extension, RequestRun

if TYPE_CHECKING:
    from triomq.clients.emqp.worker import EMQPWorker

_LONGEST_MESSAGE: Final = 1000
_LONGEST_TRACEBACK: Final = 9000
"""Characters. JSON may take six bytes for each, and all of the extension frame has 64 KiB."""

_OK: Final = tuple(Extension(state="ok", attempt=attempt) for attempt in range(4))
"""How most jobs end."""


class EMQPJob:
    """A job that a worker has; made by ``EMQPWorker``, ends with ``reply``, ``fail``, ``end``, or ``give_back``.

    Args:
        worker: The worker.
        id: Its id, which its requester made.
        message: What is to be done.
        run: What came, of this one and of others like it.
    """

    __slots__ = (
        "_on_cancel", "_values", "_worker", "answered", "deadline", "extension", "grace", "headers", "id",
        "is_cancelled", "message", "queue", "quiet_until", "stream",
    )  # fmt: skip

    def __init__(self, worker: "EMQPWorker", id: bytes, message: bytes, run: RequestRun) -> None:
        self._worker = worker
        self.id = id
        """Its id, which its requester made."""
        self.message = message
        """What is to be done."""
        self.queue = run.queue
        """The queue that its requester named."""
        self.headers = run.headers
        """What its requester asks for."""
        self.extension = run.extension
        """What a broker with our extensions says of it, such as ``parent`` and ``trace``."""
        left = run.extension.deadline
        self.deadline = inf if left is None else trio.current_time() + left / 1000
        """When nobody wants it any more, on Trio's clock."""
        self.answered = False
        self.is_cancelled = False
        """Whether its requester wants it to end."""
        self.grace: float | None = None
        """Seconds that it has to end by itself once it is cancelled; None is the worker's to say."""
        self.stream: ItemStream | None = None
        self.quiet_until = 0.0  # when its next value may go out
        self._values = 0
        self._on_cancel: Callable[[], None] | None = None

    @property
    def timeout(self) -> float:
        """Seconds that it may take; 0 is without limit."""
        return self.extension.timeout / 1000 or self.headers.timeout

    @property
    def attempt(self) -> int:
        """How often it was begun, this time included; 0 with a broker that does not say."""
        return self.extension.attempt

    # On the way

    @property
    def on_cancel(self) -> Callable[[], None] | None:
        """Called once when the job is to end, and at once if it is already; see ``grace``."""
        return self._on_cancel

    @on_cancel.setter
    def on_cancel(self, function: Callable[[], None] | None) -> None:
        self._on_cancel = function
        if function is not None and self.is_cancelled:
            function()

    def cancelled(self, grace: float | None) -> None:
        """Note that it is to end; called by the worker."""
        self.grace = grace
        if not self.is_cancelled:
            self.is_cancelled = True
            if self._on_cancel is not None:
                self._on_cancel()

    def progress(self, value: bytes) -> None:
        """Tell the requester how far it has come, if it can hear that.

        At most ten values a second go out, of more the last one.

        Args:
            value: JSON in UTF-8.

        Raises:
            LocalProtocolError: It is too large.
        """
        self._values += 1
        self._worker.say_value(self, value)

    def numbered(self) -> Extension:
        """Return what is said beside a value."""
        return Extension(attempt=self.attempt, number=self._values)

    async def item(self, item: bytes) -> None:
        """Send an item of a stream, and wait while the reader is too far behind; nothing goes out if there is none.

        Args:
            item: JSON in UTF-8.

        Raises:
            LocalProtocolError: It is too large.
        """
        if not self.extension.stream:
            await trio.lowlevel.checkpoint()
            return
        if self.stream is None:
            self.stream = ItemStream()
        await self.stream.wait_room()
        if not self.answered:
            self._worker.say_items(self, ((self.stream.add(item), item),))

    # The end

    def reply(self, message: bytes = b'{"value": true}') -> None:
        """Answer it, and take another job.

        Args:
            message: JSON in UTF-8, such as ``{"value": 5}``, where the broker or the requester is a released program.

        Raises:
            LocalProtocolError: The broker cannot be sent such a message; the job may still be failed.
        """
        attempt = self.attempt
        ok = _OK[attempt] if attempt < len(_OK) else Extension(state="ok", attempt=attempt)
        self._worker.answer(self, message, ok)

    def fail(self, error: BaseException, *, retry: bool = True) -> None:
        """Answer that it has failed; a broker with our extensions tries it again, if its headers say so.

        Args:
            error: Why.
            retry: Whether another attempt is worth while.
        """
        text = "".join(format_exception(error))
        self.end("failed", type=type(error).__name__, text=str(error), traceback=text, retry=retry)

    def end(
        self,
        state: str,
        *,
        message: bytes | None = None,
        type: str = "",
        text: str = "",
        traceback: str = "",
        retry: bool | None = None,
    ) -> None:
        """Answer how it has ended; of what is too long the end of a traceback is sent, and the beginning of a text.

        Args:
            state: As in an extension frame: failed, cancelled, timed-out, …
            message: The answer; a released requester sees nothing else. Without one it is the text.
            type: Of a failure: its class.
            text: What it says.
            traceback: Where it came from.
            retry: Whether another attempt is worth while; without it is the broker's to say.
        """
        text, traceback = _encodable(text), _encodable(traceback)
        if message is None:
            message = msgspec.json.encode({"value": text[:_LONGEST_MESSAGE]})
        extension = Extension(
            state=state,
            attempt=self.attempt,
            type=_encodable(type)[:200],
            message=text[:_LONGEST_MESSAGE],
            traceback=traceback[-_LONGEST_TRACEBACK:],
            retry=retry,
        )
        self._worker.answer(self, message, extension)


def _encodable(text: str) -> str:
    """Return a text without what is no UTF-8, as file names may have it."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
