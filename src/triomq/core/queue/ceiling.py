"""The ceiling of a queue: a bound that a lease or a peer brings, and not whoever has declared the queue.

So it takes nothing away. What was there before stays, and so does what a publisher was told is safe, or will be. Only
*expendable* messages give way, which nobody is ever told about: the oldest of them first, as far as they stand in
front. What still does not fit is refused where there is no store, as publishers with confirms and in transactions hear,
and is paged where there is one; if it is expendable itself it is dropped.
"""

import logging
from collections.abc import Sequence

from triomq.core.memory import MESSAGE_OVERHEAD
from triomq.core.publishing.publish import Publish
from triomq.core.queue.deadletter import MOST_DEAD_LETTERS, Reason, dead_letter
from triomq.core.queue.limits import bytes_ready
from triomq.core.queue.queue_state import QueueState

_log = logging.getLogger("triomq.core")

_QUIET = 60.0
"""Seconds between two lines in the log about one queue: it may have no room for thousands of messages in a second."""


def bytes_of(run: Publish) -> int:
    """Tell how many octets a run takes."""
    return run.size + len(run.contents) * MESSAGE_OVERHEAD


def fits_below(state: QueueState, ceiling: int, runs: Sequence[Publish]) -> bool:
    """Tell whether none of some runs would be refused, if no older message gave way."""
    return _pages(state) or bytes_ready(state) + sum(map(bytes_of, runs)) <= ceiling


def make_room(state: QueueState, ceiling: int, run: Publish) -> int:
    """Let messages give way to a run if it does not fit; tell how many of its messages may be stored then."""
    fitting = len(run.contents)
    if bytes_ready(state) + bytes_of(run) <= ceiling:
        return fitting
    lost = _drop_oldest(state, ceiling - bytes_of(run))
    if run.head.expendable or not _pages(state):
        fitting = _count_fitting(state, ceiling, run)
    refused = len(run.contents) - fitting
    if run.head.expendable:
        lost += refused
    state.lost += lost
    if lost or refused:
        _warn(state, ceiling, refused=0 if run.head.expendable else refused)
    return fitting


def _pages(state: QueueState) -> bool:
    return state.directory.persistence is not None


def _drop_oldest(state: QueueState, most: int) -> int:
    """Drop expendable messages from the front until no more octets than this are left; tell how many went."""
    backlog, dropped = state.backlog, 0
    while backlog.resident and (over := bytes_ready(state) - most) > 0:
        level = backlog.lowest_level
        count = over // (backlog.next_size() + MESSAGE_OVERHEAD)
        head, contents = backlog.first(max(1, min(count, MOST_DEAD_LETTERS)), level)
        if not head.expendable:
            break
        if state.options.dead_letter_sink is not None:
            state.dead_lettered += dead_letter(state, head, contents, Reason.MAX_LENGTH)
        backlog.drop(len(contents), level)
        dropped += len(contents)
    state.dropped += dropped
    return dropped


def _count_fitting(state: QueueState, ceiling: int, run: Publish) -> int:
    """Count how many of a run's messages there is room for, from the first on; an empty queue takes any one."""
    used = bytes_ready(state)
    room = ceiling - used
    for number, content in enumerate(run.contents):
        room -= len(content) + MESSAGE_OVERHEAD
        if room < 0 and (used or number):
            return number
    return len(run.contents)


def _warn(state: QueueState, ceiling: int, *, refused: int) -> None:
    now = state.directory.clock.now()
    if now >= state.warned + _QUIET:
        state.warned = now
        event = "queue has no room and refuses messages" if refused else "queue has no room and loses messages"
        fields = {"domain": state.directory.name, "queue": state.name, "ceiling": ceiling, "lost": state.lost}
        _log.warning(event, extra={"fields": fields})
