"""What a broker lends to its endpoints."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from secrets import token_hex

import msgspec
import trio

from triomq.actors import Ref
from triomq.core import Codecs, Directory, Quotas
from triomq.endpoints.base.job_desk import JobDesk
from triomq.endpoints.base.statistics import ScheduleStatistics
from triomq.endpoints.base.unfinished import Unfinished
from triomq.endpoints.base.unread import UnreadAccount
from triomq.endpoints.direct import DirectProtocol, FeedPace
from triomq.security import FailedLogins, Users
from triomq.timetable import unix_time

_GUESSES = 2
"""Passwords that are worked out at once: the broker's own loop is to have the rest of the machine."""


class DomainAccess(msgspec.Struct, frozen=True):
    """One domain, as an endpoint sees it: the actor to ask, and the directory to read."""

    ref: Ref
    directory: Directory


class Origins:
    """The brokers that are connected to this one as peers, each by the name that its resources have.

    A broker sends a number with its name, the same one each time it connects. So one that connects again before its
    last connection has ended is known from another one of the same name, which is refused: each would take the other's
    resources for its own, and delete what it has not declared itself.
    """

    def __init__(self) -> None:
        self._here: dict[tuple[str, str], tuple[str, int]] = {}

    def come(self, domain: str, origin: str, instance: str) -> bool:
        """Count one more connection of a peer; return False if another broker is here by this name."""
        present, connections = self._here.get((domain, origin), (instance, 0))
        if present != instance:
            return False
        self._here[domain, origin] = (instance, connections + 1)
        return True

    def go(self, domain: str, origin: str) -> None:
        """Count one connection less."""
        instance, connections = self._here.pop((domain, origin))
        if connections > 1:
            self._here[domain, origin] = (instance, connections - 1)


class BrokerContext(msgspec.Struct, frozen=True):
    """What a broker lends to its endpoints.

    Args:
        domains: The domains by name; new ones may come.
        users: The users that may log in.
        codecs: How properties from each wire are decoded.
        direct: Which protocol direct connections speak.
        opened: When the broker was opened, on Trio's clock.
        quotas: Counts what users have at once.
        failed_logins: Clients that have failed to log in lately.
        unfinished: What connections hold of messages that are not whole.
        unread: What connections hold that their clients have not read.
        guessing: How many passwords are worked out at once, each by a thread.
        instance: What tells this broker from all others.
        origins: The other brokers that are connected as peers.
        direct_feeds: The feeds that direct connections take from, by their queues, for the sinks that publish into
        them.
        schedules: What lists the schedules of a domain, by its name; whoever has some puts it here.
        jobs: Who knows the jobs of a domain, by its name; whoever does puts it here.
        lasting: What an endpoint that is made anew finds of the one before, by names of its own.
        unix_time: Gives the time that schedules and deadlines go by; in virtual time it goes with Trio's clock.
    """

    domains: Mapping[str, DomainAccess]
    users: Users
    codecs: Codecs
    direct: DirectProtocol
    opened: float = msgspec.field(default_factory=trio.current_time)
    quotas: Quotas = msgspec.field(default_factory=Quotas)
    failed_logins: FailedLogins = msgspec.field(default_factory=FailedLogins)
    unfinished: Unfinished = msgspec.field(default_factory=Unfinished)
    unread: UnreadAccount = msgspec.field(default_factory=UnreadAccount)
    password_limiter: trio.CapacityLimiter = msgspec.field(default_factory=lambda: trio.CapacityLimiter(_GUESSES))
    instance: str = msgspec.field(default_factory=partial(token_hex, 8))
    origins: Origins = msgspec.field(default_factory=Origins)
    direct_feeds: dict[Ref, FeedPace] = msgspec.field(default_factory=dict)
    schedules: dict[str, Callable[[], Iterable[ScheduleStatistics]]] = msgspec.field(default_factory=dict)
    jobs: dict[str, JobDesk] = msgspec.field(default_factory=dict)
    lasting: dict[str, object] = msgspec.field(default_factory=dict)
    unix_time: Callable[[], float] = unix_time
