"""Peers that are told of what there is here, as a program holds them."""

from typing import TYPE_CHECKING

from triomq.actors import Ref
from triomq.endpoints import PeerActor, PeerStatistics, Synchronise
from triomq.errors import ActorStopped

if TYPE_CHECKING:
    from triomq.app.broker import Broker


class Peer:
    """A peer; obtained from ``Broker.synchronise``, ends with ``aclose`` or with the broker."""

    def __init__(self, broker: "Broker", name: str, config: Synchronise) -> None:
        self._broker = broker
        self.name = name
        self.config = config

    def __repr__(self) -> str:
        """Show where it is."""
        return f"<Peer {self.name!r}>"

    def statistics(self) -> PeerStatistics:
        """Look at what goes on with it.

        Raises:
            ActorStopped: It was closed, or its actor has crashed for good.
        """
        return self._actor(self._ref()).statistics()

    async def wait_announced(self) -> None:
        """Wait until it has heard of everything that there is here then.

        Raises:
            ActorStopped: It was closed, or its actor has crashed for good.
        """
        while True:
            ref = self._ref()
            await ref.wait_running()
            if await self._actor(ref).wait_announced():
                return

    def _ref(self) -> Ref:
        ref = self._broker.peer_refs.get(self.name)
        if ref is None:
            raise ActorStopped(f"the peer {self.name} is told of nothing any more; the log says why, if it was not you")
        return ref

    @staticmethod
    def _actor(ref: Ref) -> PeerActor:
        assert isinstance(ref.actor, PeerActor)
        return ref.actor

    async def aclose(self) -> None:
        """Tell it nothing any more; what it was told stays there."""
        ref = self._broker.peer_refs.get(self.name)
        self._broker.forget_peer(self)
        if ref is not None:
            await self._broker.peers_supervisor.stop_child(ref)
