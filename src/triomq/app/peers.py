"""The handle of another broker to which a domain is announced."""

from typing import TYPE_CHECKING

from triomq.actors import Ref
from triomq.endpoints import PeerActor, PeerStatistics, Synchronise
from triomq.errors import ActorStopped

if TYPE_CHECKING:
    from triomq.app.broker import Broker


class Peer:
    """Another broker to which a domain is announced; obtained from ``Broker.synchronise``, ends with ``aclose``."""

    def __init__(self, broker: "Broker", name: str, config: Synchronise) -> None:
        self._broker = broker
        self.name = name
        self.config = config

    def __repr__(self) -> str:
        """Show where it is."""
        return f"<Peer {self.name!r}>"

    def statistics(self) -> PeerStatistics:
        """Return whether the peer is connected, and what was announced to it.

        Raises:
            ActorStopped: The peer was closed, or its actor has crashed for good.
        """
        return self._actor(self._ref()).statistics()

    async def wait_announced(self) -> None:
        """Wait until the peer knows everything that is in the domain at that time.

        Raises:
            ActorStopped: The peer was closed, or its actor has crashed for good.
        """
        while True:
            ref = self._ref()
            await ref.wait_running()
            if await self._actor(ref).wait_announced():
                return

    def _ref(self) -> Ref:
        ref = self._broker.peer_refs.get(self.name)
        if ref is None:
            raise ActorStopped(f"the peer {self.name} was closed, or has failed; the log says why")
        return ref

    @staticmethod
    def _actor(ref: Ref) -> PeerActor:
        assert isinstance(ref.actor, PeerActor)
        return ref.actor

    async def aclose(self) -> None:
        """Stop announcing; what was announced stays at the peer."""
        ref = self._broker.peer_refs.get(self.name)
        self._broker.remove_peer(self)
        if ref is not None:
            await self._broker.peers_supervisor.stop_child(ref)
