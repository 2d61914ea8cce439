"""Data leases: what a control session has been granted, and the data flow that has claimed it.

    Connection.Writer ──> grant ──> 202 token ──> Lease token on a data flow ──> claimed
                                        │  nobody claims it: 60 s               │  the flow ends, or is silent
                                        ▼                                       ▼
                                     ended <──────────── 60 s ──────────── free again: the next flow goes on with it

Rules:

- Whoever shows the token gets what the lease is for, so it cannot be guessed, and is never shown. It is bound to the
  user, the virtual host, the profile, the direction, the resources and the way of confirming; and to the user that
  ZeroMQ has let in, where it has asked for one.
- It is not bound to the identity of the control session, since the data flow has another one, and survives that
  session: a program that only reads says nothing on its control session for hours. It ends with it if that is closed.
- Its session of the core lives as long as it does. So exclusive queues that were declared in a control session are
  there for its readers, and go when the session and all its leases have gone.
- What a writer has sent, and what became of it, stays with the lease when its flow ends: the next flow is told, and
  nothing that is sent again is published twice. What a reader has not confirmed goes back to its queue.
- All of it ends with the endpoint: a client that shows a token of before is refused (403), and asks for a new one.
"""

from collections import Counter
from collections.abc import Callable
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from triomq.core import Directory, Session
from triomq.endpoints.mtl.profile import FULL_CONFIRMS, ResourceProfile
from triomq.errors import LimitExceeded
from triomq.protocols.mtl import DataLeaseAsked, WriterLog

if TYPE_CHECKING:
    from triomq.endpoints.mtl.intake import LeaseConfirms

_OCTETS: Final = 16
"""Of chance in a token."""

_MOST_FREE: Final = 1_000
"""Leases of one user, in all its sessions, that no flow has."""


class LeaseTimers(Protocol):
    """What wakes a table when a lease may have to end."""

    def set(self, key: "DataLease", when: float, call: Callable[[float], object], /) -> None: ...
    def discard(self, key: "DataLease", /) -> None: ...


class LeaseHolder(Protocol):
    """A data flow that has claimed a lease."""

    @property
    def last_message(self) -> float:
        """When something came of it last, on Trio's clock."""

    def wake(self) -> None:
        """Look for what can be confirmed, when the turn ends."""

    def lose_lease(self, reason: str) -> None:
        """Let go of the lease, and put back what is out; called in any turn."""


class LeaseTerms(msgspec.Struct, frozen=True):
    """What a lease is for, and who may claim it.

    Args:
        user: As whom its flow works.
        let_in_as: As whom ZeroMQ has let in the control session, and has to let in the flow; empty if it has not asked.
        virtual_host: Where, as the client calls it.
        profile: By which its resources mean something.
        asked: Direction, resources and the way of confirming.
        prefetch: How much a reader may leave unconfirmed.
    """

    user: str
    let_in_as: str
    virtual_host: str
    profile: ResourceProfile
    asked: DataLeaseAsked
    prefetch: int

    @property
    def reads(self) -> bool:
        """Whether its flow reads."""
        return self.asked.direction == "reader"

    @property
    def confirms(self) -> bool:
        """Whether content is confirmed."""
        return self.asked.confirm == FULL_CONFIRMS

    def covers(self, resource: str) -> bool:
        """Return whether a resource is one of those that it is for."""
        resources = self.asked.resources
        return not resources or resource in resources

    def are_those_of(self, other: "LeaseTerms") -> bool:
        """Return whether a lease with these terms does for somebody who asks for others."""
        mine, theirs = self.asked, other.asked
        return (
            (self.user, self.let_in_as, self.virtual_host) == (other.user, other.let_in_as, other.virtual_host)
            and self.profile is other.profile
            and (mine.direction, mine.confirm) == (theirs.direction, theirs.confirm)
            and frozenset(mine.resources) == frozenset(theirs.resources)
        )


