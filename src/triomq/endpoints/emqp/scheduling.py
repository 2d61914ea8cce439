"""SCHEDULE and UNSCHEDULE of a peer: into the broker's own book, or on to a scheduler that is connected."""

from typing import TYPE_CHECKING

import msgspec

from triomq.endpoints.emqp.schedules import ScheduleBook
from triomq.errors import AccessRefused
from triomq.protocols.emqp import (
    NO_EXTENSION,
    ScheduleRemoved,
    ScheduleSet,
    call_problem,
    complete_call,
    encode_extension,
    schedule_key,
)
from triomq.timetable import Timetable

if TYPE_CHECKING:
    from triomq.endpoints.emqp.peer import EMQPPeer


def set_schedule(peer: "EMQPPeer", event: ScheduleSet) -> None:
    """Write a schedule into the book, or hand it to the scheduler that came last."""
    if peer.hub.book is not None:
        _enter(peer, peer.hub.book, event)
        return
    scheduler = next(reversed(peer.hub.schedulers), None)
    if scheduler is None:
        peer.refuse(event.msgid, "unknown", "no scheduler is connected")
    elif problem := call_problem(event.message):
        peer.refuse(event.msgid, "malformed", problem)  # it would end a released scheduler
    else:
        _pass_on(scheduler, event, event.interval, event.cron)
        peer.engine.acknowledge(event.msgid)


def _enter(peer: "EMQPPeer", book: ScheduleBook, event: ScheduleSet) -> None:
    """Begin a schedule of the broker's own; it is acknowledged when it is on disk."""
    if not peer.access.may_write(""):
        raise AccessRefused(f"user {peer.user!r} may not publish jobs into queues, and so may schedule none")
    told = event.extension
    timetable = Timetable(
        interval=event.interval,
        cron=event.cron,
        timezone=told.timezone or peer.hub.timezone,
        haste=not event.headers.nohaste,
        run_count=event.headers.run_count,
        missed="skip" if told.missed == "skip" else "once",
    )
    of_jobs = msgspec.structs.replace(told, name="", timezone="", missed="")
    book.set(
        _key(peer, event.message), event.queue, event.headers, event.message, peer.user, timetable,
        owner=told.name, extension=b"" if of_jobs == NO_EXTENSION else encode_extension(of_jobs),
    )  # fmt: skip
    peer.acknowledge_when_safe(event.msgid)


def remove_schedule(peer: "EMQPPeer", event: ScheduleRemoved) -> None:
    """Have a schedule end, which is in the book, or with all schedulers."""
    if peer.hub.book is not None:
        if event.extension.name:
            staying = {f"{key}-{peer.user}" for key in event.extension.staying}
            peer.hub.book.remove_others(event.extension.name, peer.user, staying)
        else:
            peer.hub.book.remove(_key(peer, event.message))
        peer.acknowledge_when_safe(event.msgid)
        return
    if event.extension.name:
        peer.refuse(event.msgid, "unknown", "schedules of a name are known to a broker with a book of its own alone")
        return
    if problem := call_problem(event.message):
        peer.refuse(event.msgid, "malformed", problem)
        return
    for scheduler in peer.hub.schedulers:
        _pass_on(scheduler, event)
    peer.engine.acknowledge(event.msgid)


def _pass_on(
    scheduler: "EMQPPeer", event: ScheduleSet | ScheduleRemoved, interval: float = 0.0, cron: str = ""
) -> None:
    """Give a scheduler a schedule, or without times end one."""
    message, ends = complete_call(event.message), not interval and not cron
    scheduler.engine.schedule(event.queue, event.headers, message, interval=interval, cron=cron, ends=ends)
    scheduler.ref.touch()


def _key(peer: "EMQPPeer", message: bytes) -> str:
    return f"{schedule_key(message)}-{peer.user}"
