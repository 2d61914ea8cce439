"""One channel of a blocking connection: methods out, events in, opened again after the broker has closed it."""

from typing import TypeVar

from triomq.clients.refusals import error_of
from triomq.clients.wire import BlockingWire
from triomq.protocols.amqp import ChannelClosed, ChannelOpen, ChannelOpened, Event, Method, Received

__all__ = ["BlockingChannel"]

M = TypeVar("M", bound=Method)


class BlockingChannel:
    """A channel that opens when it is first used.

    Args:
        wire: The connection.
        number: Which channel of it; nobody else's.
    """

    def __init__(self, wire: BlockingWire, number: int) -> None:
        """Open nothing yet."""
        self.number = number
        self._wire = wire
        self._is_open = False

    def send(self, method: Method) -> None:
        """Send a method; raises as ``next`` does."""
        self.open()
        self._wire.engine.send_method(self.number, method)
        self._wire.flush()

    def open(self) -> None:
        """Open the channel unless it is open; raises as ``next`` does."""
        if self._is_open:
            return
        self._wire.engine.send_method(self.number, ChannelOpen())
        self._is_open = True
        while not isinstance(self.next(), ChannelOpened):
            pass

    def next(self) -> Event:
        """Wait for the next event of this channel; other channels' are late answers that nobody waits for any more.

        Raises:
            TriomqError: The broker has closed the channel or the connection.
        """
        while getattr(event := self._wire.next(), "channel", None) != self.number:
            pass
        if isinstance(event, ChannelClosed):
            self._is_open = False
            raise error_of(event.code, event.text)
        return event

    def call(self, method: Method, reply: type[M]) -> M:
        """Send a method and wait for its reply; raises as ``next`` does."""
        self.send(method)
        while True:
            event = self.next()
            if isinstance(event, Received) and isinstance(event.method, reply):
                return event.method
