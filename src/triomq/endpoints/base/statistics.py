"""Snapshots of what endpoints serve, for whoever looks into the broker; no protocol stands in them.

A client has one in any case. What it is to its protocol (a worker, say) and what it has asked for there, it says by its
hook ``role``. Schedules outlive endpoints, so their owner puts a function that lists them into the context.
"""

import msgspec

from triomq.timetable import Timetable


class Work(msgspec.Struct, frozen=True):
    """What a worker has asked for and got.

    Args:
        queues: Where its jobs come from: weights and names.
        free: Jobs that it has room for and has not got.
        out: Jobs that are with it.
        done: Jobs that it has done since it said what it is.
    """

    queues: tuple[tuple[int, str], ...]
    free: int
    out: int
    done: int


class Role(msgspec.Struct, frozen=True):
    """What a client is to its protocol.

    Args:
        kind: In one word: client, worker, scheduler.
        last_message: When something came from it last, on Trio's clock.
        name: What it calls itself; empty if it has not said.
        work: What it does as a worker; None if it is none.
    """

    kind: str
    last_message: float
    name: str = ""
    work: Work | None = None


class ClientStatistics(msgspec.Struct, frozen=True):
    """A snapshot of a client that works in a domain.

    Args:
        peer: The client's address.
        user: As whom it has logged in.
        domain: Where it works.
        virtual_host: What the client calls that.
        channels: Its open channels.
        consumers: Its open consumers.
        since: When it came, on Trio's clock.
        role: What it is to its protocol; None where all clients are alike.
    """

    peer: str
    user: str
    domain: str
    virtual_host: str
    channels: int
    consumers: int
    since: float
    role: Role | None = None


class ScheduleStatistics(msgspec.Struct, frozen=True):
    """A snapshot of a schedule.

    Args:
        key: What tells it from all others of its domain.
        call: What its jobs call.
        queue: Where they go.
        user: Who has set it.
        timetable: When they are due.
        due: Seconds until the next one; less than 0 when it is late, None when there is none any more.
        runs: How many there were.
        owner: The program that has it in its code; empty for one that was set by hand.
    """

    key: str
    call: str
    queue: str
    user: str
    timetable: Timetable
    due: float | None
    runs: int
    owner: str = ""
