"""Failed logins, bounded: after too many failures a login is refused without being judged.

Three kinds of token buckets, each with 20 tokens; a failed login takes one:

    bucket of                   regains        used by
    an address                  1 a second     all logins from there, but those of familiar users
    a familiar user there       1 a second     logins of a user that has logged in from this address within a day
    a user                      1 in 5 s       logins from addresses that have failed lately, all addresses together

- An address of IPv6 is its network of 64 bits: one customer has a whole one.
- A familiar user is not affected by what others do behind the same address (a proxy, a NAT, loopback, a Unix socket).
  Only an attacker that uses its very name from its very address is counted with it: the broker cannot tell them apart.
- The bucket of a user refuses only addresses that have failed lately. So a user that is attacked from everywhere can
  still log in from an address that has not failed.
- A success forgives nothing: the failures before it may be an attacker's.
- What a refused client is told must not say which users there are, nor who has logged in from its address. So ``wait``
  looks at nothing but how many logins have failed from this address, by whatever names, and with this name anywhere.
- Buckets are bounded in number; the oldest is dropped, which forgives its failures.
"""

from ipaddress import IPv6Address, ip_address, ip_network
from typing import TypeVar

import msgspec

K = TypeVar("K")

_AT_ONCE = 20.0
"""Failures in a row: more than a person needs, and too few for guessing."""

_ADDRESS_PER_SECOND = 1.0
_USER_PER_SECOND = 0.2

_MOST = 10_000
"""Buckets of each kind, 2 MB each; the oldest make room."""

_FAMILIAR = 24 * 3600.0
"""Seconds for which a user that has logged in from an address has its own bucket there: daily logins renew it."""

_BETWEEN_LINES = 60.0
"""Seconds between two lines in the log about refusals for one reason, so that an attacker cannot fill the disk."""


class _Allowance(msgspec.Struct):
    rate: float
    """Tokens that it regains in a second."""
    left: float
    at: float
    is_reported: bool = False
    familiar_until: float = 0.0
    refused: int = 0
    """Refusals since the last line in the log."""
    next_line: float = -_BETWEEN_LINES

    def room(self, now: float) -> float:
        """Return the number of tokens."""
        return min(_AT_ONCE, self.left + (now - self.at) * self.rate)


class FailedLogins:
    """The failed logins of a broker; created with it, called by its endpoints. Times are seconds of any clock."""

    def __init__(self) -> None:
        self._addresses: dict[str, _Allowance] = {}
        self._users: dict[str, _Allowance] = {}
        self._familiar: dict[tuple[str, str], _Allowance] = {}
        self._tries: dict[str, _Allowance] = {}  # of addresses, with all that fails there

    def may_try(self, peer: str, user: str, now: float) -> bool:
        """Return whether a login is to be judged at all.

        Args:
            peer: The client's address, with or without a port.
            user: The name that it gives; empty if it has given none.
            now: The time.
        """
        return self._empty_bucket(_address(peer), user, now) is None

    def wait(self, peer: str, user: str, now: float) -> float:
        """Return for how many seconds a client had better wait whose login has failed; 0 if it may try again."""
        tries = self._tries.get(_address(peer))
        if tries is None or tries.room(now) >= _AT_ONCE:
            return 0.0
        empty = [bucket for bucket in (tries, self._users.get(user)) if bucket is not None and bucket.room(now) < 1.0]
        return max([(1.0 - bucket.room(now)) / bucket.rate for bucket in empty], default=0.0)

    def _tried(self, address: str, now: float) -> None:
        _take(_renewed(self._tries, address, _ADDRESS_PER_SECOND, now), now)

    def _empty_bucket(self, address: str, user: str, now: float) -> _Allowance | None:
        """Return the empty bucket because of which a login is not to be judged; None if it is."""
        bucket = self._familiar_bucket(address, user, now) or self._addresses.get(address)
        if bucket is None or bucket.room(now) >= _AT_ONCE:
            return None  # has not failed lately, so the bucket of the user does not apply
        if bucket.room(now) < 1.0:
            return bucket
        bucket = self._users.get(user)
        return bucket if bucket is not None and bucket.room(now) < 1.0 else None

    def _familiar_bucket(self, address: str, user: str, now: float) -> _Allowance | None:
        bucket = self._familiar.get((address, user))
        return bucket if bucket is not None and bucket.familiar_until > now else None

    def succeeded(self, peer: str, user: str, now: float) -> None:
        """Record that a user has logged in, which makes it familiar at this address."""
        key = (_address(peer), user)
        bucket = self._familiar.pop(key, None) or _Allowance(_ADDRESS_PER_SECOND, _AT_ONCE, now)
        bucket.familiar_until = now + _FAMILIAR
        _make_room(self._familiar)
        self._familiar[key] = bucket

    def count(self, peer: str, user: str, now: float) -> str:
        """Count a failed login; return what is refused from now on, for the log, or nothing."""
        address = _address(peer)
        self._tried(address, now)
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
        """Count a login that was not judged.

        Returns:
            The number of such logins since the last line in the log for the same reason, this one among them; 0 if
            that line is less than a minute old, so that none is due.
        """
        address = _address(peer)
        self._tried(address, now)
        bucket = self._empty_bucket(address, user, now)
        if bucket is None:
            return 0
        bucket.refused += 1
        if now < bucket.next_line:
            return 0
        bucket.next_line = now + _BETWEEN_LINES
        refused, bucket.refused = bucket.refused, 0
        return refused


def _renewed(buckets: dict[K, _Allowance], key: K, rate: float, now: float) -> _Allowance:
    """Return the allowance of a key, created if need be, and make it the youngest."""
    bucket = buckets.pop(key, None)
    if bucket is None:
        _make_room(buckets)
        bucket = _Allowance(rate, _AT_ONCE, now)
    buckets[key] = bucket
    return bucket


def _make_room(buckets: dict[K, _Allowance]) -> None:
    while len(buckets) >= _MOST:
        del buckets[next(iter(buckets))]


def _take(bucket: _Allowance, now: float) -> bool:
    """Take a token; return whether that emptied the bucket for the first time since it was full."""
    left = bucket.room(now)
    reported = bucket.is_reported and left < _AT_ONCE
    bucket.left, bucket.at = max(0.0, left - 1.0), now
    last = bucket.left < 1.0 and not reported
    bucket.is_reported = reported or last
    return last


def _address(peer: str) -> str:
    """Return the address in a transport's ``peer``; for IPv6 the network."""
    host = peer.rpartition(":")[0].strip("[]") if ":" in peer else peer
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ip_network((address, 64), strict=False)) if address.version == 6 else host
