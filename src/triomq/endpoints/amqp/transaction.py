"""Transactions of an AMQP channel (section 1.9): what is published and settled happens at the commit, or not at all."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from triomq.core import Numbered, Outcome, Publish, QueueFull, RoutedRun, Transaction
from triomq.endpoints.amqp.refusals import AMQPRefusal
from triomq.protocols.amqp import BasicPublish

if TYPE_CHECKING:
    from triomq.endpoints.amqp.channel import ServerChannel


class ChannelTransaction:
    """The transaction that a channel in transaction mode always has going on; made at tx.select, ends with the channel.

    Messages are routed when they are published, and what is settled is unknown to the client's later settlements, as if
    it had happened. The windows, however, get their room back at the commit.

    Args:
        channel: The channel.
    """

    __slots__ = ("_channel", "_mandatory", "_offers", "_settled", "_work")

    def __init__(self, channel: "ServerChannel") -> None:
        self._channel = channel
        self._work = Transaction(channel.connection.directory)
        self._offers: list[tuple[BasicPublish, RoutedRun]] = []  # for no queue
        self._mandatory: list[RoutedRun] = []  # their queues may be gone at the commit
        self._settled: list[tuple[Numbered, Sequence[int]]] = []

    @property
    def settles(self) -> bool:
        """Whether the commit will settle anything."""
        return bool(self._settled)

    def publish(self, method: BasicPublish, run: RoutedRun) -> None:
        """Add an admitted run, which goes to its queues, or back to the publisher, at the commit."""
        if method.immediate or not run.route.queues:
            self._offers.append((method, run))
        else:
            if method.mandatory:
                self._mandatory.append(run)
            self._work.publish(run.route.queues, Publish(run.head, run.contents, run.size))

    def settle(self, numbered: Numbered, outcome: Outcome, offsets: Sequence[int]) -> None:
        """Add deliveries that are settled at the commit."""
        self._settled.append((numbered, offsets))
        self._work.settle(numbered.batch, outcome, numbered.at(offsets))

    def commit(self) -> None:
        """Do everything, and then return what reached no consumer.

        Raises:
            AMQPRefusal: A queue is full and refuses messages; nothing was done.
            QueueStopped: A queue has crashed for good; nothing was done.
            Restarting: A queue is being restarted; nothing was done, commit again when it runs.
        """
        has = self._channel.connection.directory.has
        lost = [run for run in self._mandatory if not any(map(has, run.route.queues))]
        try:
            self._channel.publisher.commit(self._work)
        except QueueFull as full:
            connection = self._channel.connection
            where = f"queue '{full.name}' in vhost '{connection.virtual_host}'"
            raise AMQPRefusal(406, f"{where} is full; the whole transaction was rolled back") from full
        offers, self._offers, self._mandatory = self._offers, [], []
        self._settled = []
        for run in lost:
            self._channel.publisher.return_unrouted(run)
        for method, run in offers:
            self._channel.publisher.offer(method, run)

    def rollback(self) -> None:
        """Forget everything; what was settled is out with the client again."""
        settled, self._settled = self._settled, []
        self._offers = []
        self._mandatory = []
        self._work.rollback()
        self._channel.unsettled.restore(settled)
