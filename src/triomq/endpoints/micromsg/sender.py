"""What a client gets: from batches to MESSAGE frames, and from its acks to settlements.

    batch ──> give ──> engine ──> the client
              │ entered under the numbers of the messages
    acks ─────┴──> settled, all up to a number

The numbers of messages are the engine's, and begin with 1 on each connection. Those of the ledger are the same, until a
message is too large for the client: it has a number there and none on the wire, and all behind it are one apart.

A window of the core counts what is unsettled, and the engine what is not acked. That is the same too, but for messages
that went back to their queue while the client had them: it acks those all the same, and until then there is no room for
others. So batches may have to wait here.
"""

import logging
from collections import deque
from itertools import groupby
from typing import TYPE_CHECKING, Final

from triomq.core import Batch, Head, Outcome, Subscription, body_of, settle
from triomq.endpoints.base.domain_work import return_unseen
from triomq.endpoints.micromsg.content import DeliveredProperties, goes_as_it_came

if TYPE_CHECKING:
    from triomq.endpoints.micromsg.connection import MicroMsgServerConnection

_TOO_LARGE: Final = "message dropped"


class MessageSender:
    """The deliveries of one connection; made when it has entered a domain, ends with it.

    Args:
        connection: The connection.
    """

    __slots__ = ("_ahead", "_connection", "_properties", "_sends_mixes", "_waiting", "sources")

    def __init__(self, connection: "MicroMsgServerConnection") -> None:
        self._connection = connection
        self._properties = DeliveredProperties(connection.context.codecs)
        self.sources: dict[Subscription, str] = {}
        """The destination that the client knows each subscription by."""
        engine = connection.engine
        # Who agrees to one of these gets other properties than came.
        self._sends_mixes = not (engine.speaks("json") or engine.speaks("dotnet") or engine.is_sharpmessaging)
        self._waiting: deque[Batch] = deque()  # for room
        self._ahead: deque[tuple[int, int]] = deque(((1, 0),))  # from which number on the ledger's are how much higher

    def give(self, batch: Batch) -> None:
        """Send the messages of a batch, when the client has room."""
        connection = self._connection
        if self._waiting or batch.left > connection.engine.room:
            self._waiting.append(batch)
            connection.window.take(batch.left, batch.size)  # the writer gives back what it had for it
            return
        assert batch.feed is not None
        subscription = batch.feed.key
        assert isinstance(subscription, Subscription)
        destination = self.sources.get(subscription)
        if destination is None or not subscription.open:
            settle(batch, Outcome.RETURN)
            return
        dropped = self._send(batch, destination)
        if not connection.engine.window:
            if dropped:
                settle(batch, Outcome.REJECT, dropped)
            settle(batch, Outcome.ACCEPT)
            return
        first = connection.unsettled.enter(batch)
        for position in dropped:
            connection.unsettled.settle_each((first + position,), Outcome.REJECT)

    def _send(self, batch: Batch, destination: str) -> list[int]:
        """Send what the client can take; return the positions of all else."""
        engine, head = self._connection.engine, batch.head
        contents: list[bytes] = batch.contents  # type: ignore[assignment]  # nothing is settled before it is sent
        largest = engine.largest_body
        may_all_go = batch.size <= largest or max(map(len, contents)) <= largest
        if may_all_go and batch.heads is None and goes_as_it_came(head) and not batch.redelivered:
            engine.send_contents(
                destination, contents, properties_stop=head.properties_stop, body_start=head.body_start
            )
            return []
        is_mix = self._sends_mixes and batch.heads is not None and not batch.redelivered
        if is_mix and self._send_mix(batch, destination):
            return []
        dropped: list[int] = []
        if may_all_go and batch.heads is None and head.properties_start == head.properties_stop:
            properties = self._properties.find(batch.message(0), redelivered=batch.redelivered)
            engine.send_messages(destination, properties, [body_of(head, content) for content in contents])
            return dropped
        for position in range(len(contents)):
            if not self._send_one(batch, position, destination):
                dropped.append(position)
        return dropped

    def _send_mix(self, batch: Batch, destination: str) -> bool:
        """Send messages whose properties differ, and that can go as they came; return False if not all of them can."""
        heads, contents = batch.heads, batch.contents
        assert heads is not None
        if max(map(len, contents)) > self._connection.config.max_frame or not all(map(goes_as_it_came, set(heads))):  # type: ignore[arg-type]  # as above
            return False
        # Each content begins with its own properties: only the length of the length of its body is to be known.
        for _, some in groupby(zip(heads, contents, strict=True), _length_of_size):
            mixed = list(some)
            head = mixed[0][0]
            self._connection.engine.send_contents(
                destination,
                [content for _, content in mixed],  # type: ignore[misc]  # as above
                properties_stop=head.properties_stop,
                body_start=head.body_start,
            )
        return True

    def _send_one(self, batch: Batch, position: int, destination: str) -> bool:
        engine, message = self._connection.engine, batch.message(position)
        head, body = message.head, message.body
        if len(body) > engine.largest_body:
            self._connection.note(logging.WARNING, _TOO_LARGE, bytes=len(body), largest=engine.largest_body)
            self._ahead.append((engine.sent + 1, self._ahead[-1][1] + 1))
            return False
        if goes_as_it_came(head) and not batch.redelivered:
            engine.send_contents(
                destination, (message.content,), properties_stop=head.properties_stop, body_start=head.body_start
            )
        else:
            properties = self._properties.find(message, redelivered=batch.redelivered)
            engine.send_messages(destination, properties, (body,))
        return True

    # Acks

    def acked(self, up_to: int) -> None:
        """Settle what the client has, and go on with what had no room."""
        ahead = self._ahead
        while len(ahead) > 1 and ahead[1][0] <= up_to:
            ahead.popleft()
        self._connection.unsettled.settle_through(up_to + ahead[0][1], Outcome.ACCEPT)
        if self._waiting:
            waiting, self._waiting = self._waiting, deque()
            self._connection.writer.outgoing.extendleft(reversed(waiting))
            self._connection.ref.touch()

    # What goes back

    def requeue(self, subscription: Subscription) -> None:
        """Put back what the client has not acked of a subscription, which is closed."""
        ledger, waiting = self._connection.unsettled, self._waiting
        self._waiting = deque()
        for batch in waiting:
            if batch.feed is not None and batch.feed.key is subscription:
                return_unseen(batch, self._connection.window)
            else:
                self._waiting.append(batch)
        back = [
            number
            for numbered, numbers in ledger.groups()
            if numbered.batch.feed is not None and numbered.batch.feed.key is subscription
            for number in numbers
        ]
        if back:
            ledger.requeue(back)

    def drop(self) -> None:
        """Return what waits for room."""
        waiting, self._waiting = self._waiting, deque()
        for batch in waiting:
            return_unseen(batch, self._connection.window)


def _length_of_size(pair: tuple[Head, bytes | None]) -> int:
    head, _ = pair
    return head.body_start - head.properties_stop
