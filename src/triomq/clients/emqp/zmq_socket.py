"""A DEALER with a ZeroMQ context of its own; apart, so that only conversations over ZeroMQ load pyzmq."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from triomq.protocols.emqp import LEAST_FRAMES, USUAL_FRAMES, VERSION
from triomq.transports.zmq import Dealer, MessageForm, close_context, make_context, read_curve_keys

if TYPE_CHECKING:
    from triomq.clients.emqp.url import EMQPUrl

_FORM: Final = MessageForm((b"", VERSION), LEAST_FRAMES, USUAL_FRAMES)

_LINGER: Final = 1.0
"""Seconds for which libzmq goes on sending when the socket is closed."""


class ZMQEMQPSocket(Dealer):
    """A DEALER that connects to where a URL says.

    Args:
        url: Where to, and as whom.
        identity: By which the broker is to know us.

    Raises:
        ConfigError: A file of keys cannot be read, or the address is none.
    """

    def __init__(self, url: "EMQPUrl", identity: str) -> None:
        keys = read_curve_keys(Path(url.keys)) if url.keys else None
        server_key = read_curve_keys(Path(url.server_key)).public if url.server_key else ""
        self._context = make_context()
        super().__init__(
            self._context,
            identity=identity,
            user=url.user,
            password=url.password,
            keys=keys,
            server_key=server_key,
            form=_FORM,
            told_of_loss=True,
        )
        trio.lowlevel.spawn_system_task(self.watch)  # which ends with the socket
        self.connect(url.address)

    async def aclose(self) -> None:
        """Close; libzmq goes on for a moment with what it has taken."""
        self.close(_LINGER)
        await close_context(self._context)
