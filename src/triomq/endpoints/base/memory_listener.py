"""Clients that come from this very process, with whole messages and without a socket.

They are code of the program that the broker is in, and may do everything, as ``Broker.publish`` may: they have no user
(its name is empty, as in quotas). Above this file nothing differs from clients that come over a ROUTER.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from triomq.endpoints.base.peer_listener import Frames, PeerListener
from triomq.transports import Address, MemoryAddress, MemoryRouter

if TYPE_CHECKING:
    from triomq.endpoints.base.endpoint import Endpoint
    from triomq.endpoints.base.router_client import RouterClient

NOBODY: Final = ""
"""The user of the program's own code."""

_TURN_BYTES: Final = 256 * 1024
"""Bytes of messages that are worked off in one turn: that the store is behind is seen between turns."""


class MemoryListener(PeerListener):
    """A router in memory; made with its endpoint.

    Args:
        address: Where dealers of this process look for it.
        make_client: As for ``PeerListener``.
    """

    is_internal = True
    _router: MemoryRouter

    def __init__(
        self, address: MemoryAddress, make_client: "Callable[[PeerListener, bytes, str], RouterClient]"
    ) -> None:
        super().__init__(make_client)
        self._address = address
        self._router = MemoryRouter(self._received, drained=self.tell_drained, gone=self.tell_gone)

    @property
    def addresses(self) -> list[Address]:
        """None that anybody else could use."""
        return []

    async def start(self, endpoint: "Endpoint") -> None:
        """Receive from now on."""
        self._endpoint = endpoint
        self._address.bind(self._router)
        endpoint.start_task(self._router.run)

    def _received(self, identity: bytes, messages: Sequence[Sequence[bytes]]) -> None:
        """Hand a client what has come, in as few turns as may be."""
        client = self.client_of(identity, NOBODY)
        if client is None:
            self.drop(identity)
            return
        taken = list(map(list, messages))
        if sum(map(len, chain.from_iterable(taken))) <= _TURN_BYTES:
            client.ref.run_in_turn(client.received, taken)
            return
        for turn in _in_turns(taken):
            client.ref.run_in_turn(client.received, turn)

    # For clients

    def send_all(self, identity: bytes, messages: Sequence[Sequence[bytes]]) -> bool:
        """Send messages to a peer; return whether it is still there."""
        return self._router.send_all(identity, messages)

    # The end

    def stop_accepting(self) -> None:
        """Let dealers that come find another endpoint."""
        super().stop_accepting()
        self._address.unbind(self._router)

    def close(self) -> None:
        """End all connections."""
        self.stop_accepting()
        self._router.close()


def _in_turns(messages: list[Frames]) -> Iterator[list[Frames]]:
    """Yield some messages at a time, whose bytes may be worked off in one turn."""
    turn: list[Frames] = []
    size = 0
    for frames in messages:
        turn.append(frames)
        size += sum(map(len, frames))
        if size > _TURN_BYTES:
            yield turn
            turn, size = [], 0
    if turn:
        yield turn
