"""A delivery that is handed out of Trio: the same to its consumer, settled from any thread."""

from functools import partial

from triomq.app.delivery import Delivery
from triomq.app.portal.lane import Lane
from triomq.core import Outcome, settle


class PortalDelivery(Delivery):
    """One message on one feed, to be settled in any thread.

    Settling does not wait: it is sent back into the broker's thread, together with what else is settled meanwhile. A
    second settling does nothing.
    """

    __slots__ = ("_lane", "_sent")

    def __init__(self, delivery: Delivery, lane: Lane) -> None:
        self._batch = delivery._batch
        self._position = delivery._position
        self._consumers = delivery._consumers
        self._settled = False
        self._lane = lane
        self._sent = False
        self.body = delivery.body

    def _settle(self, outcome: Outcome, failure: str = "") -> None:
        if not self._sent:
            self._sent = True
            self._lane.send(partial(super()._settle, outcome, failure))


def give_back(delivery: PortalDelivery | None) -> None:
    """Put one back, unmarked, that nobody has seen; in Trio. None, which a queue gives that has none, is let go."""
    if delivery is not None:
        settle(delivery._batch, Outcome.RETURN, (delivery._position,))
