"""Failed log-ins, bounded: who fails too often is not even heard for a while.

Token buckets. Each address may fail 20 times at once and once a second after that; a network of IPv6, of which one
customer has a whole one, counts as one address. Each user may be failed 20 times at once and once in five seconds after
that, by all addresses together; then those addresses are not heard that have failed lately, and all others are. So
nobody is shut out by what others do: neither an address, nor a user at an address from which nobody has guessed.
"""

from ipaddress import IPv6Address, ip_address, ip_network

import msgspec

__all__ = ["FailedLogins"]

_AT_ONCE = 20.0
"""Failures in a row: more than a person needs, and nothing to who guesses."""

_ADDRESS_PER_SECOND = 1.0
_USER_PER_SECOND = 0.2

_KEPT = 10_000
"""Addresses, and users, whose failures are counted at once; the oldest make room."""


class _Bucket(msgspec.Struct):
    left: float
    at: float
    noted: bool = False


class FailedLogins:
    """The failed log-ins of a broker; made with it, told by its endpoints. Times are seconds of any clock."""

    def __init__(self) -> None:
        """Start with none."""
        self._addresses: dict[str, _Bucket] = {}
        self._users: dict[str, _Bucket] = {}

    def may_try(self, peer: str, user: str | None, now: float) -> bool:
        """Tell whether a log-in is to be judged at all.

        Args:
            peer: The client's address, with or without a port.
            user: Who it says it is; None as long as it has not said.
            now: The time.
        """
        address = _address(peer)
        left = _left(self._addresses, address, _ADDRESS_PER_SECOND, now)
        if left < 1.0:
            return False
        # Only who has failed lately has to do with what happens to the user.
        return user is None or left >= _AT_ONCE or _left(self._users, user, _USER_PER_SECOND, now) >= 1.0

    def count(self, peer: str, user: str, now: float) -> str:
        """Count a failed log-in; the answer is what is not heard from now on, to be logged, or empty."""
        address = _address(peer)
        if _take(self._addresses, address, _ADDRESS_PER_SECOND, now):
            return f"address {address}"
        if user and _take(self._users, user, _USER_PER_SECOND, now):
            return f"user {user}"
        return ""


def _left(buckets: dict[str, _Bucket], key: str, rate: float, now: float) -> float:
    """Say how many failures there is room for."""
    bucket = buckets.get(key)
    return _AT_ONCE if bucket is None else min(_AT_ONCE, bucket.left + (now - bucket.at) * rate)


def _take(buckets: dict[str, _Bucket], key: str, rate: float, now: float) -> bool:
    """Count one failure; tell whether it was the last one for now, and the first that was since the bucket was full."""
    left = _left(buckets, key, rate, now)
    before = buckets.pop(key, None)
    noted = before is not None and before.noted and left < _AT_ONCE
    left = max(0.0, left - 1.0)
    last = left < 1.0 and not noted
    while len(buckets) >= _KEPT:
        del buckets[next(iter(buckets))]
    buckets[key] = _Bucket(left, now, noted or last)
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
