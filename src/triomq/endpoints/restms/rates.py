"""How often users may ask: a bucket for each, which fills up again as time passes."""

from typing import Final

_MOST_USERS: Final = 10_000
"""Users that are remembered; then those with a full bucket are forgotten."""


class RequestRates:
    """The requests of all users of one endpoint, lately; made by it.

    Args:
        rate: Requests in a second that each may send, and may save up; 0 is no limit.
    """

    __slots__ = ("_buckets", "_rate")

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._buckets: dict[str, tuple[float, float]] = {}  # what was left of it, and when

    def wait(self, user: str, now: float) -> float:
        """Count a request; return after how many seconds it may come, 0 if that is now, and then it counts."""
        rate = self._rate
        if not rate:
            return 0.0
        most = max(rate, 1.0)
        left, since = self._buckets.get(user, (most, now))
        left = min(most, left + (now - since) * rate)
        if left < 1:
            self._buckets[user] = left, now
            return (1 - left) / rate
        self._buckets[user] = left - 1, now
        if len(self._buckets) > _MOST_USERS:
            self._buckets = {
                name: (left, since)
                for name, (left, since) in self._buckets.items()
                if left + (now - since) * rate < most
            }
        return 0.0
