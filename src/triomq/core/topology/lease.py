"""Leases: what a session asks for on one connection to open another one with, or to outlive one.

The holder of a lease is taken for the session that it was given to, so a lease cannot be guessed, serves once, and not
for long. Until it is used or has expired its session lives, though the connection that asked for it may end first.
"""

from collections.abc import Callable
from enum import Enum
from secrets import token_urlsafe

import msgspec

from triomq.core.refusals import LeaseInvalid, TooManyLeases
from triomq.core.topology.session import Session

LEASE_SECONDS = 30.0
"""How long a lease may be unused: a client opens its connection at once, on however bad a line."""

MOST_UNUSED = 1000
"""Unused leases of one session: a client that asks for ever, and never comes, is to hold no more than that."""

_OCTETS = 16  # of chance


class LeaseTarget(Enum):
    """What a lease opens."""

    SINK = "sink"
    FEED = "feed"


class Lease(msgspec.Struct, frozen=True, eq=False):
    """What a lease stands for.

    Args:
        session: The session that it was given to.
        target: What it opens.
        name: The sink's or the queue's name.
        until: When it expires, in the seconds of its ``Leases``.
        key: The giver's own value; the core never looks at it.
    """

    session: Session
    target: LeaseTarget
    name: str
    until: float
    key: object = None


class Leases:
    """The unused leases of one listener; made by it, ends with it.

    Args:
        now: Gives the time in seconds.
        seconds: How long a lease may be unused.
    """

    __slots__ = ("_leases", "_now", "_seconds", "_unused")

    def __init__(self, now: Callable[[], float], seconds: float = LEASE_SECONDS) -> None:
        self._now = now
        self._seconds = seconds
        self._leases: dict[str, Lease] = {}  # in the order in which they expire
        self._unused: dict[Session, int] = {}

    def __len__(self) -> int:
        """Count what has not been used and was not found to be expired."""
        return len(self._leases)

    def grant(self, session: Session, target: LeaseTarget, name: str, *, key: object = None) -> str:
        """Return a session a lease, 128 bits of chance as 22 characters.

        Raises:
            TooManyLeases: The session has many that it does not use.
        """
        self.expire()
        unused = self._unused.get(session, 0)
        if unused >= MOST_UNUSED:
            raise TooManyLeases(unused)
        secret = token_urlsafe(_OCTETS)
        self._leases[secret] = Lease(session, target, name, self._now() + self._seconds, key)
        session.attach()
        self._unused[session] = unused + 1
        return secret

    def take(self, secret: str) -> Lease:
        """Use a lease, once. The caller attaches its session, or not, and then calls ``done``.

        Raises:
            LeaseInvalid: It was never given, or used, or has expired.
        """
        self.expire()
        lease = self._leases.pop(secret, None)
        if lease is None:
            raise LeaseInvalid
        self._uncount(lease)
        return lease

    def done(self, lease: Lease) -> None:
        """Detach the session that a lease has held until it was taken."""
        lease.session.detach()

    def expire(self) -> None:
        """Remove leases whose time is over, which stand in front; to be called now and then."""
        now = self._now()
        while self._leases:
            secret, lease = next(iter(self._leases.items()))
            if lease.until > now:
                return
            del self._leases[secret]
            self._uncount(lease)
            self.done(lease)

    def close(self) -> None:
        """Remove all leases."""
        for lease in self._leases.values():
            self.done(lease)
        self._leases.clear()
        self._unused.clear()

    def _uncount(self, lease: Lease) -> None:
        left = self._unused[lease.session] - 1
        if left:
            self._unused[lease.session] = left
        else:
            del self._unused[lease.session]