class DataLease:
    """One lease; made by ``LeaseTable``, ends with ``LeaseTable.end``.

    Args:
        token: What is shown for it.
        terms: What it is for.
        session: In which its flow works.
        directory: Of the domain of that.
    """

    __slots__ = ("confirms", "directory", "flow", "is_over", "log", "session", "terms", "token")

    def __init__(self, token: str, terms: LeaseTerms, session: Session, directory: Directory) -> None:
        self.token = token
        self.terms = terms
        self.session = session
        self.directory = directory
        self.flow: LeaseHolder | None = None
        self.log: WriterLog | None = None if terms.reads or not terms.confirms else WriterLog()
        self.confirms: LeaseConfirms | None = None
        self.is_over = False

    def wake(self) -> None:
        """Have the flow look for what it can confirm, if there is one."""
        if self.flow is not None:
            self.flow.wake()


class LeaseTable:
    """All leases of an endpoint; made by it, ends with it.

    Args:
        timers: Of the endpoint.
        now: Gives the time, on Trio's clock.
        seconds: How long a lease may be without a flow.
        most: Leases of one session.
    """

    def __init__(self, timers: LeaseTimers, now: Callable[[], float], seconds: float, most: int) -> None:
        self._timers = timers
        self._now = now
        self._seconds = seconds
        self._most = most
        self._leases: dict[str, DataLease] = {}
        self._of_session: dict[Session, dict[DataLease, None]] = {}
        self._free: Counter[str] = Counter()  # without a flow, by user

    def __len__(self) -> int:
        return len(self._leases)

    def find(self, token: str) -> DataLease | None:
        """Return the lease that a token stands for."""
        return self._leases.get(token)

    def of(self, session: Session) -> list[DataLease]:
        """List the leases of a session."""
        return list(self._of_session.get(session, ()))

    def grant(self, terms: LeaseTerms, session: Session, directory: Directory) -> DataLease:
        """Return a new lease.

        Raises:
            LimitExceeded: The session has as many as it may have.
        """
        its = self._of_session.setdefault(session, {})
        if len(its) >= self._most:
            raise LimitExceeded(
                f"the session has {len(its)} leases, and may have no more; release some, or wait until they expire"
            )
        if self._free[terms.user] >= _MOST_FREE:
            raise LimitExceeded(
                f"user {terms.user!r} has {_MOST_FREE} leases that it does not use; claim or release them"
            )
        lease = DataLease(token_urlsafe(_OCTETS), terms, session, directory)
        session.attach()
        self._leases[lease.token] = its[lease] = lease  # type: ignore[assignment]  # the second is a set in order
        self._expire_later(lease)
        return lease

    def claim(self, lease: DataLease, flow: LeaseHolder) -> None:
        """Give a lease to a flow, from which one that had it before has let go."""
        if lease.flow is None:
            self._free[lease.terms.user] -= 1
        lease.flow = flow
        self._timers.discard(lease)

    def let_go(self, lease: DataLease) -> None:
        """Take a lease from its flow, which has ended: another one may claim it, for a while."""
        lease.flow = None
        if not lease.is_over:
            self._expire_later(lease)

    def _expire_later(self, lease: DataLease) -> None:
        self._timers.set(
            lease, self._now() + self._seconds, lambda now: self.end(lease, "nobody has claimed the lease")
        )

    def end(self, lease: DataLease, reason: str) -> None:
        """End a lease, and the flow that has it; a second call does nothing."""
        if lease.is_over:
            return
        lease.is_over = True
        self._timers.discard(lease)
        del self._leases[lease.token]
        its = self._of_session[lease.session]
        del its[lease]
        if not its:
            del self._of_session[lease.session]
        flow, lease.flow = lease.flow, None
        if flow is not None:
            flow.lose_lease(reason)
        else:
            self._free[lease.terms.user] -= 1
        if not self._free[lease.terms.user]:
            del self._free[lease.terms.user]
        lease.session.detach()

    def end_all_of(self, session: Session, reason: str) -> None:
        """End the leases of a session."""
        for lease in self.of(session):
            self.end(lease, reason)

    def close(self) -> None:
        """End all leases."""
        for lease in list(self._leases.values()):
            self.end(lease, "the endpoint has ended")
