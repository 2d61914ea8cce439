"""A DEALER: the client's side of a ROUTER."""

from __future__ import annotations

from typing import Final

import zmq

from triomq.transports.zmq.curve import CurveKeys
from triomq.transports.zmq.socket import ZMQSocket

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
    ) -> None:
        super().__init__(context, zmq.DEALER)
        options = self.socket
        options.immediate = True
        options.reconnect_ivl = _FIRST_RETRY
        options.reconnect_ivl_max = _LAST_RETRY
        options.ipv6 = True
        if identity:
            options.setsockopt_string(zmq.IDENTITY, identity)
        if keys is not None:
            options.curve_serverkey = server_key.encode()
            options.curve_publickey = keys.public.encode()
            options.curve_secretkey = keys.secret.encode()
        elif user:
            options.setsockopt_string(zmq.PLAIN_USERNAME, user)
            options.setsockopt_string(zmq.PLAIN_PASSWORD, password)

    async def wait_connected(self) -> None:
        """Wait until the other side has let us in, and has room for a message.

        Raises:
            trio.ClosedResourceError: The socket is closed.
        """
        await self._wait(zmq.POLLOUT)
