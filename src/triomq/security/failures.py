"""Failed log-ins, bounded: who fails too often is not even heard for a while.

Token buckets. Each address may fail 20 times at once and once a second after that; a network of IPv6, of which one
customer has a whole one, counts as one address. A user who has logged in from an address within a day has a bucket of
the same size of its own there: what others do behind the same address (a proxy, a NAT, loopback, a Unix socket) does
not touch it. Only who aims at that very name, from that very address, limits it too: the broker cannot tell the two
apart.

Each user may be failed 20 times at once and once in five seconds after that, by all addresses together; then those are
not heard that have failed lately, and all others are. So nobody is shut out by what others do elsewhere, and a user
that is guessed at from everywhere can still log in from where it has not been guessed at.
"""

from ipaddress import IPv6Address, ip_address, ip_network
from typing import TypeVar

import msgspec

K = TypeVar("K")

_AT_ONCE = 20.0
"""Failures in a row: more than a person needs, and nothing to who guesses."""

_ADDRESS_PER_SECOND = 1.0
_USER_PER_SECOND = 0.2

_MOST = 10_000
"""Addresses, users, and users at addresses that are remembered at once, 2 MB each; the oldest make room."""

_FAMILIAR = 24 * 3600.0
"""Seconds for which a user that has logged in from an address has its own bucket there: whoever works daily has one."""

_BETWEEN_LINES = 60.0
"""Seconds between two lines in the log about refusals for one reason: who guesses is not to fill the disk."""


class _Bucket(msgspec.Struct):
    rate: float
    """Failures that it regains in a second."""
    left: float
    at: float
    noted: bool = False
    familiar_until: float = 0.0
    refused: int = 0
    """Refusals since the last line in the log."""
    next_line: float = -_BETWEEN_LINES

    def room(self, now: float) -> float:
        """Return the number of failures that there is room for."""
        return min(_AT_ONCE, self.left + (now - self.at) * self.rate)


class FailedLogins:
    """The failed log-ins of a broker; made with it, told by its endpoints. Times are seconds of any clock."""

    def __init__(self) -> None:
        self._addresses: dict[str, _Bucket] = {}
        self._users: dict[str, _Bucket] = {}
        self._familiar: dict[tuple[str, str], _Bucket] = {}

    def may_try(self, peer: str, user: str, now: float) -> bool:
        """Tell whether a log-in is to be judged at all.

        Args:
            peer: The client's address, with or without a port.
            user: Who it says it is; empty if it has not said.
            now: The time.
        """
        return self._shut(_address(peer), user, now) is None

    def _shut(self, address: str, user: str, now: float) -> _Bucket | None:
        """Find the bucket that is empty, if a log-in is not to be judged."""
        bucket = self._familiar_bucket(address, user, now) or self._addresses.get(address)
        if bucket is None or bucket.room(now) >= _AT_ONCE:
            return None  # only who has failed lately has to do with what happens to the user
        if bucket.room(now) < 1.0:
            return bucket
        bucket = self._users.get(user)
        return bucket if bucket is not None and bucket.room(now) < 1.0 else None

    def _familiar_bucket(self, address: str, user: str, now: float) -> _Bucket | None:
        bucket = self._familiar.get((address, user))
        return bucket if bucket is not None and bucket.familiar_until > now else None

    def succeeded(self, peer: str, user: str, now: float) -> None:
        """Note that a user has logged in. Its failures are not forgiven: they may be those of who guesses."""
        key = (_address(peer), user)
        bucket = self._familiar.pop(key, None) or _Bucket(_ADDRESS_PER_SECOND, _AT_ONCE, now)
        bucket.familiar_until = now + _FAMILIAR
        _make_room(self._familiar)
        self._familiar[key] = bucket

    def count(self, peer: str, user: str, now: float) -> str:
        """Count a failed log-in; the answer is what is not heard from now on, to be logged, or empty."""
        address = _address(peer)
        bucket = self._familiar_bucket(address, user, now)
        if bucket is not None:
            if _take(bucket, now):
                return f"user {user} at address {address}"
        elif _take(_renewed(self._addresses, address, _ADDRESS_PER_SECOND, now), now):
            return f"address {address}"
        if user and _take(_renewed(self._users, user, _USER_PER_SECOND, now), now):
            return f"user {user}"
        return ""

    def refuse(self, peer: str, user: str, now: float) -> int:
        """Count a log-in that was not judged.

        Returns:
            The number of such log-ins since the last line in the log for the same reason, this one among them; 0 if
            that line is less than a minute old, so that none is due.
        """
        bucket = self._shut(_address(peer), user, now)
        if bucket is None:
            return 0
        bucket.refused += 1
        if now < bucket.next_line:
            return 0
        bucket.next_line = now + _BETWEEN_LINES
        refused, bucket.refused = bucket.refused, 0
        return refused


def _renewed(buckets: dict[str, _Bucket], key: str, rate: float, now: float) -> _Bucket:
    """Find or make a bucket, and let it be the youngest."""
    bucket = buckets.pop(key, None)
    if bucket is None:
        _make_room(buckets)
        bucket = _Bucket(rate, _AT_ONCE, now)
    buckets[key] = bucket
    return bucket


def _make_room(buckets: dict[K, _Bucket]) -> None:
    while len(buckets) >= _MOST:
        del buckets[next(iter(buckets))]


def _take(bucket: _Bucket, now: float) -> bool:
    """Count one failure; tell whether it was the last one for now, and the first that was since the bucket was full."""
    left = bucket.room(now)
    noted = bucket.noted and left < _AT_ONCE
    bucket.left, bucket.at = max(0.0, left - 1.0), now
    last = bucket.left < 1.0 and not noted
    bucket.noted = noted or last
    return last


def _address(peer: str) -> str:
    """Find the address in what a transport calls its peer."""
    host = peer.rpartition(":")[0].strip("[]") if ":" in peer else peer
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ip_network((address, 64), strict=False)) if address.version == 6 else host
