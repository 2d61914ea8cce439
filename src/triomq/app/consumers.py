"""What feeds in this process share, whatever their domain: the turn, the codecs, the supervisor of their actors."""

from collections.abc import Callable
from typing import TypeVar

from triomq.actors import ChildSpec, DynamicSupervisor, InPlaceActor, Ref, System, Turn
from triomq.core import Codecs

__all__ = ["Consumers"]

T = TypeVar("T")


class Consumers:
    """Where consumers in this process have their actors; a broker makes one and lends it to its handles.

    Args:
        system: The system that all of it lives in.
        ref: The supervisor of the actors at the consumers' ends.
        codecs: How properties are decoded.
    """

    def __init__(self, system: System, ref: Ref, codecs: Codecs) -> None:
        """Hold what there is; nothing is started yet."""
        self.codecs = codecs
        self._system = system
        self._ref = ref

    async def start(self, factory: Callable[[], InPlaceActor]) -> Ref:
        """Start the actor at a consumer's end, when the supervisor of consumers runs."""
        await self._ref.wait_running()
        assert isinstance(self._ref.actor, DynamicSupervisor)
        return self._ref.actor.start_child_nowait(ChildSpec(factory, restart="temporary"))

    def stop(self, ref: Ref) -> None:
        """Stop such an actor, unless its supervisor was restarted meanwhile, which has ended it."""
        if isinstance(self._ref.actor, DynamicSupervisor):
            self._ref.actor.stop_child_nowait(ref)

    @property
    def shared_turn(self) -> Turn:
        """The turn of the system that all of it lives in."""
        return self._system.turn

    def turn(self, function: Callable[[], T]) -> T:
        """Do something as one turn: what it tells the core is dispatched and written when it ends."""
        return self._system.turn.run(function)
