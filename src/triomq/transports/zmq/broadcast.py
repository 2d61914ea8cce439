"""An XPUB: each message goes to all peers whose subscription its topic begins with, and nobody waits for any of them.

A peer that does not keep up misses messages, and nobody learns that: libzmq drops what is above the high-water mark
of its peer. Subscriptions are asked for one by one (XPUB_MANUAL), so that who may read can be decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import trio
import zmq
from zmq.backend import Socket as _Backend

from triomq.transports.zmq.reading import user_of
from triomq.transports.zmq.socket import BATCH, ZMQSocket

_NOW: Final = int(zmq.DONTWAIT)
_MORE_NOW: Final = int(zmq.DONTWAIT | zmq.SNDMORE)


class Broadcast(ZMQSocket):
    """An XPUB; an endpoint makes it, runs ``run`` in a task, and closes it.

    Args:
        context: Where it lives.
        may_subscribe: Called with the user of a peer that subscribes (empty without an authenticator) and its topic.
        high_water: Messages that wait for one peer; above that it misses them.
        domain: As for ``ZMQSocket``.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        may_subscribe: Callable[[str, bytes], bool],
        *,
        high_water: int = 1000,
        domain: str = "",
    ) -> None:
        super().__init__(context, zmq.XPUB, high_water=high_water, domain=domain)
        self.socket.setsockopt(zmq.XPUB_MANUAL, 1)
        self._may_subscribe = may_subscribe
        self._asks = bool(domain)

    def publish(self, messages: Iterable[tuple[bytes, bytes]]) -> None:
        """Send messages, each a topic and a text, to all that have subscribed to a beginning of their topic."""
        if self.closed:
            return
        send: Callable[..., object] = _Backend.send
        socket = self.socket
        try:
            for topic, message in messages:
                send(socket, topic, _MORE_NOW)
                send(socket, message, _NOW)
        except zmq.ZMQError as error:
            raise self._closed_or(error) from None
        finally:
            self._called()

    async def run(self) -> None:
        """Decide about subscriptions, until the socket is closed."""
        try:
            while True:
                if self._decide_all():
                    await trio.lowlevel.checkpoint()
                else:
                    await self._wait(zmq.POLLIN)
        except trio.ClosedResourceError:
            return

    def _decide_all(self) -> int:
        """Decide about the subscriptions that have come, and return how many they were."""
        count = 0
        try:
            while count < BATCH:
                frame = _Backend.recv(self.socket, _NOW, False)
                count += 1
                self._decide(frame)
        except zmq.Again:
            pass
        except zmq.ZMQError as error:
            raise self._closed_or(error) from None
        return count

    def _decide(self, frame: zmq.Frame) -> None:
        """Grant or take back a subscription; these options are for the peer whose message was received last."""
        kind, topic = frame.bytes[:1], frame.bytes[1:]
        if kind == b"\1":
            if self._may_subscribe(user_of(frame) if self._asks else "", topic):
                self.socket.setsockopt(zmq.SUBSCRIBE, topic)
        elif kind == b"\0":
            self.socket.setsockopt(zmq.UNSUBSCRIBE, topic)
