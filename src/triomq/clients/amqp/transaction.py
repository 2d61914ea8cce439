"""Transactions on one channel (class tx): what is published and settled takes effect together, or not at all."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from triomq.clients.amqp.line import Line
from triomq.errors import Disconnected, LocalProtocolError
from triomq.protocols.amqp import TxCommit, TxCommitOk, TxRollback, TxRollbackOk, TxSelect, TxSelectOk

COMMIT = 5.0
"""Seconds that a broker gets for a commit whose task was cancelled; then the channel is closed."""


class ClientTransaction:
    """Made by a channel when it has its first transaction, used for all of them, one at a time."""

    def __init__(self) -> None:
        self._line: Line | None = None  # where one is open
        self._selected: Line | None = None

    def begin_on(self, line: Line) -> None:
        """Allow no publishing on a line outside of a transaction."""
        line.gated = True
        line.update()

    def check(self, line: Line) -> None:
        """Raise why one may not publish, if that is because of transactions."""
        if self._line is None:
            raise LocalProtocolError(
                "this channel is transactional, and what is published outside of a transaction would not take effect; "
                "publish inside `async with channel.transaction():`, or on another channel"
            )
        if self._line is not line:
            raise _rolled_back()

    @asynccontextmanager
    async def run(self, line: Line) -> AsyncIterator[None]:
        """Run one transaction on a line."""
        if self._line is not None:
            raise LocalProtocolError(
                "this channel is in a transaction already; wait for its end, or use another channel"
            )
        self._line = line
        try:
            line.acks.flush()
            if self._selected is not line:
                await line.call(TxSelect(), TxSelectOk)
                self._selected = line
            line.acks.undoable = []
            line.gated = False
            line.update()
            try:
                yield
            except BaseException:
                self._roll_back(line)
                raise
            await self._commit(line)
        finally:
            self._line = None
            line.acks.undoable = None
            self.begin_on(line)

    async def _commit(self, line: Line) -> None:
        if isinstance(line.error, Disconnected):
            raise _rolled_back()
        line.acks.flush()
        answer = line.ask(TxCommit(), TxCommitOk)
        try:
            await answer.wait()
        except trio.Cancelled:
            # RabbitMQ takes whatever comes before its commit-ok for a breach (504), so that is waited for.
            with trio.CancelScope(deadline=trio.current_time() + COMMIT, shield=True):
                await answer.wait()
            if not answer.done:
                line.begin_close()
            raise

    def _roll_back(self, line: Line) -> None:
        """Undo it without waiting: whatever comes next on the channel comes behind it."""
        undone = line.acks.undoable or []
        if line.error is None and not line.closing:
            line.acks.restore(undone)
            for delivery in undone:
                delivery.unsettle()
            line.ask(TxRollback(), TxRollbackOk)


def _rolled_back() -> Disconnected:
    return Disconnected("the connection was lost during the transaction, which rolls it back; do it again")
