"""A DEALER: the client's side of a ROUTER."""

from __future__ import annotations

from collections.abc import Sequence
from secrets import token_urlsafe
from typing import Final

import trio
import zmq

from triomq.keepalive import KEEPALIVE_COUNT, KEEPALIVE_IDLE, KEEPALIVE_INTERVAL
from triomq.transports.curve_keys import CurveKeys
from triomq.transports.zmq.reading import MessageForm, Received, receive_by_form
from triomq.transports.zmq.socket import BATCH, Frames, ZMQSocket, put_message

_FIRST_RETRY: Final = 100
"""Milliseconds until libzmq connects again; each further try waits twice as long."""

_LAST_RETRY: Final = 10_000
"""Milliseconds that it waits at most."""


class Dealer(ZMQSocket):
    """A DEALER that connects, and connects again; the code that creates it closes it.

    It takes messages only while it is connected and let in, and drops those that libzmq still has when the connection
    is lost: a protocol that numbers its messages knows better what to send again.

    Args:
        context: Where it lives.
        identity: By which the ROUTER is to know it; text, since some programs take it for that.
        user: As whom to log in by PLAIN; empty for not at all.
        password: With what.
        keys: To log in by CURVE instead.
        server_key: The public key of the other side, with these.
        form: How messages of the protocol begin, and how long they are: then they are read faster.
        told_of_loss: Whether tasks that wait for messages, or for room, get ``trio.BrokenResourceError`` when the
            connection is lost, which ``watch`` waits for. Without, another one takes its place silently.
        heartbeat: Seconds between libzmq's own heartbeats, for protocols that have none; a connection that was silent
            for three of them is lost. 0 is without.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        *,
        identity: str = "",
        user: str = "",
        password: str = "",
        keys: CurveKeys | None = None,
        server_key: str = "",
        form: MessageForm | None = None,
        told_of_loss: bool = False,
        heartbeat: float = 0.0,
    ) -> None:
        super().__init__(context, zmq.DEALER)
        self._form = form
        self._losses: ZMQSocket | None = None
        if told_of_loss:
            # libzmq tells it by a socket of its own. Its address is never used again: that of a dealer that was closed
            # a moment ago may still be taken.
            address = f"inproc://losses-{token_urlsafe(12)}"
            self.socket.monitor(address, zmq.EVENT_DISCONNECTED)
            self._losses = ZMQSocket(context, zmq.PAIR)
            self._losses.connect(address)
        options = self.socket
        options.immediate = True
        options.reconnect_ivl = _FIRST_RETRY
        options.reconnect_ivl_max = _LAST_RETRY
        options.ipv6 = True
        options.tcp_keepalive = 1
        options.tcp_keepalive_idle = KEEPALIVE_IDLE
        options.tcp_keepalive_intvl = KEEPALIVE_INTERVAL
        options.tcp_keepalive_cnt = KEEPALIVE_COUNT
        options.heartbeat_ivl = round(heartbeat * 1000)
        options.heartbeat_timeout = round(heartbeat * 3000)
        if identity:
            options.setsockopt_string(zmq.IDENTITY, identity)
        if keys is not None:
            options.curve_serverkey = server_key.encode()
            options.curve_publickey = keys.public.encode()
            options.curve_secretkey = keys.secret.encode()
        elif user:
            options.setsockopt_string(zmq.PLAIN_USERNAME, user)
            options.setsockopt_string(zmq.PLAIN_PASSWORD, password)

    def receive_nowait(self, most: int = BATCH) -> list[Frames]:
        """Return what is here, as any socket does; with a form so much as one series brings, whatever ``most`` says."""
        if self._form is None:
            return super().receive_nowait(most)
        found: Received = {}
        try:
            receive_by_form(self.socket, found, self._form, has_identities=False)
        except zmq.Again:
            pass
        except zmq.ZMQError as error:
            if not found:
                raise self._closed_or(error) from None
        finally:
            self._called()
        return found.get((b"", ""), [])

    @property
    def is_lost(self) -> bool:
        """Whether the connection was lost, as far as ``watch`` has noticed it."""
        return self._lost

    def send_all(self, messages: Sequence[Sequence[bytes]]) -> int:
        """Send messages as far as there is room; return how many were sent.

        Raises:
            trio.ClosedResourceError: The socket is closed.
        """
        count = 0
        try:
            for frames in messages:
                put_message(self.socket, frames)
                count += 1
        except zmq.Again:
            pass
        except zmq.ZMQError as error:
            raise self._closed_or(error) from None
        finally:
            self._called()
        return count

    async def watch(self) -> None:
        """Wait until the connection is lost, or the socket closed."""
        assert self._losses is not None  # it was made with ``told_of_loss``
        try:
            await self._losses.receive()
        except trio.ClosedResourceError:
            return
        self._lost = True
        self._parked.unpark_all()
        if self._waiting is not None:
            self._waiting.cancel()

    def close(self, linger: float = 0.0) -> None:
        """Close, as any socket does."""
        if self._losses is not None and not self.socket.closed:
            self.socket.monitor(None, 0)
            self._losses.close()
        super().close(linger)

    async def wait_connected(self) -> None:
        """Wait until the other side has let us in, and has room for a message.

        Raises:
            trio.BrokenResourceError: The connection was lost, and ``watch`` has noticed it.
            trio.ClosedResourceError: The socket is closed.
        """
        await self._wait(zmq.POLLOUT)
